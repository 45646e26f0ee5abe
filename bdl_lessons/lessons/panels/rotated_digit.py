"""Lesson 05: a handwritten one turns, and 100 sub-networks vote on what it is."""

from __future__ import annotations

import math

import numpy as np
import torch
from matplotlib.figure import Figure
from torch import Tensor, nn
from torch.nn.functional import affine_grid, cross_entropy, grid_sample

from bdl_lessons.core import BLUE, INK, VERMILLION
from bdl_lessons.datasets import digits
from bdl_lessons.evaluation import mutual_information, predictive_entropy
from bdl_lessons.inference import adam, fit, predict
from bdl_lessons.lessons.panel import Panel, Slider, Update
from bdl_lessons.lessons.panels import arrays
from bdl_lessons.models import BinaryDropout, Network, initialise, mlp

RATES = (0.05, 0.1, 0.25, 0.5, 0.7)
ANGLES = tuple(range(0, 181, 5))
N_SAMPLES, LESSON_RATE, WIDTH = 100, 0.5, 128


def panel() -> Panel:
    """The second panel of lesson 05: the angle of the digit and ``p_drop``."""
    return Panel(
        "rotated-digit",
        build_figure,
        [
            Slider("angle", "rotation (degrees)", ANGLES, 40),
            Slider("p_drop", "p_drop, drop probability", RATES, LESSON_RATE),
        ],
        size=(9.6, 3.3),
    )


def build_figure(figure: Figure) -> Update:
    """Left: the digit. Middle: each draw's probabilities. Right: entropies over the angle."""
    logits = arrays.load("rotated_digit")["logits"].astype(np.float64)
    shift = np.random.default_rng(0).uniform(-0.3, 0.3, (N_SAMPLES, 10))
    left, middle, right = figure.subplots(1, 3, width_ratios=(0.7, 1.5, 1.3))
    figure.subplots_adjust(0.01, 0.16, 0.985, 0.9, wspace=0.24)
    image = left.imshow(np.zeros((8, 8)), cmap="Greys", vmin=0, vmax=1, animated=True)
    left.axis("off")
    title = left.set_title("", animated=True)

    votes = middle.scatter([], [], s=9, color=BLUE, alpha=0.5, lw=0, animated=True)
    means = middle.scatter(
        range(10), np.zeros(10), s=420, marker="_", color=VERMILLION, lw=2.4, animated=True
    )
    middle.set(xlim=(-0.6, 9.6), ylim=(-0.03, 1.03), xticks=range(10), xlabel="class")
    middle.set_ylabel("softmax output")
    middle.set_title("100 draws (dots) and their mean")

    (entropy_line,) = right.plot([], [], color=INK, ls="-", animated=True)
    (information_line,) = right.plot([], [], color=BLUE, ls="--", animated=True)
    here = right.axvline(0, color=VERMILLION, ls=":", animated=True)
    right.axhline(math.log(10), color=INK, lw=0.8, ls=":")
    right.text(178, math.log(10) + 0.04, "log 10", ha="right", fontsize=8)
    right.set(xlim=(0, 180), ylim=(0, 2.6), xticks=range(0, 181, 45), ylabel="nats")
    right.set(xlabel="rotation (degrees)")
    right.set_title("Uncertainty over the angle")
    right.legend(
        [entropy_line, information_line],
        ["predictive entropy", "mutual information"],
        loc="upper left",
        bbox_to_anchor=(0, 0.9),
    )

    def update(angle: int, p_drop: float) -> str:
        at_rate = torch.from_numpy(logits[RATES.index(p_drop)])  # (angles, S, 10)
        here_logits = at_rate[ANGLES.index(angle)]
        probs = here_logits.softmax(-1).numpy()
        image.set_data(rotated(the_one(), angle)[0].numpy())
        title.set_text(f"{angle}°")
        votes.set_offsets(np.column_stack([(np.arange(10) + shift).ravel(), probs.ravel()]))
        means.set_offsets(np.column_stack([np.arange(10), probs.mean(0)]))
        by_draw = at_rate.transpose(0, 1)
        entropy, information = predictive_entropy(by_draw), mutual_information(by_draw)
        entropy_line.set_data(ANGLES, entropy)
        information_line.set_data(ANGLES, information)
        here.set_xdata([angle, angle])
        ranked = probs.mean(0).argsort()[::-1]
        index = ANGLES.index(angle)
        return (
            f"Most probable: <b>{ranked[0]}</b> (mean {probs.mean(0)[ranked[0]]:.2f}, single draws "
            f"{probs[:, ranked[0]].min():.2f} to {probs[:, ranked[0]].max():.2f}), then "
            f"{ranked[1]} ({probs.mean(0)[ranked[1]]:.2f}). Entropy {entropy[index]:.2f} nats, of "
            f"which {information[index]:.2f} are disagreement."
        )

    return update


def the_one() -> Tensor:
    """The handwritten 1 of the lesson: the first of the test set, ``(64,)`` in [0, 1]."""
    data = digits(seed=0)
    return data.x_test[data.y_test == 1][0]


def rotated(image: Tensor, degrees: float | Tensor) -> Tensor:
    """The image ``(64,)`` turned anticlockwise by each of A angles, bilinear: ``(A, 8, 8)``."""
    angle = torch.as_tensor(degrees, dtype=image.dtype).reshape(-1).deg2rad()
    zero = torch.zeros_like(angle)
    turn = torch.stack([angle.cos(), -angle.sin(), zero, angle.sin(), angle.cos(), zero], -1)
    grid = affine_grid(turn.view(-1, 2, 3).to(image), [len(angle), 1, 8, 8], align_corners=False)
    pixels = image.view(1, 1, 8, 8).expand(len(angle), 1, 8, 8)
    return grid_sample(pixels, grid, align_corners=False)[:, 0]


def train(p_drop: float, x: Tensor, y: Tensor, generator: torch.Generator, n_steps: int) -> Network:
    """A digit classifier 64-128-128-10 with dropout after both hidden layers."""
    net = _untrained(p_drop, generator).to(x.device)
    fit(
        net,
        x,
        y,
        cross_entropy,
        n_steps=n_steps,
        generator=generator,
        optimizer=adam(2e-3),
        batch_size=100,
    )
    return net


def trained() -> Network:
    """The stored network, trained at ``LESSON_RATE``."""
    net = _untrained(LESSON_RATE, torch.Generator())
    with torch.no_grad():
        weights = torch.from_numpy(arrays.load("rotated_digit")["weights"]).float()
        nn.utils.vector_to_parameters(weights, net.parameters())
    return net


def make_arrays(n_steps: int = 1500) -> dict[str, np.ndarray]:
    """Train one classifier for each rate; logits of 100 draws at every angle.

    With them come the weights of the network that the lesson itself asks.
    """
    data = digits(seed=0)
    turned = rotated(the_one(), torch.tensor(ANGLES)).flatten(1)
    logits, stored = [], {}
    for p_drop in RATES:
        generator = torch.Generator().manual_seed(2)
        net = train(p_drop, data.x_train, data.y_train, generator, n_steps)
        draws = predict(net, turned, N_SAMPLES, "shared", generator=generator)
        logits.append(draws.transpose(0, 1))
        if p_drop == LESSON_RATE:
            weights = nn.utils.parameters_to_vector(net.parameters())
            stored["weights"] = weights.detach().half().numpy()
    return {"logits": torch.stack(logits).half().numpy(), **stored}


def _untrained(p_drop: float, generator: torch.Generator) -> Network:
    plain, drop = BinaryDropout(0.0, 0.1), BinaryDropout(p_drop, 0.1)
    return initialise(mlp((64, WIDTH, WIDTH, 10), [plain, drop, drop]), generator)

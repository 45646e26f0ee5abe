"""Lesson 05: a handwritten one turns, and 100 sub-networks vote on what it is."""

import math
from functools import partial

import numpy as np
import torch
from matplotlib.figure import Figure
from torch import Tensor, nn

from bdl_lessons.core import BLUE, INK, RED
from bdl_lessons.datasets import digits, rotated
from bdl_lessons.models import BinaryDropout, Deterministic, Network, mlp
from bdl_lessons.panels import arrays
from bdl_lessons.panels.engine import Panel, Slider, Update

RATES = (0.05, 0.1, 0.25, 0.5, 0.7)
ANGLES = tuple(range(0, 181, 5))
WEB_ANGLES = tuple(sorted({*ANGLES[::2], 75}))
LESSON_RATE = 0.5
WIDTH = 128
N_SAMPLES = 100
MANY_SAMPLES = 5000  # for the entropies: with 100 draws they are off by up to 0.1 nats
N_CLASSES = 10


def panel() -> Panel:
    """The second panel of lesson 05: the angle of the digit and ``p_drop``."""
    return Panel(
        build_figure,
        Slider(
            name="angle",
            label="rotation (degrees)",
            values=ANGLES,
            value=75,
            web=WEB_ANGLES,
        ),
        Slider(
            name="p_drop",
            label="p_drop, drop probability",
            values=RATES,
            value=LESSON_RATE,
        ),
        size=(9.6, 3.3),
    )


def build_figure(figure: Figure) -> Update:
    """Left: the rotated digit. Middle: the probability of each class in 100 draws, as dots, and
    their mean. Right: predictive entropy and mutual information, which rise and fall with the
    angle, and a line at the angle shown.
    """
    stored = arrays.load("rotated_digit")
    logits = stored["logits"].astype(np.float64)  # (rates, angles, S, classes)
    digit = the_one()
    left, middle, right = figure.subplots(1, 3, width_ratios=(0.7, 1.5, 1.3))
    figure.subplots_adjust(left=0.01, bottom=0.16, right=0.985, top=0.9, wspace=0.24)

    left.axis("off")
    title = left.set_title("", animated=True)
    image = left.imshow(np.zeros((8, 8)), cmap="Greys", vmin=0, vmax=1, animated=True)

    middle.set_title("100 draws (dots) and their mean")
    middle.set(xlim=(-0.6, 9.6), xticks=range(N_CLASSES), xlabel="class")
    middle.set(ylim=(-0.03, 1.03), ylabel="softmax output")
    draw_dots = middle.scatter([], [], s=9, color=BLUE, alpha=0.5, lw=0, animated=True)
    mean_marks = middle.scatter([], [], s=420, marker="_", color=RED, lw=2.4, animated=True)
    classes = np.arange(N_CLASSES)
    jitter = np.random.default_rng(0).uniform(-0.3, 0.3, (N_SAMPLES, N_CLASSES))

    right.set_title("Uncertainty over the angle")
    right.set(xlim=(ANGLES[0], ANGLES[-1]), xticks=ANGLES[::9], xlabel="rotation (degrees)")
    right.set(ylim=(0, 2.6), ylabel="nats")
    (entropy_line,) = right.plot([], [], color=INK, ls="-", animated=True)
    (information_line,) = right.plot([], [], color=BLUE, ls="--", animated=True)
    here = right.axvline(0, ymax=0.64, color=RED, ls=":", clip_on=False, animated=True)
    largest_entropy = math.log(N_CLASSES)
    right.axhline(largest_entropy, color=INK, lw=0.8, ls=":")
    right.text(ANGLES[-1] - 2, largest_entropy + 0.04, "log 10", ha="right", fontsize=10)
    right.legend(
        [entropy_line, information_line],
        ["predictive entropy", "mutual information"],
        loc="upper left",
        bbox_to_anchor=(0, 0.87),
    )

    def update(angle: int, p_drop: float) -> str:
        rate = RATES.index(p_drop)
        index = ANGLES.index(angle)

        image.set_data(rotated(digit, angle).numpy())
        title.set_text(f"{angle}°")

        probs = torch.from_numpy(logits[rate, index]).softmax(-1).numpy()  # (S, classes)
        mean_probs = probs.mean(0)
        draw_dots.set_offsets(np.column_stack([(classes + jitter).ravel(), probs.ravel()]))
        mean_marks.set_offsets(np.column_stack([classes, mean_probs]))

        entropy = stored["entropy"][rate]
        information = stored["information"][rate]
        entropy_line.set_data(ANGLES, entropy)
        information_line.set_data(ANGLES, information)
        here.set_xdata([angle, angle])

        first, second = mean_probs.argsort()[::-1][:2]
        return (
            f"Most probable: <b>{first}</b> (mean {mean_probs[first]:.2f}, single draws "
            f"{probs[:, first].min():.2f} to {probs[:, first].max():.2f}), then "
            f"{second} ({mean_probs[second]:.2f}). From {MANY_SAMPLES} draws: predictive "
            f"entropy {entropy[index]:.2f} nats, of which {information[index]:.2f} are mutual "
            f"information (epistemic)."
        )

    return update


def the_one() -> Tensor:
    """The handwritten 1 of the lesson: the first of the test set, ``(8, 8)`` in [0, 1]."""
    data = digits(seed=0)
    return data.x_test[data.y_test == 1][0].view(8, 8)


def classifier(p_drop: float) -> Network:
    """A digit classifier 64-128-128-10 with dropout after both hidden layers, untrained."""
    plain = partial(Deterministic, length_scale=0.1)
    drop = partial(BinaryDropout, p_drop=p_drop, length_scale=0.1)
    return mlp((64, WIDTH, WIDTH, 10), [plain, drop, drop])


def trained() -> Network:
    """The stored network, trained at ``LESSON_RATE``."""
    net = classifier(LESSON_RATE)
    with torch.no_grad():
        weights = torch.from_numpy(arrays.load("rotated_digit")["weights"]).float()
        nn.utils.vector_to_parameters(weights, net.parameters())
    return net

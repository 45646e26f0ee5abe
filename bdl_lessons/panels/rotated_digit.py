"""Lesson 05: handwritten ones turn, and 100 sub-networks vote on what each of them is."""

from functools import cache, partial

import numpy as np
import torch
from matplotlib.figure import Figure
from torch import Tensor, nn

from bdl_lessons.core import BLUE, INK, RED
from bdl_lessons.datasets import digits, rotated
from bdl_lessons.evaluation import mutual_information, predictive_entropy
from bdl_lessons.inference import predict
from bdl_lessons.models import BinaryDropout, Deterministic, Network, mlp
from bdl_lessons.panels import arrays
from bdl_lessons.panels.engine import Panel, Slider, Update

RATES = (0.05, 0.1, 0.25, 0.5, 0.7)
ANGLES = tuple(range(0, 181, 5))
WEB_ANGLES = tuple(sorted({*ANGLES[::2], 75}))
N_ONES = 38  # in the test set
LESSON_RATE = 0.5
WIDTH = 128
N_SAMPLES = 100
MANY_SAMPLES = 1000  # for what is said of all ones
N_CLASSES = 10
IS_SURE = 0.9


def panel() -> Panel:
    """The second panel of lesson 05: which 1, its angle, and ``p_drop``."""
    return Panel(
        build_figure,
        Slider(
            name="number",
            label="which of the 38 ones",
            values=tuple(range(1, N_ONES + 1)),
            value=1,
            web=(1, 11, 30),
        ),
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
            web=RATES[1::2],
        ),
        size=(9.6, 3.3),
    )


def build_figure(figure: Figure) -> Update:
    """Left: one of the rotated digits. Middle: the probability of each class in 100 draws, as dots,
    and their mean. Right: how many of all ones are called something else, and how many of them with
    an averaged probability above 0.9, over the angle, and a line at the angle shown.
    """
    stored = arrays.load("rotated_digit")
    probs_of_all = stored["probs"].astype(np.float64)  # (rates, ones, angles, classes)
    is_wrong = probs_of_all.argmax(axis=-1) != 1
    is_sure = is_wrong & (probs_of_all.max(axis=-1) > IS_SURE)
    images = ones()
    networks = [trained(p_drop) for p_drop in RATES]
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

    right.set_title("All 38 ones")
    right.set(xlim=(ANGLES[0], ANGLES[-1]), xticks=ANGLES[::9], xlabel="rotation (degrees)")
    right.set(ylim=(-3, 140), yticks=range(0, 101, 25), ylabel="%")
    (wrong_line,) = right.plot([], [], color=INK, ls="-", animated=True)
    (sure_line,) = right.plot([], [], color=RED, ls="--", animated=True)
    here = right.axvline(0, ymax=0.72, color=BLUE, ls=":", animated=True)
    right.legend(
        [wrong_line, sure_line],
        ["called something else", "with more than 0.9"],
        loc="upper left",
    )

    def update(number: int, angle: int, p_drop: float) -> str:
        rate = RATES.index(p_drop)
        index = ANGLES.index(angle)
        turned = rotated(images[number - 1], angle)

        image.set_data(turned.numpy())
        title.set_text(f"{angle}°")

        generator = torch.Generator().manual_seed(0)
        inputs = turned.view(1, 64)
        logits = predict(networks[rate], inputs, N_SAMPLES, "shared", generator=generator)
        probs = logits[:, 0].softmax(-1).numpy()  # (S, classes)
        mean_probs = probs.mean(0)
        draw_dots.set_offsets(np.column_stack([(classes + jitter).ravel(), probs.ravel()]))
        mean_marks.set_offsets(np.column_stack([classes, mean_probs]))

        wrong = 100 * is_wrong[rate].mean(axis=0)
        sure = 100 * is_sure[rate].mean(axis=0)
        wrong_line.set_data(ANGLES, wrong)
        sure_line.set_data(ANGLES, sure)
        here.set_xdata([angle, angle])

        first, second = mean_probs.argsort()[::-1][:2]
        return (
            f"Most probable: <b>{first}</b> (mean {mean_probs[first]:.2f}, single draws "
            f"{probs[:, first].min():.2f} to {probs[:, first].max():.2f}), then "
            f"{second} ({mean_probs[second]:.2f}). Predictive entropy "
            f"{predictive_entropy(logits).item():.2f} nats, of which "
            f"{mutual_information(logits).item():.2f} are mutual information (epistemic). Of all "
            f"38 ones {wrong[index]:.0f} % are called something else, {sure[index]:.0f} % with "
            f"more than 0.9."
        )

    return update


@cache
def ones() -> Tensor:
    """The 38 ones of the test set, ``(38, 8, 8)`` in [0, 1]."""
    data = digits(seed=0)
    return data.x_test[data.y_test == 1].view(-1, 8, 8)


def the_one() -> Tensor:
    """The first of them, ``(8, 8)``: the 1 of the lesson's first figure."""
    return ones()[0]


def classifier(p_drop: float) -> Network:
    """A digit classifier 64-128-128-10 with dropout after both hidden layers, untrained."""
    plain = partial(Deterministic, length_scale=0.1)
    drop = partial(BinaryDropout, p_drop=p_drop, length_scale=0.1)
    return mlp((64, WIDTH, WIDTH, 10), [plain, drop, drop])


def trained(p_drop: float = LESSON_RATE) -> Network:
    """The stored network that was trained at this rate, one of ``RATES``."""
    net = classifier(p_drop)
    weights = torch.from_numpy(arrays.load("rotated_digit")["weights"][RATES.index(p_drop)])
    with torch.no_grad():
        nn.utils.vector_to_parameters(weights.float(), net.parameters())
    return net

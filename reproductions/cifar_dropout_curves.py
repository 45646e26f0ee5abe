"""Kingma, Salimans and Welling (2015), figure 1b: dropout in a convolutional network, CIFAR-10.

Two convolutions of stride 2 with 32 k and 64 k feature maps, two fully connected layers of 128 k
units, softplus; errors over the width factor k. First 4,000 images on a CPU, then all of them,
which needs a GPU in practice. Lesson 07.
"""

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch
from matplotlib.figure import Figure
from torch import nn

from bdl_lessons.core import device, seeded
from bdl_lessons.datasets.records import Record, group_by, where
from bdl_lessons.evaluation import error_percent
from bdl_lessons.models import Network, initialise, wrap
from reproductions import datasets, markdown
from reproductions import mnist_dropout_curves as curves
from reproductions.experiment import Claim, Experiment, Trial, TrialResult
from reproductions.measure import mean_weights

RATES = (0.2, 0.5, 0.5, 0.5, 0.5)
SMALL_METHODS = ("none", "Gaussian A", "variational A", "variational A2")
METHODS = (*SMALL_METHODS, "Gaussian B")
SMALL_WIDTHS = (0.25, 0.5, 1)
WIDTHS = (0.5, 1, 2)
SEEDS = 3
TITLES = {"cifar10-subset": "The first images of CIFAR-10", "cifar10": "All of CIFAR-10"}
PAIRS = (
    ("variational A", "none"),
    ("variational A2", "none"),
    ("variational A", "Gaussian A"),
    ("variational A2", "Gaussian A"),
    ("variational A2", "variational A"),
    ("Gaussian A", "none"),
    ("Gaussian B", "none"),
)
"""Methods whose errors are compared image by image."""

_SMALL = {
    "data": "cifar10-subset",
    "n_train": 4_000,
    "n_test": 1_000,
    "batch_size": 100,
    "learning_rate": 2e-3,
    "n_epochs": 40,
}
_ALL = {
    **_SMALL,
    "data": "cifar10",
    "n_train": 50_000,
    "n_test": 10_000,
    "batch_size": 200,
    "n_epochs": 30,
}
_QUICK = {
    **_SMALL,
    "n_train": 60,
    "n_test": 20,
    "batch_size": 20,
    "n_epochs": 1,
}


def trials(scale: str) -> list[Trial]:
    """4,000 images, every method and width with one seed, then the next; then all images."""
    if scale == "quick":
        return [Trial({**_QUICK, "method": method, "width": 0.25}, 0) for method in METHODS]
    grids = [(_SMALL, SMALL_WIDTHS, SMALL_METHODS), (_ALL, WIDTHS, METHODS)]
    return [
        Trial({**config, "method": method, "width": width}, seed)
        for config, widths, methods in grids
        for seed in range(SEEDS)
        for width in widths
        for method in methods
    ]


def run(trial: Trial) -> TrialResult:
    """Train one network: ``error`` and ``train_error`` with the mean weights, in percent.

    Arrays: ``wrong``, the test images it gets wrong, eight a number (``numpy.packbits``), and the
    learned ``alpha`` of each layer.
    """
    config = trial.config
    generator = seeded(trial.seed)
    data = datasets.load(config["data"], n_train=config["n_train"], n_test=config["n_test"])
    std, mean = torch.std_mean(data.x_train, dim=(0, 2, 3), keepdim=True)  # of each channel
    on = device()
    x = ((data.x_train - mean) / std).to(on)
    x_test = ((data.x_test - mean) / std).to(on)
    y = data.y_train.to(on)
    y_test = data.y_test.to(on)
    net = make_network(config["method"], config["width"], generator)
    arrays = curves.train(net, x, y, config, generator)
    logits = mean_weights(net, x_test)
    is_wrong = logits.argmax(-1) != y_test
    arrays["wrong"] = np.packbits(is_wrong.cpu().numpy()).tolist()
    metrics = {
        "error": error_percent(logits, y_test),
        "train_error": error_percent(mean_weights(net, x), y),
    }
    return TrialResult(metrics, arrays)


def make_network(method: str, width: float, generator: torch.Generator) -> Network:
    """``(B, 3, 32, 32)`` to logits, noise on the inputs of every layer.

    Type A has one factor for each input channel of a convolution, B one for each weight.
    """
    maps1 = round(32 * width)
    maps2 = round(64 * width)
    units = round(128 * width)
    plain = nn.Sequential(
        nn.Conv2d(3, maps1, kernel_size=5, stride=2, padding=2),
        nn.Softplus(),
        nn.Conv2d(maps1, maps2, kernel_size=5, stride=2, padding=2),
        nn.Softplus(),
        nn.Flatten(),
        nn.Linear(maps2 * 8 * 8, units),
        nn.Softplus(),
        nn.Linear(units, units),
        nn.Softplus(),
        nn.Linear(units, 10),
    )
    net = wrap(plain, [curves.at_rate(method, p_drop) for p_drop in RATES])
    net = net.to(generator.device, memory_format=torch.channels_last)
    return initialise(net, generator, weight_var=1.0)


def table(records: Sequence[Record]) -> str:
    """For each data set the errors, their differences and the learned alphas; then the set-up."""
    parts = []
    for data, group in group_by(records, "data").items():
        runs = curves.runs(group)
        errors = curves.error_table(
            runs,
            width_name="k",
            digits=1,
            other_errors=runs.groupby(["method", "width"])["train_error"].mean(),
        )
        parts += [
            f"### {TITLES[data]}",
            _READING.format(**group[0]["config"]),
            errors,
            _differences(group),
            curves.alphas(group, "k"),
        ]
    return "\n\n".join([*parts, _SET_UP])


def figure(records: Sequence[Record]) -> Figure:
    """A panel for each data set: mean error over the width, bars are standard errors over seeds."""
    panels = {}
    for data, group in group_by(records, "data").items():
        panels[TITLES[data]] = curves.runs(group)
    return curves.curves(panels, "width factor k")


def claims(records: Sequence[Record]) -> list[Claim]:
    """Learned against fixed noise; the figure itself needs a GPU."""
    small = where(records, data="cifar10-subset")
    widths = list(group_by(small, "width"))
    gaps = []
    for fixed in ("Gaussian A", "none"):
        if gap := _gap(small, "variational A", fixed, widths):
            gaps.append(f"{gap} points from {fixed}")
    return [
        Claim(
            statement=(
                "In a convolutional network, too, learned dropout (A) errs less than at fixed rates"
            ),
            published="no numbers",
            ours=f"on 4,000 images {', '.join(gaps) or '–'}",
            holds=0,
            of=0,
            condition="all images of CIFAR-10 need a GPU",
        )
    ]


class Gap(NamedTuple):
    """A difference of errors, in points, and its standard error."""

    mean: float
    error: float

    def __str__(self) -> str:
        return f"{self.mean:+.1f} ± {self.error:.1f}"


def difference(wrong: np.ndarray, other: np.ndarray) -> Gap:
    """How much larger the error ``wrong`` is than ``other``.

    Both are ``(seeds, widths, images)``, 1 for a wrong answer. The squares of the scatter from seed
    to seed, where there are several, and over images are added, which counts the chance of single
    images in a run twice: rather too large than too small.
    """
    gap = 100 * (wrong.astype(float) - other)
    of_images = gap.mean((0, 1))
    error_var = of_images.var(ddof=1) / len(of_images)
    if len(gap) > 1:
        of_seeds = gap.mean((1, 2))
        error_var += of_seeds.var(ddof=1) / len(of_seeds)
    return Gap(gap.mean(), math.sqrt(error_var))


def _differences(group: Sequence[Record]) -> str:
    """Paired differences for each width and over all."""
    widths = sorted(group_by(group, "width"))
    rows = []
    for method, other in PAIRS:
        gaps = [_gap(group, method, other, [width]) for width in widths]
        gaps.append(_gap(group, method, other, widths))
        if any(gaps):
            rows.append([f"{method} − {other}", *(gap or "–" for gap in gaps)])
    head = ["difference", *(f"k = {width:g}" for width in widths), "all widths"]
    return (
        "Differences of the errors in points, on the same images and from the same seeds and first "
        f"weights; ± joins the scatter of seeds and of images:\n\n{markdown.table(head, rows)}"
    )


def _gap(group: Sequence[Record], method: str, other: str, widths: Sequence[float]) -> Gap | None:
    """The difference over the seeds that have both methods at all of these widths."""
    wrong = {}
    for record in group:
        config = record["config"]
        wrong[config["method"], config["width"], record["seed"]] = _wrong_images(record)

    def of_seeds(name: str) -> np.ndarray:
        return np.array([[wrong[name, width, seed] for width in widths] for seed in seeds])

    seeds = []
    for seed in range(SEEDS):
        needed = {(name, width, seed) for name in (method, other) for width in widths}
        if needed <= wrong.keys():
            seeds.append(seed)
    if not seeds:
        return None
    return difference(of_seeds(method), of_seeds(other))


def _wrong_images(record: Record) -> np.ndarray:
    """``(n_test,)``: 1 for each test image that the network gets wrong."""
    packed = np.array(record["arrays"]["wrong"], np.uint8)
    return np.unpackbits(packed, count=record["config"]["n_test"])


_READING = """\
{n_epochs} epochs of {n_train:,} images, {batch_size} a step, {n_test:,} test images. The published
figure has no numbers. In italics are errors on the training images. Where they are far from 0, the
noise, or a schedule too short for it, has kept the network from fitting them."""
_SET_UP = """\
Known of the published network: two convolutions of stride 2 with 32 k and 64 k feature maps, each
followed by softplus, two fully connected layers of 128 k units, and the kinds of dropout. Chosen
here: kernels of 5 x 5 with 2 pixels of padding, softplus after the fully connected layers too,
rates of 0.2 on the inputs and 0.5 elsewhere, images standardised by channel, no augmentation,
weights that start with variance 1 / fan-in; optimizer, divergence and the missing validation set as
for figure 1a. Type A draws one factor for each *channel*, the same at all pixels, for only then it
is a distribution over the filters; which factors the paper drew we do not know. Type B draws the
activations of a convolution independently at every place, an approximation. With all images, for
which a GPU is needed (ten hours of one core of a CPU), the order of the methods may be another."""
TITLE = "Kinds of dropout in a convolutional network (Kingma, Salimans and Welling 2015, figure 1b)"
EXPERIMENT = Experiment("cifar_dropout_curves", TITLE, trials, run, table, figure, claims)

"""Kingma, Salimans and Welling (2015), figure 1b: dropout in a convolutional network, CIFAR-10.

Two convolutions of stride 2 with 32 k and 64 k feature maps, two fully connected layers of 128 k
units, softplus; errors over the width factor k. First 4,000 images on a CPU, then all of them,
which needs a GPU in practice. Lesson 07.
"""

import math
from collections.abc import Sequence

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
PAIRS = [(learned, fixed) for fixed in SMALL_METHODS[:2] for learned in SMALL_METHODS[2:]]
PAIRS += [("variational A2", "variational A"), ("Gaussian A", "none"), ("Gaussian B", "none")]

_SMALL = {"data": "cifar10-subset", "n_train": 4_000, "n_test": 1_000, "batch_size": 100}
_SMALL |= {"learning_rate": 2e-3, "n_epochs": 40}
_ALL = {**_SMALL, "data": "cifar10", "n_train": 50_000, "n_test": 10_000}
_ALL |= {"batch_size": 200, "n_epochs": 30}
_QUICK = {**_SMALL, "n_train": 60, "n_test": 20, "batch_size": 20, "n_epochs": 1}


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
    std, mean = torch.std_mean(data.x_train, (0, 2, 3), keepdim=True)
    x, x_test = (((part - mean) / std).to(device()) for part in (data.x_train, data.x_test))
    y = data.y_train.to(device())
    y_test = data.y_test.to(device())
    net = make_network(config["method"], config["width"], generator)
    arrays = curves.train(net, x, y, config, generator)
    logits = mean_weights(net, x_test)
    arrays["wrong"] = np.packbits((logits.argmax(-1) != y_test).cpu().numpy()).tolist()
    train_error = error_percent(mean_weights(net, x), y)
    return TrialResult({"error": error_percent(logits, y_test), "train_error": train_error}, arrays)


def make_network(method: str, width: float, generator: torch.Generator) -> Network:
    """``(B, 3, 32, 32)`` to logits, noise on the inputs of every layer.

    Type A has one factor for each input channel of a convolution, B one for each weight.
    """
    maps1, maps2, units = (round(n * width) for n in (32, 64, 128))
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
        parts += [f"### {TITLES[data]}", _READING.format(**group[0]["config"])]
        parts += [curves.error_table(group, "k", 1, group, "train_error")]
        parts += [_differences(group), curves.alphas(group, "k")]
    return "\n\n".join([*parts, _SET_UP])


def figure(records: Sequence[Record]) -> Figure:
    """A panel for each data set: mean error over the width, bars are standard errors over seeds."""
    panels = {TITLES[data]: group for data, group in group_by(records, "data").items()}
    return curves.curves(panels, "width factor k")


def claims(records: Sequence[Record]) -> list[Claim]:
    """Learned against fixed noise; the figure itself needs a GPU."""
    small = where(records, data="cifar10-subset")
    told = []
    for fixed in ("Gaussian A", "none"):
        if gap := _gap(small, ("variational A", fixed), [*group_by(small, "width")]):
            told.append(f"{gap[0]:+.1f} ± {gap[1]:.1f} points from {fixed}")
    statement = "In a convolutional network, too, learned dropout (A) errs less than at fixed rates"
    ours = f"on 4,000 images {', '.join(told) or '–'}"
    return [Claim(statement, "no numbers", ours, 0, 0, "all images of CIFAR-10 need a GPU")]


def difference(wrong: np.ndarray, other: np.ndarray) -> tuple[float, float]:
    """How much larger the error ``wrong`` is than ``other``, in points, and its standard error.

    Both are ``(seeds, widths, images)``, 1 for a wrong answer. The squares of the scatter from seed
    to seed, where there are several, and over images are added, which counts the chance of single
    images in a run twice: rather too large than too small.
    """
    gap = 100 * (wrong.astype(float) - other)
    means = [gap.mean((0, 1)), *([gap.mean((1, 2))] if len(gap) > 1 else [])]
    return gap.mean(), math.sqrt(sum(part.var(ddof=1) / len(part) for part in means))


def _differences(group: Sequence[Record]) -> str:
    """Paired differences for each width and over all."""
    widths = sorted(group_by(group, "width"))
    rows = []
    for pair in PAIRS:
        gaps = [_gap(group, pair, chosen) for chosen in (*([width] for width in widths), widths)]
        cells = [f"{gap[0]:+.1f} ± {gap[1]:.1f}" if gap else "–" for gap in gaps]
        if any(gaps):
            rows.append([" − ".join(pair), *cells])
    head = ["difference", *(f"k = {width:g}" for width in widths), "all widths"]
    return (
        "Differences of the errors in points, on the same images and from the same seeds and first "
        f"weights; ± joins the scatter of seeds and of images:\n\n{markdown.table(head, rows)}"
    )


def _gap(
    group: Sequence[Record], pair: tuple[str, str], widths: Sequence[float]
) -> tuple[float, float] | None:
    """The difference over the seeds that have both methods at all of these widths."""
    wrong = {}
    for record in group:
        config = record["config"]
        packed = np.array(record["arrays"]["wrong"], np.uint8)
        bits = np.unpackbits(packed, count=config["n_test"])
        wrong[config["method"], config["width"], record["seed"]] = bits
    seeds = [s for s in range(SEEDS) if all((m, w, s) in wrong for m in pair for w in widths)]
    first, second = (np.array([[wrong[m, w, s] for w in widths] for s in seeds]) for m in pair)
    return difference(first, second) if seeds else None


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

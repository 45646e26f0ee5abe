"""How the records of the convolutional networks are shown: errors over the width, differences."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from bdl_lessons.core import markdown
from bdl_lessons.core.plot_style import new_figure, style
from bdl_lessons.datasets.records import Record, group_by
from reproductions.mnist_dropout_curves_report import STYLES, alphas, errors, mean_and_sem

TITLES = {
    "cifar10-subset": "The first images of CIFAR-10",
    "cifar10-jpeg": "All of CIFAR-10, after lossy JPEG compression",
    "cifar10": "All of CIFAR-10",
}
PAIRS = (
    ("variational A", "none"),
    ("variational A2", "none"),
    ("variational A", "Gaussian A"),
    ("variational A2", "Gaussian A"),
    ("variational A2", "variational A"),
    ("Gaussian A", "none"),
    ("Gaussian B", "none"),
)


def table(records: Sequence[Record]) -> str:
    """For each data set the errors, their differences and the learned alphas; then the set-up."""
    parts = []
    for data, group in group_by(records, "data").items():
        parts += [f"### {TITLES[data]}", _errors(group), _differences(group), alphas(group, "k")]
    return "\n\n".join([*parts, _SET_UP])


def figure(records: Sequence[Record]) -> Figure:
    """A panel for each data set: mean error over the width, bars are standard errors over seeds."""
    by_data = group_by(records, "data")
    picture = new_figure(5.0 * len(by_data), 4.0, layout="constrained")
    with style():
        panels = picture.subplots(1, len(by_data), squeeze=False)[0]
        for axes, (data, group) in zip(panels, by_data.items(), strict=True):
            _draw(axes, group)
            axes.set_title(TITLES[data])
        panels[0].legend(fontsize=8)
    return picture


def difference(wrong: np.ndarray, other: np.ndarray) -> tuple[float, float]:
    """How much larger the error ``wrong`` is than ``other``, in points, and its standard error.

    The error joins two parts: how the difference varies from seed to seed, and how it varies over
    test images, were other images drawn. Their squares are added, which counts the chance of
    single images in a run twice and so is rather too large than too small.

    Args:
        wrong, other: ``(seeds, widths, images)``, 1 for a wrong answer, from the same seeds.

    Returns:
        the mean over all, and the error; with one seed that of the images alone.
    """
    gap = 100 * (wrong.astype(float) - other)
    means = [gap.mean((0, 1)), *([gap.mean((1, 2))] if len(gap) > 1 else [])]
    return gap.mean(), math.sqrt(sum(part.var(ddof=1) / len(part) for part in means))


def _errors(group: Sequence[Record]) -> str:
    config, found = group[0]["config"], errors(group)
    widths = sorted({width for of_method in found.values() for width in of_method})
    fitted = group_by(group, "method", "width")
    rows = [
        [method, *(_cell(of_method.get(w), fitted.get((method, w), ())) for w in widths)]
        for method, of_method in found.items()
    ]
    return (
        f"{config['n_epochs']} epochs of {config['n_train']:,} images, Adam with "
        f"{config['batch_size']} images a step. Error in percent with the mean weights on "
        f"{config['n_test']:,} test images, mean ± standard error over seeds (their number in "
        "brackets); in italics the mean error on the training images. Where that is far from 0, "
        "the noise, or a schedule too short for it, has kept the network from fitting them.\n\n"
        + markdown.table(["method", *(f"k = {width:g}" for width in widths)], rows)
    )


def _cell(values: list[float] | None, records: Sequence[Record]) -> str:
    if not values:
        return "–"
    fitted = np.mean([record["metrics"]["train_error"] for record in records])
    return f"{markdown.mean_and_error(values, 1)} ({len(values)}), *{fitted:.1f}*"


def _differences(group: Sequence[Record]) -> str:
    """Paired differences for each width and over all, and which of the latter are clear."""
    n_test = group[0]["config"]["n_test"]
    wrong = {
        (r["config"]["method"], r["config"]["width"], r["seed"]): np.unpackbits(
            np.array(r["arrays"]["wrong"], np.uint8), count=n_test
        )
        for r in group
    }
    widths = sorted({width for _, width, _ in wrong})
    rows, better, worse = [], [], []
    for pair in PAIRS:
        gaps = [_gap(wrong, pair, chosen) for chosen in (*([width] for width in widths), widths)]
        if not any(gaps):
            continue
        rows.append([" − ".join(pair), *(f"{g[0]:+.1f} ± {g[1]:.1f}" if g else "–" for g in gaps)])
        if gaps[-1] and abs(gaps[-1][0]) > 2 * gaps[-1][1]:
            (better if gaps[-1][0] < 0 else worse).append(" than ".join(pair))
    if not rows:
        return "No two methods to compare are recorded yet."
    head = ["difference", *(f"k = {width:g}" for width in widths), "all widths"]
    return (
        "Differences of the errors in points, on the same test images and from the same seeds, "
        "which give the methods the same first weights:\n\n"
        + markdown.table(head, rows)
        + "\n\nTheir standard errors join the scatter of the seeds and that of the test images. "
        f"Over all widths, by more than two of them, better: {markdown.listed(better)}; "
        f"worse: {markdown.listed(worse)}."
    )


def _gap(wrong: dict, pair: tuple[str, str], widths: list[float]) -> tuple[float, float] | None:
    """The difference over the seeds that have both methods at all of these widths."""
    seeds = [
        seed
        for seed in dict.fromkeys(seed for _, _, seed in wrong)
        if all((method, width, seed) in wrong for method in pair for width in widths)
    ]
    first, second = (
        np.array([[wrong[method, width, seed] for width in widths] for seed in seeds])
        for method in pair
    )
    return difference(first, second) if seeds else None


def _draw(axes: Axes, group: Sequence[Record]) -> None:
    found = errors(group)
    for k, (method, of_method) in enumerate(found.items()):
        widths = [width * 1.02 ** (k - 2) for width in of_method]  # side by side, to see the bars
        means, sems = zip(*map(mean_and_sem, of_method.values()), strict=True)
        axes.errorbar(widths, means, sems, capsize=2, ms=4, lw=1.4, label=method, **STYLES[method])
    axes.set(xlabel="width factor k", ylabel="CIFAR-10 test error [%]", xscale="log")
    ticks = sorted({width for of_method in found.values() for width in of_method})
    axes.set_xticks(ticks, [f"{width:g}" for width in ticks])
    axes.minorticks_off()


_SET_UP = """\
Known of the published network: two convolutions of stride 2 with 32 k and 64 k feature maps, each
followed by softplus, two fully connected layers of 128 k units, and the kinds of dropout; on MNIST
the rates were 0.2 on the inputs and 0.5 elsewhere. Chosen here: kernels of 5 x 5 with 2 pixels of
padding, softplus after the fully connected layers too, those same rates, fixed or as the start of
one learned α for each layer, images standardised by channel, no augmentation, weights that start
with variance 1 / fan-in, Adam with a learning rate that falls in a line from 0.002 to 0, and no
validation set, where the paper stopped by a validation error. Type A draws one factor for each
*channel* of the images and feature maps, the same at all pixels, for only then it is a distribution
over the filters; which factors the paper drew in a convolution we do not know. Type B draws the
activations of a convolution independently at every place, an approximation. The divergence is the
paper's cubic with α at most 1, counted once for each factor. We have no values of the published
figure, so there is no published column. On 4,000 images the networks see less than a tenth of the
data: the order of the methods there need not be that with all images. Numbers from the JPEG copy
are not comparable with those from the official files. The trials with all images are there for a
machine with a GPU: together they would keep one core of a CPU busy for more than ten hours. Those
with the official files download them first."""

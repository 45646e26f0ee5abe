"""How the records of colour images are shown: published rows stand beside the same data only."""

from __future__ import annotations

from collections.abc import Sequence

from matplotlib.figure import Figure

from bdl_lessons.core import BLUE
from bdl_lessons.core.plot_style import new_figure, style
from bdl_lessons.experiments import markdown
from bdl_lessons.experiments.images import tables
from bdl_lessons.experiments.paper_tables import published_table
from bdl_lessons.experiments.records import Record, group_by

PRINTED_AS = {"cifar10": "CIFAR10", "cifar100": "CIFAR100", "svhn": "SVHN", "stl10": "STL10"}
_COMMAND = "`python -m bdl_lessons reproduce image_classification_colour`"


def table(records: Sequence[Record]) -> str:
    """Quality and detection for each network and data set, then what is missing."""
    small = [r for r in records if r["config"]["data"] not in PRINTED_AS]
    large = [r for r in records if r["config"]["data"] in PRINTED_AS]
    parts = []
    for name, group in group_by(small, "architecture").items():
        config = group[0]["config"]
        parts += [
            f"### {name} on 4,000 images of CIFAR-10",
            tables.quality(group),
            f"{config['epochs']} epochs on {4000 - config['n_val']:,} of the 4,000 images, batches "
            f"of {config['batch_size']}, no augmentation; tested on 1,000. A tenth of the data and "
            "a fraction of the steps: nothing to compare with the published rows, and the weights "
            "of the KL were not tuned.",
        ]
    for (name, data), group in group_by(large, "architecture", "data").items():
        parts += [f"### {name} on {PRINTED_AS[data]}", tables.quality(group)]
        if printed := _published_quality(name, data):
            parts += ["Published:", printed]
        for other in group[0]["config"]["ood"]:
            title = f"{PRINTED_AS[data]} against {PRINTED_AS[other]}"
            parts += [f"{title}, by the largest averaged probability:"]
            parts += [tables.detections(group, other, "max softmax")]
            parts += ["Published:", _published_detection(name, data, other)]
    parts += ["### Published rows that need data and a GPU", _missing(records), _reading()]
    return "\n\n".join(parts)


def figure(records: Sequence[Record]) -> Figure:
    """NLL, accuracy and ECE of every method, a row of panels for each network and data set."""
    groups = group_by(records, "architecture", "data")
    heights = [0.9 + 0.2 * len(group_by(group, "method")) for group in groups.values()]
    picture = new_figure(8.6, 0.5 + sum(heights), layout="constrained")
    with style():
        axes = picture.subplots(len(groups), 3, squeeze=False, height_ratios=heights)
        for row, ((name, data), group) in zip(axes, groups.items(), strict=True):
            methods = group_by(group, "method")
            for ax, (metric, label) in zip(row, _SHOWN.items(), strict=True):
                for i, rows in enumerate(methods.values()):
                    values = [r["metrics"][metric] for r in rows]
                    ax.plot(values, [i] * len(values), "o", color=BLUE, ls="", ms=6)
                ax.set_yticks(range(len(methods)), methods if ax is row[0] else [])
                ax.set_ylim(len(methods) - 0.5, -0.5)
                ax.set_xlabel(label)
                ax.margins(x=0.15)
            row[0].set_title(f"{name}, {data}")
    return picture


_SHOWN = {"nll": "NLL (nats)", "accuracy_percent": "accuracy (%)", "ece": "ECE"}


def _published_quality(architecture: str, data: str) -> str:
    rows = [
        [r["method"], f"{r['nll']:.3f}", f"{r['accuracy_percent']:.2f}", f"{r['ece']:.3f}"]
        for r in published_table("image_classification")
        if (r["architecture"], r["dataset"]) == (architecture, PRINTED_AS[data])
    ]
    return markdown.table(["method", "NLL (nats)", "accuracy (%)", "ECE"], rows) if rows else ""


def _published_detection(architecture: str, data: str, other: str) -> str:
    wanted = (architecture, PRINTED_AS[data], PRINTED_AS[other])
    names = ("architecture", "in_distribution", "out_of_distribution")
    rows = [
        [r["method"], *(f"{r[m]:.2f}" for m in tables.MEASURES)]
        for r in published_table("ood_detection")
        if tuple(r[name] for name in names) == wanted
    ]
    return markdown.table(["method", *tables.MEASURES.values()], rows)


def _missing(records: Sequence[Record]) -> str:
    done = group_by(records, "architecture", "data")
    printed = [(r["architecture"], r["dataset"]) for r in published_table("image_classification")]
    printed += [(r["architecture"], r["in_distribution"]) for r in published_table("ood_detection")]
    names = {title: name for name, title in PRINTED_AS.items()}
    missing = [p for p in dict.fromkeys(printed) if (p[0], names[p[1]]) not in done]
    return markdown.table(["network", "data set", "command"], [[*p, _COMMAND] for p in missing])


def _reading() -> str:
    return (
        "The command fetches CIFAR-10 and CIFAR-100 (binary versions), SVHN and STL-10 from their "
        "official addresses, or finds them in the folder that `BDL_DATA_DIR` names. Every row "
        "needs all its seeds, its other images and, in practice, a GPU. Set-up of those trials, "
        "where the published one is not known: AlexNet is the version common on CIFAR (2.47 "
        "million weights, no dropout, no batch norm), ResNet18 has the stem made for ImageNet, on "
        "32 x 32 pixels too (the published accuracies fit that one), LeNet5 is the one of the "
        "section on MNIST; 160 epochs of Adam in batches of 128 with a rate that falls to 0 in a "
        "straight line, no augmentation, the last 1,000 training images kept apart."
    )

"""How the records of the gradient variances are shown: four columns beside the published ones."""

from __future__ import annotations

from matplotlib.figure import Figure
from matplotlib.ticker import NullFormatter

from bdl_lessons.core import BLUE, INK, markdown
from bdl_lessons.core.plot_style import new_figure, style
from bdl_lessons.datasets.records import Record, published_table

ROWS = {
    "local": "local reparameterization",
    "per example": "weight sample per data point",
    "per minibatch": "weight sample per minibatch",
    "no noise": "no dropout noise",
}
"""Our name of an estimator -> its row in the published table."""

COLUMNS = [(layer, epochs) for layer in ("top", "bottom") for epochs in (10, 100)]


def published_value(estimator: str, layer: str, epochs: int) -> float:
    """What Table 1 prints."""
    rows = {row["estimator"]: row for row in published_table("lrt_gradient_variance")}
    return rows[ROWS[estimator]][f"{layer}_layer_{epochs}_epochs"]


def measured(record: Record, estimator: str, layer: str, place: int) -> tuple[float, float]:
    """Our variance and its standard error when training stopped for the ``place``-th time."""
    name = f"{layer}, {estimator}, {record['config']['epochs'][place]}"
    return record["metrics"][name], record["metrics"][f"{name}, standard error"]


def table(records: list[Record]) -> str:
    """Ours beside published for each seed, the ratios to the first row, and what differs."""
    parts = [f(record) for record in records for f in (_values, _ratios, _in_words)]
    return "\n\n".join([*parts, _differences(records[0]["config"])])


def figure(records: list[Record]) -> Figure:
    """Variances on a log axis: published hollow, ours filled with two standard errors."""
    picture = new_figure(7.2, 3.2, layout="constrained")
    with style():
        axes = picture.subplots(1, len(COLUMNS), sharey=True)
        for place, (ax, (layer, epochs)) in enumerate(zip(axes, COLUMNS, strict=True)):
            for row, estimator in enumerate(ROWS):
                printed = published_value(estimator, layer, epochs)
                ax.plot(printed, row - 0.12, "o", mfc="none", color=INK, label="published")
                for record in records:
                    value, std_err = measured(record, estimator, layer, place % 2)
                    look = {"fmt": "s", "ms": 5, "color": BLUE, "label": "ours ± 2 s.e."}
                    ax.errorbar(value, row + 0.12, xerr=2 * std_err, **look)
            ax.set(xscale="log", xlabel="variance", yticks=range(len(ROWS)))
            ax.xaxis.set_minor_formatter(NullFormatter())
            ax.set_yticklabels([row.replace(" sample", "\nsample") for row in ROWS.values()])
            ours = records[0]["config"]["epochs"][place % 2]
            ax.set_title(f"{layer} layer,\n{ours} epochs")
        axes[0].set_ylim(len(ROWS) - 0.5, -0.5)
        handles, labels = axes[0].get_legend_handles_labels()
        once = dict(zip(labels, handles, strict=True))
        picture.legend(once.values(), once, loc="outside lower center", ncols=2)
    return picture


def _values(record: Record) -> str:
    epochs = record["config"]["epochs"]
    errors = ", ".join(f"{record['metrics'][f'test_error, {e}']:.2f} % after {e}" for e in epochs)
    rows = []
    for estimator, row in ROWS.items():
        cells = []
        for place, (layer, at) in enumerate(COLUMNS):
            value, std_err = measured(record, estimator, layer, place % 2)
            cells.append(
                f"{_short(value)} ± {_short(std_err)} "
                f"({_short(published_value(estimator, layer, at))})"
            )
        rows.append([row, *cells])
    return (
        f"Seed {record['seed']}: ours ± standard error (published). Test error of the mean weights "
        f"{errors} epochs.\n\n" + markdown.table(_head(epochs), rows)
    )


def _ratios(record: Record) -> str:
    rows = []
    for estimator, row in list(ROWS.items())[1:]:
        cells = []
        for place, (layer, at) in enumerate(COLUMNS):
            own, local = (measured(record, e, layer, place % 2)[0] for e in (estimator, "local"))
            printed = published_value(estimator, layer, at) / published_value("local", layer, at)
            cells.append(f"{own / local:.2g} ({printed:.2g})")
        rows.append([row, *cells])
    multiples = markdown.table(_head(record["config"]["epochs"]), rows)
    return f"As multiples of local reparameterization, ours (published):\n\n{multiples}"


def _in_words(record: Record) -> str:
    """In how many columns the order is the published one, and what 90 epochs more did."""
    by_column = [
        [measured(record, e, layer, place % 2)[0] for e in ("no noise", *list(ROWS)[:3])]
        for place, (layer, _) in enumerate(COLUMNS)
    ]
    in_order = sum(values == sorted(values) for values in by_column)
    steps = []
    for layer, place in (("top", 0), ("bottom", 2)):
        own = by_column[place + 1][1] / by_column[place][1]
        first, last = (published_value("local", layer, epochs) for epochs in (10, 100))
        steps.append(f"{own:.2g} in the {layer} layer (published {last / first:.2g})")
    return (
        f"The four stand in the published order in {in_order} of {len(COLUMNS)} columns. Training "
        f"on multiplies the variance of the local estimator by {' and '.join(steps)}."
    )


def _head(epochs: list[int]) -> list[str]:
    columns = [f"{layer} layer, {e} epochs" for layer in ("top", "bottom") for e in epochs]
    return ["estimator", *columns]


def _differences(config: dict) -> str:
    return (
        f"Set-up: {config['width']} units in each of three hidden layers, batches of "
        f"{config['batch_size']}, Adam at {config['learning_rate']:g} that starts again at the "
        f"first stop, {config['n_train']:,} training examples, one learned alpha for each layer; "
        f"measured over minibatches of {config['rows']:,} rows without repeats, "
        f"{config['n_draws']} draws of the gradient ({config['n_draws_per_example']} with a weight "
        "sample per data point). Published: variational dropout with independent noise and "
        "minibatches of 1,000; we do not know the width, the optimizer or the parametrisation of "
        "alpha behind the printed numbers. The size of a variance depends on all of these, so "
        "compare orders and ratios."
    )


def _short(value: float) -> str:
    """Two significant digits, as the paper prints them."""
    mantissa, exponent = f"{value:.1e}".split("e")
    return f"{mantissa}e{int(exponent)}"

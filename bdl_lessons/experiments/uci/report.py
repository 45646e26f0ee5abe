"""The small print of the UCI tables: what was chosen, what batching gains, the set-up, what is missing."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from statistics import median

from bdl_lessons.experiments import markdown
from bdl_lessons.experiments.records import Record
from bdl_lessons.experiments.uci.methods import METHODS
from bdl_lessons.experiments.uci.protocol import TAUS, VALIDATION
from bdl_lessons.experiments.uci.tables import PUBLISHED_NAMES, Results, cell
from bdl_lessons.experiments.uci.trials import TAU_GRIDS, trials


def grid_tau(found: Results) -> str:
    """Log likelihoods with tau from the published grids."""
    grids = [", ".join(f"{tau:g}" for tau in TAU_GRIDS[data]) for data in found.sets]
    rows = [
        [name, *[cell(found.ours(data, name, "log_likelihood_grid_tau")) for data in found.sets]]
        for name in found.methods
    ]
    head = ["method", *map(PUBLISHED_NAMES.get, found.sets)]
    return markdown.table(head, [["*tau*", *grids], *rows])


def choices(found: Results) -> str:
    """How often each point of the grid was chosen, and tau."""
    rows = []
    for name in found.methods:
        counts: Counter = Counter()
        for record in found.of(name):
            grid = record["config"]["grid"]
            counts.update(_varied(grid[i], grid) for i in record["arrays"]["point"])
        chosen = ", ".join(f"{what}: {n}" for what, n in sorted(counts.items(), reverse=True))
        taus = ", ".join(
            f"{PUBLISHED_NAMES[record['config']['data']]} {median(record['arrays']['tau']):.3g}"
            for record in found.of(name)
        )
        rows.append([name, METHODS[name].note, chosen, taus])
    head = ["method", "what it is", "point of the grid: number of splits", "median tau"]
    return markdown.table(head, rows)


def speed(found: Results) -> str:
    """What training side by side gains, from the records."""
    rows = []
    for name in found.methods:
        timed = [r["metrics"] for r in found.of(name) if "ms_alone" in r["metrics"]]
        if timed:
            many = sorted({int(m["n_side_by_side"]) for m in timed})
            alone = median(m["ms_alone"] for m in timed)
            together = median(m["ms_side_by_side"] for m in timed)
            gain = median(m["ms_alone"] / m["ms_side_by_side"] for m in timed)
            shown = " or ".join(map(str, many))
            rows.append([name, shown, f"{alone:.2f}", f"{together:.3f}", f"{gain:.1f}"])
    head = ["method", "networks side by side", "ms a step, alone", "ms, side by side", "gain"]
    return markdown.table(head, rows) + (
        "\n\nCPU time of one step of one network, median over the data sets, both measured in the "
        "process that ran the trial."
    )


def set_up(records: Sequence[Record]) -> str:
    """The protocol, and how it differs from the published ones."""
    shapes = Counter(_shape(record["config"]) for record in records)
    trained = "; ".join(f"{shape} ({n} trials)" for shape, n in shapes.items())
    return (
        f"**Set-up.** One hidden layer of {records[0]['config']['n_hidden']} ReLU units. Inputs "
        "and targets are standardised with the rows that a network trains on. Training: "
        f"{trained}. The last {VALIDATION:.0%} of a training part choose the point of the grid and "
        "tau by log likelihood; then networks are trained on all of it. The test part is only "
        "scored. The loss is half the squared error of standardised targets plus `kl_weight` KL / "
        "N. That is the negative ELBO over tau, its KL weighted by `kl_weight` times tau: "
        f"tau is chosen after training, from {len(TAUS)} values between {TAUS[0]:g} and "
        f"{TAUS[-1]:,.0f} over the variance of the targets. Deep ensembles and MAP draw nothing. "
        "The rate, the batch and the number of steps were set by hand, the same for every method, "
        "on validation rows of the first splits of Yacht, Energy and Boston. "
        "\n\nPublished: 4000 epochs of batch 128 for MC dropout, by the values (the runs named 10x "
        "in the code of Gal and Ghahramani 2016), tau from a grid of three; how the rows VD and "
        "VSD were trained is not said; the other rows come "
        "from papers with protocols of their own (BBB and SLANG: the joint log likelihood of all "
        "test points, tau by Bayesian optimisation; D.E: networks that predict their variance)."
    )


def missing(records: Sequence[Record], found: Results) -> list[str]:
    """The trials without a record."""
    configs = [trial.config for trial in trials(records[0]["scale"])]
    left = [
        f"{config['method']} on {PUBLISHED_NAMES[config['data']]}"
        for config in configs
        if not found.record(config["data"], config["method"])
    ]
    if not left:
        return []
    return [f"Missing, by `python -m bdl_lessons reproduce uci --jobs 2`: {'; '.join(left)}."]


def _shape(config: Mapping) -> str:
    return (
        f"{config['n_splits']} splits, {config['n_steps']:,} steps of batch "
        f"{config['batch_size']} by Adam from a rate of {config['learning_rate']:g} down a cosine "
        f"to 0, {config['n_samples']:,} test samples"
    )


def _varied(point: Mapping, grid: Sequence[Mapping]) -> str:
    """What of a point differs within the grid."""
    keys = [key for key in point if len({other[key] for other in grid}) > 1]
    return ", ".join(f"{key} {point[key]:g}" for key in keys) or "the only one"

"""Kingma, Salimans and Welling (2015), Table 1: the variance of four gradient estimators.

One network with three hidden layers of ReLU and independent weight noise is trained on MNIST. After
10 and after 100 epochs it stands still, and the gradient of the N-scaled log likelihood of 1000
rows is drawn again and again with each estimator. All share the network: a trial is a seed. Lesson
06.
"""

from itertools import pairwise

import numpy as np
import torch
from matplotlib.figure import Figure
from torch import Generator, Tensor
from torch.nn.functional import cross_entropy

from bdl_lessons.core import seeded
from bdl_lessons.datasets.records import Record
from bdl_lessons.evaluation import error_percent, gradient_variance, noisy_outputs
from bdl_lessons.evaluation.stochastic_gradients import Estimator
from bdl_lessons.models import Network, VariationalDropout, initialise, mlp
from reproductions import markdown
from reproductions.experiment import Claim, Experiment, Trial, TrialResult
from reproductions.figures import ours_and_published
from reproductions.measure import ALL_OF_MNIST, digits, mean_weights, train_by
from reproductions.records import metric, published_by

ROWS = {
    "local": "local reparameterization",
    "per example": "weight sample per data point",
    "per minibatch": "weight sample per minibatch",
    "no noise": "no dropout noise",
}
"""Our name of an estimator -> its row in the published table."""

LAYERS = ("top", "bottom")
COLUMNS = [(layer, epochs) for layer in LAYERS for epochs in (10, 100)]

_PAPER = {**ALL_OF_MNIST, "width": 256, "batch_size": 200, "learning_rate": 1e-3}
_PAPER |= {"p_drop_input": 0.2, "p_drop_hidden": 0.5, "epochs": [10, 100]}
_PAPER |= {"rows": 1000, "n_draws": 100, "n_draws_per_example": 16}
_QUICK = {**_PAPER, "n_train": 400, "n_test": 50, "width": 16, "epochs": [1, 2]}
_QUICK |= {"rows": 40, "n_draws": 6, "n_draws_per_example": 4}
_ROWS_AT_ONCE = 25
"""Rows whose own weights are held in memory at the same time."""


def trials(scale: str) -> list[Trial]:
    """One network for each seed."""
    if scale == "quick":
        return [Trial(_QUICK, seed=0)]
    return [Trial(_PAPER, seed) for seed in range(3)]


def run(trial: Trial) -> TrialResult:
    """Train, stop twice, and measure all four estimators each time.

    Metrics: ``<layer>, <estimator>, <epochs>``, the variance of the gradient for the mean weights
    of the first (``bottom``) or last (``top``) layer, averaged over the layer, and the same with
    ``standard error``; ``test_error, <epochs>`` of the mean weights in percent.
    """
    config, generator = trial.config, seeded(trial.seed)
    x, y, x_test, y_test = digits(config, lambda images: images.flatten(1))
    net = make_network(config, generator)
    metrics = {}
    for done, epochs in pairwise([0, *config["epochs"]]):
        n_steps = (epochs - done) * (len(x) // config["batch_size"])
        train_by(config, net, x, y, generator, n_steps)
        metrics[f"test_error, {epochs}"] = error_percent(mean_weights(net, x_test), y_test)
        for estimator in ROWS:
            own = "n_draws_per_example" if estimator == "per example" else "n_draws"
            draws = []
            for _ in range(config[own]):
                order = torch.randperm(len(x), generator=generator, device=generator.device)
                rows = order[: config["rows"]]
                draws.append(gradient(net, x[rows], y[rows], estimator, len(x), generator))
            for layer, slopes in zip(("bottom", "top"), zip(*draws, strict=True), strict=True):
                name = f"{layer}, {estimator}, {epochs}"
                found = gradient_variance(torch.stack(slopes))
                metrics[name], metrics[f"{name}, standard error"] = found
    return TrialResult(metrics)


def make_network(config: dict, generator: Generator) -> Network:
    """Variational dropout of type B, one learned alpha a layer."""
    rates = (config["p_drop_input"], *[config["p_drop_hidden"]] * 3)
    layers = [VariationalDropout("B", init_p_drop=p_drop) for p_drop in rates]
    net = mlp((784, *[config["width"]] * 3, 10), layers).to(generator.device)
    return initialise(net, generator)


def gradient(
    net: Network, x: Tensor, y: Tensor, estimator: Estimator, n_train: int, generator: Generator
) -> tuple[Tensor, Tensor]:
    """One draw of the gradient of ``N/M sum_m -log p(y_m | x_m)``, first and last mean weights.

    The KL and its gradient are known exactly and vary in none of the estimators.
    """
    weights = (net[0].weight, net[-1].weight)
    size = _ROWS_AT_ONCE if estimator == "per example" else len(x)  # rows that share their noise
    parts = []
    for inputs, targets in zip(x.split(size), y.split(size), strict=True):
        outputs = noisy_outputs(net, inputs, estimator, generator)
        nll = cross_entropy(outputs, targets, reduction="sum") * n_train / len(x)
        parts.append(torch.autograd.grad(nll, weights))
    first, last = (torch.stack(slopes).sum(0) for slopes in zip(*parts, strict=True))
    return first, last


def published() -> np.ndarray:
    """Table 1 as printed: ``ROWS`` by ``COLUMNS``."""
    rows = published_by("estimator", "lrt_gradient_variance")
    names = [f"{layer}_layer_{epochs}_epochs" for layer, epochs in COLUMNS]
    return np.array([[rows[row][name] for name in names] for row in ROWS.values()])


def measured(record: Record, what: str = "") -> np.ndarray:
    """Our variances, or with ``", standard error"`` those, in the same places."""
    stops = [(layer, at) for layer in LAYERS for at in record["config"]["epochs"]]
    found = record["metrics"]
    return np.array([[found[f"{layer}, {e}, {at}{what}"] for layer, at in stops] for e in ROWS])


def table(records: list[Record]) -> str:
    """Ours for each seed beside the published, their ratios to the first row, and what differs."""
    config, printed, ours = records[0]["config"], published(), [*map(measured, records)]

    def cells(values: np.ndarray) -> list[str]:
        return [f"{value:.2g}" for value in values.T.ravel()]

    variances = {
        "layer": [layer for layer, _ in COLUMNS for _ in ROWS],
        "epochs": [epochs for _ in LAYERS for epochs in config["epochs"] for _ in ROWS],
        "estimator": [*ROWS.values()] * len(COLUMNS),
        "published": cells(printed),
        "published, times local": cells(printed / printed[0]),
    }
    seeds = {"seed": [record["seed"] for record in records]}
    for seed, record, values in zip(seeds["seed"], records, ours, strict=True):
        variances[f"seed {seed}"] = cells(values)
        variances[f"seed {seed}, standard error"] = cells(measured(record, ", standard error"))
        variances[f"seed {seed}, times local"] = cells(values / values[0])
    for epochs in config["epochs"]:
        errors = metric(records, f"test_error, {epochs}")
        seeds[f"test error after {epochs} epochs (%)"] = [f"{error:.2f}" for error in errors]
    seeds["columns in the published order"] = map(_in_order, ours)
    for layer, theirs, *growth in zip(LAYERS, *map(_growth, [printed, *ours]), strict=True):
        head = f"local, {layer} layer: later by earlier variance (published {theirs:.2g})"
        seeds[head] = [f"{times:.2g}" for times in growth]
    tables = [markdown.table_by_columns(variances), markdown.table_by_columns(seeds)]
    return "\n\n".join([*tables, _SET_UP.format_map(config).replace("\n", " ")])


def claims(records: list[Record]) -> list[Claim]:
    """The order of the estimators, and what training on does to the local one."""
    ours = [measured(record) for record in records]
    falls = np.array([*map(_growth, ours)])
    theirs, told = (
        ", ".join(f"{n} layer × {v:.2g}" for n, v in zip(LAYERS, growth, strict=True))
        for growth in (_growth(published()), falls.mean(0))
    )
    order = (
        "Gradients vary least without noise, then with local reparameterization, a weight sample "
        "per data point, one per minibatch"
    )
    falling = "From epoch 10 to 100 the variance of the local estimator falls"
    held, of = sum(map(_in_order, ours)), len(ours) * len(COLUMNS)
    how = f"MNIST, {len(records)} seeds, width and optimizer of the paper unknown; table 1"
    seen = f"{how}; columns and seeds", f"{how}; layers and seeds"
    return [
        Claim(order, "this order in all four columns", "this order", held, of, seen[0]),
        Claim(falling, theirs, told, (falls < 1).sum(), falls.size, seen[1]),
    ]


def figure(records: list[Record]) -> Figure:
    """Variances on a log axis, ours with two standard errors."""
    panels, names = {}, list(ROWS.values())
    for place, (layer, epochs) in enumerate(COLUMNS):
        ours, theirs = [], [*zip(names, published()[:, place], [0.0] * len(names), strict=True)]
        for record in records:
            bars = 2 * measured(record, ", standard error")[:, place]
            ours += zip(names, measured(record)[:, place], bars, strict=True)
        panels[f"{layer} layer, {epochs} epochs"] = ours, theirs
    return ours_and_published(names, panels, "variance; bars: two standard errors", scale="log")


def _growth(values: np.ndarray) -> np.ndarray:
    """What the local estimator's variance is multiplied by between the stops, for ``LAYERS``."""
    return values[0, 1::2] / values[0, ::2]


def _in_order(values: np.ndarray) -> int:
    """In how many columns the four stand in the published order."""
    return (np.diff(values[[3, 0, 1, 2]], axis=0) >= 0).all(0).sum()


_SET_UP = """\
Set-up: {width} units in each of three hidden layers, batches of {batch_size}, Adam at
{learning_rate:g} that starts again at the first stop, {n_train:,} training examples, one learned
alpha for each layer; measured over minibatches of {rows:,} rows without repeats, {n_draws} draws of
the gradient ({n_draws_per_example} with a weight sample per data point). Published: variational
dropout with independent noise and minibatches of 1,000; we do not know the width, the optimizer or
the parametrisation of alpha behind the printed numbers. The size of a variance depends on all of
these, so compare orders and ratios."""
TITLE = "Variance of gradient estimators (Kingma, Salimans and Welling 2015, table 1)"
EXPERIMENT = Experiment("gradient_variance", TITLE, trials, run, table, figure, claims)

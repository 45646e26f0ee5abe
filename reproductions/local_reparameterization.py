"""Kingma, Salimans and Welling (2015): the variance of four gradient estimators, and their speed.

Table 1: one network with three hidden layers of ReLU and independent weight noise is trained on
MNIST. After 10 and after 100 epochs it stands still, and the gradient of the N-scaled log
likelihood of 1000 rows is drawn again and again with each estimator. All share the network: a trial
is a seed. Speed: 1635 seconds an epoch with a separate weight sample for every row, 7.4 with local
reparameterization, which draws from the same distribution. Lesson 06.
"""

import multiprocessing
import resource
import sys
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from itertools import pairwise, product
from math import nan
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import torch
from matplotlib.figure import Figure
from torch import Generator, Tensor
from torch.nn.functional import cross_entropy
from torch.optim import Optimizer

from bdl_lessons.core import clock, device, seeded
from bdl_lessons.datasets.records import Record
from bdl_lessons.evaluation import error_percent, gradient_variance, noisy_outputs
from bdl_lessons.evaluation.stochastic_gradients import Estimator
from bdl_lessons.inference import adam
from bdl_lessons.models import BayesByBackprop, Network, VariationalDropoutB, initialise, mlp
from reproductions import markdown
from reproductions.experiment import Claim, Experiment, Trial, TrialResult
from reproductions.figures import ours_and_published
from reproductions.measure import ALL_OF_MNIST, digits, interleaved_times, mean_weights, train_by
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


def variance_trials(scale: str) -> list[Trial]:
    """One network for each seed."""
    if scale == "quick":
        return [Trial(_QUICK, seed=0)]
    return [Trial(_PAPER, seed) for seed in range(3)]


def measure_variance(trial: Trial) -> TrialResult:
    """Train, stop twice, and measure all four estimators each time.

    Metrics: ``<layer>, <estimator>, <epochs>``, the variance of the gradient for the mean weights
    of the first (``bottom``) or last (``top``) layer, averaged over the layer, and the same with
    ``standard error``; ``test_error, <epochs>`` of the mean weights in percent.
    """
    config = trial.config
    generator = seeded(trial.seed)
    x, y, x_test, y_test = digits(config, lambda images: images.flatten(1))
    net = make_network(config, generator)
    metrics = {}
    for done, epochs in pairwise([0, *config["epochs"]]):
        n_steps = (epochs - done) * (len(x) // config["batch_size"])
        train_by(config, net, x, y, generator, n_steps)
        metrics[f"test_error, {epochs}"] = error_percent(mean_weights(net, x_test), y_test)
        for estimator in ROWS:
            n_draws = "n_draws_per_example" if estimator == "per example" else "n_draws"
            draws = []
            for _ in range(config[n_draws]):
                order = torch.randperm(len(x), generator=generator, device=generator.device)
                rows = order[: config["rows"]]
                draws.append(gradient(net, x[rows], y[rows], estimator, len(x), generator))
            for layer, slopes in zip(("bottom", "top"), zip(*draws, strict=True), strict=True):
                name = f"{layer}, {estimator}, {epochs}"
                estimate = gradient_variance(torch.stack(slopes))
                metrics[name], metrics[f"{name}, standard error"] = estimate
    return TrialResult(metrics)


def make_network(config: dict, generator: Generator) -> Network:
    """Variational dropout of type B, one learned alpha a layer."""
    rates = (config["p_drop_input"], *[config["p_drop_hidden"]] * 3)
    methods = [partial(VariationalDropoutB, init_p_drop=p_drop) for p_drop in rates]
    net = mlp((784, *[config["width"]] * 3, 10), methods).to(generator.device)
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
    return tuple(torch.stack(slopes).sum(0) for slopes in zip(*parts, strict=True))


def published() -> np.ndarray:
    """Table 1 as printed: ``ROWS`` by ``COLUMNS``."""
    rows = published_by("estimator", "lrt_gradient_variance")
    names = [f"{layer}_layer_{epochs}_epochs" for layer, epochs in COLUMNS]
    return np.array([[rows[row][name] for name in names] for row in ROWS.values()])


def measured(record: Record, what: str = "") -> np.ndarray:
    """Our variances, or with ``", standard error"`` those, in the same places."""
    stops = [(layer, at) for layer in LAYERS for at in record["config"]["epochs"]]
    metrics = record["metrics"]
    return np.array([[metrics[f"{layer}, {e}, {at}{what}"] for layer, at in stops] for e in ROWS])


def variance_table(records: list[Record]) -> str:
    """Ours for each seed beside the published, their ratios to the first row, and what differs."""
    config = records[0]["config"]
    printed = published()
    ours = [*map(measured, records)]

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
    return "\n\n".join([*tables, _VARIANCE_NOTE.format_map(config).replace("\n", " ")])


def variance_claims(records: list[Record]) -> list[Claim]:
    """The order of the estimators, and what training on does to the local one."""
    ours = [measured(record) for record in records]
    falls = np.array([*map(_growth, ours)])
    theirs, ours_fall = (
        ", ".join(f"{n} layer × {v:.2g}" for n, v in zip(LAYERS, growth, strict=True))
        for growth in (_growth(published()), falls.mean(0))
    )
    order = (
        "Gradients vary least without noise, then with local reparameterization, a weight sample "
        "per data point, one per minibatch"
    )
    falling = "From epoch 10 to 100 the variance of the local estimator falls"
    held = sum(map(_in_order, ours))
    of = len(ours) * len(COLUMNS)
    condition = f"MNIST, {len(records)} seeds, width and optimizer of the paper unknown"
    seen = (
        f"{condition}; points in columns and seeds",
        f"{condition}; layers and seeds; above 1 it rises",
    )
    return [
        Claim(order, "this order in all four columns", "this order", held, of, seen[0]),
        Claim(falling, theirs, ours_fall, (falls < 1).sum(), falls.size, seen[1]),
    ]


def variance_figure(records: list[Record]) -> Figure:
    """Variances on a log axis, ours with two standard errors."""
    panels = {}
    names = list(ROWS.values())
    values = [(measured(record), 2 * measured(record, ", standard error")) for record in records]
    for place, (layer, epochs) in enumerate(COLUMNS):
        theirs = [(name, row[place], 0) for name, row in zip(names, published(), strict=True)]
        ours = [(n, v[i, place], e[i, place]) for v, e in values for i, n in enumerate(names)]
        panels[f"{layer} layer, {epochs} epochs"] = ours, theirs
    return ours_and_published(names, panels, "variance; bars: two standard errors", scale="log")


def _growth(values: np.ndarray) -> np.ndarray:
    """What the local estimator's variance is multiplied by between the stops, for ``LAYERS``."""
    return values[0, 1::2] / values[0, ::2]


def _in_order(values: np.ndarray) -> int:
    """In how many columns the four stand in the published order."""
    return (np.diff(values[[3, 0, 1, 2]], axis=0) >= 0).all(0).sum()


_VARIANCE_NOTE = """\
Set-up: {width} units in each of three hidden layers, batches of {batch_size}, Adam at
{learning_rate:g} that starts again at the first stop, {n_train:,} training examples, one learned
alpha for each layer; measured over minibatches of {rows:,} rows without repeats, {n_draws} draws of
the gradient ({n_draws_per_example} with a weight sample per data point). Published: variational
dropout with independent noise and minibatches of 1,000; we do not know the width, the optimizer or
the parametrisation of alpha behind the printed numbers. The size of a variance depends on all of
these, so compare orders and ratios."""


_SPEED = {"n_train": 60_000, "width": 500, "batch_size": 100}
_BRIEF = {"n_train": 100, "width": 8, "batch_size": 20, "rows_at_once": 20, "timed_batches": 3}


def speed_trials(scale: str) -> list[Trial]:
    """One for each estimator; the slow one with fewer batches, and fewer rows at once."""
    plans = {"per example": (5, 25), "local": (50, 100), "per minibatch": (50, 100)}
    planned = []
    for estimator, (n_batches, n_rows) in plans.items():
        config = {"estimator": estimator, "timed_batches": n_batches, "rows_at_once": n_rows}
        planned.append(Trial({**_SPEED, **config, **(_BRIEF if scale == "quick" else {})}, seed=0))
    return planned


def measure_speed(trial: Trial) -> TrialResult:
    """Train for some minibatches in a fresh process.

    Metrics: ``seconds_per_epoch``, of processor time (on CUDA: of wall time), extrapolated from the
    array ``seconds``; ``peak_mib``, the highest memory of the process (on CUDA: of the allocator)
    above what it held before it trained.
    """
    spawn = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(1, spawn) as fresh:
        future = fresh.submit(_train, dict(trial.config), trial.seed, torch.get_num_threads())
        seconds, peak_bytes = future.result()
    n_batches = trial.config["n_train"] / trial.config["batch_size"]
    return TrialResult(
        {"seconds_per_epoch": median(seconds) * n_batches, "peak_mib": peak_bytes / 2**20},
        {"seconds": [round(value, 5) for value in seconds]},
    )


def _rows(records: list[Record]) -> list[dict[str, Any]]:
    """Each estimator's seconds an epoch, ours and published, and both over those of local."""
    printed = published_by("estimator", "lrt_seconds_per_epoch")
    theirs = {name: row["seconds_per_epoch"] for name, row in printed.items()}
    ours = {ROWS[r["config"]["estimator"]]: r["metrics"]["seconds_per_epoch"] for r in records}
    rows = [{**record, "name": name} for record, name in zip(records, ours, strict=True)]
    for row, (who, seconds) in product(rows, (("ours", ours), ("published", theirs))):
        row[who] = seconds.get(row["name"], nan)
        row[f"{who}, times"] = row[who] / seconds.get(ROWS["local"], nan)
    return rows


def speed_table(records: list[Record]) -> str:
    """Seconds and their ratio to local reparameterization, beside the published ones; memory."""
    columns = {
        "estimator": "{name}",
        "seconds an epoch": "{ours:,.1f}",
        "times local": "{ours, times:.3g}",
        "published seconds": "{published:g}",
        "published, times local": "{published, times:.3g}",
        "peak memory (MiB)": "{metrics[peak_mib]:.0f}",
        "rows at once": "{config[rows_at_once]}",
        "batches timed": "{config[timed_batches]}",
    }
    config = records[0]["config"]
    shown = markdown.table_of(_rows(records), columns)
    n_batches = config["n_train"] // config["batch_size"]
    return f"{shown}\n\n{_SPEED_NOTE.format(**config, n_batches=n_batches)}"


def speed_claims(records: list[Record]) -> list[Claim]:
    """How much longer an epoch takes with a weight sample for each row."""
    rows = {row["name"]: row for row in _rows(records)}
    if not {ROWS["per example"], ROWS["local"]} <= rows.keys():
        return []
    slow = rows[ROWS["per example"]]
    return [
        Claim(
            "An epoch with a weight sample per data point takes hundreds of times as long as one "
            "with local reparameterization",
            f"{slow['published, times']:.0f} times",
            f"{slow['ours, times']:.0f} times",
            int(slow["ours, times"] > 100),
            1,
            f"on {records[0]['device']}; published on a GPU of 2015",
        )
    ]


def speed_figure(records: list[Record]) -> Figure:
    """Seconds an epoch and memory on a log axis."""
    rows = _rows(records)
    memory = [(row["name"], row["metrics"]["peak_mib"], 0) for row in rows]
    ours, theirs = ([(row["name"], row[who], 0) for row in rows] for who in ("ours", "published"))
    panels = {"Seconds an epoch": (ours, theirs), "Peak memory (MiB)": (memory, [])}
    return ours_and_published([row["name"] for row in rows], panels, scale="log")


def _train(config: dict, seed: int, n_threads: int) -> tuple[list[float], int]:
    torch.set_num_threads(n_threads)
    on = device()
    generator = seeded(seed)
    widths = (784, *[config["width"]] * 3, 10)
    net = initialise(mlp(widths, BayesByBackprop).to(on), generator)
    stepper = adam(1e-3)(net.parameters())
    x = torch.rand(config["batch_size"], 784, generator=generator, device=on)
    y = torch.randint(10, (len(x),), generator=generator, device=on)
    step = partial(_step, net, x, y, stepper, config, generator)
    before = _peak_bytes(on)
    times = interleaved_times({"step": step}, config["timed_batches"], 2, partial(clock, on))
    return times["step"], _peak_bytes(on) - before


def _step(
    net: Network, x: Tensor, y: Tensor, stepper: Optimizer, config: dict, generator: Generator
) -> None:
    """Of a minibatch in pieces of ``rows_at_once``."""
    stepper.zero_grad(set_to_none=True)
    pieces = zip(x.split(config["rows_at_once"]), y.split(config["rows_at_once"]), strict=True)
    for inputs, targets in pieces:
        outputs = noisy_outputs(net, inputs, config["estimator"], generator)
        (cross_entropy(outputs, targets, reduction="sum") / len(x)).backward()
    (net.kl() / config["n_train"]).backward()
    stepper.step()


def _peak_bytes(on: torch.device) -> int:
    if on.type == "cuda":
        return torch.cuda.max_memory_allocated(on)
    status = Path("/proc/self/status")
    if status.exists():  # ru_maxrss would also count the process that started this one
        lines = status.read_text().splitlines()
        return 1024 * next(int(line.split()[1]) for line in lines if line.startswith("VmHWM"))
    unit = 1 if sys.platform == "darwin" else 1024
    return unit * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


_SPEED_NOTE = (
    "Ours: three hidden layers of {width} units, batches of {batch_size}, the gradient of "
    "likelihood and KL and an Adam step. Seconds of an epoch are the median of the timed batches "
    "times {n_batches}; on a CPU they are processor time. Each estimator has a process of its own; "
    "memory is the process's highest, less what it held before the first step; with a weight "
    "sample per data point a minibatch is taken in pieces. Published: Theano on a GPU of 2015, and "
    "a network whose width we do not know."
)
VARIANCE = Experiment(
    "gradient_variance",
    "Variance of gradient estimators (Kingma, Salimans and Welling 2015, table 1)",
    variance_trials,
    measure_variance,
    variance_table,
    variance_figure,
    variance_claims,
)
SPEED = Experiment(
    "lrt_speed",
    "What a weight sample for each row costs (Kingma, Salimans and Welling 2015)",
    speed_trials,
    measure_speed,
    speed_table,
    speed_figure,
    speed_claims,
)

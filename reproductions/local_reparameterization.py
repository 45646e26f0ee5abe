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
from itertools import pairwise
from math import nan
from pathlib import Path
from statistics import median

import numpy as np
import pandas as pd
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

_PAPER = {
    **ALL_OF_MNIST,
    "width": 256,
    "batch_size": 200,
    "learning_rate": 1e-3,
    "p_drop_input": 0.2,
    "p_drop_hidden": 0.5,
    "epochs": [10, 100],
    "rows": 1000,
    "n_draws": 100,
    "n_draws_per_example": 16,
}
_QUICK = {
    **_PAPER,
    "n_train": 400,
    "n_test": 50,
    "width": 16,
    "epochs": [1, 2],
    "rows": 40,
    "n_draws": 6,
    "n_draws_per_example": 4,
}
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
        train_by(config, net, x, y, generator=generator, n_steps=n_steps)
        metrics[f"test_error, {epochs}"] = error_percent(mean_weights(net, x_test), y_test)
        for estimator in ROWS:
            bottom, top = gradients(net, x, y, estimator, config, generator)
            for layer, draws in (("bottom", bottom), ("top", top)):
                name = f"{layer}, {estimator}, {epochs}"
                variance, standard_error = gradient_variance(draws)
                metrics[name] = variance
                metrics[f"{name}, standard error"] = standard_error
    return TrialResult(metrics)


def make_network(config: dict, generator: Generator) -> Network:
    """Variational dropout of type B, one learned alpha a layer."""
    width = config["width"]
    on_pixels = partial(VariationalDropoutB, init_p_drop=config["p_drop_input"])
    on_hidden = partial(VariationalDropoutB, init_p_drop=config["p_drop_hidden"])
    methods = [on_pixels, on_hidden, on_hidden, on_hidden]
    net = mlp((784, width, width, width, 10), methods)
    return initialise(net.to(generator.device), generator)


def gradients(
    net: Network,
    x: Tensor,
    y: Tensor,
    estimator: Estimator,
    config: dict,
    generator: Generator,
) -> tuple[Tensor, Tensor]:
    """Draws of the gradient, each on other rows, for the first and the last mean weights.

    ``(n_draws, L, K)`` of each of the two layers.
    """
    n_draws = config["n_draws_per_example" if estimator == "per example" else "n_draws"]
    bottom = []
    top = []
    for _ in range(n_draws):
        order = torch.randperm(len(x), generator=generator, device=generator.device)
        rows = order[: config["rows"]]
        of_first, of_last = gradient(net, x[rows], y[rows], estimator, len(x), generator)
        bottom.append(of_first)
        top.append(of_last)
    return torch.stack(bottom), torch.stack(top)


def gradient(
    net: Network, x: Tensor, y: Tensor, estimator: Estimator, n_train: int, generator: Generator
) -> tuple[Tensor, Tensor]:
    """One draw of the gradient of ``N/M sum_m -log p(y_m | x_m)``, first and last mean weights.

    The KL and its gradient are known exactly and vary in none of the estimators.
    """
    weights = (net[0].weight, net[-1].weight)
    n_rows = _ROWS_AT_ONCE if estimator == "per example" else len(x)
    of_first = []
    of_last = []
    for inputs, targets in zip(x.split(n_rows), y.split(n_rows), strict=True):
        outputs = noisy_outputs(net, inputs, estimator, generator)
        nll = cross_entropy(outputs, targets, reduction="sum") * n_train / len(x)
        first, last = torch.autograd.grad(nll, weights)
        of_first.append(first)
        of_last.append(last)
    return torch.stack(of_first).sum(0), torch.stack(of_last).sum(0)


def published() -> np.ndarray:
    """Table 1 as printed: ``ROWS`` by ``COLUMNS``."""
    rows = published_by("estimator", "lrt_gradient_variance")
    columns = [f"{layer}_layer_{epochs}_epochs" for layer, epochs in COLUMNS]
    return np.array([[rows[name][column] for column in columns] for name in ROWS.values()])


def measured(record: Record, suffix: str = "") -> np.ndarray:
    """Our variances in the same places; with ``", standard error"`` as suffix their errors."""
    metrics = record["metrics"]
    rows = []
    for estimator in ROWS:
        row = []
        for layer in LAYERS:
            for epochs in record["config"]["epochs"]:
                row.append(metrics[f"{layer}, {estimator}, {epochs}{suffix}"])
        rows.append(row)
    return np.array(rows)


def variance_table(records: list[Record]) -> str:
    """Ours for each seed beside the published, their ratios to the first row, and what differs."""
    note = _VARIANCE_NOTE.format_map(records[0]["config"]).replace("\n", " ")
    return "\n\n".join(
        [
            markdown.frame_table(_variances(records)),
            markdown.frame_table(_by_seed(records)),
            note,
        ]
    )


def _variances(records: list[Record]) -> pd.DataFrame:
    """A row for each layer, stop and estimator; columns for the published ones and each seed."""
    config = records[0]["config"]
    printed = published()
    places = [
        (layer, epochs, name)
        for layer in LAYERS
        for epochs in config["epochs"]
        for name in ROWS.values()
    ]
    shown = pd.DataFrame(places, columns=["layer", "epochs", "estimator"])
    shown["published"] = _cells(printed)
    shown["published, times local"] = _cells(printed / printed[0])
    for record in records:
        seed = record["seed"]
        values = measured(record)
        errors = measured(record, ", standard error")
        shown[f"seed {seed}"] = _cells(values)
        shown[f"seed {seed}, standard error"] = _cells(errors)
        shown[f"seed {seed}, times local"] = _cells(values / values[0])
    return shown


def _cells(values: np.ndarray) -> list[str]:
    """Of ``ROWS`` by ``COLUMNS``, column by column."""
    return [f"{value:.2g}" for value in values.T.ravel()]


def _by_seed(records: list[Record]) -> pd.DataFrame:
    """A row for each seed: its test errors, the order of its estimators, what training on does."""
    shown = pd.DataFrame({"seed": [record["seed"] for record in records]})
    for epochs in records[0]["config"]["epochs"]:
        errors = metric(records, f"test_error, {epochs}")
        shown[f"test error after {epochs} epochs (%)"] = [f"{error:.2f}" for error in errors]
    ours = [measured(record) for record in records]
    shown["columns in the published order"] = [_in_order(values) for values in ours]
    for k, layer in enumerate(LAYERS):
        theirs = _growth(published())[k]
        head = f"local, {layer} layer: later by earlier variance (published {theirs:.2g})"
        shown[head] = [f"{_growth(values)[k]:.2g}" for values in ours]
    return shown


def variance_claims(records: list[Record]) -> list[Claim]:
    """The order of the estimators, and what training on does to the local one."""
    ours = [measured(record) for record in records]
    growth = np.array([_growth(values) for values in ours])
    condition = f"MNIST, {len(records)} seeds, width and optimizer of the paper unknown"
    return [
        Claim(
            statement=(
                "Gradients vary least without noise, then with local reparameterization, a weight "
                "sample per data point, one per minibatch"
            ),
            published="this order in all four columns",
            ours="this order",
            holds=sum(_in_order(values) for values in ours),
            of=len(ours) * len(COLUMNS),
            condition=f"{condition}; points in columns and seeds",
        ),
        Claim(
            statement="From epoch 10 to 100 the variance of the local estimator falls",
            published=_by_layer(_growth(published())),
            ours=_by_layer(growth.mean(0)),
            holds=(growth < 1).sum(),
            of=growth.size,
            condition=f"{condition}; layers and seeds; above 1 it rises",
        ),
    ]


def _by_layer(growth: np.ndarray) -> str:
    """Factors, each with the name of its layer."""
    return ", ".join(
        f"{layer} layer × {factor:.2g}" for layer, factor in zip(LAYERS, growth, strict=True)
    )


def variance_figure(records: list[Record]) -> Figure:
    """Variances on a log axis, ours with two standard errors."""
    names = list(ROWS.values())
    printed = published()
    panels = {}
    for column, (layer, epochs) in enumerate(COLUMNS):
        theirs = [(name, printed[row, column], 0) for row, name in enumerate(names)]
        ours = []
        for record in records:
            values = measured(record)[:, column]
            bars = 2 * measured(record, ", standard error")[:, column]
            ours += zip(names, values, bars, strict=True)
        panels[f"{layer} layer, {epochs} epochs"] = (ours, theirs)
    return ours_and_published(names, panels, "variance; bars: two standard errors", scale="log")


def _growth(values: np.ndarray) -> np.ndarray:
    """What the local estimator's variance is multiplied by between the stops, for ``LAYERS``."""
    local = values[0]
    earlier = local[::2]
    later = local[1::2]
    return later / earlier


def _in_order(values: np.ndarray) -> int:
    """In how many columns the four stand in the published order."""
    local, per_example, per_minibatch, no_noise = values
    in_published_order = np.stack([no_noise, local, per_example, per_minibatch])
    does_not_fall = np.diff(in_published_order, axis=0) >= 0
    return does_not_fall.all(0).sum()


_VARIANCE_NOTE = """\
Set-up: {width} units in each of three hidden layers, batches of {batch_size}, Adam at
{learning_rate:g} that starts again at the first stop, {n_train:,} training examples, one learned
alpha for each layer; measured over minibatches of {rows:,} rows without repeats, {n_draws} draws of
the gradient ({n_draws_per_example} with a weight sample per data point). Published: variational
dropout with independent noise and minibatches of 1,000; we do not know the width, the optimizer or
the parametrisation of alpha behind the printed numbers. The size of a variance depends on all of
these, so compare orders and ratios."""


_SPEED = {
    "n_train": 60_000,
    "width": 500,
    "batch_size": 100,
}
_BRIEF = {
    "n_train": 100,
    "width": 8,
    "batch_size": 20,
    "rows_at_once": 20,
    "timed_batches": 3,
}


def speed_trials(scale: str) -> list[Trial]:
    """One for each estimator; the slow one with fewer batches, and fewer rows at once."""
    plans = {"per example": (5, 25), "local": (50, 100), "per minibatch": (50, 100)}
    planned = []
    for estimator, (n_batches, n_rows) in plans.items():
        config = {
            **_SPEED,
            "estimator": estimator,
            "timed_batches": n_batches,
            "rows_at_once": n_rows,
        }
        if scale == "quick":
            config.update(_BRIEF)
        planned.append(Trial(config, seed=0))
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


def _speeds(records: list[Record]) -> pd.DataFrame:
    """A row for each estimator: seconds of an epoch, ours and published, and over those of local.

    What is not there, because it is not published or not recorded, is not a number.
    """
    printed = published_by("estimator", "lrt_seconds_per_epoch")
    runs = pd.json_normalize(records)
    speeds = pd.DataFrame(
        {
            "name": runs["config.estimator"].map(ROWS),
            "ours": runs["metrics.seconds_per_epoch"],
            "peak_mib": runs["metrics.peak_mib"],
            "rows_at_once": runs["config.rows_at_once"],
            "timed_batches": runs["config.timed_batches"],
        }
    )
    speeds["published"] = [
        printed[name]["seconds_per_epoch"] if name in printed else nan for name in speeds["name"]
    ]
    local = speeds[speeds["name"] == ROWS["local"]]
    for source in ("ours", "published"):
        of_local = local[source].iloc[0] if len(local) else nan
        speeds[f"{source}, times local"] = speeds[source] / of_local
    return speeds


def speed_table(records: list[Record]) -> str:
    """Seconds and their ratio to local reparameterization, beside the published ones; memory."""
    speeds = _speeds(records)
    shown = pd.DataFrame(
        {
            "estimator": speeds["name"],
            "seconds an epoch": speeds["ours"].map("{:,.1f}".format),
            "times local": speeds["ours, times local"].map("{:.3g}".format),
            "published seconds": speeds["published"].map("{:g}".format),
            "published, times local": speeds["published, times local"].map("{:.3g}".format),
            "peak memory (MiB)": speeds["peak_mib"].map("{:.0f}".format),
            "rows at once": speeds["rows_at_once"],
            "batches timed": speeds["timed_batches"],
        }
    )
    config = records[0]["config"]
    n_batches = config["n_train"] // config["batch_size"]
    note = _SPEED_NOTE.format(
        width=config["width"], batch_size=config["batch_size"], n_batches=n_batches
    )
    return f"{markdown.frame_table(shown)}\n\n{note}"


def speed_claims(records: list[Record]) -> list[Claim]:
    """How much longer an epoch takes with a weight sample for each row."""
    speeds = _speeds(records).set_index("name")
    slow = ROWS["per example"]
    if slow not in speeds.index or ROWS["local"] not in speeds.index:
        return []
    ours = speeds.loc[slow, "ours, times local"]
    theirs = speeds.loc[slow, "published, times local"]
    return [
        Claim(
            statement=(
                "An epoch with a weight sample per data point takes hundreds of times as long as "
                "one with local reparameterization"
            ),
            published=f"{theirs:.0f} times",
            ours=f"{ours:.0f} times",
            holds=int(ours > 100),
            of=1,
            condition=f"on {records[0]['device']}; published on a GPU of 2015",
        )
    ]


def speed_figure(records: list[Record]) -> Figure:
    """Seconds an epoch and memory on a log axis."""
    speeds = _speeds(records)

    def dots(column: str) -> list[tuple[str, float, float]]:
        return [
            (name, value, 0) for name, value in zip(speeds["name"], speeds[column], strict=True)
        ]

    panels = {
        "Seconds an epoch": (dots("ours"), dots("published")),
        "Peak memory (MiB)": (dots("peak_mib"), []),
    }
    return ours_and_published(list(speeds["name"]), panels, scale="log")


def _train(config: dict, seed: int, n_threads: int) -> tuple[list[float], int]:
    """Seconds of each timed step, and the bytes that training added to the highest memory."""
    torch.set_num_threads(n_threads)
    on = device()
    generator = seeded(seed)
    width = config["width"]
    net = mlp((784, width, width, width, 10), BayesByBackprop)
    initialise(net.to(on), generator)
    optimizer = adam(1e-3)(net.parameters())
    x = torch.rand(config["batch_size"], 784, generator=generator, device=on)
    y = torch.randint(10, (len(x),), generator=generator, device=on)
    step = partial(_step, net, x, y, optimizer, config, generator)
    bytes_before = _peak_bytes(on)
    times = interleaved_times(
        {"step": step},
        n_rounds=config["timed_batches"],
        warm_up=2,
        clock=partial(clock, on),
    )
    return times["step"], _peak_bytes(on) - bytes_before


def _step(
    net: Network, x: Tensor, y: Tensor, optimizer: Optimizer, config: dict, generator: Generator
) -> None:
    """A step on a minibatch, which is taken in pieces of ``rows_at_once``."""
    optimizer.zero_grad(set_to_none=True)
    n_rows = config["rows_at_once"]
    for inputs, targets in zip(x.split(n_rows), y.split(n_rows), strict=True):
        outputs = noisy_outputs(net, inputs, config["estimator"], generator)
        nll = cross_entropy(outputs, targets, reduction="sum") / len(x)
        nll.backward()
    kl = net.kl() / config["n_train"]
    kl.backward()
    optimizer.step()


def _peak_bytes(on: torch.device) -> int:
    """The highest memory so far: of the allocator on CUDA, else of this process."""
    if on.type == "cuda":
        return torch.cuda.max_memory_allocated(on)
    status = Path("/proc/self/status")
    if status.exists():  # ru_maxrss would also count the process that started this one
        for line in status.read_text().splitlines():
            if line.startswith("VmHWM"):
                _, kilobytes, _ = line.split()
                return 1024 * int(kilobytes)
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

"""What every experiment keeps, whatever it measures: a row for each.

1. Other test rows change no training input and no choice.
2. A network sees test rows on the scale of the training rows, as often as the trial says.
3. Every method is trained with its own sampling mode, KL weight and learning rate.
4. What is recorded is its definition, computed again from the outputs of the networks.
"""

import math
from functools import partial

import numpy as np
import pytest
import torch

from bdl_lessons import datasets, evaluation
from reproductions import (
    Trial,
    cifar_dropout_curves,
    local_reparameterization,
    mc_dropout,
    mnist_dropout_curves,
    sparse_lenet,
)
from reproductions.datasets import splits
from reproductions.images import classification, colour
from reproductions.uci import shift
from reproductions.uci.experiment import METHODS
from reproductions.uci.experiment import trials as uci_trials

from .contracts import N_ROWS, Row, pictures, yachts

# ----------------------------------------------------------------------------- regression on UCI
N_SPLITS = 3


def uci_trial(method):
    config = next(t.config for t in uci_trials("paper") if t.config["method"] == method)
    sizes = {"n_splits": N_SPLITS, "n_hidden": 4, "batch_size": 8, "n_steps": 16, "n_samples": 4}
    points = METHODS[method].uci_grid
    grid = [dict(point) for point in points[:: max(1, len(points) - 1)]]  # the ends
    return Trial({**config, **sizes, "n_samples_val": 3, "data": "yacht", "grid": grid}, seed=0)


def uci_plan(trial, result):
    """The grid for every split on 29 rows, and what was chosen on 36."""
    grid = trial.config["grid"]
    method = trial.config["method"]
    chosen = [grid[point]["kl_weight"] for point in result.arrays["point"]]
    plans = _uci_plan(method, [point["kl_weight"] for point in grid for _ in range(N_SPLITS)], 3)
    return plans + _uci_plan(method, chosen, 4)


def _uci_plan(method, weights, steps_an_epoch):
    if method == "SLANG":
        return [({"mean"}, weights, _cosine(0.03, 16)), ({"shared"}, 1.0, 0.02)]
    if method == "SWAG":
        n_more = 16 // steps_an_epoch * steps_an_epoch
        return [({"mean"}, weights, [*_cosine(0.03, 16), *[0.05] * n_more])]
    sampling = "shared" if method == "BBB" else "per_example"
    return [({sampling}, weights * (5 if method == "D.E" else 1), _cosine(0.03, 16))]


def _cosine(rate, n_steps):
    return [rate * (1 + math.cos(math.pi * t / n_steps)) / 2 for t in range(n_steps)]


def _falling(rate, n_epochs, collect_from, steps_an_epoch):
    """Of SWAG: a straight line from 1 at half of ``collect_from`` to 0.2 at 0.9 of it."""
    factors = [np.interp(e / collect_from, [0.5, 0.9], [1, 0.2]) for e in range(n_epochs)]
    return rate * np.repeat(factors, steps_an_epoch)


def uci_record(trial, result, seen):
    metrics = {}
    for name in ("rmse", "log_likelihood", "log_likelihood_grid_tau"):
        values = result.arrays[name]
        metrics[name] = np.mean(values)
        metrics[f"{name}_error"] = np.std(values, ddof=1) / math.sqrt(N_SPLITS)
    outputs = seen.outputs[-1].squeeze(-1).double()  # at the standardised test rows
    y = yachts(False).y
    rmse = []
    likelihood = []
    for split, (train, test) in enumerate(splits(N_ROWS, N_SPLITS)):
        draws = outputs[:, split::N_SPLITS].reshape(-1, len(test), 1)  # of each of its networks
        draws = y[train].mean() + y[train].std(correction=0) * draws
        rmse.append(evaluation.rmse(draws.mean(0), y[test, None]))
        tau = result.arrays["tau"][split]
        densities = torch.distributions.Normal(draws, tau**-0.5).log_prob(y[test, None])
        likelihood.append((densities.logsumexp(0) - math.log(len(draws))).mean())
    return metrics, {"rmse": rmse, "log_likelihood": likelihood}


N_STARTS = 2


def shift_trial(method, **options):
    sizes = {"n_splits": N_SPLITS, "n_hidden": 4, "batch_size": 8, "n_steps": 16, "n_samples": 4}
    sizes |= {"learning_rate": 0.03, "n_samples_val": 3}
    return shift.equal_trial("yacht", method, n_starts=N_STARTS, sizes=sizes, **options)


def shift_plan(trial, result):
    """Each weight for every start and split, on 80 % of the rows and on all."""
    n_copies = trial.config["n_starts"] * trial.config["n_splits"]
    weights = [weight for weight in shift.KL_WEIGHTS for _ in range(n_copies)]
    return 2 * _uci_plan(trial.config["method"], weights, 3)


def shift_record(trial, result, seen):
    """From outputs at the given and the permuted rows of each member; those of networks with
    correlations are followed by those without."""
    config = trial.config
    has_correlations = config["method"] not in ("VSD, T = 0", "D.E")
    n_members = 2 * N_STARTS * N_SPLITS
    arrays = {}
    for name, outputs in {
        "": seen.outputs[-1 - has_correlations],
        "cut/": seen.outputs[-1],
    }.items():
        if name and not has_correlations:
            continue
        y = yachts(False).y
        rows = {"log_likelihood": [], "auroc/permuted": [], "ratio/swapped": []}
        for member in range(n_members):
            train, test = splits(N_ROWS, N_SPLITS)[member % N_SPLITS]
            train = train[:30] if config["train_share"] < 1 else train
            draws = outputs.squeeze(-1).double()[:, member::n_members].reshape(-1, 3, len(test))
            draws = y[train].mean() + y[train].std(correction=0) * draws
            tau = np.ravel(result.arrays["tau"])[member]
            log_p = torch.distributions.Normal(draws[:, 0], tau**-0.5).log_prob(y[test])
            rows["log_likelihood"].append((log_p.logsumexp(0) - math.log(len(draws))).mean())
            (given, permuted, swapped) = draws.std(0, correction=0)
            pairs = [0.5 if a == b else float(a > b) for a in permuted for b in given]
            rows["auroc/permuted"].append(np.mean(pairs))
            rows["ratio/swapped"].append(swapped.mean() / given.mean())
        shape = (2, N_STARTS, N_SPLITS)
        arrays |= {name + score: np.reshape(values, shape) for score, values in rows.items()}
    metrics = {}
    for score, values in arrays.items():
        for weight, of_weight in zip(shift.KL_WEIGHTS, values, strict=True):
            metrics[f"{weight:g}/{score}"] = of_weight.mean()
    return metrics, arrays


# ---------------------------------------------------------------------------------------- images
IMAGES = {"n_train": 96, "n_test": 40, "n_val": 32, "batch_size": 32, "epochs": 3}
IMAGES |= {"warm_up_epochs": 2, "n_draws_per_epoch": 2, "n_val_samples": 2, "n_samples": 3}
IMAGES |= {"swag_epochs": 2, "slang_epochs": 1}
PER_EPOCH = 2  # batches of 32 in the 64 images that are not for validation


def image_trial(config, method):
    networks = {"n_networks": 2} if method == "D.E" else {}
    return Trial({**config, **IMAGES, **networks}, seed=0)


def colour_settings(method):
    return {**colour._PUBLISHED_SIZE, **colour.SETTINGS[method]}


def image_plan(trial, result):
    config = trial.config
    method = trial.config["method"]
    n_steps = config["epochs"] * PER_EPOCH
    weight = 1.0 if method == "SLANG" else config["kl_weight"]
    weights = [weight * min(1, step / (2 * PER_EPOCH)) for step in range(n_steps)]
    rates = [config["learning_rate"]] * n_steps
    if "patience" not in config:
        rates = [rate * (1 - step / n_steps) for step, rate in enumerate(rates)]
    sampling = {"shared"} if method == "BBB" else {"per_example"}
    if method == "SWAG" and "patience" not in config:  # by descent with momentum from the start
        return [({"mean"}, config["kl_weight"], _falling(config["learning_rate"], 5, 3, PER_EPOCH))]
    if method == "SWAG":
        weights += [config["kl_weight"]] * (2 * PER_EPOCH)
        rates += [config["swag_lr"]] * (2 * PER_EPOCH)
        sampling = {"per_example", "mean"}
    if method == "SLANG":
        weights += [config["kl_weight"]] * PER_EPOCH
        rates += [config["slang_lr"]] * PER_EPOCH
        sampling = {"per_example", "shared"}
    return [(sampling, [[w] for w in weights], rates)] * config.get("n_networks", 1)


def image_record(trial, result, seen):
    """From the last outputs, for held-out, test and other images, and those of the epochs."""
    config = trial.config
    method = trial.config["method"]
    n_networks = config.get("n_networks", 1)
    n_calls = n_networks if method in ("MAP", "D.E") else 1
    sets = ["held out", config["data"], *config["ood"]]
    last = seen.outputs[-n_calls * len(sets) :]
    log_probs = {}
    for k, name in enumerate(sets):
        outputs = last[k * n_calls : (k + 1) * n_calls]
        outputs = torch.stack(outputs) if method in ("MAP", "D.E") else outputs[0]
        log_probs[name] = evaluation.log_mean_probs(outputs.double())
    labels = torch.arange(96 + 40) % 10
    held_out = labels[64:96]
    test = labels[96:]
    ours = log_probs[config["data"]]
    metrics = {
        "val_nll": evaluation.nll(log_probs["held out"], held_out),
        "nll": evaluation.nll(ours, test),
        "accuracy_percent": 100 * evaluation.accuracy(ours.exp(), test),
        "ece": evaluation.ece(ours.exp(), test),
    }
    for name in config["ood"]:
        scores = {"max softmax": lambda log_p: log_p.max(1).values}
        scores["entropy"] = lambda log_p: (log_p.exp() * log_p).sum(1)
        for score, of in scores.items():
            found = evaluation.ood_metrics(of(ours), of(log_probs[name])).auroc
            metrics[f"{name}/{score}/auroc"] = found
    arrays = {f"entropy/{name}": _counts(evaluation.entropy(log_probs[name])) for name in sets[1:]}
    if "patience" in config:
        each = seen.outputs[: n_networks * config["epochs"]]
        curve = [evaluation.nll(evaluation.log_mean_probs(o.double()), held_out) for o in each]
        arrays["val_nll"] = np.reshape(curve, (n_networks, config["epochs"]))
        best = 1 + arrays["val_nll"].argmin(1).mean()
        metrics |= {"epochs": 3, "no_better": 0, "best_epoch": best}
    return metrics, arrays


def _counts(entropies):
    return np.histogram(entropies, 20, (0, math.log(10)))[0]


# ------------------------------------------------------------------------- curves of dropout rates
def curve_plan(trial, result):
    """Learned noise has its KL, fixed noise has none; the rate falls to 0 in a line."""
    config = trial.config
    n_steps = config["n_epochs"] * (config["n_train"] // config["batch_size"])
    weight = 1.0 if config["method"].startswith("variational") else 0.0
    return [({"per_example"}, weight, [0.002 * (1 - t / n_steps) for t in range(n_steps)])]


def curve_record(trial, result, seen):
    """From the outputs of the mean weights, for test images and, of CIFAR, training images."""
    config = trial.config
    labels = torch.arange(config["n_train"] + config["n_test"]) % 10
    parts = [labels[config["n_train"] :], labels[: config["n_train"]]]
    wrong = [(out.argmax(1) != y).numpy() for out, y in zip(seen.outputs, parts, strict=False)]
    names = ["error", "train_error"][: len(wrong)]
    metrics = {name: 100 * part.mean() for name, part in zip(names, wrong, strict=True)}
    return metrics, {"wrong": np.packbits(wrong[0])} if "wrong" in result.arrays else {}


# ---------------------------------------------------------------------------------- other digits
def rotated_plan(trial, result):
    rates = [0.01 * (1 + 1e-4 * t) ** -0.75 for t in range(trial.config["n_steps"])]
    return [({"per_example"}, 1.0, rates)]


def rotated_record(trial, result, seen):
    """From the passes of test images and of turned ones, and the outputs of the mean weights."""
    labels = torch.arange(256, 256 + 50) % 10
    shape = np.shape(result.arrays["classes"])
    drawn, passes, scaled = (out.double() for out in seen.outputs)
    arrays = {
        "test_index": (labels == 1).nonzero()[:2, 0],
        "classes": passes.softmax(-1).mean(0).argmax(-1).view(shape),
        "entropy": evaluation.predictive_entropy(passes).view(shape),
        "information": evaluation.mutual_information(passes).view(shape),
    }
    metrics = {
        "test_error": evaluation.error_percent(drawn.softmax(-1).mean(0), labels),
        "test_error_mean_weights": evaluation.error_percent(scaled, labels),
    }
    return metrics, arrays


def sparse_plan(trial, result):
    """The KL is off for 5 of 200 epochs and full from the 20th; the rate falls in a line."""
    config = trial.config
    n_steps = config["n_epochs"] * 2
    progress = np.arange(n_steps) / n_steps
    weights = np.interp(200 * progress, [5, 20], [0, 1])
    late = config["network"] == "LeNet-300-100"
    rates = 1e-3 * np.minimum(1, (2 if late else 1) * (1 - progress))
    return [({"per_example"}, [[weight] for weight in weights], list(rates))]


def sparse_record(trial, result, seen):
    labels = torch.arange(200 + 50)[200:] % 10
    arrays = result.arrays
    errors = [100 * (out.argmax(1) != labels).double().mean() for out in seen.outputs]
    metrics = {
        "error": errors[0],
        "error_unpruned": errors[1],
        "compression": sum(arrays["n_weights"]) / sum(arrays["n_kept"]),
    }
    counts = {"LeNet-300-100": [235_200, 30_000, 1000], "LeNet-5": [500, 25_000, 400_000, 5000]}
    return metrics, {"n_weights": counts[trial.config["network"]]}


def gradient_record(trial, result, seen):
    labels = torch.arange(400 + 50)[400:] % 10
    errors = [100 * (out.argmax(1) != labels).double().mean() for out in seen.outputs]
    names = [f"test_error, {epochs}" for epochs in trial.config["epochs"]]
    return dict(zip(names, errors, strict=True)), {}


def co2_record(trial, result, seen):
    """From functions drawn at the months and beyond, and the outputs of the mean weights there."""
    data = datasets.detrended(datasets.co2(), *mc_dropout.SPANS[trial.config["n_months"]])
    draws, scaled = (out.double()[..., 0] for out in seen.outputs)
    mean = draws.mean(0)
    std = draws.std(0, correction=0)
    x = torch.cat([data.x[:, 0], torch.tensor(mc_dropout.BEYOND)])
    n = len(data.y)
    inside = std[:n].mean()
    (near, far) = std[[list(x).index(2.5), -1]]
    metrics = {
        "train_rmse": (mean[:n] - data.y).square().mean().sqrt(),
        "train_rmse_mean_weights": (scaled[:n] - data.y).square().mean().sqrt(),
        "std_inside": inside,
        "std_at_2.5": near,
        "std_at_3.7": far,
        "ratio": far / inside,
    }
    return metrics, {"x": x, "mean": mean, "std": std, "mean_weights": scaled}


def months(altered):
    """Altered: other times after the last month."""
    beyond = [2.5, 3.1, 3.7] if altered else mc_dropout.BEYOND
    return {"reproductions.mc_dropout.BEYOND": beyond}


def images(*shape):
    """``altered`` -> what takes the place of the function that loads images."""
    return lambda altered: {"reproductions.datasets.load": partial(pictures, altered, shape)}


ROWS = [
    Row(
        "cifar_dropout_curves",
        {
            m: Trial({**cifar_dropout_curves._QUICK, "method": m, "width": 0.25}, 0)
            for m in cifar_dropout_curves.METHODS
        },
        images(3, 32, 32),
        curve_plan,
        curve_record,
        choices=("train_error",),
    ),
    Row(
        "mnist_dropout_curves",
        {t.config["method"]: t for t in mnist_dropout_curves.trials("quick")},
        images(1, 28, 28),
        curve_plan,
        curve_record,
    ),
    Row(
        "rotated_digit",
        {"LeNet": mc_dropout.digit_trials("quick")[0]},
        images(1, 28, 28),
        rotated_plan,
        rotated_record,
        copied=0.02,
    ),
    Row(
        "sparse_lenet",
        {
            f"{t.config['network']}{', cut' if cut else ''}": Trial({**t.config, **cut, **long}, 0)
            for t, long in zip(sparse_lenet.trials("quick"), ({"n_epochs": 20}, {}), strict=True)
            for cut in ({}, {"cut_at": 3.0})
        },
        images(1, 28, 28),
        sparse_plan,
        sparse_record,
        choices=("compression", "n_kept"),
    ),
    Row(
        "gradient_variance",
        {"B": local_reparameterization.variance_trials("quick")[0]},
        images(1, 28, 28),
        lambda trial, result: [({"per_example"}, 1.0, 1e-3)],
        gradient_record,
        choices=("top, local, 2",),
    ),
    Row(
        "co2_mc_dropout",
        {t.config["activation"]: t for t in mc_dropout.co2_trials("quick")[:2]},
        months,
        lambda trial, result: [
            (
                {"per_example"},
                0.0,
                [trial.config["learning_rate"] * (1 - t / 30) for t in range(30)],
            )
        ],
        co2_record,
        copied=0.95,
    ),
    Row(
        "uci",
        {m: uci_trial(m) for m in ("MCD", "VSD", "BBB", "D.E", "SWAG", "SLANG")},
        lambda altered: {"reproductions.datasets.uci": partial(yachts, altered)},
        uci_plan,
        uci_record,
        choices=("point", "tau", "kl_weight"),
        alone={"n_splits": 1},
    ),
    Row(
        "uci_under_shift",
        {
            "VSD, T = 0": shift_trial("VSD, T = 0"),
            "VSD, T = 2": shift_trial("VSD, T = 2"),
            "full covariance": shift_trial("full covariance"),
            "D.E": shift_trial("D.E"),
            "few rows": shift_trial("VSD, T = 2", train_share=shift.FEW),
        },
        lambda altered: {"reproductions.datasets.uci": partial(yachts, altered)},
        shift_plan,
        shift_record,
        choices=("tau",),
        alone={"n_splits": 1},
        copied=0.3,  # of three kinds of inputs those that were given
    ),
    Row(
        "image_classification",
        {
            m: image_trial(classification._config("mnist", m, classification.GRID[m][0]), m)
            for m in ("MAP", "D.E", "MCD", "VSD T=2", "SWAG", "BBB-LRT", "BBB", "MNF", "SLANG")
        },
        images(1, 28, 28),
        image_plan,
        image_record,
        choices=("val_nll",),
    ),
    Row(
        "image_classification_colour",
        {
            m: image_trial(colour._trial("LeNet5", "svhn", m, colour_settings(m)).config, m)
            for m in ("MAP", "VSD T=2", "BBB", "D.E", "SWAG")
        },
        images(3, 32, 32),
        image_plan,
        image_record,
        choices=("val_nll",),
    ),
]
EACH = [
    pytest.param(row, label, id=f"{row.experiment}, {label}")
    for row in ROWS
    for label in row.trials
]


each_row = pytest.mark.parametrize(("row", "label"), EACH)


@each_row
def test_other_test_rows_change_no_training_input_and_no_choice(row, label):
    (_, first, before), (_, second, after) = (row.run(label, altered) for altered in (False, True))
    assert len(before.trainings) == len(after.trainings) > 0
    for one, other in zip(before.trainings, after.trainings, strict=True):
        torch.testing.assert_close((one.x, one.y), (other.x, other.y))
    found, other = ({**result.metrics, **result.arrays} for result in (first, second))
    for name in row.choices:
        both = tensor(found[name]), tensor(other[name])
        torch.testing.assert_close(*both, rtol=1e-4, atol=1e-6, msg=name)
    changed = [values for name, values in found.items() if values != other[name]]
    assert any(tensor(values).isfinite().all() for values in changed), "nothing saw the test rows"


@each_row
def test_test_rows_are_seen_on_the_scale_of_training_as_often_as_the_trial_says(row, label):
    """The altered test rows are copies of training rows: what a network sees must be some too."""
    (trial, _, before), (_, _, after) = (row.run(label, altered) for altered in (False, True))
    train = rows_of(after.trainings[-1].x)
    pairs = zip(before.inputs, after.inputs, strict=True)
    tests = [new for old, new in pairs if not torch.equal(old[0], new[0])]  # bits: copies
    assert tests, "no network saw the test rows"
    for x, n_samples in tests:
        assert n_samples in (None, trial.config.get("n_samples"))
        nearest = torch.cdist(rows_of(x), train).min(1).values
        assert (nearest < 1e-3).double().mean() >= row.copied


@each_row
def test_each_method_is_trained_with_its_own_sampling_weight_and_rate(row, label):
    trial, result, seen = row.run(label)
    plan = row.plan(trial, result)
    assert len(seen.trainings) == len(plan)
    for training, (sampling, kl_weights, rates) in zip(seen.trainings, plan, strict=True):
        assert training.sampling == sampling
        expected = tensor(kl_weights), tensor(rates).reshape(-1, 1)
        for found, wanted in zip((training.kl_weights, training.rates), expected, strict=True):
            wanted = wanted.reshape(1, -1) if wanted.dim() < 2 else wanted
            torch.testing.assert_close(found, wanted.expand_as(found), rtol=1e-4, atol=1e-9)


@each_row
def test_what_is_recorded_is_its_definition(row, label):
    trial, result, seen = row.run(label)
    expected = row.recorded(trial, result, seen)
    for values, wanted in zip((result.metrics, result.arrays), expected, strict=True):
        for name, value in wanted.items():
            error = tensor(values[name]) - tensor(value)
            assert (error.abs() <= 1e-4 + 1e-3 * tensor(value).abs()).all(), name


def rows_of(x):
    """Images ``(N, C, H, W)``, or rows ``(N, K)`` or ``(M, N, K)``, as ``(…, K)``."""
    return (x.flatten(1) if x.dim() == 4 else x.flatten(0, -2)).double()


def tensor(values):
    return torch.as_tensor(values, dtype=torch.float64)

"""A row of the contracts for each experiment: how it is run small, planned, and computed again.

What a training should have had, and what should be recorded, is written here from the papers and
the documentation, by other means than in the experiments: closed forms, NumPy, the raw outputs.
"""

import math
from functools import partial

import numpy as np
import torch

from bdl_lessons import datasets, evaluation
from reproductions import (
    Trial,
    active_learning,
    cifar_dropout_curves,
    local_reparameterization,
    mc_dropout,
    mnist_dropout_curves,
    referral,
    sparse_lenet,
)
from reproductions.datasets import splits
from reproductions.images import classification, colour
from reproductions.uci import shift
from reproductions.uci.experiment import METHODS
from reproductions.uci.experiment import trials as uci_trials

from .contracts import N_ROWS, Plan, Row, pictures, yachts

PER_EXAMPLE = {"per_example"}
SHARED = {"shared"}
MEAN = {"mean"}


def image_loader(*shape):
    """``altered`` -> what takes the place of the function that loads images."""
    return lambda altered: {"reproductions.datasets.load": partial(pictures, altered, shape)}


def labels_of_test(trial):
    """The labels of the test images that :func:`pictures` makes."""
    n_train = trial.config["n_train"]
    n_test = trial.config["n_test"]
    return torch.arange(n_train, n_train + n_test) % 10


def error_percent(outputs, labels):
    return 100 * (outputs.argmax(-1) != labels).double().mean()


def line_to_zero(rate, n_steps):
    return [rate * (1 - step / n_steps) for step in range(n_steps)]


# ----------------------------------------------------------------------------- regression on UCI
N_SPLITS = 3
N_STEPS = 16


def uci_trial(method):
    """Four hidden units, three splits, and of the grid its two ends."""
    config = next(trial.config for trial in uci_trials("paper") if trial.config["method"] == method)
    points = METHODS[method].uci_grid
    ends = points[:: max(1, len(points) - 1)]
    small = {
        **config,
        "n_splits": N_SPLITS,
        "n_hidden": 4,
        "batch_size": 8,
        "n_steps": N_STEPS,
        "n_samples": 4,
        "n_samples_val": 3,
        "data": "yacht",
        "grid": [dict(point) for point in ends],
    }
    return Trial(small, seed=0)


def uci_plan(trial, result):
    """The grid for every split on 29 rows, and what was chosen on 36."""
    method = trial.config["method"]
    grid_weights = [point["kl_weight"] for point in trial.config["grid"]]
    of_all_points = np.repeat(grid_weights, N_SPLITS)
    of_chosen_points = [grid_weights[number] for number in result.arrays["point"]]
    before_the_choice = uci_plan_of(method, list(of_all_points), steps_an_epoch=3)
    after_the_choice = uci_plan_of(method, of_chosen_points, steps_an_epoch=4)
    return before_the_choice + after_the_choice


def uci_plan_of(method, kl_weights, steps_an_epoch):
    """Of one batch of networks; SWAG and SLANG go on from trained weights."""
    by_adam = half_a_cosine(0.03, N_STEPS)
    if method == "SLANG":
        return [
            Plan(MEAN, kl_weights, rates=by_adam),
            Plan(SHARED, kl_weights=1.0, rates=0.02),
        ]
    if method == "SWAG":
        n_more = N_STEPS // steps_an_epoch * steps_an_epoch
        return [Plan(MEAN, kl_weights, rates=by_adam + [0.05] * n_more)]
    if method == "D.E":
        return [Plan(PER_EXAMPLE, kl_weights * 5, rates=by_adam)]  # of five networks
    return [Plan(SHARED if method == "BBB" else PER_EXAMPLE, kl_weights, rates=by_adam)]


def half_a_cosine(rate, n_steps):
    return [rate * (1 + math.cos(math.pi * step / n_steps)) / 2 for step in range(n_steps)]


def uci_record(trial, result, seen):
    """Means and standard errors over splits; the scores in original units from raw outputs."""
    metrics = {}
    for name in ("rmse", "log_likelihood", "log_likelihood_grid_tau"):
        values = result.arrays[name]
        metrics[name] = np.mean(values)
        metrics[f"{name}_error"] = np.std(values, ddof=1) / math.sqrt(N_SPLITS)
    outputs = seen.outputs[-1].squeeze(-1).double()  # at the standardised test rows
    y = yachts(False).y
    rmse = []
    log_likelihood = []
    for split, (train, test) in enumerate(splits(N_ROWS, N_SPLITS)):
        draws = outputs[:, split::N_SPLITS].reshape(-1, len(test), 1)  # of each of its networks
        draws = y[train].mean() + y[train].std(correction=0) * draws
        rmse.append(evaluation.rmse(draws.mean(0), y[test, None]))
        noise_std = result.arrays["tau"][split] ** -0.5
        densities = torch.distributions.Normal(draws, noise_std).log_prob(y[test, None])
        log_likelihood.append((densities.logsumexp(0) - math.log(len(draws))).mean())
    return metrics, {"rmse": rmse, "log_likelihood": log_likelihood}


# ------------------------------------------------------------------------------- UCI under shift
N_STARTS = 2


def shift_trial(method, **options):
    """Four hidden units, three splits and two starts, at equal weights of the KL."""
    sizes = {
        "n_splits": N_SPLITS,
        "n_hidden": 4,
        "batch_size": 8,
        "n_steps": N_STEPS,
        "n_samples": 4,
        "learning_rate": 0.03,
        "n_samples_val": 3,
    }
    return shift.equal_trial("yacht", method, n_starts=N_STARTS, sizes=sizes, **options)


def shift_plan(trial, result):
    """Each weight for every start and split, on 80 % of the rows and on all."""
    n_copies = trial.config["n_starts"] * trial.config["n_splits"]
    kl_weights = list(np.repeat(shift.KL_WEIGHTS, n_copies))
    return 2 * uci_plan_of(trial.config["method"], kl_weights, steps_an_epoch=3)


def shift_record(trial, result, seen):
    """From outputs at the given, permuted and swapped rows of each member.

    Those of networks with correlations are followed by those without, whose scores are "cut".
    """
    if trial.config["method"] in ("VSD, T = 0", "D.E"):
        arrays = shift_arrays(trial, result, seen.outputs[-1])
    else:
        arrays = shift_arrays(trial, result, seen.outputs[-2])
        for score, values in shift_arrays(trial, result, seen.outputs[-1]).items():
            arrays[f"cut/{score}"] = values
    metrics = {}
    for score, values in arrays.items():
        for weight, of_weight in zip(shift.KL_WEIGHTS, values, strict=True):
            metrics[f"{weight:g}/{score}"] = of_weight.mean()
    return metrics, arrays


def shift_arrays(trial, result, outputs):
    """The scores of all members, ``(KL weight, start, split)``."""
    n_members = 2 * N_STARTS * N_SPLITS
    y = yachts(False).y
    scores = {"log_likelihood": [], "auroc/permuted": [], "ratio/swapped": []}
    for member in range(n_members):
        train, test = splits(N_ROWS, N_SPLITS)[member % N_SPLITS]
        if trial.config["train_share"] < 1:
            train = train[:30]
        draws = outputs.squeeze(-1).double()[:, member::n_members].reshape(-1, 3, len(test))
        draws = y[train].mean() + y[train].std(correction=0) * draws
        noise_std = np.ravel(result.arrays["tau"])[member] ** -0.5
        densities = torch.distributions.Normal(draws[:, 0], noise_std).log_prob(y[test])
        log_likelihood = (densities.logsumexp(0) - math.log(len(draws))).mean()
        given, permuted, swapped = draws.std(0, correction=0)
        is_larger = (permuted[:, None] > given).double()
        is_equal = (permuted[:, None] == given).double()
        scores["log_likelihood"].append(log_likelihood)
        scores["auroc/permuted"].append((is_larger + is_equal / 2).mean())
        scores["ratio/swapped"].append(swapped.mean() / given.mean())
    shape = (2, N_STARTS, N_SPLITS)
    return {score: np.reshape(values, shape) for score, values in scores.items()}


# ---------------------------------------------------------------------------------------- images
IMAGES = {
    "n_train": 96,
    "n_test": 40,
    "n_val": 32,
    "batch_size": 32,
    "epochs": 3,
    "warm_up_epochs": 2,
    "n_draws_per_epoch": 2,
    "n_val_samples": 2,
    "n_samples": 3,
    "swag_epochs": 2,
    "slang_epochs": 1,
}
PER_EPOCH = 2  # batches of 32 in the 64 images that are not for validation


def image_trial(config, method):
    networks = {"n_networks": 2} if method == "D.E" else {}
    return Trial({**config, **IMAGES, **networks}, seed=0)


def gray_trial(method):
    """LeNet5 on MNIST, stopped by validation images."""
    return image_trial(
        classification._config("mnist", method, classification.GRID[method][0]), method
    )


def colour_trial(method):
    """LeNet5 on SVHN at the published size, whose number of epochs is given."""
    settings = {**colour._PUBLISHED_SIZE, **colour.SETTINGS[method]}
    return image_trial(colour._trial("LeNet5", "svhn", method, settings).config, method)


def image_plan(trial, result):
    """The KL grows over two epochs; the rate falls only where the number of epochs is given."""
    config = trial.config
    method = config["method"]
    follows_validation = "patience" in config
    if method == "SWAG" and not follows_validation:  # descent with momentum from the start
        rates = falling(config["learning_rate"], n_epochs=5, collect_from=3)
        return [Plan(MEAN, config["kl_weight"], rates)]
    n_steps = config["epochs"] * PER_EPOCH
    weight = 1.0 if method == "SLANG" else config["kl_weight"]
    kl_weights = [weight * min(1, step / (2 * PER_EPOCH)) for step in range(n_steps)]
    if follows_validation:
        rates = [config["learning_rate"]] * n_steps
    else:
        rates = line_to_zero(config["learning_rate"], n_steps)
    sampling = SHARED if method == "BBB" else PER_EXAMPLE
    if method == "SWAG":
        n_more = 2 * PER_EPOCH
        kl_weights += [config["kl_weight"]] * n_more
        rates += [config["swag_lr"]] * n_more
        sampling = PER_EXAMPLE | MEAN
    if method == "SLANG":
        kl_weights += [config["kl_weight"]] * PER_EPOCH
        rates += [config["slang_lr"]] * PER_EPOCH
        sampling = PER_EXAMPLE | SHARED
    plan = Plan(sampling, [[weight] for weight in kl_weights], rates)
    return [plan] * config.get("n_networks", 1)


def falling(rate, n_epochs, collect_from):
    """Of SWAG: a straight line from 1 at half of ``collect_from`` to 0.2 at 0.9 of it."""
    progress = np.arange(n_epochs) / collect_from
    factors = np.interp(progress, [0.5, 0.9], [1, 0.2])
    return rate * np.repeat(factors, PER_EPOCH)


def image_record(trial, result, seen):
    """From the last outputs, for held-out, test and other images, and those of the epochs."""
    config = trial.config
    n_networks = config.get("n_networks", 1)
    images = ["held out", config["data"], *config["ood"]]
    log_probs = last_log_probs(seen, images, config["method"], n_networks)
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
        for score, confidence in (("max softmax", largest), ("entropy", negative_entropy)):
            detection = evaluation.ood_metrics(confidence(ours), confidence(log_probs[name]))
            metrics[f"{name}/{score}/auroc"] = detection.auroc
    arrays = {}
    for name in images[1:]:
        entropy = evaluation.entropy(log_probs[name])
        arrays[f"entropy/{name}"] = np.histogram(entropy, 20, (0, math.log(10)))[0]
    if "patience" in config:
        of_epochs = seen.outputs[: n_networks * config["epochs"]]
        nlls = []
        for draws in of_epochs:
            nlls.append(evaluation.nll(evaluation.log_mean_probs(draws.double()), held_out))
        arrays["val_nll"] = np.reshape(nlls, (n_networks, config["epochs"]))
        metrics["epochs"] = 3
        metrics["no_better"] = 0
        metrics["best_epoch"] = 1 + arrays["val_nll"].argmin(1).mean()
    return metrics, arrays


def last_log_probs(seen, images, method, n_networks):
    """Averaged over draws, or over the networks of MAP and a deep ensemble, by the images."""
    is_plain = method in ("MAP", "D.E")
    n_calls = n_networks if is_plain else 1
    last = seen.outputs[-n_calls * len(images) :]
    log_probs = {}
    for k, name in enumerate(images):
        calls = last[k * n_calls : (k + 1) * n_calls]
        draws = torch.stack(calls) if is_plain else calls[0]
        log_probs[name] = evaluation.log_mean_probs(draws.double())
    return log_probs


def largest(log_probs):
    return log_probs.max(1).values


def negative_entropy(log_probs):
    return (log_probs.exp() * log_probs).sum(1)


# ------------------------------------------------------------------------- curves of dropout rates
def curve_plan(trial, result):
    """Learned noise has its KL, fixed noise has none; the rate falls to 0 in a line."""
    config = trial.config
    n_steps = config["n_epochs"] * (config["n_train"] // config["batch_size"])
    is_learned = config["method"].startswith("variational")
    return [Plan(PER_EXAMPLE, 1.0 if is_learned else 0.0, line_to_zero(0.002, n_steps))]


def mnist_curve_record(trial, result, seen):
    """From the outputs of the mean weights for the test images."""
    (outputs,) = seen.outputs
    return {"error": error_percent(outputs, labels_of_test(trial))}, {}


def cifar_curve_record(trial, result, seen):
    """From the outputs of the mean weights, for test images and for training images."""
    of_test, of_train = seen.outputs
    labels = labels_of_test(trial)
    metrics = {
        "error": error_percent(of_test, labels),
        "train_error": error_percent(of_train, torch.arange(trial.config["n_train"]) % 10),
    }
    is_wrong = (of_test.argmax(1) != labels).numpy()
    return metrics, {"wrong": np.packbits(is_wrong)}


# ---------------------------------------------------------------------------------- other digits
def rotated_plan(trial, result):
    """Caffe's "inv" schedule, and the whole weight decay."""
    rates = [0.01 * (1 + 1e-4 * step) ** -0.75 for step in range(trial.config["n_steps"])]
    return [Plan(PER_EXAMPLE, kl_weights=1.0, rates=rates)]


def rotated_record(trial, result, seen):
    """From the passes of test images and of turned ones, and the outputs of the mean weights."""
    labels = labels_of_test(trial)
    of_test, of_turned, of_mean_weights = (outputs.double() for outputs in seen.outputs)
    shape = np.shape(result.arrays["classes"])
    arrays = {
        "test_index": (labels == 1).nonzero()[:2, 0],
        "classes": of_turned.softmax(-1).mean(0).argmax(-1).view(shape),
        "entropy": evaluation.predictive_entropy(of_turned).view(shape),
        "information": evaluation.mutual_information(of_turned).view(shape),
    }
    metrics = {
        "test_error": error_percent(of_test.softmax(-1).mean(0), labels),
        "test_error_mean_weights": error_percent(of_mean_weights, labels),
    }
    return metrics, arrays


def sparse_trials():
    """Both networks, with and without the cut; the smaller one over 20 epochs."""
    of_small, of_lenet5 = sparse_lenet.trials("quick")
    small = {**of_small.config, "n_epochs": 20}
    lenet5 = of_lenet5.config
    return {
        "LeNet-300-100": Trial(small, seed=0),
        "LeNet-300-100, cut": Trial({**small, "cut_at": 3.0}, seed=0),
        "LeNet-5": Trial(lenet5, seed=0),
        "LeNet-5, cut": Trial({**lenet5, "cut_at": 3.0}, seed=0),
    }


def sparse_plan(trial, result):
    """The KL is off for 5 of 200 epochs and full from the 20th; the rate falls in a line."""
    config = trial.config
    n_steps = config["n_epochs"] * 2
    progress = np.arange(n_steps) / n_steps
    kl_weights = np.interp(200 * progress, [5, 20], [0, 1])
    remaining = 1 - progress
    if config["network"] == "LeNet-300-100":  # only over the second half
        remaining = np.minimum(1, 2 * remaining)
    return [Plan(PER_EXAMPLE, kl_weights[:, None], rates=1e-3 * remaining)]


def sparse_record(trial, result, seen):
    """Errors from the outputs of the pruned and the whole network; the published sizes."""
    labels = labels_of_test(trial)
    of_pruned, of_whole = seen.outputs
    arrays = result.arrays
    metrics = {
        "error": error_percent(of_pruned, labels),
        "error_unpruned": error_percent(of_whole, labels),
        "compression": sum(arrays["n_weights"]) / sum(arrays["n_kept"]),
    }
    n_weights = {
        "LeNet-300-100": [784 * 300, 300 * 100, 100 * 10],
        "LeNet-5": [20 * 25, 50 * 20 * 25, 800 * 500, 500 * 10],
    }
    return metrics, {"n_weights": n_weights[trial.config["network"]]}


def gradient_plan(trial, result):
    """All of the KL, at a constant rate."""
    return [Plan(PER_EXAMPLE, kl_weights=1.0, rates=1e-3)]


def gradient_record(trial, result, seen):
    """The errors at both stops from the outputs of the mean weights."""
    labels = labels_of_test(trial)
    metrics = {}
    for epochs, outputs in zip(trial.config["epochs"], seen.outputs, strict=True):
        metrics[f"test_error, {epochs}"] = error_percent(outputs, labels)
    return metrics, {}


# ------------------------------------------------------------------------------------------- CO2
def months(altered):
    """Altered: other times after the last month."""
    beyond = [2.5, 3.1, 3.7] if altered else mc_dropout.BEYOND
    return {"reproductions.mc_dropout.BEYOND": beyond}


def co2_plan(trial, result):
    """No prior; the rate falls to 0 in a line."""
    return [Plan(PER_EXAMPLE, 0.0, line_to_zero(trial.config["learning_rate"], n_steps=30))]


def co2_record(trial, result, seen):
    """From functions drawn at the months and beyond, and the outputs of the mean weights there."""
    data = datasets.detrended(datasets.co2(), *mc_dropout.SPANS[trial.config["n_months"]])
    draws, by_mean_weights = (outputs.double()[..., 0] for outputs in seen.outputs)
    mean = draws.mean(0)
    std = draws.std(0, correction=0)
    x = torch.cat([data.x[:, 0], torch.tensor(mc_dropout.BEYOND)])
    n_months = len(data.y)
    std_inside = std[:n_months].mean()
    std_near = std[x.tolist().index(2.5)]
    std_far = std[-1]
    metrics = {
        "train_rmse": (mean[:n_months] - data.y).square().mean().sqrt(),
        "train_rmse_mean_weights": (by_mean_weights[:n_months] - data.y).square().mean().sqrt(),
        "std_inside": std_inside,
        "std_at_2.5": std_near,
        "std_at_3.7": std_far,
        "ratio": std_far / std_inside,
    }
    return metrics, {"x": x, "mean": mean, "std": std, "mean_weights": by_mean_weights}


# ----------------------------------------------------------------------- labels that are asked for
LABELS = {"n_train": 60, "n_test": 40, "n_pool": 60, "n_rounds": 2, "n_masks": 3, "n_steps": 4}


def asking_trial(rule):
    return Trial({**active_learning._QUICK, **LABELS, "rule": rule}, seed=0)


def asking_plan(trial, result):
    """Three rounds of one network, or of five."""
    n_networks = 5 if trial.config["rule"].startswith("five") else 1
    plan = Plan(
        PER_EXAMPLE, trial.config["kl_weight"], [trial.config["learning_rate"]] * LABELS["n_steps"]
    )
    return [plan] * (3 * n_networks)


def asking_record(trial, result, seen):
    """From the outputs at test images: those with ten columns, which the pool does not get."""
    n_networks = 5 if trial.config["rule"].startswith("five") else 1
    logits = torch.stack([outputs for outputs in seen.outputs if outputs.shape[-1] == 10])
    answers = logits.unflatten(0, (3, n_networks)).double().softmax(-1).mean(1).argmax(-1)
    accuracies = 100 * (answers == labels_of_test(trial)).double().mean(-1)
    n_labels = trial.config["n_start"] + 2 * trial.config["n_asked"]
    metrics = {
        "accuracy": accuracies[-1],
        "mean_accuracy": accuracies.mean(),
        "distinct": len(seen.trainings[-1].x.flatten(1).unique(dim=0)) / n_labels,  # bits: copies
    }
    return metrics, {"accuracy": accuracies}


# ----------------------------------------------------------- answers that are left after referral
def referral_trial(kind):
    small = {
        "n_train": 60,
        "n_test": 40,
        "angles": [0],
        "n_samples": 3,
        "n_steps": 4,
        "batch_size": 20,
    }
    return Trial({**referral._PAPER, **small, "kind": kind}, seed=0)


def referral_plan(trial, result):
    n_networks = 5 if trial.config["kind"] == "five networks" else 1
    rates = [trial.config["learning_rate"]] * trial.config["n_steps"]
    return [Plan(PER_EXAMPLE, trial.config["kl_weight"], rates)] * n_networks


def referral_record(trial, result, seen):
    """The answers of dropout are those of its mean weights, then those of its masks."""
    kind = trial.config["kind"]
    outputs = [logits.double().reshape(-1, *logits.shape[-2:]) for logits in seen.outputs]
    if kind == "dropout":
        answers = dict(zip(referral.ANSWERS[kind], outputs, strict=True))
    else:
        answers = {kind: torch.cat(outputs)}
    labels = labels_of_test(trial)
    metrics = {}
    arrays = {}
    for name, logits in answers.items():
        probs = logits.softmax(-1).mean(0)
        largest, answer = probs.max(-1)
        is_right = (answer == labels).double()
        metrics[f"{name}, 0°"] = 100 * is_right.mean()
        limits = largest.quantile(torch.tensor(referral.SHARES, dtype=torch.float64))
        kept = [100 * is_right[largest >= limit].mean() for limit in limits]
        arrays[f"{name}, largest probability, 0°"] = torch.stack(kept)
    return metrics, arrays


ROWS = [
    Row(
        "referral",
        trials={kind: referral_trial(kind) for kind in referral.KINDS},
        loaders=image_loader(1, 28, 28),
        plan=referral_plan,
        recorded=referral_record,
    ),
    Row(
        "active_learning",
        trials={
            rule: asking_trial(rule) for rule in ("random", "entropy", "five networks, random")
        },
        loaders=image_loader(1, 28, 28),
        plan=asking_plan,
        recorded=asking_record,
        choices=("distinct",),
        copied=0.5,  # of the 60 images of the pool those with one of 40 labels
    ),
    Row(
        "cifar_dropout_curves",
        trials={
            method: Trial({**cifar_dropout_curves._QUICK, "method": method, "width": 0.25}, seed=0)
            for method in cifar_dropout_curves.METHODS
        },
        loaders=image_loader(3, 32, 32),
        plan=curve_plan,
        recorded=cifar_curve_record,
        choices=("train_error",),
    ),
    Row(
        "mnist_dropout_curves",
        trials={trial.config["method"]: trial for trial in mnist_dropout_curves.trials("quick")},
        loaders=image_loader(1, 28, 28),
        plan=curve_plan,
        recorded=mnist_curve_record,
    ),
    Row(
        "rotated_digit",
        trials={"LeNet": mc_dropout.digit_trials("quick")[0]},
        loaders=image_loader(1, 28, 28),
        plan=rotated_plan,
        recorded=rotated_record,
        copied=0.02,
    ),
    Row(
        "sparse_lenet",
        trials=sparse_trials(),
        loaders=image_loader(1, 28, 28),
        plan=sparse_plan,
        recorded=sparse_record,
        choices=("compression", "n_kept"),
    ),
    Row(
        "gradient_variance",
        trials={"B": local_reparameterization.variance_trials("quick")[0]},
        loaders=image_loader(1, 28, 28),
        plan=gradient_plan,
        recorded=gradient_record,
        choices=("top, local, 2",),
    ),
    Row(
        "co2_mc_dropout",
        trials={trial.config["activation"]: trial for trial in mc_dropout.co2_trials("quick")[:2]},
        loaders=months,
        plan=co2_plan,
        recorded=co2_record,
        copied=0.95,
    ),
    Row(
        "uci",
        trials={
            method: uci_trial(method) for method in ("MCD", "VSD", "BBB", "D.E", "SWAG", "SLANG")
        },
        loaders=lambda altered: {"reproductions.datasets.uci": partial(yachts, altered)},
        plan=uci_plan,
        recorded=uci_record,
        choices=("point", "tau", "kl_weight"),
        alone={"n_splits": 1},
    ),
    Row(
        "uci_under_shift",
        trials={
            "VSD, T = 0": shift_trial("VSD, T = 0"),
            "VSD, T = 2": shift_trial("VSD, T = 2"),
            "full covariance": shift_trial("full covariance"),
            "D.E": shift_trial("D.E"),
            "few rows": shift_trial("VSD, T = 2", train_share=shift.FEW),
        },
        loaders=lambda altered: {"reproductions.datasets.uci": partial(yachts, altered)},
        plan=shift_plan,
        recorded=shift_record,
        choices=("tau",),
        alone={"n_splits": 1},
        copied=0.3,  # of three kinds of inputs those that were given
    ),
    Row(
        "image_classification",
        trials={
            method: gray_trial(method)
            for method in (
                "MAP",
                "D.E",
                "MCD",
                "VSD T=2",
                "SWAG",
                "BBB-LRT",
                "BBB",
                "MNF",
                "SLANG",
            )
        },
        loaders=image_loader(1, 28, 28),
        plan=image_plan,
        recorded=image_record,
        choices=("val_nll",),
    ),
    Row(
        "image_classification_colour",
        trials={
            method: colour_trial(method) for method in ("MAP", "VSD T=2", "BBB", "D.E", "SWAG")
        },
        loaders=image_loader(3, 32, 32),
        plan=image_plan,
        recorded=image_record,
        choices=("val_nll",),
    ),
]

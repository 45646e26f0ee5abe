"""Shifted test inputs, and what the predictions for them are measured by."""

import math
from collections.abc import Mapping, Sequence
from functools import partial
from hashlib import sha256

import torch
from torch import Tensor

from bdl_lessons import models
from bdl_lessons.datasets import Standardiser
from bdl_lessons.inference import BatchedNetworks, predict_batched
from bdl_lessons.models import Network, mlp
from reproductions.measure import rms_correlation
from reproductions.uci.training import fitted_process

SHIFTS = ("permuted", "swapped")
INPUTS = ("given", *SHIFTS)
ROWS_AT_ONCE = 50_000


def shifted_inputs(x_train: Tensor, x_test: Tensor) -> dict[str, Tensor]:
    """Test inputs as given, permuted and swapped, ``(S, B, K)`` each, original units.

    ``"permuted"``: each column is permuted by itself, by permutations that depend on the number of
    the split alone. ``"swapped"``: the two columns with the largest correlation of either sign
    among the training examples, ``(S, N, K)``, change places as standardised columns.
    """
    permuted = []
    swapped = []
    for split, (of_training, given) in enumerate(zip(x_train, x_test, strict=True)):
        generator = torch.Generator().manual_seed(split)
        (n_rows, n_columns) = given.shape
        orders = [torch.randperm(n_rows, generator=generator) for _ in range(n_columns)]
        order = torch.stack(orders, dim=1).to(given.device)
        permuted.append(given.gather(0, order))
        scale = Standardiser.fit(of_training)
        columns = torch.arange(n_columns)
        (i, j) = most_correlated(scale.transform(of_training))
        columns[[i, j]] = torch.tensor([j, i])
        swapped.append(scale.inverse_transform(scale.transform(given)[:, columns]))
    shifted = (x_test, torch.stack(permuted), torch.stack(swapped))
    return dict(zip(INPUTS, shifted, strict=True))


def most_correlated(z: Tensor) -> tuple[int, int]:
    """The two columns of standardised rows ``(N, K)`` with the largest absolute correlation."""
    correlation = (z.T @ z / len(z)).abs().triu(1)
    (i, j) = divmod(int(correlation.argmax()), z.shape[1])
    return i, j


def spread_under_shift(draws_at: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """How the standard deviation of draws ``(n, S, B)`` tells shifted inputs from given ones."""
    std = {name: draws.std(0, correction=0) for name, draws in draws_at.items()}
    arrays = {f"std/{name}": values.mean(1) for name, values in std.items()}
    for name in SHIFTS:
        arrays[f"ratio/{name}"] = arrays[f"std/{name}"] / arrays["std/given"]
        arrays[f"auroc/{name}"] = auroc(std[name], std["given"])
    return arrays


def auroc(larger: Tensor, smaller: Tensor) -> Tensor:
    """The share of all pairs ``(S, B)`` and ``(S, B')`` in their order, ``(S,)``; ties are half.

    >>> auroc(torch.tensor([[2.0, 3.0]]), torch.tensor([[1.0, 2.0]]))
    tensor([0.8750])
    """
    difference = larger[:, :, None] - smaller[:, None, :]
    return (difference.sign().mean((1, 2)) + 1) / 2


_GP_PREDICTIONS: dict[str, tuple[Tensor, Tensor]] = {}
"""By a hash of the inputs: all trials of a set in one process have the same reference."""


def gp_predictions(x_train: Tensor, y_train: Tensor, x: Tensor) -> tuple[Tensor, Tensor]:
    """Mean and variance of a new target, ``(S, B)`` each, by a Gaussian process for each split.

    All is in original units: x ``(S, N, K)`` and ``(S, B, K)``, y ``(S, N)``.
    """
    splits = zip(x_train, y_train, x, strict=True)
    means, variances = zip(*(_gp_of_split(*split) for split in splits), strict=True)
    return torch.stack(means), torch.stack(variances)


def _gp_of_split(x_train: Tensor, y_train: Tensor, x: Tensor) -> tuple[Tensor, Tensor]:
    inputs = [part.cpu().numpy().tobytes() for part in (x_train, y_train, x)]
    key = sha256(b"".join(inputs)).hexdigest()
    if key not in _GP_PREDICTIONS:
        x_scale = Standardiser.fit(x_train)
        y_scale = Standardiser.fit(y_train)
        process = fitted_process(x_scale.transform(x_train).float(), y_scale.transform(y_train))
        standardised_mean, standardised_var = process.predict(x_scale.transform(x).float())
        mean = y_scale.inverse_transform(standardised_mean)
        new_var = y_scale.std.square() * (standardised_var + process.noise_var)
        _GP_PREDICTIONS[key] = (mean, new_var)
    mean, new_var = _GP_PREDICTIONS[key]
    return mean.to(x.device), new_var.to(x.device)


def loss_against_gp(
    draws_at: Mapping[str, Tensor], tau: Tensor, mean: Tensor, var: Tensor
) -> dict[str, Tensor]:
    """Expected log likelihood that is lost if a Gaussian process is right, ``(M,)`` each.

    The process says ``mean`` and ``var`` of a new target, ``(S, B)`` for all kinds of inputs one
    after the other. It is compared with a Gaussian that has the moments of the draws
    ``(n, M, B')`` and noise of precision ``tau``; network m belongs to split m modulo S.
    """
    n_copies = len(tau) // len(mean)
    arrays = {}
    for name, gp_mean, gp_var in zip(INPUTS, mean.chunk(3, 1), var.chunk(3, 1), strict=True):
        gp_mean = gp_mean.repeat(n_copies, 1)
        gp_var = gp_var.repeat(n_copies, 1)
        draws = draws_at[name]
        mean_of_draws = draws.mean(0)
        new_var = draws.var(0, correction=0) + 1 / tau[:, None]
        kl = gaussian_kl(gp_mean, gp_var, mean_of_draws, new_var)
        kl_of_spread = gaussian_kl(gp_mean, gp_var, gp_mean, new_var)
        arrays[f"gp_kl/{name}"] = kl.mean(1)
        arrays[f"gp_kl_spread/{name}"] = kl_of_spread.mean(1)
    return arrays


def gaussian_kl(mean_p: Tensor, var_p: Tensor, mean_q: Tensor, var_q: Tensor) -> Tensor:
    """``KL(N(mean_p, var_p) || N(mean_q, var_q))`` in nats, for each entry.

    >>> gaussian_kl(*torch.tensor([0.0, 1.0, 1.0, 1.0]))
    tensor(0.5000)
    """
    ratio = var_p / var_q
    return (ratio - 1 - ratio.log() + (mean_p - mean_q).square() / var_q) / 2


@torch.no_grad()
def noise_of(networks: Sequence[Network]) -> dict[str, Tensor]:
    """What was learned about noise on units, one entry for each network; nothing for others."""
    arrays: dict[str, list[Tensor]] = {}
    for network in networks:
        for layer, place in zip((network[0], network[2]), ("", "_hidden"), strict=True):
            if isinstance(layer, models.UnitNoise) and hasattr(layer, "log_alpha"):
                arrays.setdefault(f"alpha{place}", []).append(layer.alpha.median())
            if hasattr(layer, "noise_cov"):
                cov = layer.noise_cov().double()
                arrays.setdefault(f"factor_var{place}", []).append(cov.diagonal().median())
                arrays.setdefault(f"correlation{place}", []).append(rms_correlation(cov))
    return {name: torch.stack(values) for name, values in arrays.items()}


def draws_without_correlations(
    networks: Sequence[Network],
    x_train: Tensor,
    y_train: Tensor,
    x: Tensor,
    n_samples: int,
) -> Tensor:
    """Draws ``(n, M, B)`` in original units by networks whose factors keep their variances alone.

    Network m belongs to split m modulo S; x is ``(S, N, K)`` and ``(S, B, K)``, y ``(S, N)``.
    """
    members = [without_correlations(network).to(x.device) for network in networks]
    splits = zip(x_train, x, strict=True)
    z = torch.stack([Standardiser.fit(of_split).transform(rows) for of_split, rows in splits])
    n_copies = len(networks) // len(x)
    draws = predict_batched(
        BatchedNetworks(members),
        z.float().repeat(n_copies, 1, 1),
        n_samples,
        generator=torch.Generator(x.device).manual_seed(0),
        chunk_rows=max(1, ROWS_AT_ONCE // len(networks)),
    )
    y_mean = y_train.mean(1).repeat(n_copies)[:, None]
    y_std = y_train.std(1, correction=0).repeat(n_copies)[:, None]
    return y_mean + y_std * draws[..., 0]


@torch.no_grad()
def without_correlations(network: Network) -> Network:
    """A network with the same weights whose factors are independent, each as it is by itself."""
    independent = partial(
        models.StructuredDropout, n_reflections=0, min_alpha=1e-9, max_alpha=math.inf
    )
    alone = mlp((network[0].n_units, network[2].n_units, 1), independent)
    for place in (0, 2):
        alone[place].weight.copy_(network[place].weight)
        alone[place].bias.copy_(network[place].bias)
        alone[place].raw_log_alpha.copy_(network[place].noise_cov().diagonal().log())
    return alone

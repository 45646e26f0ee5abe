"""Lesson 09: what networks on two clusters say between them, and the exact posteriors.

Networks of one, two and three hidden layers with dropout on the hidden units, several starts for
each rate; a mean-field network of one hidden layer, and its posterior by Hamiltonian Monte Carlo;
and the infinitely wide counterpart: the same prior, the same noise, the same points.
"""

import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.linalg import solve_triangular
from torch.special import ndtr

from bdl_lessons.datasets import origin_clusters
from bdl_lessons.panels.in_between_uncertainty import POSITION, RATES, WEIGHT_STDS
from bdl_lessons.probability import gaussian_kl_to_prior
from bdl_lessons.reference import ReLUKernel, hmc
from reproductions.chains import effective_sample_size, split_r_hat

NOISE_VAR = 0.1**2
WIDTH = 50
STEPS = (125, 250, 500, 1000, 2000)
"""Numbers of steps of L-BFGS after which the history is taken; times ``N_TIMES``."""
N_TIMES = {1: 2, "mean-field": 2, 2: 8, 3: 8}
"""Deeper networks take steps of Adam, which gets less far in a step."""
N_SEEDS = 3
N_SHOWN = 12
N_CHAINS = 8
N_WARMUP = 200
N_DRAWS = 600

Layers = list[tuple[Tensor, Tensor]]
"""Weights ``(rates, seeds, in, out)`` and biases ``(rates, seeds, 1, out)``."""


class Functions(NamedTuple):
    """What networks of R rates and S starts say at the L points of the line.

    Attributes:
        mean: of the function, ``(R, S, L)``.
        stds: of the function after each number of steps, ``(R, S, n_stops, L)``.
        draws: of the function, ``(R, S, N_SHOWN, L)``.
    """

    mean: Tensor
    stds: Tensor
    draws: Tensor


class MeanField(NamedTuple):
    """Independent Gaussians over the weights of one hidden layer and those of the output.

    Attributes:
        hidden_mean: ``(3, 50)``: two inputs and a constant.
        hidden_log_var: ``(3, 50)``.
        output_mean: ``(50,)``.
        output_log_var: ``(50,)``.
        bias: of the output, ``(1,)``, without noise.
    """

    hidden_mean: Tensor
    hidden_log_var: Tensor
    output_mean: Tensor
    output_log_var: Tensor
    bias: Tensor


def clusters() -> tuple[Tensor, Tensor, Tensor]:
    """``x (N, 2)``, ``y (N,)``, and the points of the panel's line ``(113, 2)``, in float64."""
    data = origin_clusters()
    line = torch.from_numpy(POSITION)[:, None].expand(-1, 2)
    return data.x.double(), data.y.double(), line


def make_arrays(steps: Sequence[int] = STEPS, n_draws: int = 1000) -> dict[str, np.ndarray]:
    """Train a net for each depth, rate and start; return what nets and processes say.

    For ``d`` hidden layers: ``mean_d``, ``std_d (rates, seeds, 113)``, ``draws_d (rates, 12, 113)``
    of the first start, ``gp_mean_d``, ``gp_std_d (113,)``. ``history_d (rates, seeds, steps, 113)``
    is ``std_d`` on the way, after ``steps_d`` steps. ``mf_std (seeds, 113)``, ``mf_history``: the
    same for mean-field networks of one hidden layer.
    """
    x, y, line = clusters()
    stored = {"x": x.mean(1), "y": y}
    for depth in WEIGHT_STDS:
        gp_mean, gp_std = process_posterior(depth, x, y, line)
        stops = [N_TIMES[depth] * step for step in steps]
        functions = train(depth, RATES, range(N_SEEDS), stops, n_draws)
        stored[f"gp_mean_{depth}"] = gp_mean
        stored[f"gp_std_{depth}"] = gp_std
        stored[f"mean_{depth}"] = functions.mean
        stored[f"draws_{depth}"] = functions.draws[:, 0]
        stored[f"std_{depth}"] = functions.stds[:, :, -1]
        stored[f"history_{depth}"] = functions.stds
        stored[f"steps_{depth}"] = torch.tensor(stops)
    stops = [N_TIMES["mean-field"] * step for step in steps]
    history = torch.stack([train_mean_field(seed, stops) for seed in range(N_SEEDS)])
    stored["mf_history"] = history
    stored["mf_std"] = history[:, -1]
    stored["mf_steps"] = torch.tensor(stops)
    arrays = {}
    for name, values in stored.items():
        arrays[name] = (values.float() if values.dim() > 1 else values).numpy()
    return arrays


@torch.no_grad()
def process_posterior(depth: int, x: Tensor, y: Tensor, x_new: Tensor) -> tuple[Tensor, Tensor]:
    """Mean and standard deviation ``(B,)`` of the infinitely wide network's function at ``x_new``.

    It is a Gaussian process, with the prior that the networks have on weights and biases.
    """
    kernel = ReLUKernel(depth).double()
    kernel.weight_var = WEIGHT_STDS[depth] ** 2
    kernel.bias_var = 1.0
    cov = kernel(x, x).to_dense()
    cross_cov = kernel(x, x_new).to_dense()
    factor = torch.linalg.cholesky(cov + NOISE_VAR * torch.eye(len(x)))
    mean = cross_cov.T @ torch.cholesky_solve(y[:, None], factor)[:, 0]
    explained_var = solve_triangular(factor, cross_cov, upper=False).square().sum(0)
    prior_var = kernel(x_new, diag=True)
    return mean, (prior_var - explained_var).sqrt()


def train(
    depth: int,
    rates: Sequence[float],
    seeds: Sequence[int],
    stops: Sequence[int],
    n_draws: int = 1000,
) -> Functions:
    """Train dropout networks of one depth; what they say along the line.

    One hidden layer: the loss is exact, and L-BFGS minimises it one network at a time. Deeper:
    Adam, all networks in one batch, with fresh masks for every point in each step.

    Args:
        stops: numbers of steps after which the standard deviation is taken, the last one the end.
        n_draws: masks of the inner layers that the moments are taken over.
    """
    if depth > 1:
        return _train_batch(depth, rates, seeds, stops, n_draws)
    by_rate = []
    for p_drop in rates:
        by_seed = [_train_batch(1, [p_drop], [seed], stops, n_draws=1) for seed in seeds]
        by_rate.append(_joined(by_seed, dim=1))
    return _joined(by_rate, dim=0)


def _joined(parts: Sequence[Functions], dim: int) -> Functions:
    """Functions of several rates (axis 0) or starts (axis 1) as those of all of them."""
    return Functions(
        mean=torch.cat([part.mean for part in parts], dim),
        stds=torch.cat([part.stds for part in parts], dim),
        draws=torch.cat([part.draws for part in parts], dim),
    )


def _train_batch(
    depth: int,
    rates: Sequence[float],
    seeds: Sequence[int],
    stops: Sequence[int],
    n_draws: int,
) -> Functions:
    """:func:`train` for networks that are minimised together."""
    x, y, line = clusters()
    keep = 1 - torch.tensor(rates, dtype=torch.float64)[:, None, None, None]
    layers = dropout_networks(depth, len(rates), seeds)
    parameters = list(itertools.chain(*layers))
    generator = torch.Generator().manual_seed(min(seeds))

    def loss() -> Tensor:
        masks = draw_masks((len(seeds), len(x)), depth - 1, keep, generator)
        return dropout_loss(layers, x, y, keep, masks)

    def function(n_layers: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
        """Mean and variance on the line under one mask in each of so many layers."""
        masks = draw_masks((1, 1), n_layers, keep, generator)
        return moments(layers, line, keep, masks)

    minimise = minimise_by_lbfgs if depth == 1 else minimise_by_adam
    stds = []
    for _ in minimise(loss, parameters, stops):
        same_masks = torch.Generator().manual_seed(99)  # at every stop
        with torch.no_grad():
            pairs = [function(depth - 1, same_masks) for _ in range(n_draws)]
        means = torch.stack([mean for mean, _ in pairs])
        variances = torch.stack([variance for _, variance in pairs])
        stds.append((variances.mean(0) + means.var(0, correction=0)).sqrt())
    with torch.no_grad():
        draws = [function(depth, same_masks)[0] for _ in range(N_SHOWN)]
    return Functions(
        mean=means.mean(0),
        stds=torch.stack(stds, dim=2),
        draws=torch.stack(draws, dim=2),
    )


def dropout_networks(depth: int, n_rates: int, seeds: Sequence[int]) -> Layers:
    """Starts: weights of variance 1/fan-in, biases 0; the same for each rate, float64."""
    generators = [torch.Generator().manual_seed(seed) for seed in seeds]
    widths = [2] + [WIDTH] * depth + [1]
    layers = []
    for n_in, n_out in itertools.pairwise(widths):
        draws = [
            torch.randn(n_in, n_out, generator=generator, dtype=torch.float64)
            for generator in generators
        ]
        start = torch.stack(draws) / n_in**0.5
        weight = start.repeat(n_rates, 1, 1, 1).requires_grad_()
        bias = torch.zeros_like(weight[..., :1, :]).requires_grad_()
        layers.append((weight, bias))
    return layers


def moments(
    layers: Layers, x: Tensor, keep: Tensor, masks: Sequence[Tensor] = ()
) -> tuple[Tensor, Tensor]:
    """Mean and variance ``(R, S, B)`` over the masks of the last hidden layer, given the others.

    ``masks`` are those of the first hidden layers. If the last one is among them, the mean is the
    output under these masks.
    """
    *hidden_layers, (weight, bias) = layers
    for (W, b), mask in itertools.zip_longest(hidden_layers, masks, fillvalue=1.0):
        x = torch.relu(x @ W + b) * mask
    mean = x @ weight + bias
    variance = (1 - keep) / keep * (x.square() @ weight.square())
    return mean.squeeze(-1), variance.squeeze(-1)


def draw_masks(
    shape: tuple[int, int], n_layers: int, keep: Tensor, generator: torch.Generator
) -> list[Tensor]:
    """Masks ``z / keep (R, *shape, 50)`` of ``n_layers`` layers, by the same uniform numbers."""
    masks = []
    for _ in range(n_layers):
        uniform = torch.rand(1, *shape, WIDTH, generator=generator, dtype=keep.dtype)
        masks.append((uniform < keep) / keep)
    return masks


def dropout_loss(
    layers: Layers, x: Tensor, y: Tensor, keep: Tensor, masks: Sequence[Tensor]
) -> Tensor:
    """Negative ELBOs of lesson 04 in nats, up to constants, summed over networks (0-dim)."""
    mean, variance = moments(layers, x, keep, masks)
    loss = ((y - mean).square() + variance).sum() / (2 * NOISE_VAR)
    weight_var = WEIGHT_STDS[len(layers) - 1] ** 2
    for number, (weight, bias) in enumerate(layers):
        has_noise = number > 0  # the inputs of the first layer have none
        squares = (weight.square() / (keep if has_noise else 1)).sum()
        n_inputs = weight.shape[-2]
        loss = loss + squares * n_inputs / weight_var / 2 + bias.square().sum() / 2
    return loss


def minimise_by_lbfgs(
    loss: Callable[[], Tensor], parameters: Sequence[Tensor], stops: Sequence[int]
) -> Iterator[None]:
    """Minimise an exact loss in place, and pause after each number of steps in ``stops``."""
    optimizer = torch.optim.LBFGS(
        parameters,
        line_search_fn="strong_wolfe",
        tolerance_grad=1e-9,
        tolerance_change=1e-13,
        history_size=50,
    )
    for n_steps in np.diff(stops, prepend=0).tolist():
        optimizer.param_groups[0].update(max_iter=n_steps, max_eval=2 * n_steps)
        optimizer.step(_closure(loss, optimizer))
        yield


def minimise_by_adam(
    loss: Callable[[], Tensor], parameters: Sequence[Tensor], stops: Sequence[int]
) -> Iterator[None]:
    """The same for a loss with noise; the learning rate falls from 0.01 to 0.0001."""
    optimizer = torch.optim.Adam(parameters, lr=1e-2, fused=True)
    schedule = torch.optim.lr_scheduler.LinearLR(
        optimizer, start_factor=1.0, end_factor=0.01, total_iters=int(stops[-1])
    )
    closure = _closure(loss, optimizer)
    for n_steps in np.diff(stops, prepend=0).tolist():
        for _ in range(n_steps):
            optimizer.step(closure)
            schedule.step()
        yield


def _closure(loss: Callable[[], Tensor], optimizer: torch.optim.Optimizer) -> Callable[[], Tensor]:
    """What an optimizer calls for the loss and its gradient."""

    def closure() -> Tensor:
        optimizer.zero_grad()
        value = loss()
        value.backward()
        return value

    return closure


def mean_field_moments(weights: MeanField, x: Tensor) -> tuple[Tensor, Tensor]:
    """Exact mean and variance ``(B,)`` of the output over all weights, inputs ``(B, 2)``.

    The third input is a constant, under which a weight of prior variance 8 acts as a N(0, 1) bias.
    """
    constant = torch.full_like(x[:, :1], 2**0.5 / WEIGHT_STDS[1])
    x = torch.cat([x, constant], dim=1)
    gamma = x @ weights.hidden_mean
    delta = x.square() @ weights.hidden_log_var.exp()
    std = delta.sqrt()
    above = ndtr(gamma / std)
    density = torch.exp(-(gamma**2) / (2 * delta)) / (2 * np.pi) ** 0.5
    first = gamma * above + std * density  # E relu(a) and E relu(a)^2 for a ~ N(gamma, delta)
    second = (gamma**2 + delta) * above + gamma * std * density
    v = weights.output_mean
    mean = first @ v + weights.bias
    variance = second @ (v**2 + weights.output_log_var.exp()) - first**2 @ v**2
    return mean, variance


def mean_field_loss(weights: MeanField, x: Tensor, y: Tensor) -> Tensor:
    """The negative ELBO in nats, up to constants (0-dim)."""
    mean, variance = mean_field_moments(weights, x)
    misfit = ((y - mean).square() + variance).sum() / (2 * NOISE_VAR)
    kl_hidden = gaussian_kl_to_prior(
        weights.hidden_mean, weights.hidden_log_var, WEIGHT_STDS[1] ** 2 / 2
    )
    kl_output = gaussian_kl_to_prior(
        weights.output_mean, weights.output_log_var, WEIGHT_STDS[1] ** 2 / WIDTH
    )
    return misfit + (kl_hidden + kl_output) + weights.bias.square().sum() / 2


def train_mean_field(seed: int, stops: Sequence[int]) -> Tensor:
    """Train one mean-field network by L-BFGS; std ``(stops, L)`` on the line."""
    x, y, line = clusters()
    (W, b), (v, c) = dropout_networks(1, 1, [seed])
    hidden_mean = torch.cat([W[0, 0], b[0, 0]])
    output_mean = v.flatten()
    starts = MeanField(
        hidden_mean=hidden_mean,
        hidden_log_var=torch.full_like(hidden_mean, -10.0),
        output_mean=output_mean,
        output_log_var=torch.full_like(output_mean, -10.0),
        bias=c.flatten(),
    )
    weights = MeanField(*(start.detach().requires_grad_() for start in starts))
    history = []
    for _ in minimise_by_lbfgs(lambda: mean_field_loss(weights, x, y), list(weights), stops):
        with torch.no_grad():
            _, variance = mean_field_moments(weights, line)
        history.append(variance.sqrt())
    return torch.stack(history)


def make_hmc() -> dict[str, np.ndarray]:
    """The posterior of the network of one layer by Hamiltonian Monte Carlo (ten minutes).

    Given the hidden layer, the output layer is a Bayesian linear regression (lesson 02): the chains
    draw the hidden layer alone, from its marginal posterior. Along the line, ``(113,)``: ``mean``
    and ``std`` of f, ``chain_std (chains, 113)``; r_hat and ess of the mean and the variance of f
    given the hidden layer; and ``draws (100, 113)`` of f.
    """
    x, y, line = clusters()
    generator = torch.Generator().manual_seed(9)
    start = torch.randn(N_CHAINS, 3, WIDTH, generator=generator, dtype=torch.float64)
    hidden, _ = hmc(
        lambda hidden: minus_log_posterior(hidden, x, y),
        start,
        n_warmup=N_WARMUP,
        n_draws=N_DRAWS,
        n_leapfrog=140,
        step_size=0.003,
        generator=generator,
    )
    mean, root = output(hidden, x, y, line)  # (draws, chains, 113), (draws, chains, 51, 113)
    noise = torch.randn(N_DRAWS, N_CHAINS, 1, WIDTH + 1, generator=generator, dtype=mean.dtype)
    f = mean + (noise @ root).squeeze(2)
    variance = root.square().sum(2)
    every = N_CHAINS * N_DRAWS // 100
    stored = {
        "mean": mean.mean((0, 1)),
        "std": (mean.flatten(0, 1).var(0) + variance.mean((0, 1))).sqrt(),
        "chain_std": (mean.var(0) + variance.mean(0)).sqrt(),
        "draws": f.flatten(0, 1)[::every].float(),
        "r_hat_mean": split_r_hat(mean),
        "r_hat_variance": split_r_hat(variance),
        "ess_mean": effective_sample_size(mean),
        "ess_variance": effective_sample_size(variance),
    }
    return {name: values.numpy() for name, values in stored.items()}


def features(hidden: Tensor, x: Tensor) -> Tensor:
    """What the output layer multiplies, ``(..., B, 51)``: hidden units in the prior's scale, and 1.

    ``hidden (..., 3, 50)`` holds both weights and the bias of each unit over their prior stds, so
    that its prior is standard normal, and so is that of the output weights.
    """
    hidden_std = WEIGHT_STDS[1] / 2**0.5  # of the prior; there are two inputs
    output_std = WEIGHT_STDS[1] / WIDTH**0.5
    weights = hidden[..., :2, :]
    bias = hidden[..., 2:, :]
    units = torch.relu(x @ weights * hidden_std + bias)
    return torch.cat([output_std * units, torch.ones_like(units[..., :1])], dim=-1)


@torch.enable_grad()
def minus_log_posterior(hidden: Tensor, x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
    """``-log p(hidden | x, y) (...)`` in nats up to a constant, and its gradient ``(..., 3, 50)``.

    The output weights are integrated out.
    """
    hidden = hidden.detach().requires_grad_()
    Phi = features(hidden, x)
    factor, mean = _regression(Phi, y)
    residual = y - (Phi @ mean[..., None])[..., 0]
    log_det = 2 * factor.diagonal(dim1=-2, dim2=-1).log().sum(-1)
    value = (hidden.square().sum((-2, -1)) + residual @ y / NOISE_VAR + log_det) / 2
    (gradient,) = torch.autograd.grad(value.sum(), hidden)
    return value.detach(), gradient


def output(hidden: Tensor, x: Tensor, y: Tensor, x_new: Tensor) -> tuple[Tensor, Tensor]:
    """Mean ``(..., B)`` of f at ``x_new`` given the hidden layer, and a root of its covariance.

    The squared lengths of the root's columns, ``(..., 51, B)``, are the variances.
    """
    factor, weight_mean = _regression(features(hidden, x), y)
    Phi = features(hidden, x_new)
    mean = (Phi @ weight_mean[..., None])[..., 0]
    root = solve_triangular(factor, Phi.mT, upper=False)
    return mean, root


def _regression(Phi: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
    """The precision's Cholesky factor and the mean of the output weights (lesson 02)."""
    precision = Phi.mT @ Phi / NOISE_VAR + torch.eye(Phi.shape[-1], dtype=Phi.dtype)
    factor = torch.linalg.cholesky(precision)
    pull = (Phi.mT @ y / NOISE_VAR)[..., None]
    mean = torch.cholesky_solve(pull, factor)[..., 0]
    return factor, mean

"""Lesson 09: what networks on two clusters say between them, and the exact posteriors.

Networks of one, two and three hidden layers with dropout on the hidden units, several starts for
each rate; a mean-field network of one hidden layer, and its posterior by Hamiltonian Monte Carlo;
and the infinitely wide counterpart: the same prior, the same noise, the same points.
"""

import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence

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
STEPS = (125, 250, 500, 1000, 2000)  # of L-BFGS, after which the history looks; times N_TIMES
N_TIMES = {1: 2, "mean-field": 2, 2: 8, 3: 8}  # deeper networks take steps of Adam
N_SEEDS = 3
N_SHOWN = 12
N_CHAINS, N_DRAWS = 8, 600

Layers = list[tuple[Tensor, Tensor]]  # weights (rates, seeds, in, out), biases (..., 1, out)


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
    looks = {kind: [n_times * step for step in steps] for kind, n_times in N_TIMES.items()}
    stored = {"x": x.mean(1), "y": y}
    for depth, weight_std in WEIGHT_STDS.items():
        kernel = ReLUKernel(depth).double()
        kernel.weight_var = weight_std**2
        kernel.bias_var = 1.0
        with torch.no_grad():
            cov, cross = (kernel(x, other).to_dense() for other in (x, line))
            factor = torch.linalg.cholesky(cov + NOISE_VAR * torch.eye(len(x)))
            mean = cross.T @ torch.cholesky_solve(y[:, None], factor)[:, 0]
            known = solve_triangular(factor, cross, upper=False).square().sum(0)
            std = (kernel(line, diag=True) - known).sqrt()
        stored |= {f"gp_mean_{depth}": mean, f"gp_std_{depth}": std}
        mean, history, draws = train(depth, RATES, range(N_SEEDS), looks[depth], n_draws)
        stored |= {f"mean_{depth}": mean, f"draws_{depth}": draws[:, 0]}
        stored |= {f"std_{depth}": history[:, :, -1], f"history_{depth}": history}
        stored[f"steps_{depth}"] = torch.tensor(looks[depth])
    steps = looks["mean-field"]
    history = torch.stack([train_mean_field(seed, steps) for seed in range(N_SEEDS)])
    stored |= {"mf_history": history, "mf_std": history[:, -1], "mf_steps": torch.tensor(steps)}
    return {name: (v.float() if v.dim() > 1 else v).numpy() for name, v in stored.items()}


def train(
    depth: int,
    rates: Sequence[float],
    seeds: Sequence[int],
    looks: Sequence[int],
    n_draws: int = 1000,
) -> tuple[Tensor, Tensor, Tensor]:
    """Train dropout networks of one depth; what they say along the line.

    One hidden layer: the loss is exact, and L-BFGS minimises it one network at a time. Deeper:
    Adam, all networks in one batch, with fresh masks for every point in each step. Returns mean
    ``(R, S, L)``; std ``(R, S, looks, L)`` after each number of steps in ``looks``, over
    ``n_draws`` masks; draws of the function ``(R, S, N_SHOWN, L)``.
    """
    if depth == 1 and len(rates) * len(seeds) > 1:
        runs = [[train(1, [p_drop], [seed], looks) for seed in seeds] for p_drop in rates]
        by_rate = ([torch.cat(part, 1) for part in zip(*row, strict=True)] for row in runs)
        return tuple(map(torch.cat, zip(*by_rate, strict=True)))
    x, y, line = clusters()
    keep = 1 - torch.tensor(rates, dtype=torch.float64)[:, None, None, None]
    layers = dropout_networks(depth, len(rates), seeds)
    stds = []
    generator = torch.Generator().manual_seed(min(seeds))
    shape = (len(seeds), len(x))

    def loss() -> Tensor:
        return dropout_loss(layers, x, y, keep, draw_masks(shape, depth - 1, keep, generator))

    for _ in minimise(loss, itertools.chain(*layers), looks, is_exact=depth == 1):
        eye = torch.Generator().manual_seed(99)  # the same masks at every look
        with torch.no_grad():
            found = [
                moments(layers, line, keep, draw_masks((1, 1), depth - 1, keep, eye))
                for _ in range(n_draws if depth > 1 else 1)
            ]
        means, variances = map(torch.stack, zip(*found, strict=True))
        stds.append((variances.mean(0) + means.var(0, correction=0)).sqrt())
    masks = (draw_masks((1, 1), depth, keep, eye) for _ in range(N_SHOWN))
    with torch.no_grad():
        shown = [moments(layers, line, keep, drawn)[0] for drawn in masks]
    return means.mean(0), torch.stack(stds, 2), torch.stack(shown, 2)


def dropout_networks(depth: int, n_rates: int, seeds: Sequence[int]) -> Layers:
    """Starts: weights of variance 1/fan-in, biases 0; the same for each rate, float64."""
    generators = [torch.Generator().manual_seed(seed) for seed in seeds]
    layers = []
    for n_in, n_out in itertools.pairwise([2, *[WIDTH] * depth, 1]):
        draws = [torch.randn(n_in, n_out, generator=g, dtype=torch.float64) for g in generators]
        weight = (torch.stack(draws) / n_in**0.5).repeat(n_rates, 1, 1, 1).requires_grad_()
        layers.append((weight, torch.zeros_like(weight[..., :1, :]).requires_grad_()))
    return layers


def moments(
    layers: Layers, x: Tensor, keep: Tensor, masks: Sequence[Tensor] = ()
) -> tuple[Tensor, Tensor]:
    """Mean and variance ``(R, S, B)`` over the masks of the last hidden layer, given the others;
    with its own masks among them the mean is the output under these masks."""
    *inner, (weight, bias) = layers
    for (W, b), mask in itertools.zip_longest(inner, masks, fillvalue=1.0):
        x = torch.relu(x @ W + b) * mask
    variance = (1 - keep) / keep * (x.square() @ weight.square())
    return (x @ weight + bias).squeeze(-1), variance.squeeze(-1)


def draw_masks(
    shape: tuple[int, int], n_layers: int, keep: Tensor, generator: torch.Generator
) -> list[Tensor]:
    """Masks ``z / keep (R, *shape, 50)`` of ``n_layers`` layers, by the same uniform numbers."""
    shape = (1, *shape, WIDTH)
    uniforms = [torch.rand(shape, generator=generator, dtype=keep.dtype) for _ in range(n_layers)]
    return [(u < keep) / keep for u in uniforms]


def dropout_loss(
    layers: Layers, x: Tensor, y: Tensor, keep: Tensor, masks: Sequence[Tensor]
) -> Tensor:
    """Negative ELBOs of lesson 04 in nats, up to constants, summed over networks (0-dim)."""
    mean, variance = moments(layers, x, keep, masks)
    loss = ((y - mean).square() + variance).sum() / (2 * NOISE_VAR)
    weight_var = WEIGHT_STDS[len(layers) - 1] ** 2
    for number, (weight, bias) in enumerate(layers):
        l2 = (weight.square() / (keep if number else 1)).sum() * weight.shape[-2] / weight_var
        loss = loss + l2 / 2 + bias.square().sum() / 2
    return loss


def minimise(
    loss: Callable[[], Tensor], parameters: Iterable[Tensor], looks: Sequence[int], is_exact: bool
) -> Iterator[int]:
    """Minimise in place and yield after each number of steps in ``looks``: an exact loss by L-BFGS,
    another by Adam, its learning rate falling from 0.01 to 0.0001."""
    if is_exact:
        how = {"tolerance_grad": 1e-9, "tolerance_change": 1e-13, "history_size": 50}
        optimizer = torch.optim.LBFGS(list(parameters), line_search_fn="strong_wolfe", **how)
    else:
        optimizer = torch.optim.Adam(parameters, lr=1e-2, fused=True)
        schedule = torch.optim.lr_scheduler.LinearLR(optimizer, 1.0, 0.01, int(looks[-1]))

    def closure() -> Tensor:
        optimizer.zero_grad()
        value = loss()
        value.backward()
        return value

    for n_steps in np.diff(looks, prepend=0).tolist():
        if is_exact:
            optimizer.param_groups[0].update(max_iter=n_steps, max_eval=2 * n_steps)
            optimizer.step(closure)
        else:
            for _ in range(n_steps):
                optimizer.step(closure)
                schedule.step()
        yield n_steps


def mean_field_moments(parameters: Sequence[Tensor], x: Tensor) -> tuple[Tensor, Tensor]:
    """Exact mean and variance ``(B,)`` of the output over all weights, inputs ``(B, 2)``.

    ``parameters`` are means ``(3, 50)`` and log variances of the hidden layer, those ``(50,)`` of
    the output weights, and the output's bias. The third input is a constant, under which a weight
    of prior variance 8 acts as a N(0, 1) bias.
    """
    mu, log_sigma2, v, log_sigma2_v, bias = parameters
    x = torch.cat([x, torch.full_like(x[:, :1], 2**0.5 / WEIGHT_STDS[1])], 1)
    gamma = x @ mu
    delta = x.square() @ log_sigma2.exp()
    std = delta.sqrt()
    above = ndtr(gamma / std)
    density = torch.exp(-(gamma**2) / (2 * delta)) / (2 * np.pi) ** 0.5
    first = gamma * above + std * density  # E relu(a) and E relu(a)^2 for a ~ N(gamma, delta)
    second = (gamma**2 + delta) * above + gamma * std * density
    return first @ v + bias, second @ (v**2 + log_sigma2_v.exp()) - first**2 @ v**2


def mean_field_loss(parameters: Sequence[Tensor], x: Tensor, y: Tensor) -> Tensor:
    """The negative ELBO in nats, up to constants (0-dim)."""
    mu, log_sigma2, v, log_sigma2_v, bias = parameters
    mean, variance = mean_field_moments(parameters, x)
    data = ((y - mean).square() + variance).sum() / (2 * NOISE_VAR)
    kl = gaussian_kl_to_prior(mu, log_sigma2, WEIGHT_STDS[1] ** 2 / 2)
    kl = kl + gaussian_kl_to_prior(v, log_sigma2_v, WEIGHT_STDS[1] ** 2 / WIDTH)
    return data + kl + bias.square().sum() / 2


def train_mean_field(seed: int, looks: Sequence[int]) -> Tensor:
    """Train one mean-field network by L-BFGS; std ``(looks, L)`` on the line."""
    x, y, line = clusters()
    (W, b), (v, c) = dropout_networks(1, 1, [seed])
    mu = torch.cat([W[0, 0], b[0, 0]])
    v = v.flatten()
    bias = c.flatten()
    parameters = [mu, torch.full_like(mu, -10.0), v, torch.full_like(v, -10.0), bias]
    parameters = [part.detach().requires_grad_() for part in parameters]
    history = []
    for _ in minimise(lambda: mean_field_loss(parameters, x, y), parameters, looks, is_exact=True):
        with torch.no_grad():
            history.append(mean_field_moments(parameters, line)[1].sqrt())
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
    how = {"n_leapfrog": 140, "step_size": 0.003, "generator": generator}
    hidden, _ = hmc(lambda h: minus_log_posterior(h, x, y), start, 200, N_DRAWS, **how)
    mean, root = output(hidden, x, y, line)  # (draws, chains, 113), (draws, chains, 51, 113)
    noise = torch.randn(N_DRAWS, N_CHAINS, 1, WIDTH + 1, generator=generator, dtype=mean.dtype)
    f = mean + (noise @ root).squeeze(2)
    variance = root.square().sum(2)
    stored = {
        "mean": mean.mean((0, 1)),
        "std": (mean.flatten(0, 1).var(0) + variance.mean((0, 1))).sqrt(),
        "chain_std": (mean.var(0) + variance.mean(0)).sqrt(),
        "draws": f.flatten(0, 1)[:: N_CHAINS * N_DRAWS // 100].float(),
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
    w_std, v_std = (WEIGHT_STDS[1] / n_inputs**0.5 for n_inputs in (2, WIDTH))
    units = torch.relu(x @ hidden[..., :2, :] * w_std + hidden[..., 2:, :])
    return torch.cat([v_std * units, torch.ones_like(units[..., :1])], -1)


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
    return value.detach(), torch.autograd.grad(value.sum(), hidden)[0]


def output(hidden: Tensor, x: Tensor, y: Tensor, x_new: Tensor) -> tuple[Tensor, Tensor]:
    """Mean ``(..., B)`` of f at ``x_new`` given the hidden layer, and a root ``(..., 51, B)`` of
    its covariance: its columns' squared lengths are the variances."""
    factor, mean = _regression(features(hidden, x), y)
    Phi = features(hidden, x_new)
    return (Phi @ mean[..., None])[..., 0], solve_triangular(factor, Phi.mT, upper=False)


def _regression(Phi: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
    """The precision's Cholesky factor and the mean of the output weights (lesson 02)."""
    precision = Phi.mT @ Phi / NOISE_VAR + torch.eye(Phi.shape[-1], dtype=Phi.dtype)
    factor = torch.linalg.cholesky(precision)
    return factor, torch.cholesky_solve((Phi.mT @ y / NOISE_VAR)[..., None], factor)[..., 0]

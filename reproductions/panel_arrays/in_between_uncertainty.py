"""Lesson 09: dropout and mean-field networks on two clusters, and the exact Gaussian processes.

Networks of one, two and three hidden layers with dropout on the hidden units, several starts for
each rate; a mean-field network of one hidden layer; and the infinitely wide counterpart: the same
prior, the same noise, the same points.
"""

import itertools
from collections.abc import Callable, Iterable, Sequence

import numpy as np
import torch
from torch import Tensor
from torch.special import ndtr

from bdl_lessons.datasets import origin_clusters
from bdl_lessons.models import BayesByBackprop, StochasticLayer
from bdl_lessons.panels.in_between_uncertainty import POSITION, RATES, WEIGHT_STDS
from bdl_lessons.reference import ReLUKernel, gp_posterior

NOISE_VAR = 0.1**2
WIDTH = 50
STEPS = (125, 250, 500, 1000, 2000)  # of L-BFGS, after which the history looks; times N_TIMES
N_TIMES = {1: 2, "mean-field": 2, 2: 8, 3: 8}  # deeper networks take steps of Adam
N_SEEDS = 3
N_SHOWN = 12

Layers = list[tuple[Tensor, Tensor]]  # weights (rates, seeds, in, out), biases (..., 1, out)


def make_arrays(steps: Sequence[int] = STEPS, n_draws: int = 1000) -> dict[str, np.ndarray]:
    """Train a net for each depth, rate and start; return what nets and processes say.

    For ``d`` hidden layers: ``mean_d``, ``std_d (rates, seeds, 113)``, ``draws_d (rates, 12, 113)``
    of the first start, ``gp_mean_d``, ``gp_std_d (113,)``. ``history_d (rates, seeds, steps, 113)``
    is ``std_d`` on the way, after ``steps_d`` steps. ``mf_mean``, ``mf_std (seeds, 113)`` and
    ``mf_history``: the same for mean-field networks of one hidden layer.
    """
    data = origin_clusters()
    x, y = data.x.double(), data.y.double()
    line = torch.from_numpy(POSITION)[:, None].expand(-1, 2)
    stored: dict[str, np.ndarray] = {"x": x.mean(1).numpy(), "y": y.numpy()}
    for depth, weight_std in WEIGHT_STDS.items():
        kernel = ReLUKernel(depth).double()
        kernel.weight_var, kernel.bias_var = weight_std**2, 1.0
        with torch.no_grad():
            covariances = (kernel(*pair).to_dense() for pair in ((x, x), (x, line), (line, line)))
            mean, cov = gp_posterior(*covariances, y, NOISE_VAR)
        stored[f"gp_mean_{depth}"] = mean.numpy()
        stored[f"gp_std_{depth}"] = cov.diagonal().sqrt().numpy()
        looks = [N_TIMES[depth] * step for step in steps]
        runs = train(x, y, line, depth, RATES, range(N_SEEDS), looks, n_draws)
        for name, values in zip(("mean", "history", "draws"), runs, strict=True):
            stored[f"{name}_{depth}"] = values.numpy()
        stored[f"steps_{depth}"] = np.array(looks)
        stored[f"std_{depth}"] = stored[f"history_{depth}"][:, :, -1]
        stored[f"draws_{depth}"] = stored[f"draws_{depth}"][:, 0]
    looks = [N_TIMES["mean-field"] * step for step in steps]
    runs = [train_mean_field(x, y, line, seed, looks) for seed in range(N_SEEDS)]
    mean, history = (torch.stack(part) for part in zip(*runs, strict=True))
    stored |= {"mf_mean": mean.numpy(), "mf_history": history.numpy(), "mf_steps": np.array(looks)}
    stored["mf_std"] = stored["mf_history"][:, -1]
    return {name: v.astype(np.float32) if v.ndim > 1 else v for name, v in stored.items()}


def train(
    x: Tensor,
    y: Tensor,
    line: Tensor,
    depth: int,
    rates: Sequence[float],
    seeds: Sequence[int],
    looks: Sequence[int],
    n_draws: int = 1000,
) -> tuple[Tensor, Tensor, Tensor]:
    """Train dropout networks of one depth; what they say along ``line (L, 2)``.

    One hidden layer: the loss is exact, and L-BFGS minimises it one network at a time. Deeper:
    Adam, all networks in one batch, with fresh masks for every point in each step.

    Returns:
        mean ``(R, S, L)``; std ``(R, S, looks, L)`` after each number of steps in ``looks``, over
        ``n_draws`` masks; ``N_SHOWN`` draws of the function ``(R, S, N_SHOWN, L)``.
    """
    if depth == 1 and len(rates) * len(seeds) > 1:
        pairs = itertools.product(rates, seeds)
        runs = [train(x, y, line, 1, (p_drop,), (seed,), looks) for p_drop, seed in pairs]
        parts = (torch.cat(part).squeeze(1) for part in zip(*runs, strict=True))
        return tuple(part.unflatten(0, (len(rates), len(seeds))) for part in parts)
    keep = 1 - torch.tensor(rates, dtype=torch.float64)[:, None, None, None]
    layers, stds = dropout_networks(depth, len(rates), seeds), []
    generator, shape = torch.Generator().manual_seed(min(seeds)), (1, len(seeds), len(x), WIDTH)

    def loss() -> Tensor:
        return dropout_loss(layers, x, y, keep, draw_masks(shape, depth - 1, keep, generator))

    for _ in (lbfgs if depth == 1 else adam)(loss, itertools.chain(*layers), looks):
        eye = torch.Generator().manual_seed(99)  # the same masks at every look
        with torch.no_grad():
            found = [
                moments(layers, line, keep, draw_masks((1, 1, 1, WIDTH), depth - 1, keep, eye))
                for _ in range(n_draws if depth > 1 else 1)
            ]
        means, variances = (torch.stack(part) for part in zip(*found, strict=True))
        stds.append((variances.mean(0) + means.var(0, correction=0)).sqrt())
    masks = (draw_masks((1, 1, 1, WIDTH), depth, keep, eye) for _ in range(N_SHOWN))
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


def hidden(layers: Layers, x: Tensor, masks: Sequence[Tensor]) -> Tensor:
    """The last hidden layer ``(R, S, B, 50)``, with as many layers of masks as there are."""
    h = x
    for number, (weight, bias) in enumerate(layers[:-1]):
        h = torch.relu(h @ weight + bias)
        h = h * masks[number] if number < len(masks) else h
    return h


def moments(
    layers: Layers, x: Tensor, keep: Tensor, masks: Sequence[Tensor] = ()
) -> tuple[Tensor, Tensor]:
    """Mean and variance ``(R, S, B)`` over the masks of the last hidden layer, given the others.

    With its own masks among them the mean is the output under these masks.
    """
    h, (weight, bias) = hidden(layers, x, masks), layers[-1]
    variance = (1 - keep) / keep * (h.square() @ weight.square())
    return (h @ weight + bias).squeeze(-1), variance.squeeze(-1)


def draw_masks(
    shape: Sequence[int], n_layers: int, keep: Tensor, generator: torch.Generator
) -> list[Tensor]:
    """Masks ``z / keep`` of ``n_layers`` layers; all rates use the same uniform numbers."""
    layers = range(n_layers)
    uniforms = (torch.rand(*shape, generator=generator, dtype=torch.float64) for _ in layers)
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


def lbfgs(loss: Callable[[], Tensor], parameters: Iterable[Tensor], looks: Sequence[int]):
    """Minimise by L-BFGS, in place; yield after each number of iterations in ``looks``."""
    optimizer = torch.optim.LBFGS(
        list(parameters),
        tolerance_grad=1e-9,
        tolerance_change=1e-13,
        history_size=50,
        line_search_fn="strong_wolfe",
    )

    def closure() -> Tensor:
        optimizer.zero_grad()
        value = loss()
        value.backward()
        return value

    for done, look in itertools.pairwise([0, *map(int, looks)]):
        optimizer.param_groups[0].update(max_iter=look - done, max_eval=2 * (look - done))
        optimizer.step(closure)
        yield look


def adam(loss: Callable[[], Tensor], parameters: Iterable[Tensor], looks: Sequence[int]):
    """Minimise by Adam, its learning rate falling from 0.01 to 0.0001; yield as :func:`lbfgs`."""
    optimizer = torch.optim.Adam(parameters, lr=1e-2, fused=True)
    schedule = torch.optim.lr_scheduler.LinearLR(optimizer, 1.0, 0.01, int(looks[-1]))
    for step in range(1, int(looks[-1]) + 1):
        optimizer.zero_grad()
        loss().backward()
        optimizer.step()
        schedule.step()
        if step in looks:
            yield step


def mean_field_network(seed: int) -> list[StochasticLayer]:
    """Two Bayes-by-backprop layers, float64. The input's third column carries the hidden biases."""
    generator = torch.Generator().manual_seed(seed)
    hidden = BayesByBackprop(WEIGHT_STDS[1] ** 2 / 2, -10.0).linear(3, WIDTH).double()
    output = BayesByBackprop(WEIGHT_STDS[1] ** 2 / WIDTH, -10.0).linear(WIDTH, 1).double()
    with torch.no_grad():
        for layer, n_in in ((hidden, 2), (output, WIDTH)):
            draw = torch.randn(n_in, layer.mu.shape[0], generator=generator, dtype=torch.float64)
            layer.mu.zero_()[:, :n_in] = draw.T / n_in**0.5
            layer.bias.zero_()
    hidden.bias.requires_grad_(False)
    return [hidden, output]


def with_bias(x: Tensor) -> Tensor:
    """Append a constant input under which a weight of prior variance 8 acts as a N(0, 1) bias."""
    return torch.cat([x, torch.full_like(x[:, :1], 2**0.5 / WEIGHT_STDS[1])], 1)


def mean_field_moments(layers: Sequence[StochasticLayer], x: Tensor) -> tuple[Tensor, Tensor]:
    """Exact mean and variance ``(B,)`` of the output over all weights, inputs ``(B, 3)``."""
    hidden, output = layers
    gamma, delta = hidden.activation_moments(x)
    std = delta.sqrt()
    above, density = ndtr(gamma / std), torch.exp(-(gamma**2) / (2 * delta)) / (2 * np.pi) ** 0.5
    first = gamma * above + std * density  # E relu(a) and E relu(a)^2 for a ~ N(gamma, delta)
    second = (gamma**2 + delta) * above + gamma * std * density
    mean, var = output.mu[0], output.noise.var(output.mu)[0]
    return first @ mean + output.bias, second @ (mean**2 + var) - first**2 @ mean**2


def train_mean_field(
    x: Tensor, y: Tensor, line: Tensor, seed: int, looks: Sequence[int]
) -> tuple[Tensor, Tensor]:
    """Train one mean-field network by L-BFGS; mean ``(L,)`` and std ``(looks, L)`` on ``line``."""
    layers = mean_field_network(seed)
    hidden, output = layers

    def loss() -> Tensor:
        mean, variance = mean_field_moments(layers, with_bias(x))
        data = ((y - mean).square() + variance).sum() / (2 * NOISE_VAR)
        return data + hidden.kl() + output.kl() + output.bias.square().sum() / 2

    parameters = [part for layer in layers for part in layer.parameters() if part.requires_grad]
    history = []
    for _ in lbfgs(loss, parameters, looks):
        with torch.no_grad():
            mean, variance = mean_field_moments(layers, with_bias(line))
            history.append(variance.sqrt())
    return mean, torch.stack(history)

"""Lesson 11: what learning correlated noise is worth, on networks that differ in nothing else.

Networks 64-50-10 learn the digits with independent noise, with reflections whose vectors stay as
they were drawn, with learned ones, and with a covariance that is free. Those of one split share
their first weights, alphas and vectors, their minibatches, and the random numbers of every draw.
So most of what makes two trained networks differ cancels in their difference.
"""

import itertools
from functools import partial

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from bdl_lessons.evaluation import log_mean_probs, metrics
from bdl_lessons.inference import BatchedNetworks, adam, fit_batched, predict_batched
from bdl_lessons.models import Method, Network, StructuredDropout, initialise, mlp
from reproductions.measure import rms_correlation
from reproductions.panel_arrays.structure_and_nll import Split, digits_split
from reproductions.posteriors.full_covariance import FullCovarianceDropout

WIDTHS = (64, 50, 10)
KL_WEIGHTS = (0.01, 0.1)
N_SPLITS = 8
N_STEPS = 2400
N_DRAWS = 100
INDEPENDENT = partial(
    StructuredDropout, n_reflections=0, init_p_drop=0.1, alpha_spread=0.5, kl_per="weight"
)


METHODS: dict[str, Method] = {
    "T = 0": INDEPENDENT,
    "T = 2, frozen": partial(INDEPENDENT, n_reflections=2),
    "T = 2, learned": partial(INDEPENDENT, n_reflections=2),
    "full covariance": partial(FullCovarianceDropout, init_p_drop=0.1, alpha_spread=0.5),
}


def make_arrays() -> dict[str, np.ndarray]:
    """Of every method, KL weight and split ``(method, weight, split)``: ``nll`` in nats,
    ``accuracy``, and ``correlation``: root mean square of the correlations of two factors, the
    larger of the two layers. ``methods`` and ``kl_weights`` name the axes."""
    splits = [digits_split(seed) for seed in range(N_SPLITS)]
    runs = [run(method, splits) for method in METHODS]
    scores = {key: np.stack([scored[key] for scored in runs]) for key in runs[0]}
    return {**scores, "methods": np.array(list(METHODS)), "kl_weights": np.array(KL_WEIGHTS)}


def run(method: str, splits: list[Split], n_steps: int = N_STEPS) -> dict[str, np.ndarray]:
    """Train and test a network for each KL weight and split: ``(weight, split)`` each."""
    networks = [
        start(method, seed) for _, seed in itertools.product(KL_WEIGHTS, range(len(splits)))
    ]
    members = BatchedNetworks(networks)
    x_train, y_train = _stacked(splits, "train")
    fit_batched(
        members,
        x_train,
        y_train,
        cross_entropy,
        n_steps=n_steps,
        batch_size=100,
        optimizer=adam(5e-3),
        schedule=lambda step: min(1, 2 - 2 * step / n_steps),
        kl_weight=torch.tensor(KL_WEIGHTS).repeat_interleave(len(splits)),
        generator=torch.Generator().manual_seed(0),
    )
    x_test, y_test = _stacked(splits, "test")
    with torch.no_grad():
        draws = predict_batched(
            members, x_test, N_DRAWS, generator=torch.Generator().manual_seed(1)
        )
    scores = {"nll": [], "accuracy": [], "correlation": []}
    for number in range(len(members)):
        log_probs = log_mean_probs(draws[:, number])
        scores["nll"].append(metrics.nll(log_probs, y_test[number]))
        scores["accuracy"].append(metrics.accuracy(log_probs.exp(), y_test[number]))
        scores["correlation"].append(largest_correlation(members.network(number)))
    shape = (len(KL_WEIGHTS), len(splits))
    return {key: np.array(values).reshape(shape) for key, values in scores.items()}


def start(method: str, seed: int) -> Network:
    """A new network: its weights and alphas depend on the seed alone, and of its vectors the first
    ones do, layer by layer."""
    network = mlp(WIDTHS, METHODS[method])
    independent = initialise(mlp(WIDTHS, INDEPENDENT), torch.Generator().manual_seed(seed))
    for number, (layer, source) in enumerate(zip(network[::2], independent[::2], strict=True)):
        generator = torch.Generator().manual_seed(1000 * (number + 1) + seed)
        layer.inner.load_state_dict(source.inner.state_dict())
        with torch.no_grad():
            layer.raw_log_alpha.copy_(source.raw_log_alpha)
            if isinstance(layer, StructuredDropout):
                layer.vectors.copy_(torch.randn(layer.vectors.shape, generator=generator))
                layer.vectors.requires_grad_("frozen" not in method)
    return network


def largest_correlation(network: Network) -> float:
    """Root mean square of the correlations of two factors, in the layer where it is larger."""
    covs = [layer.noise_cov().detach().double() for layer in network[::2]]
    return max(rms_correlation(cov).item() for cov in covs)


def _stacked(splits: list[Split], part: str) -> tuple[Tensor, Tensor]:
    """Inputs and targets of one part for every network, KL weight by KL weight."""
    x = torch.stack([getattr(split, part)[0] for split in splits])
    y = torch.stack([getattr(split, part)[1] for split in splits])
    return x.repeat(len(KL_WEIGHTS), 1, 1), y.repeat(len(KL_WEIGHTS), 1)

"""Lesson 08: how many weights a network of the digits needs, by three ways to remove them.

Every method is trained at three weights of its penalty, which MAP may choose from too, on the same
splits of 1000, 300 and 497 digits. All networks of a method are trained as one batch of matrices.
"""

from copy import deepcopy
from functools import partial

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import cross_entropy, pad

from bdl_lessons.datasets import digits
from bdl_lessons.inference import (
    BatchedNetworks,
    adam,
    fit_batched,
    sparsity,
    zero_pruned,
)
from bdl_lessons.models import ARD, Deterministic, Network, SparseVD, initialise, mlp
from bdl_lessons.probability import kl_warmup

PENALTY_WEIGHTS = (0.1, 0.3, 1.0)
"""Of the KL for the sparse methods, of the Gaussian prior for MAP and for pruning by size."""

SPARSE = {"ARD": ARD, "sparse VD": SparseVD}
METHODS = (*SPARSE, "pruned by size")
N_SPLITS = 10
N_STEPS = 1000
N_TRAIN = 1000
N_VALIDATION = 300
N_TEST = 497
N_ROUNDS = 4
N_DRAWS = 20
SHIFTS = ("as given", "pixel noise 0.3", "one pixel right", "turned by 90°", "pixels permuted")

Scores = dict[str, np.ndarray]


def make_arrays(n_splits: int = N_SPLITS, n_steps: int = N_STEPS) -> Scores:
    """Scores by method (three), weight of the penalty (three) and split; errors in percent.

    - ``error``, ``kept``: test errors and weights that are left, ``(3, 3, S)``;
    - ``validation_nll``: what a weight is chosen by, in nats, ``(3, 3, S)``;
    - ``map_error``, ``map_validation_nll``: those of MAP, ``(3, S)``;
    - ``error_before``: of the sparse methods before weights are removed, ``(2, 3, S)``;
    - ``error_by_size``: of ARD's networks if as many weights go by the size of their mean,
      ``(3, S)``;
    - ``error_at_once``: of MAP's networks that lose, all at once, as many weights as ARD at the
      same weight of its penalty, ``(3, S)``;
    - ``nll``: of the mean of 20 draws and of the mean weights of ARD's networks before weights are
      removed, by the shifts of the images, ``(2, 5, 3, S)``.
    """
    data = _stacked(n_splits)
    weights = torch.tensor(PENALTY_WEIGHTS).repeat_interleave(n_splits)
    warm_up = kl_warmup(n_steps / 4)
    networks = {}
    scores = {}
    for name, method in SPARSE.items():
        quiet = partial(method, init_log_sigma2=-6.0)
        networks[name] = _build([quiet] * len(weights))
        _train(networks[name], data, n_steps, lambda step: weights * warm_up(step))
        scores[name] = _scores(networks[name], data, prunes=True)
    plain = _train(_build([Deterministic] * len(weights)), data, n_steps, weights)
    of_map = _scores(plain, data)

    shares = torch.from_numpy(scores["ARD"]["kept"] / 100).flatten()
    scores["pruned by size"] = _pruned_in_rounds(of_map, shares, data, n_steps)
    by_size = deepcopy(networks["ARD"])
    keep_largest(by_size, shares, every=2)  # of mu and log_sigma2 only mu
    at_once = deepcopy(plain)
    keep_largest(at_once, shares)

    def by_method(score: str) -> np.ndarray:
        return np.stack([scores[name][score] for name in METHODS]).astype(np.float32)

    before = [_scores(networks[name], data)["error"] for name in SPARSE]
    return {
        "error": by_method("error"),
        "kept": by_method("kept"),
        "validation_nll": by_method("validation_nll"),
        "map_error": of_map["error"].astype(np.float32),
        "map_validation_nll": of_map["validation_nll"].astype(np.float32),
        "error_before": np.stack(before).astype(np.float32),
        "error_by_size": _scores(by_size, data)["error"].astype(np.float32),
        "error_at_once": _scores(at_once, data)["error"].astype(np.float32),
        "nll": draws_and_means(networks["ARD"], data),
    }


def keep_largest(networks: BatchedNetworks, shares: Tensor, every: int = 1) -> None:
    """Of network i the share ``shares[i]`` of the weights stays, the largest; biases stay.

    The others become 0 and get no gradient from then on.

    Args:
        networks: M networks; their matrices are changed in place.
        shares: ``(M,)``, of all weights of a network, in (0, 1].
        every: 2 takes every second matrix alone, the means where each has log variances.
    """
    matrices = [values for values in networks.parameters() if values.dim() == 3][::every]
    sizes = torch.cat([matrix.detach().abs().flatten(1) for matrix in matrices], dim=1)
    limits = [size.quantile(1 - share) for size, share in zip(sizes, shares.to(sizes), strict=True)]
    limit = torch.stack(limits)[:, None, None]
    for matrix in matrices:
        mask = (matrix.detach().abs() > limit).to(matrix)
        matrix.data.mul_(mask)
        matrix.register_hook(lambda gradient, mask=mask: gradient * mask)


def shifted(x: Tensor, generator: torch.Generator) -> dict[str, Tensor]:
    """The images ``(..., N, 64)`` as they are and changed, by the names in ``SHIFTS``."""
    images = x.unflatten(-1, (8, 8))
    order = torch.rand(x.shape, generator=generator).argsort(-2)
    return {
        "as given": x,
        "pixel noise 0.3": x + 0.3 * torch.randn(x.shape, generator=generator),
        "one pixel right": pad(images[..., :-1], (1, 0)).flatten(-2),
        "turned by 90°": images.rot90(1, (-2, -1)).flatten(-2),
        "pixels permuted": x.gather(-2, order),  # each pixel is that of another image
    }


@torch.no_grad()
def draws_and_means(networks: BatchedNetworks, data: dict[str, Tensor]) -> np.ndarray:
    """NLL on all test images, ``(2, shift, 3, S)``: by the mean of 20 draws, by mean weights."""
    generator = torch.Generator().manual_seed(3)
    n_copies = len(PENALTY_WEIGHTS)
    label = data["y_test"].repeat(n_copies, 1)[..., None]
    nll = []
    for x in shifted(data["x_test"], generator).values():
        x = x.repeat(n_copies, 1, 1)
        draws = [networks(x, "per_example", generator).softmax(-1) for _ in range(N_DRAWS)]
        of_means = networks(x, "mean").softmax(-1)
        probs = torch.stack([torch.stack(draws).mean(0), of_means])
        at_label = probs.gather(-1, label.expand(2, -1, -1, -1)).clamp_min(1e-30)
        nll.append(-at_label.log().mean((2, 3)))
    by_shift = torch.stack(nll, dim=1)
    return by_shift.unflatten(2, (n_copies, -1)).numpy().astype(np.float32)


def _stacked(n_splits: int) -> dict[str, Tensor]:
    splits = [digits(N_TRAIN, N_VALIDATION + N_TEST, seed=seed) for seed in range(n_splits)]
    names = ("x_train", "y_train", "x_test", "y_test")
    return {name: torch.stack([getattr(split, name) for split in splits]) for name in names}


def _build(methods: list) -> BatchedNetworks:
    generator = torch.Generator().manual_seed(0)
    return BatchedNetworks([initialise(mlp((64, 50, 10), method), generator) for method in methods])


def _train(
    networks: BatchedNetworks, data: dict[str, Tensor], n_steps: int, kl_weight
) -> BatchedNetworks:
    n_copies = len(networks) // len(data["x_train"])
    fit_batched(
        networks,
        data["x_train"].repeat(n_copies, 1, 1),
        data["y_train"].repeat(n_copies, 1),
        cross_entropy,
        n_steps=n_steps,
        batch_size=100,
        generator=torch.Generator().manual_seed(1),
        optimizer=adam(1e-2),
        kl_weight=kl_weight,
        schedule=lambda step: min(1, 2 - 2 * step / n_steps),
    )
    return networks


def _pruned_in_rounds(
    of_map: Scores, shares: Tensor, data: dict[str, Tensor], n_steps: int
) -> Scores:
    """Half of the steps, then four rounds of deleting and of an eighth of the steps.

    The prior is that which MAP chose on the same split.
    """
    n_copies = len(PENALTY_WEIGHTS)
    chosen = of_map["validation_nll"].argmin(0)
    priors = torch.tensor(PENALTY_WEIGHTS)[chosen].repeat(n_copies)
    networks = _build([Deterministic] * len(priors))
    _train(networks, data, max(1, n_steps // 2), priors)
    for number in range(1, N_ROUNDS + 1):
        keep_largest(networks, shares ** (number / N_ROUNDS))
        _train(networks, data, max(1, n_steps // 2 // N_ROUNDS), priors)
    kept = 100 * shares.view(n_copies, -1).numpy()
    return {**_scores(networks, data), "kept": kept}


@torch.no_grad()
def _scores(networks: BatchedNetworks, data: dict[str, Tensor], prunes: bool = False) -> Scores:
    """``validation_nll``, ``error`` and ``kept`` of the mean weights, ``(3, S)`` each."""
    n_splits = len(data["x_test"])
    rows = []
    for number in range(len(networks)):
        network = networks.network(number)
        kept = 100.0
        if prunes:
            kept = _percent_kept(network)
            network = zero_pruned(network)
        x = data["x_test"][number % n_splits]
        y = data["y_test"][number % n_splits]
        logits = network(x, "mean")
        nll = cross_entropy(logits[:N_VALIDATION], y[:N_VALIDATION]).item()
        is_wrong = logits[N_VALIDATION:].argmax(-1) != y[N_VALIDATION:]
        rows.append((nll, 100 * is_wrong.double().mean().item(), kept))
    table = np.array(rows).T.reshape(3, -1, n_splits)
    return dict(zip(("validation_nll", "error", "kept"), table, strict=True))


def _percent_kept(network: Network) -> float:
    rows = sparsity(network)
    return 100 * sum(row.n_kept for row in rows) / sum(row.n_weights for row in rows)

"""Lesson 15: active learning on the digits, in pools with ambiguous inputs, by nine rules.

All networks of a kind (one for each rule and pool; five with an ensemble) are trained as one batch
of matrices. A pool, its first labels and its test set depend on the seed alone, so that rules are
compared on the same ones.
"""

import math

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import cross_entropy, one_hot

from bdl_lessons.datasets import digits
from bdl_lessons.panels.asking_for_labels import BATCH, N_ROUNDS, N_START, RANDOM_OF, SHARES

SEEDS = 8
VARIED_SEEDS = 4
WIDTH = 50
P_DROP = 0.5
N_DRAWS = 20
N_STEPS = 80
LEARNING_RATE = 1e-2
WEIGHT_DECAY = 1e-3
N_POOL = 1000
N_TEST = 797
KINDS = tuple(dict.fromkeys(RANDOM_OF.values()))
"""Of networks: with dropout, without, five without."""

VARIED = {
    "p_drop = 0.2": {"p_drop": 0.2},
    "p_drop = 0.7": {"p_drop": 0.7},
    "25 hidden units": {"width": 25},
    "100 hidden units": {"width": 100},
    "5 labels a round": {"batch": 5},
    "20 labels a round": {"batch": 20},
}
"""Settings in which one thing differs, by name."""


def make_arrays(n_seeds: int = SEEDS, n_steps: int = N_STEPS) -> dict[str, np.ndarray]:
    """All ``(rule, share, ...)``: see :func:`ask`; ``rules``, the names; and of other settings

    ``varied_gap (setting, 2, 2, seed)``: points from random labels with 100 labels, by entropy and
    by mutual information, in the clean pools and in those with a share of 0.4; ``varied``, the
    names of the settings.
    """
    runs = [ask(share, n_seeds, n_steps) for share in SHARES]
    n_varied_seeds = min(n_seeds, VARIED_SEEDS)
    gaps = [vary(setting, n_varied_seeds, n_steps) for setting in VARIED.values()]
    arrays = {key: np.stack([run[key] for run in runs], axis=1) for key in runs[0]}
    arrays["rules"] = np.array(list(RANDOM_OF))
    arrays["varied"] = np.array(list(VARIED))
    arrays["varied_gap"] = np.stack(gaps)
    return arrays


def pool(seed: int, share: float) -> dict[str, Tensor]:
    """1000 inputs with labels, of which the last ``share`` are ambiguous, and a test set.

    An ambiguous input is the average of two digits of different classes, with the label of one of
    them, by a coin. ``start`` are two clean examples of each class.
    """
    split = digits(N_POOL, N_TEST, seed=seed)
    generator = torch.Generator().manual_seed(seed)
    n_ambiguous = round(share * N_POOL)
    n_clean = N_POOL - n_ambiguous
    pairs = torch.randint(N_POOL, (20 * N_POOL, 2), generator=generator)
    differ = split.y_train[pairs[:, 0]] != split.y_train[pairs[:, 1]]
    pairs = pairs[differ][:n_ambiguous]
    coin = torch.randint(2, (n_ambiguous, 1), generator=generator)
    one_of_pair = pairs.gather(1, coin)[:, 0]
    clean_images = split.x_train[:n_clean]
    clean_labels = split.y_train[:n_clean]
    ambiguous_images = split.x_train[pairs].mean(1)
    ambiguous_labels = split.y_train[one_of_pair]
    two_of_each_class = [(clean_labels == digit).nonzero()[:2, 0] for digit in range(10)]
    return {
        "x": torch.cat([clean_images, ambiguous_images]),
        "y": torch.cat([clean_labels, ambiguous_labels]),
        "x_test": split.x_test,
        "y_test": split.y_test,
        "start": torch.cat(two_of_each_class),
    }


def ask(share: float, n_seeds: int, n_steps: int) -> dict[str, np.ndarray]:
    """Eight rounds of ten labels by each rule, in ``n_seeds`` pools:

    - ``accuracy (rule, seed, 9)`` on test digits, in percent, with 20, 30, .. 100 labels;
    - ``is_ambiguous (rule, seed, 8, 10)``: whether an input that was asked for is ambiguous;
    - ``images (rule, 8, 10, 64)``: those of the first pool, in thirty-seconds.
    """
    data = _stacked(share, n_seeds)
    accuracy = []
    labelled = []
    for kind in KINDS:
        rules = [rule for rule, random in RANDOM_OF.items() if random == kind]
        accuracy_of_kind, labelled_by_kind = _ask_alike(rules, data, n_steps)
        accuracy.append(accuracy_of_kind)
        labelled.append(labelled_by_kind)
    asked = torch.cat(labelled)[..., N_START:].unflatten(-1, (N_ROUNDS, BATCH))
    n_clean = N_POOL - round(share * N_POOL)
    images_of_first_pool = data["x"][0, asked[:, 0]]
    return {
        "accuracy": torch.cat(accuracy).numpy().astype(np.float32),
        "is_ambiguous": (asked >= n_clean).numpy(),
        "images": (32 * images_of_first_pool).round().byte().numpy(),
    }


def vary(setting: dict[str, float], n_seeds: int, n_steps: int) -> np.ndarray:
    """The gaps of one of the settings, ``(rule, share, seed)``: see :func:`make_arrays`."""
    rules = ["random", "entropy", "mutual information"]
    gaps = []
    for share in (0.0, 0.4):
        accuracy, _ = _ask_alike(rules, _stacked(share, n_seeds), n_steps, **setting)
        gaps.append(accuracy[1:, :, -1] - accuracy[0, :, -1])
    return torch.stack(gaps, dim=1).numpy().astype(np.float32)


def _stacked(share: float, n_seeds: int) -> dict[str, Tensor]:
    pools = [pool(seed, share) for seed in range(n_seeds)]
    return {key: torch.stack([each[key] for each in pools]) for key in pools[0]}


def _ask_alike(
    rules: list[str],
    data: dict[str, Tensor],
    n_steps: int,
    p_drop: float = P_DROP,
    width: int = WIDTH,
    batch: int = BATCH,
) -> tuple[Tensor, Tensor]:
    """Accuracies ``(rule, seed, 9)`` and labels ``(rule, seed, 100)`` of one kind of network."""
    generator = torch.Generator().manual_seed(0)
    n_seeds = len(data["x"])
    n_networks = 5 if rules[0].startswith("five") else 1
    if RANDOM_OF[rules[0]] != "random":
        p_drop = 0.0
    n_rounds = N_ROUNDS * BATCH // batch
    x = data["x"].repeat(len(rules), 1, 1)
    y = data["y"].repeat(len(rules), 1)
    x_test = data["x_test"].repeat(len(rules), 1, 1)
    labelled = data["start"].repeat(len(rules), 1)
    accuracy = []
    for number in range(n_rounds + 1):
        x_labelled = x.gather(1, labelled[..., None].expand(-1, -1, 64))
        y_labelled = y.gather(1, labelled)
        weights = train(
            x_labelled.repeat_interleave(n_networks, 0),
            y_labelled.repeat_interleave(n_networks, 0),
            p_drop,
            width,
            n_steps,
            generator,
        )
        test_draws = draws(weights, x_test, n_networks, p_drop, generator)
        answers = test_draws.exp().mean(0).argmax(-1)
        is_right = answers.unflatten(0, (len(rules), n_seeds)) == data["y_test"]
        accuracy.append(100 * is_right.double().mean(-1))
        if number == n_rounds:
            break
        pool_draws = draws(weights, x, n_networks, p_drop, generator)
        scores = []
        for index, rule in enumerate(rules):
            rows = slice(index * n_seeds, (index + 1) * n_seeds)
            log_probs = pool_draws[:, rows]
            if rule.endswith("masks off"):
                weights_of_rule = [weight[rows] for weight in weights]
                log_probs = draws(weights_of_rule, x[rows], 1, 0.0, generator)
            scores.append(score(rule, log_probs, generator))
        scores_of_unlabelled = torch.cat(scores).scatter(1, labelled, -math.inf)
        chosen = scores_of_unlabelled.topk(batch, dim=1).indices
        labelled = torch.cat([labelled, chosen], dim=1)
    return torch.stack(accuracy, dim=-1), labelled.unflatten(0, (len(rules), n_seeds))


def train(
    x: Tensor, y: Tensor, p_drop: float, width: int, n_steps: int, generator: torch.Generator
) -> list[Tensor]:
    """M networks 64-width-10 from new starts, on ``(M, N, 64)`` and ``(M, N)``: their weights."""
    n_networks = len(x)
    first = torch.randn(n_networks, 64, width, generator=generator) * (2 / 64) ** 0.5
    second = torch.randn(n_networks, width, 10, generator=generator) / width**0.5
    first_bias = torch.zeros(n_networks, 1, width)
    second_bias = torch.zeros(n_networks, 1, 10)
    weights = [first, first_bias, second, second_bias]
    for weight in weights:
        weight.requires_grad_()
    optimizer = torch.optim.Adam(weights, lr=LEARNING_RATE, fused=True)
    for _ in range(n_steps):
        hidden = torch.relu(torch.baddbmm(first_bias, x, first))
        if p_drop:
            mask = torch.rand(hidden.shape, generator=generator) >= p_drop
            hidden = hidden * mask / (1 - p_drop)
        logits = torch.baddbmm(second_bias, hidden, second)
        penalty = first.square().sum() + second.square().sum()
        nll = n_networks * cross_entropy(logits.flatten(0, 1), y.flatten())
        loss = nll + WEIGHT_DECAY * penalty
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return [weight.detach() for weight in weights]


def draws(
    weights: list[Tensor], x: Tensor, n_networks: int, p_drop: float, generator: torch.Generator
) -> Tensor:
    """Log probabilities ``(S, M, N, 10)``: of masks, of the networks of an ensemble, or of one.

    A mask is shared by all inputs, and acts on the weights behind the hidden units.
    """
    first, first_bias, second, second_bias = weights
    x = x.repeat_interleave(n_networks, 0)
    hidden = torch.relu(torch.baddbmm(first_bias, x, first))
    if not p_drop:
        log_probs = torch.baddbmm(second_bias, hidden, second).log_softmax(-1)
        return log_probs.unflatten(0, (-1, n_networks)).transpose(0, 1)
    masks = torch.rand(N_DRAWS, len(x), second.shape[1], 1, generator=generator) >= p_drop
    logits = []
    for mask in masks:
        masked = mask * second / (1 - p_drop)
        logits.append(torch.baddbmm(second_bias, hidden, masked))
    return torch.stack(logits).log_softmax(-1)


def score(rule: str, log_probs: Tensor, generator: torch.Generator) -> Tensor:
    """How much a rule wants the label of each input, ``(M, N)``, from ``(S, M, N, 10)``."""
    if rule.endswith("random"):
        return torch.rand(log_probs.shape[1:-1], generator=generator)
    if rule == "variation ratios":
        votes = one_hot(log_probs.argmax(-1), 10).float().mean(0)
        ties = torch.rand(votes.shape[:-1], generator=generator) / (2 * N_DRAWS)
        return 1 - votes.amax(-1) + ties
    probs = log_probs.exp()
    entropy_of_mean = torch.special.entr(probs.mean(0)).sum(-1)
    if rule.endswith("mutual information"):
        entropies = torch.special.entr(probs).sum(-1)
        return entropy_of_mean - entropies.mean(0)
    return entropy_of_mean

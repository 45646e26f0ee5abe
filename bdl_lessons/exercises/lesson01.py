"""Exercises of lesson 01: how many masks, dropping whole groups, its variance, scaling twice."""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import Tensor

from bdl_lessons.exercises.grader import Criterion, Exercise, KnownError, agrees, normals
from bdl_lessons.probability import all_masks, mask_probs


def masks_needed(w: Tensor, x: Tensor, p_drop: float, tolerance: float) -> int:
    """The smallest S for which the mean over S masks of ``w @ (z * x) / keep`` is accurate enough.

    ``w`` and ``x`` are ``(K,)``; the standard deviation of the mean must be at most ``tolerance``.
    """
    variance = p_drop / (1 - p_drop) * (w**2 * x**2).sum()
    return max(1, int(torch.ceil(variance / tolerance**2)))


def group_dropout(x: Tensor, group: Tensor, p_drop: float, generator: torch.Generator) -> Tensor:
    """Inverted dropout of whole groups: one draw for every example and group.

    ``x`` is ``(B, K)``; ``group`` is ``(K,)`` and numbers the group of each unit from 0.
    """
    keep = 1 - p_drop
    uniform = torch.rand(len(x), int(group.max()) + 1, generator=generator, dtype=x.dtype)
    return x * (uniform < keep)[:, group] / keep


def group_variance(w: Tensor, x: Tensor, group: Tensor, p_drop: float) -> Tensor:
    """Variance that inverted dropout of whole groups adds to the pre-activation ``w @ x``.

    ``w``, ``x`` and ``group`` are ``(K,)``. Returns a 0-dim tensor.
    """
    sums = torch.zeros(int(group.max()) + 1, dtype=x.dtype).index_add(0, group, w * x)
    return p_drop / (1 - p_drop) * (sums**2).sum()


def undo_double_scaling(probs: Tensor, p_drop: float, n_layers: int) -> Tensor:
    """The right class probabilities ``(B, C)`` from those of a network that was scaled twice.

    The network has ReLU units and no biases. It was trained with inverted dropout after each of
    its ``n_layers`` hidden layers; for ``probs``, their outputs were multiplied by keep once more.
    """
    return (probs.log() / (1 - p_drop) ** n_layers).softmax(-1)


_normal = normals(1)
_W = _normal(10)
_X = _normal(10)
_SETTINGS = ((0.2, 40.3), (0.6, 17.6), (0.3, 90.5))  # p_drop, and the number of masks it takes
_GROUP = torch.tensor([0, 1, 0, 2, 1])
_MIXED = torch.tensor(  # weights and inputs whose products have both signs within a group
    [[1.0, -0.5, 2.0, 0.7, -1.2], [0.5, 1.5, -1.0, 0.8, 0.9]], dtype=torch.float64
)
_INPUTS = _normal(40, 6)
_LAYERS = (_normal(8, 6), _normal(8, 8), _normal(3, 8))


def _std_of_mean(n_masks: int, p_drop: float) -> float:
    """Measured standard deviation of the mean over ``n_masks`` masks, from 4000 such means."""
    masks = all_masks(10)
    probs = mask_probs(masks, p_drop)
    outputs = masks * _X @ _W / (1 - p_drop)
    generator = torch.Generator().manual_seed(3)
    drawn = probs.multinomial(4000 * n_masks, replacement=True, generator=generator)
    means = outputs[drawn].view(4000, n_masks).mean(1)
    return float(means.std())


def _masks(answer, p_drop: float, n_masks: float) -> int:
    """The answer for the tolerance that ``n_masks`` masks meet exactly."""
    return answer(_W, _X, p_drop, _tolerance(n_masks, p_drop))


def _meets(answer, p_drop: float, n_right: float) -> bool:
    """Whether that many masks are measured to give the tolerance: within 6 %, or 5 std. errors."""
    n_masks = int(_masks(answer, p_drop, n_right))
    if not 1 <= n_masks <= 400:
        return False
    ratio = _std_of_mean(n_masks, p_drop) / _tolerance(n_right, p_drop)
    return abs(ratio - 1) < 0.06


def _tolerance(n_masks: float, p_drop: float) -> float:
    """The tolerance that so many masks meet exactly; a fraction keeps clear of rounding."""
    variance = p_drop / (1 - p_drop) * float((_W**2 * _X**2).sum())
    return math.sqrt(variance / n_masks)


def _group_noise(answer, p_drop: float = 0.4) -> Tensor:
    """The answer's output for inputs of ones: the noise itself, ``(6000, 5)``."""
    ones = torch.ones(6000, 5, dtype=torch.float64)
    return answer(ones, _GROUP, p_drop, torch.Generator().manual_seed(7))


def _distance_from_scaled_mask(answer) -> Tensor:
    """Zero where the noise at p_drop = 0.2 is 0 or 1/keep."""
    noise = _group_noise(answer, 0.2)
    return noise * (noise - 1 / 0.8)


def _differences_within_groups(answer) -> Tensor:
    """Zero where both units of group 0, and both of group 1, have the same noise."""
    noise = _group_noise(answer)
    first_units = noise[:, [0, 1]]
    second_units = noise[:, [2, 4]]
    return first_units - second_units


def _pattern_frequencies(answer) -> Tensor:
    """How often each of the 2^3 patterns of groups occurs, by the first unit of each group."""
    mask = (_group_noise(answer)[:, [0, 1, 3]] != 0).double()
    is_pattern = (mask[:, None] == all_masks(3)).all(-1)
    return is_pattern.double().mean(0)


def _signature(answer) -> list[float]:
    """What tells the wrong layers apart, however they draw: range, number of patterns, mean."""
    noise = _group_noise(answer)
    n_patterns = len(noise.unique(dim=0))
    mean = round(float(noise.mean()), 1) if n_patterns > 2 else 0
    return [noise.min(), noise.max(), n_patterns, mean]


def _enumerated_variance(w: Tensor, x: Tensor, group: Tensor, p_drop: float) -> Tensor:
    masks = all_masks(int(group.max()) + 1)
    probs = mask_probs(masks, p_drop)
    outputs = (masks[:, group] * x) @ w / (1 - p_drop)
    mean = probs @ outputs
    return probs @ (outputs - mean) ** 2


def _relu_network(scale: float, n_layers: int) -> Tensor:
    """Class probabilities ``(40, 3)`` with every hidden layer multiplied by ``scale``."""
    h = _INPUTS
    for weight in _LAYERS[:n_layers]:
        h = scale * F.relu(h @ weight.mT)
    logits = 0.3 * h @ _LAYERS[-1].mT
    return logits.softmax(-1)


def _repaired(answer, p_drop: float, n_layers: int) -> Tensor:
    """What the answer makes of the probabilities of a network that was scaled twice."""
    scaled_twice = _relu_network(1 - p_drop, n_layers)
    return answer(scaled_twice, p_drop, n_layers)


EXERCISES = (
    Exercise(
        number="01.1",
        kind="predict",
        title="predict how many masks you need",
        solution=masks_needed,
        probe=lambda answer: [_masks(answer, p_drop, n_masks) for p_drop, n_masks in _SETTINGS],
        criteria=(
            Criterion(
                "in simulations, the mean over so many masks meets the tolerance",
                lambda answer: _meets(answer, 0.2, 89.9) and _meets(answer, 0.7, 59.9),
                advice=(
                    "what is the variance of one mask's output by (8), and that of a mean of S "
                    "masks?"
                ),
            ),
            Criterion(
                "it is the smallest such number",
                agrees(
                    lambda answer: [_masks(answer, 0.3, n_masks) for n_masks in (6.2, 6.8, 7.2)],
                    [7, 7, 8],
                ),
                advice=(
                    "where variance / S <= tolerance² first holds at S = 6.2 or 6.8, you need 7 "
                    "masks"
                ),
            ),
            Criterion(
                "a generous tolerance still needs one mask",
                agrees(
                    lambda answer: [answer(_W, _X, p_drop, 1e3) for p_drop in (0.0, 0.3)],
                    [1, 1],
                ),
                advice="if one mask is accurate enough, or all masks are the same, S = 1 is enough",
            ),
        ),
        known_errors=(
            KnownError(
                lambda w, x, p_drop, tolerance: math.ceil(
                    math.sqrt(masks_needed(w, x, p_drop, tolerance))
                ),
                diagnosis=(
                    "the standard deviation of a mean falls with the square root of S, not with S: "
                    "half the tolerance takes four times as many masks."
                ),
            ),
            KnownError(
                lambda w, x, p_drop, tolerance: masks_needed(
                    w, x, p_drop, tolerance / (1 - p_drop)
                ),
                diagnosis=(
                    "this is (7), the variance of dropout without rescaling, (2). Inverted dropout "
                    "divides by keep, so its variance is larger by 1/keep²."
                ),
            ),
            KnownError(
                lambda w, x, p_drop, tolerance: masks_needed(w, x, p_drop, math.sqrt(tolerance)),
                diagnosis=(
                    "this divides the variance by the tolerance. The tolerance is a standard "
                    "deviation: compare its square with the variance."
                ),
            ),
            KnownError(
                lambda w, x, p_drop, tolerance: math.ceil(
                    p_drop / (1 - p_drop) * (w @ x) ** 2 / tolerance**2
                ),
                diagnosis=(
                    "this squares the sum of w_i x_i. The units are dropped independently, so the "
                    "squares are added: sum of w_i² x_i²."
                ),
            ),
            KnownError(
                lambda w, x, p_drop, tolerance: masks_needed(w, x, p_drop, tolerance) - 1,
                diagnosis="rounded down: with one mask fewer the tolerance is missed.",
            ),
        ),
        hints=(
            "Equation (8) gives the variance of the output of one mask. The S masks are "
            "independent: what is the variance of their mean?",
            "Solve variance / S <= tolerance² for S. S is an integer, and at least 1.",
            "max(1, int(torch.ceil(variance / tolerance**2)))",
        ),
    ),
    Exercise(
        number="01.2",
        kind="extend",
        title="a layer that drops whole groups",
        solution=group_dropout,
        probe=_signature,
        criteria=(
            Criterion(
                "the values are 0 and 1/keep times the input",
                agrees(_distance_from_scaled_mask, torch.zeros(6000, 5)),
                advice="on an input of ones at p_drop = 0.2 only 0 and 1.25 can come out",
            ),
            Criterion(
                "the units of a group are kept or dropped together",
                agrees(_differences_within_groups, torch.zeros(6000, 2)),
                advice=(
                    "draw one number for each group, and let every unit look up the one of its "
                    "group"
                ),
            ),
            Criterion(
                "all 2³ patterns of three groups occur as often as (4) says",
                agrees(
                    _pattern_frequencies,
                    mask_probs(all_masks(3), 0.4),
                    atol=0.027,  # 4.5 standard errors
                ),
                advice=(
                    "each example needs a draw of its own for each group, kept with probability "
                    "keep"
                ),
            ),
            Criterion(
                "p_drop = 0 changes nothing",
                agrees(
                    lambda answer: answer(_INPUTS[:, :5], _GROUP, 0.0, torch.Generator()),
                    _INPUTS[:, :5],
                ),
                advice="with keep = 1 the mask is all ones and the scale is one",
            ),
        ),
        known_errors=(
            KnownError(
                lambda x, group, p_drop, generator: group_dropout(
                    x, torch.arange(5), p_drop, generator
                ),
                diagnosis=(
                    "every unit has a draw of its own: this is ordinary dropout, the groups are "
                    "not used."
                ),
            ),
            KnownError(
                lambda x, group, p_drop, generator: group_dropout(x, 0 * group, p_drop, generator),
                diagnosis=(
                    "all groups of an example share one draw: an example loses everything or "
                    "nothing."
                ),
            ),
            KnownError(
                lambda x, group, p_drop, generator: (
                    x * group_dropout(torch.ones_like(x[:1]), group, p_drop, generator)
                ),
                diagnosis=(
                    "one mask is shared by the whole batch. The mean over many batches is right, "
                    "but in each step every example trains the same sub-network."
                ),
            ),
            KnownError(
                lambda x, group, p_drop, generator: (
                    (1 - p_drop) * group_dropout(x, group, p_drop, generator)
                ),
                diagnosis=(
                    "the division by keep is missing. This is dropout without rescaling, (2), "
                    "which needs weight scaling at prediction."
                ),
            ),
            KnownError(
                lambda x, group, p_drop, generator: group_dropout(x, group, 1 - p_drop, generator),
                diagnosis=(
                    "p_drop and keep are swapped: this keeps a group with probability p_drop."
                ),
            ),
            KnownError(
                lambda x, group, p_drop, generator: group_dropout(
                    x * p_drop / (1 - p_drop), group, 1 - p_drop, generator
                ),
                diagnosis=(
                    "this keeps a group with probability p_drop, although it divides by keep."
                ),
            ),
        ),
        hints=(
            "How many independent draws does a batch of B examples with G groups need?",
            "Draw uniforms of shape (B, G) and compare them with keep. The column of unit i is "
            "group[i].",
            "x * (uniform < keep)[:, group] / keep",
        ),
    ),
    Exercise(
        number="01.3",
        kind="derive",
        title="the variance that groups add",
        solution=group_variance,
        probe=lambda answer: answer(*_MIXED, _GROUP, 0.3),
        criteria=(
            Criterion(
                "it is what enumeration of the 2³ patterns gives",
                agrees(
                    lambda answer: answer(*_MIXED, _GROUP, 0.3),
                    _enumerated_variance(*_MIXED, _GROUP, 0.3),
                ),
                advice=(
                    "which terms of the sum over units share one draw, and which are independent?"
                ),
            ),
            Criterion(
                "groups of one unit give equation (8)",
                agrees(
                    lambda answer: answer(_W, _X, torch.arange(10), 0.6),
                    1.5 * (_W**2 * _X**2).sum(),
                ),
                advice="with one unit in each group this is ordinary inverted dropout",
            ),
            Criterion(
                "no dropout adds no variance",
                agrees(lambda answer: answer(*_MIXED, _GROUP, 0.0), 0.0),
                advice="at p_drop = 0 every mask is the same",
            ),
        ),
        known_errors=(
            KnownError(
                lambda w, x, group, p_drop: p_drop / (1 - p_drop) * (w**2 * x**2).sum(),
                diagnosis=(
                    "this is equation (8). It holds for independent units; the units of a group "
                    "have the same draw, so their covariances count as well."
                ),
            ),
            KnownError(
                lambda w, x, group, p_drop: p_drop / (1 - p_drop) * (w @ x) ** 2,
                diagnosis=(
                    "this treats all units as one group. Different groups are independent: add "
                    "their variances."
                ),
            ),
            KnownError(
                lambda w, x, group, p_drop: group_variance(w.abs(), x.abs(), group, p_drop),
                diagnosis=(
                    "You added absolute values: within a group, contributions of opposite sign "
                    "cancel."
                ),
            ),
            KnownError(
                lambda w, x, group, p_drop: (1 - p_drop) ** 2 * group_variance(w, x, group, p_drop),
                diagnosis="This is (7) for groups: inverted dropout divides by keep.",
            ),
        ),
        hints=(
            "Write the pre-activation as a sum over groups. Each group contributes its draw times "
            "a fixed number.",
            "Var[draw / keep] = p_drop / keep. The groups are independent, so their variances add.",
            "The fixed number of a group is the sum of w_i x_i over its units: index_add collects "
            "these sums.",
        ),
    ),
    Exercise(
        number="01.4",
        kind="debug",
        title="repair probabilities that were scaled twice",
        solution=undo_double_scaling,
        probe=lambda answer: [*_repaired(answer, 0.2, 1)[0], *_repaired(answer, 0.2, 2)[0]],
        criteria=(
            Criterion(
                "one hidden layer at p_drop = 0.5",
                agrees(lambda answer: _repaired(answer, 0.5, 1), _relu_network(1.0, 1)),
                advice="by which factor are the logits too small, and how do you get logits back?",
            ),
            Criterion(
                "two hidden layers at p_drop = 0.2",
                agrees(lambda answer: _repaired(answer, 0.2, 2), _relu_network(1.0, 2)),
                advice="relu(c a) = c relu(a) for c > 0: follow the factor through both layers",
            ),
            Criterion(
                "without dropout nothing changes",
                agrees(lambda answer: _repaired(answer, 0.0, 2), _relu_network(1.0, 2)),
                advice="with keep = 1 scaling twice does no harm",
            ),
        ),
        known_errors=(
            KnownError(
                lambda probs, p_drop, n_layers: (probs.log() / (1 - p_drop)).softmax(-1),
                diagnosis=(
                    "the factor keep enters once for every hidden layer, so the logits are too "
                    "small by keep to the power n_layers."
                ),
            ),
            KnownError(
                lambda probs, p_drop, n_layers: (
                    probs.log() / (1 - p_drop) ** (n_layers + 1)
                ).softmax(-1),
                diagnosis=(
                    "the factor keep was counted once too often: the output layer has no dropout "
                    "behind it, only the n_layers hidden layers have."
                ),
            ),
            KnownError(
                lambda probs, p_drop, n_layers: probs,
                diagnosis=(
                    "these are the stored probabilities again, as you also get by dividing and "
                    "then normalising them. The factor belongs on the logits."
                ),
            ),
            KnownError(
                lambda probs, p_drop, n_layers: probs / (1 - p_drop) ** n_layers,
                diagnosis=(
                    "the probabilities were divided, so they no longer sum to 1; normalised, they "
                    "would be the stored ones again. The factor belongs on the logits."
                ),
            ),
            KnownError(
                lambda probs, p_drop, n_layers: (probs / (1 - p_drop) ** n_layers).softmax(-1),
                diagnosis=(
                    "softmax was applied to probabilities; it expects logits, for which log "
                    "probabilities can stand in."
                ),
            ),
            KnownError(
                lambda probs, p_drop, n_layers: probs ** (1 / (1 - p_drop) ** n_layers),
                diagnosis="The probabilities do not sum to 1: normalise.",
            ),
            KnownError(
                lambda probs, p_drop, n_layers: (probs.log() * (1 - p_drop) ** n_layers).softmax(
                    -1
                ),
                diagnosis="Divide the logits by keep ** n_layers, do not multiply.",
            ),
        ),
        hints=(
            "A ReLU layer without bias passes a positive factor on: relu(c a) = c relu(a).",
            "The logits are too small by keep ** n_layers. Log probabilities are logits up to a "
            "constant, and softmax ignores a constant.",
            "(probs.log() / keep**n_layers).softmax(-1)",
        ),
    ),
)

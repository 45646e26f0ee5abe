"""Exercises of lesson 01: masks, inverted dropout, the geometric mean, the ridge in dropout."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from bdl_lessons.lessons.exercises.grader import Check, Exercise, KnownError, agrees, close, normals
from bdl_lessons.probability import all_masks, mask_probs


def mask_prob(mask: Tensor, p_drop: float) -> Tensor:
    """The probability of one mask ``(N,)``: keep for a kept unit, p_drop for a dropped one."""
    keep = 1 - p_drop
    return torch.where(mask == 1, keep, p_drop).prod()


def inverted_dropout(x: Tensor, p_drop: float, generator: torch.Generator) -> Tensor:
    """Fresh Bernoulli noise on every entry of ``x`` ``(B, K)``, rescaled to mean one."""
    keep = 1 - p_drop
    uniform = torch.rand(x.shape, generator=generator, dtype=x.dtype)
    return x * (uniform < keep) / keep


def geometric_mean(class_probs: Tensor, probs: Tensor) -> Tensor:
    """Normalised geometric mean over masks.

    ``class_probs`` is ``(S, C)``, a distribution over classes for each of S masks; ``probs`` is
    ``(S,)``, the masks' probabilities. Returns ``(C,)``.
    """
    mean_log = probs @ class_probs.log()
    return mean_log.softmax(-1)


def dropout_penalty(x: Tensor, w: Tensor, p_drop: float) -> Tensor:
    """What dropping inputs adds to the squared error of a linear model, equation (12).

    ``x`` is ``(N, K)``, ``w`` is ``(K,)``; the inputs are not rescaled. Returns a 0-dim tensor.
    """
    keep = 1 - p_drop
    feature_norm2 = (x**2).sum(0)
    return keep * p_drop * (feature_norm2 * w**2).sum()


_MASK = torch.tensor([1.0, 0.0, 1.0, 1.0, 0.0], dtype=torch.float64)
_normal = normals(1)
_X = _normal(6, 4)
_W = _normal(4)
_CLASS_PROBS = _normal(8, 3).softmax(-1)
_PROBS = mask_probs(all_masks(3), 0.3)


def _noise(answer, p_drop: float = 0.2, n_rows: int = 4000) -> Tensor:
    ones = torch.ones(n_rows, 5, dtype=torch.float64)
    return answer(ones, p_drop, torch.Generator().manual_seed(7))


def _expected_loss(w: Tensor, p_drop: float) -> Tensor:
    masks = all_masks(4)
    predictions = torch.einsum("nk,sk,k->sn", _X, masks, w)
    return mask_probs(masks, p_drop) @ (predictions**2).sum(1)


EXERCISES = (
    Exercise(
        number="01.1",
        title="the probability of a mask",
        solution=mask_prob,
        probe=lambda answer: answer(_MASK, 0.2),
        checks={
            "a kept unit counts keep, a dropped one p_drop": Check(
                lambda answer: close(answer(torch.tensor([1.0, 0.0]), 0.2), 0.8 * 0.2, 1e-6),
                "for two units, one kept and one dropped, at p_drop = 0.2 it is 0.8 · 0.2",
            ),
            "over all masks the probabilities sum to one": Check(
                lambda answer: close(sum(answer(mask, 0.3) for mask in all_masks(6)), 1.0, 1e-6),
                "every unit takes part in the product, the dropped ones too",
            ),
            "with p_drop = 0 only the full network is left": Check(
                lambda answer: (
                    close(answer(torch.ones(4), 0.0), 1.0) and close(answer(_MASK, 0.0), 0.0)
                ),
                "look at which of the two probabilities belongs to a kept unit",
            ),
        },
        known_errors=(
            KnownError(
                lambda mask, p_drop: torch.where(mask == 1, p_drop, 1 - p_drop).prod(),
                "p_drop and keep are swapped. p_drop is the probability that a unit is dropped; "
                "papers often write p for the probability to keep it.",
            ),
            KnownError(
                lambda mask, p_drop: (1 - p_drop) ** mask.sum(),
                "the dropped units are left out of the product; each of them has probability "
                "p_drop.",
            ),
            KnownError(
                lambda z, p_drop: math.comb(len(z), int(z.sum())) * mask_prob(z, p_drop),
                "this is the probability of the NUMBER of kept units. It counts all masks with "
                "that many; one mask alone has no binomial coefficient.",
            ),
        ),
        hints=(
            "The units are dropped independently. What does independence do to probabilities?",
            "Write down the factor of a kept unit and the factor of a dropped unit.",
            "torch.where(mask == 1, ..., ...) gives one factor a unit; .prod() multiplies them.",
        ),
    ),
    Exercise(
        number="01.2",
        title="inverted dropout",
        solution=inverted_dropout,
        probe=lambda answer: _noise(answer, n_rows=50).sort(0).values.sum(0),
        checks={
            "the values are 0 and 1/keep times the input": Check(
                lambda answer: close(_noise(answer).unique(), [0.0, 1 / 0.8]),
                "on an input of ones at p_drop = 0.2 only 0 and 1.25 can come out",
            ),
            "on average the input is unchanged": Check(
                lambda answer: abs(_noise(answer).mean() - 1) < 0.03,
                "E[z] = keep; what must z be divided by to have mean one?",
            ),
            "a share p_drop of the entries is zero": Check(
                lambda answer: abs((_noise(answer) == 0).double().mean() - 0.2) < 0.03,
                "uniform < keep is true with probability keep",
            ),
            "every row has a mask of its own": Check(
                lambda answer: len(_noise(answer).unique(dim=0)) > 1,
                "draw the noise with the full shape of x, not with the shape of one row",
            ),
            "p_drop = 0 changes nothing": Check(
                lambda answer: close(answer(_X, 0.0, torch.Generator().manual_seed(0)), _X),
                "with keep = 1 the mask is all ones and the scale is one",
            ),
        },
        known_errors=(
            KnownError(
                lambda x, p_drop, rng: inverted_dropout(x, p_drop, rng) * (1 - p_drop),
                "the rescaling is missing. That is classic dropout, which scales the weights by "
                "keep at prediction time instead.",
            ),
            KnownError(
                lambda x, p_drop, rng: inverted_dropout(x, p_drop, rng) * (1 - p_drop) ** 2,
                "the input is multiplied by keep where it should be divided: the mean is keep² "
                "and shrinks with every layer.",
            ),
            KnownError(
                lambda x, p_drop, rng: inverted_dropout(x, p_drop, rng) * (1 - p_drop) / p_drop,
                "divided by p_drop instead of keep. At p_drop = 0.5 nobody would notice.",
            ),
            KnownError(
                lambda x, p_drop, rng: inverted_dropout(x, 1 - p_drop, rng),
                "p_drop and keep are swapped: this keeps a unit with probability p_drop.",
            ),
            KnownError(
                lambda x, p_drop, rng: x * inverted_dropout(torch.ones_like(x[0]), p_drop, rng),
                "one mask is shared by the whole batch. The mean is right, but every example "
                "trains the same sub-network in this step.",
            ),
        ),
        hints=(
            "Which constant makes E[z / constant] equal to one?",
            "Draw uniforms with torch.rand(x.shape, generator=generator); compare with keep.",
            "x * (uniform < keep) / keep",
        ),
    ),
    Exercise(
        number="01.3",
        title="the normalised geometric mean",
        solution=geometric_mean,
        probe=lambda answer: answer(_CLASS_PROBS, _PROBS),
        checks={
            "the result sums to one": Check(
                lambda answer: close(answer(_CLASS_PROBS, _PROBS).sum(), 1.0),
                "a weighted geometric mean of probabilities need not sum to one; normalise it",
            ),
            "equal members give that member back": agrees(
                lambda answer: answer(_CLASS_PROBS[:1].repeat(8, 1), _PROBS),
                _CLASS_PROBS[0],
                "the exponents must sum to one, and so do the masks' probabilities",
            ),
            "ratios are averaged in the log": agrees(
                lambda answer: answer(_CLASS_PROBS, _PROBS).log().diff(),
                (_PROBS @ _CLASS_PROBS.log()).diff(),
                "the log of a geometric mean is the mean of the logs",
            ),
            "a member with probability zero has no say": agrees(
                lambda answer: answer(_CLASS_PROBS[:2], torch.tensor([1.0, 0.0]).double()),
                _CLASS_PROBS[0],
                "weight each member by its mask's probability",
            ),
        },
        known_errors=(
            KnownError(
                lambda class_probs, probs: probs @ class_probs,
                "this is the arithmetic mean: the average answer of the ensemble. Weight scaling "
                "does not compute that one.",
            ),
            KnownError(
                lambda class_probs, probs: (probs @ class_probs.log()).exp(),
                "the geometric mean is right but not normalised: it sums to less than one.",
            ),
            KnownError(
                lambda class_probs, probs: class_probs.log().mean(0).softmax(-1),
                "all masks count the same here. At p_drop ≠ 0.5 they do not.",
            ),
            KnownError(
                lambda class_probs, probs: (probs @ class_probs).softmax(-1),
                "softmax was applied to averaged probabilities; it expects averaged logs.",
            ),
        ),
        hints=(
            "Take logs: what does the product over masks become?",
            "probs @ class_probs.log() is the log of the geometric mean.",
            "exp and divide by the sum; softmax does both at once.",
        ),
    ),
    Exercise(
        number="01.4",
        title="the penalty hidden in dropout",
        solution=dropout_penalty,
        probe=lambda answer: answer(_X, _W, 0.3),
        checks={
            "it is what enumeration gives": agrees(
                lambda answer: answer(_X, _W, 0.3),
                _expected_loss(_W, 0.3) - ((_X @ (0.7 * _W)) ** 2).sum(),
                "compare with the mean over all masks of ||(z∘x) w||² minus ||keep · x w||²",
            ),
            "no dropout, no penalty": Check(
                lambda answer: close(answer(_X, _W, 0.0), 0.0),
                "at p_drop = 0 the noise has no variance",
            ),
            "doubling the weights multiplies it by four": Check(
                lambda answer: close(answer(_X, 2 * _W, 0.3), 4 * answer(_X, _W, 0.3)),
                "a variance grows with the square of the scale",
            ),
            "keep and p_drop play the same part": Check(
                lambda answer: close(answer(_X, _W, 0.3), answer(_X, _W, 0.7)),
                "Var[z] = keep · p_drop is symmetric",
            ),
        },
        known_errors=(
            KnownError(
                lambda x, w, p_drop: (1 - p_drop) * p_drop * (x.pow(2).mean(0) * w**2).sum(),
                "the feature norms are averaged over the examples. The loss in (12) is a sum over "
                "examples, and so is its penalty.",
            ),
            KnownError(
                lambda x, w, p_drop: p_drop * (x.pow(2).sum(0) * w**2).sum(),
                "E[z²] − E[z]² is keep − keep² = keep · p_drop; a factor keep is missing.",
            ),
            KnownError(
                lambda x, w, p_drop: p_drop / (1 - p_drop) * (x.pow(2).sum(0) * w**2).sum(),
                "this is the penalty on the rescaled weights keep · w, or of inverted dropout. "
                "Here the inputs are not rescaled.",
            ),
            KnownError(
                lambda x, w, p_drop: (1 - p_drop) * p_drop * (w**2).sum(),
                "plain ridge: the squared norm of each feature is missing. Dropout punishes a "
                "weight on a large feature more.",
            ),
        ),
        hints=(
            "The noise of different inputs is independent, so variances add.",
            "Var[z_j x_nj w_j] = keep · p_drop · x_nj² w_j². Sum over j and over the examples n.",
            "keep * p_drop * ((x**2).sum(0) * w**2).sum()",
        ),
    ),
)

"""Exercises of lesson 05: predictive variance, mixture likelihood, averaging, information."""

from __future__ import annotations

import math

import torch
from torch import Tensor
from torch.distributions import Normal

from bdl_lessons.lessons.exercises.grader import Check, Exercise, KnownError, agrees, close, normals


def predictive_std(draws: Tensor, tau: float) -> Tensor:
    """Standard deviation of a new measurement, equation (4), for draws ``(S, B)``; ``(B,)``."""
    spread_var = (draws**2).mean(0) - draws.mean(0) ** 2
    return (1 / tau + spread_var).sqrt()


def log_likelihood(draws: Tensor, y: Tensor, tau: float) -> Tensor:
    """Log predictive likelihood in nats, equation (5): draws ``(S, B)``, y ``(B,)``; ``(B,)``."""
    log_density = -tau / 2 * (y - draws) ** 2 + 0.5 * math.log(tau / (2 * math.pi))
    return log_density.logsumexp(0) - math.log(len(draws))


def mean_class_probs(logits: Tensor) -> Tensor:
    """Predictive class probabilities, equation (7): logits ``(S, B, C)``; returns ``(B, C)``."""
    return logits.softmax(-1).mean(0)


def disagreement(logits: Tensor) -> Tensor:
    """Mutual information in nats, equation (8): logits ``(S, B, C)``; returns ``(B,)``."""
    probs = logits.softmax(-1)
    mean_probs = probs.mean(0)
    total = torch.special.entr(mean_probs).sum(-1)  # -p log p, and 0 at p = 0
    within = torch.special.entr(probs).sum(-1).mean(0)
    return total - within


_normal = normals(5)
_DRAWS = 2 + _normal(6, 4)
_Y = _normal(4)
_LOGITS = 3 * _normal(6, 4, 3)
_SAME = _LOGITS[:1].expand(6, 4, 3)


EXERCISES = (
    Exercise(
        number="05.1",
        title="where 1/tau goes",
        solution=predictive_std,
        probe=lambda answer: answer(_DRAWS, 4.0),
        checks={
            "draws that agree leave the noise: 1/sqrt(tau)": Check(
                lambda answer: close(answer(torch.ones(3, 2, dtype=torch.float64), 4.0), [0.5] * 2),
                "with no spread at tau = 4 the standard deviation is 0.5",
            ),
            "with hardly any noise only the spread is left": Check(
                lambda answer: close(answer(_DRAWS, 1e12), _DRAWS.std(0, correction=0), 1e-6),
                "as tau grows it is the standard deviation of the draws, with 1/S and not 1/(S-1)",
            ),
            "variances add, standard deviations do not": agrees(
                lambda answer: answer(torch.tensor([[-3.0], [3.0]], dtype=torch.float64), 1 / 16),
                [5.0],
                "a spread of 3 and a noise of 4 make 5",
            ),
            "shifting all draws changes nothing": Check(
                lambda answer: close(answer(_DRAWS + 7, 4.0), answer(_DRAWS, 4.0)),
                "subtract the square of the mean, mean(f)**2",
            ),
        },
        known_errors=(
            KnownError(
                lambda draws, tau: draws.std(0, correction=0) + 1 / tau,
                "1/tau is a variance, and here it is added to a standard deviation. Add it to the "
                "squared spread, then take the root.",
            ),
            KnownError(
                lambda draws, tau: draws.std(0, correction=0) + tau**-0.5,
                "standard deviations of independent parts do not add; their squares do.",
            ),
            KnownError(
                lambda draws, tau: (tau + draws.var(0, correction=0)).sqrt(),
                "tau is a precision. The noise variance is 1/tau.",
            ),
            KnownError(
                lambda draws, tau: (1 / tau + draws.var(0)).sqrt(),
                "this divides by S − 1. Equation (4) takes the variance of the mixture of the S "
                "draws, which divides by S.",
            ),
            KnownError(
                lambda draws, tau: 1 / tau + draws.var(0, correction=0),
                "this is the predictive variance; its root was asked for.",
            ),
            KnownError(
                lambda draws, tau: draws.std(0, correction=0),
                "the noise is missing: this is the band for f, not for a new measurement.",
            ),
        ),
        hints=(
            "How do the variances of independent things combine?",
            "Two parts: 1/tau, and the mean of the squares minus the square of the mean.",
            "(1 / tau + (draws**2).mean(0) - draws.mean(0) ** 2).sqrt()",
        ),
    ),
    Exercise(
        number="05.2",
        title="the likelihood of a mixture",
        solution=log_likelihood,
        probe=lambda answer: answer(_DRAWS, _Y, 2.0),
        checks={
            "one draw gives one Gaussian": agrees(
                lambda answer: answer(_DRAWS[:1], _Y, 2.0),
                Normal(_DRAWS[0], 2.0**-0.5).log_prob(_Y),
                "with S = 1 it is the log density of N(y; f, 1/tau), constants included",
            ),
            "repeating every draw changes nothing": Check(
                lambda answer: close(answer(_DRAWS.repeat(5, 1), _Y, 2.0), answer(_DRAWS, _Y, 2.0)),
                "it is a mean over draws; subtract log S",
            ),
            "the density integrates to one": agrees(
                lambda answer: torch.trapezoid(
                    answer(_DRAWS[:, :1].expand(6, 4001), torch.linspace(-20, 20, 4001), 2.0)
                    .double()
                    .exp(),
                    dx=0.01,
                ),
                1.0,
                "check the constant ½ log(tau / 2π) and its sign",
                atol=1e-3,
            ),
            "between two draws that are far apart the density is low": agrees(
                lambda answer: answer(torch.tensor([[-5.0], [5.0]]), torch.zeros(1), 1.0),
                [-12.5 - 0.5 * math.log(2 * math.pi)],
                "with draws at −5 and 5 hardly anything happens at 0: add densities, not moments",
                atol=1e-4,
            ),
            "far from every draw it is finite": Check(
                lambda answer: bool(
                    torch.isfinite(answer(torch.zeros(3, 1), torch.tensor([200.0]), 1.0)).all()
                ),
                "exp(−20000) is zero in floating point; use logsumexp",
            ),
        },
        known_errors=(
            KnownError(
                lambda draws, y, tau: Normal(draws, tau**-0.5).log_prob(y).mean(0),
                "this is the mean of the log densities. The log of the mean is never smaller "
                "(Jensen), and (5) asks for that one.",
            ),
            KnownError(
                lambda draws, y, tau: Normal(draws.mean(0), predictive_std(draws, tau)).log_prob(y),
                "this is one Gaussian with the predictive mean and variance. The predictive "
                "density is a mixture of S narrow ones.",
            ),
            KnownError(
                lambda draws, y, tau: log_likelihood(draws, y, tau) + math.log(len(draws)),
                "log S is missing: this is the sum over draws, not their mean.",
            ),
            KnownError(
                lambda draws, y, tau: log_likelihood(draws, y, tau) - math.log(tau / (2 * math.pi)),
                "the sign of the constant is wrong: a precise model has a high density, so log tau "
                "counts positive.",
            ),
        ),
        hints=(
            "Write the log density of one draw first, constants included.",
            "Then the log of the mean over draws: logsumexp over axis 0, minus log S.",
            "(-tau / 2 * (y - draws) ** 2 + 0.5 * math.log(tau / (2 * math.pi)))"
            ".logsumexp(0) - math.log(len(draws))",
        ),
    ),
    Exercise(
        number="05.3",
        title="averaging probabilities",
        solution=mean_class_probs,
        probe=lambda answer: answer(_LOGITS),
        checks={
            "every row sums to one": Check(
                lambda answer: close(answer(_LOGITS).sum(-1), torch.ones(4)),
                "average over the draws, axis 0, and keep the classes on the last axis",
            ),
            "draws that agree give their probabilities back": Check(
                lambda answer: close(answer(_SAME), _SAME[0].softmax(-1)),
                "one softmax on every draw, and a plain mean after it",
            ),
            "two draws that are sure of different classes make ½ and ½": agrees(
                lambda answer: answer(torch.tensor([[[40.0, 0.0]], [[0.0, 400.0]]]).double()),
                [[0.5, 0.5]],
                "a draw that shouts (large logits) has one vote like any other",
                atol=1e-6,
            ),
            "adding a constant to one draw's logits changes nothing": agrees(
                lambda answer: answer(_LOGITS + 5 * torch.arange(6.0)[:, None, None]),
                lambda answer: answer(_LOGITS),
                "softmax does not see a constant; apply it before you average",
            ),
            "scaling up one draw's logits only makes that draw sure": Check(
                lambda answer: answer(torch.cat([1000 * _LOGITS[:1], _LOGITS[1:]])).max() < 0.999,
                "one loud draw must not outvote five others",
            ),
        },
        known_errors=(
            KnownError(
                lambda logits: logits.mean(0).softmax(-1),
                "the logits are averaged. That is the normalised geometric mean of lesson 01: a "
                "draw with large logits outvotes the others.",
            ),
            KnownError(
                lambda logits: logits.softmax(0).mean(0),
                "softmax runs over the draws here; the classes are on the last axis.",
            ),
            KnownError(
                lambda logits: logits.softmax(-1).mean(0).softmax(-1),
                "the average already is a distribution. A second softmax flattens it.",
            ),
        ),
        hints=(
            "What does each sub-network report: logits or probabilities?",
            "Turn every draw into probabilities, then average over draws.",
            "logits.softmax(-1).mean(0)",
        ),
    ),
    Exercise(
        number="05.4",
        title="how much the draws disagree",
        solution=disagreement,
        probe=lambda answer: answer(_LOGITS),
        checks={
            "draws that agree carry no information": Check(
                lambda answer: close(answer(_SAME), torch.zeros(4)),
                "subtract the mean entropy of the single draws",
            ),
            "two sure draws that contradict each other: log 2": agrees(
                lambda answer: answer(torch.tensor([[[20.0, 0.0]], [[0.0, 20.0]]]).double()),
                [math.log(2)],
                "measure in nats: natural logarithm",
                atol=1e-6,
            ),
            "draws that are so sure that a probability underflows: still log 2": Check(
                lambda answer: close(
                    answer(torch.tensor([[[200.0, 0.0]], [[0.0, 200.0]]])), [math.log(2)], 1e-5
                ),
                "0 · log 0 is not a number: torch.special.entr takes it as 0",
            ),
            "it is never negative": Check(
                lambda answer: bool((answer(_LOGITS) >= -1e-12).all()),
                "entropy is concave: the entropy of the mean is the larger one",
            ),
            "it is at most the entropy of the mean": Check(
                lambda answer: bool(
                    (
                        answer(_LOGITS)
                        <= torch.special.entr(_LOGITS.softmax(-1).mean(0)).sum(-1) + 1e-12
                    ).all()
                ),
                "what you subtract is an entropy and cannot be negative",
            ),
        },
        known_errors=(
            KnownError(
                lambda logits: torch.special.entr(logits.softmax(-1).mean(0)).sum(-1),
                "this is the predictive entropy: all uncertainty. Subtract what every single draw "
                "is unsure about by itself.",
            ),
            KnownError(lambda logits: -disagreement(logits), "the two terms are swapped."),
            KnownError(
                lambda logits: disagreement(logits) / math.log(2),
                "right, but in bits. This course counts in nats.",
            ),
            KnownError(
                lambda logits: logits.softmax(-1).var(0, correction=0).sum(-1),
                "the variance of the probabilities also measures disagreement, but it is not the "
                "mutual information.",
            ),
        ),
        hints=(
            "Two entropies: one of the mean distribution, one averaged over the draws.",
            "total = torch.special.entr(m).sum(-1) with m the mean over draws (entr takes 0 log 0 "
            "as 0); within is the same for each draw, then averaged.",
            "Return total − within.",
        ),
    ),
)

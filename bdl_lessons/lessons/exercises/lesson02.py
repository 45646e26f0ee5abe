"""Exercises of lesson 02: weight decay, the Gaussian KL, the ELBO of a table, mean field."""

from __future__ import annotations

import torch
from torch import Tensor

from bdl_lessons.lessons.exercises.grader import Check, Exercise, KnownError, agrees, close, normals
from bdl_lessons.probability import gaussian_kl, gaussian_kl_full


def weight_decay(noise_var: float, prior_var: float, n_train: int) -> float:
    """The ``weight_decay`` of an optimiser that makes least squares find the MAP weights.

    The loss is ``((y - f) ** 2).mean()`` over ``n_train`` examples; the optimiser adds
    ``weight_decay * w`` to the gradient of the loss.
    """
    ridge = noise_var / prior_var  # of the sum of squares, equation (5)
    return 2 * ridge / n_train


def kl(mean_q: Tensor, var_q: Tensor, mean_p: Tensor, var_p: Tensor) -> Tensor:
    """``KL(q || p)`` of independent Gaussians, all arguments ``(K,)``; returns a 0-dim tensor."""
    log_ratio = 0.5 * (var_p.log() - var_q.log())
    squares = (var_q + (mean_q - mean_p) ** 2) / (2 * var_p)
    return (log_ratio + squares - 0.5).sum()


def elbo_of_a_table(q: Tensor, likelihood: Tensor, prior: Tensor) -> Tensor:
    """The ELBO of a distribution ``q`` over M settings of the weights, equation (10).

    ``likelihood`` is ``p(y | w_m)`` and ``prior`` is ``p(w_m)``, all ``(M,)``. A setting with
    ``q_m = 0`` adds nothing. Returns a 0-dim tensor.
    """
    used = q > 0
    q, joint = q[used], (likelihood * prior)[used]
    return (q * (joint.log() - q.log())).sum()


def mean_field_var(cov: Tensor) -> Tensor:
    """Variances ``(K,)`` of the factorised q with the smallest KL(q || N(mean, cov))."""
    precision = torch.linalg.inv(cov)
    return 1 / precision.diagonal()


_normal = normals(2)
_PHI, _Y = _normal(12, 3), _normal(12)
_GAUSSIANS = (_normal(3), _normal(3).exp(), _normal(3), _normal(3).exp())
_Q = torch.tensor([0.5, 0.2, 0.3], dtype=torch.float64)
_LIKELIHOOD = torch.tensor([0.4, 0.1, 0.02], dtype=torch.float64)
_PRIOR = torch.tensor([1 / 6, 1 / 2, 1 / 3], dtype=torch.float64)
_factor = _normal(3, 3)
_COV = _factor @ _factor.mT + 0.2 * torch.eye(3, dtype=torch.float64)


def _gradient_at_map(answer, noise_var: float, prior_var: float) -> Tensor:
    """What the optimiser sees at the posterior mean: 0 if the decay is right."""
    precision = _PHI.mT @ _PHI / noise_var + torch.eye(3, dtype=torch.float64) / prior_var
    w = torch.linalg.solve(precision, _PHI.mT @ _Y / noise_var)
    decay = answer(noise_var, prior_var, len(_Y))
    return 2 * _PHI.mT @ (_PHI @ w - _Y) / len(_Y) + decay * w


def _table_posterior() -> Tensor:
    joint = _LIKELIHOOD * _PRIOR
    return joint / joint.sum()


def _divergence(var: Tensor) -> Tensor:
    zero = torch.zeros(3, dtype=torch.float64)
    return gaussian_kl_full(zero, var.diag(), zero, _COV)


EXERCISES = (
    Exercise(
        number="02.1",
        title="the prior as weight decay",
        solution=weight_decay,
        probe=lambda answer: answer(0.5, 4.0, 20),
        checks={
            "at the MAP weights the optimiser stands still": Check(
                lambda answer: close(_gradient_at_map(answer, 0.3, 2.0), torch.zeros(3)),
                "write the gradient of the mean square, add weight_decay · w, set it to 0 and "
                "compare with the posterior mean",
            ),
            "twice the data, half the decay": Check(
                lambda answer: close(answer(1.0, 1.0, 20), answer(1.0, 1.0, 10) / 2),
                "the prior is counted once, the data N times; the loss is a mean over N",
            ),
            "a wider prior decays less": Check(
                lambda answer: close(answer(1.0, 4.0, 10), answer(1.0, 1.0, 10) / 4),
                "the coefficient of (5) has the prior variance below the line",
            ),
        },
        known_errors=(
            KnownError(
                lambda noise_var, prior_var, n_train: noise_var / prior_var / n_train,
                "a factor 2 is missing: the mean square has no ½ in front, so its gradient is "
                "twice that of the log likelihood, while weight_decay · w is the gradient of "
                "½ weight_decay ‖w‖².",
            ),
            KnownError(
                lambda noise_var, prior_var, n_train: 2 * noise_var / prior_var,
                "this belongs to the SUM of squares. The loss is a mean, so the coefficient must "
                "be divided by n_train as well.",
            ),
            KnownError(
                lambda noise_var, prior_var, n_train: noise_var / prior_var,
                "this is the ridge coefficient of the sum of squares, equation (5). The loss here "
                "is the mean of squares, and the optimiser's decay is the gradient of ½ w².",
            ),
            KnownError(
                lambda noise_var, prior_var, n_train: 2 * prior_var / noise_var / n_train,
                "the ratio is upside down: noise makes the prior count more, a wide prior makes "
                "it count less.",
            ),
            KnownError(
                lambda noise_var, prior_var, n_train: 2 / prior_var / n_train,
                "the noise variance is missing. 1/prior_var alone is right only for unit noise.",
            ),
        ),
        hints=(
            "Start from (5): which w makes Σ(y − f)² + (σ²/v)‖w‖² smallest? Take its gradient.",
            "Divide that gradient by N. Its first part is now the gradient of the mean square.",
            "2 Φᵀ(Φw − y)/N + (2/N)(σ²/v) w = 0, and weight_decay multiplies w.",
        ),
    ),
    Exercise(
        number="02.2",
        title="the divergence between two Gaussians",
        solution=kl,
        probe=lambda answer: answer(*_GAUSSIANS),
        checks={
            "it is 0 when both are the same": Check(
                lambda answer: close(answer(*_GAUSSIANS[:2], *_GAUSSIANS[:2]), 0.0),
                "put q = p into your formula: the logarithm vanishes and the rest must too",
            ),
            "it is never negative": Check(
                lambda answer: all(
                    answer(*(torch.tensor([v]).double() for v in (0.0, var, 0.0, 1.0))) >= 0
                    for var in (0.01, 0.1, 0.5, 2.0, 10.0)
                ),
                "try a q much narrower than p: which sign must the logarithm have?",
            ),
            "it is the definition, E_q[log q − log p]": Check(
                lambda answer: close(answer(*_GAUSSIANS), gaussian_kl(*_GAUSSIANS)),
                "integrate log q − log p over q: E_q[(w − μ_p)²] = σ_q² + (μ_q − μ_p)²",
            ),
            "two independent weights cost twice as much as one": agrees(
                lambda answer: answer(*(t.repeat(2) for t in _GAUSSIANS)),
                lambda answer: 2 * answer(*_GAUSSIANS),
                "divergences of independent weights add up",
            ),
        },
        known_errors=(
            KnownError(
                lambda mq, vq, mp, vp: gaussian_kl(mq, vq, mp, vp) + (vq / vp).log().sum(),
                "the logarithm is upside down. It is 0 at q = p either way, but a narrow q now "
                "has a negative divergence, and the 'bound' rises above the evidence.",
            ),
            KnownError(
                lambda mq, vq, mp, vp: gaussian_kl(mq, vq, mp, vp) + len(mq) / 2,
                "the −½ of every weight is missing: gradients are right, the value of the bound "
                "is not.",
            ),
            KnownError(
                lambda mq, vq, mp, vp: gaussian_kl(mp, vp, mq, vq),
                "this is KL(p ‖ q). The first argument is the distribution that is averaged over.",
            ),
            KnownError(
                lambda mq, vq, mp, vp: gaussian_kl(mq, vq, mp, vp) / len(mq),
                "this is a mean over the weights. The ELBO needs the sum, once, however many "
                "weights there are.",
            ),
            KnownError(
                lambda mq, vq, mp, vp: gaussian_kl(mq, vq**2, mp, vp**2),
                "the arguments are variances already; here they are squared once more.",
            ),
        ),
        hints=(
            "log N(w; μ, σ²) = −½ log 2πσ² − (w − μ)²/2σ². Write log q − log p.",
            "Average over q: E_q[(w − μ_q)²] = σ_q² and E_q[(w − μ_p)²] = σ_q² + (μ_q − μ_p)².",
            "½ log(σ_p²/σ_q²) + (σ_q² + (μ_q − μ_p)²)/(2σ_p²) − ½, summed",
        ),
    ),
    Exercise(
        number="02.3",
        title="the bound for a table of weights",
        solution=elbo_of_a_table,
        probe=lambda answer: answer(_Q, _LIKELIHOOD, _PRIOR),
        checks={
            "at the posterior it is the log evidence": agrees(
                lambda answer: answer(_table_posterior(), _LIKELIHOOD, _PRIOR),
                (_LIKELIHOOD * _PRIOR).sum().log(),
                "with q = joint / evidence the ratio joint / q is the same for every setting",
            ),
            "any other q stays below it": Check(
                lambda answer: (
                    answer(_Q, _LIKELIHOOD, _PRIOR) < (_LIKELIHOOD * _PRIOR).sum().log() - 1e-6
                ),
                "the logarithm is inside the average, not outside",
            ),
            "at q = prior it is the mean log likelihood": agrees(
                lambda answer: answer(_PRIOR, _LIKELIHOOD, _PRIOR),
                (_PRIOR * _LIKELIHOOD.log()).sum(),
                "with q = prior the divergence is 0 and only the data term is left",
            ),
            "a setting that q excludes adds nothing": agrees(
                lambda answer: answer(torch.tensor([1.0, 0.0, 0.0]).double(), _LIKELIHOOD, _PRIOR),
                (_LIKELIHOOD * _PRIOR)[0].log(),
                "0 log 0 counts as 0; leave such settings out of the sum",
            ),
        },
        known_errors=(
            KnownError(
                lambda q, likelihood, prior: (q * (likelihood * prior / q)).sum().log(),
                "the logarithm is outside the average: this is the log evidence itself, for every "
                "q. Jensen's inequality is what pulls it inside.",
            ),
            KnownError(
                lambda q, likelihood, prior: (q * (likelihood * prior).log()).sum(),
                "the entropy of q is missing. Without it q collapses onto the best single setting.",
            ),
            KnownError(
                lambda q, likelihood, prior: (q * ((likelihood * prior).log() + q.log())).sum(),
                "the entropy has the wrong sign: this rewards a q that is certain.",
            ),
            KnownError(
                lambda q, likelihood, prior: (q * likelihood.log() * prior / q).sum(),
                "a bracket is missing: log p(y|w) · p(w)/q is not log[p(y|w) p(w)/q]. This one "
                "does not even depend on q.",
            ),
            KnownError(
                lambda q, likelihood, prior: (q * ((likelihood * prior).log() - q.log())).mean(),
                "this divides by the number of settings. q already sums to one.",
            ),
        ),
        hints=(
            "Equation (10) with a sum in place of the integral.",
            "For each setting: q_m · (log joint_m − log q_m), joint = likelihood · prior.",
            "Drop the settings with q_m = 0 before taking logarithms.",
        ),
    ),
    Exercise(
        number="02.4",
        title="the variances of mean field",
        solution=mean_field_var,
        probe=lambda answer: answer(_COV),
        checks={
            "without correlation nothing is lost": agrees(
                lambda answer: answer(torch.diag(torch.tensor([0.5, 2.0]).double())),
                [0.5, 2.0],
                "for a diagonal covariance the posterior factorises already",
            ),
            "for two weights the variance shrinks by 1 − ρ²": Check(
                lambda answer: close(
                    answer(torch.tensor([[1.0, 0.6], [0.6, 1.0]]).double()), [0.64, 0.64], 1e-6
                ),
                "compare the variance of one weight GIVEN the other with its own",
            ),
            "no other variances come closer to the posterior": Check(
                lambda answer: all(
                    _divergence(answer(_COV) * factor) >= _divergence(answer(_COV)) - 1e-12
                    for factor in (0.95, 1.05, _COV.new_tensor([1.1, 0.9, 1.0]))
                ),
                "set the derivative of ½(Σ Λ_ii s_i − Σ log s_i) with respect to s_i to 0",
            ),
        },
        known_errors=(
            KnownError(
                lambda cov: cov.diagonal(),
                "these are the marginal variances. They minimise the other divergence, "
                "KL(posterior ‖ q). KL(q ‖ posterior) punishes q wherever the posterior is thin.",
            ),
            KnownError(
                lambda cov: torch.linalg.inv(cov).diagonal(),
                "these are precisions; the variance is one over it.",
            ),
            KnownError(
                lambda cov: 1 / cov.diagonal(),
                "invert the matrix first, then take its diagonal: 1/Σ_ii is not Λ_ii.",
            ),
            KnownError(
                lambda cov: (1 / torch.linalg.inv(cov).diagonal()).sqrt(),
                "these are standard deviations; the exercise asks for variances.",
            ),
        ),
        hints=(
            "Write KL(q ‖ posterior) for q = N(mean, diag(s)); only two terms depend on s.",
            "½ tr(Λ diag(s)) − ½ Σ log s_i, with Λ the inverse of cov. Differentiate.",
            "s_i = 1/Λ_ii",
        ),
    ),
)

"""Exercises of lesson 08: the KL of ARD, log alpha, compression, a relevance for each input."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn
from torch.nn.functional import softplus

from bdl_lessons.lessons.exercises.grader import Check, Exercise, KnownError, agrees, close
from bdl_lessons.models import WeightNoise, WeightNoiseLinear
from bdl_lessons.probability import gaussian_kl


def ard_kl(mu: Tensor, sigma2: Tensor) -> Tensor:
    """Equation (9): KL to the best ``N(0, lambda2)`` of each weight, summed, in nats."""
    return 0.5 * torch.log1p(mu**2 / sigma2).sum()


def log_alpha(mu: Tensor, log_sigma2: Tensor) -> Tensor:
    """Equation (2) with finite values and gradients for every ``mu``, zero and 1e-30 included."""
    tiny = torch.finfo(mu.dtype).tiny
    return log_sigma2 - 2 * mu.abs().clamp_min(tiny).log()


def compression(masks: list[Tensor]) -> float:
    """All weights over kept weights, for one mask of zeros and ones (1 = kept) per layer."""
    n_weights = sum(mask.numel() for mask in masks)
    n_kept = sum(float(mask.sum()) for mask in masks)
    return n_weights / n_kept


def input_relevance(n_in: int, n_out: int) -> WeightNoiseLinear:
    """A linear layer in which the weights out of one input share a variance and a prior."""

    class InputNoise(WeightNoise):
        def __init__(self) -> None:
            super().__init__()
            self.log_sigma2 = nn.Parameter(torch.full((1, n_in), -6.0))

        def var(self, mu: Tensor) -> Tensor:
            return self.log_sigma2.exp().expand_as(mu)

    def kl(noise: InputNoise, mu: Tensor) -> Tensor:
        mean_square = (mu**2).mean(0, keepdim=True).clamp_min(1e-30)
        log_alpha = noise.log_sigma2 - mean_square.log()
        return n_out / 2 * softplus(-log_alpha).sum()

    return WeightNoiseLinear(n_in, n_out, InputNoise(), kl)


_generator = torch.Generator().manual_seed(8)
_MU = torch.randn(6, generator=_generator, dtype=torch.float64)
_SIGMA2 = torch.randn(6, generator=_generator, dtype=torch.float64).exp()
_MASKS = [
    (torch.rand(shape, generator=_generator) < keep).double()
    for shape, keep in (((40, 30), 0.1), ((5, 40), 0.5))
]


def _best_over_a_grid(mu: Tensor, sigma2: Tensor) -> Tensor:
    """The smallest Gaussian KL over 4001 prior variances, weight by weight, summed."""
    grid = torch.linspace(-10, 10, 4001, dtype=torch.float64).exp()
    kls = torch.log(grid / sigma2[:, None]) + (mu**2 + sigma2)[:, None] / grid - 1
    return kls.min(1).values.sum() / 2


def _slope(answer, mu: float) -> Tensor:
    mu = torch.tensor([mu], dtype=torch.float32, requires_grad=True)
    value = answer(mu, torch.tensor([-2.0])).sum()
    (gradient,) = torch.autograd.grad(value, mu)
    return torch.stack([value.detach(), gradient[0]])


def _layer(answer, n_in: int = 3, n_out: int = 4) -> WeightNoiseLinear:
    layer = answer(n_in, n_out).double()
    g = torch.Generator().manual_seed(9)
    with torch.no_grad():
        layer.mu.copy_(torch.randn(n_out, n_in, generator=g))
        log_sigma2 = next(layer.noise.parameters())
        log_sigma2.copy_(torch.randn(log_sigma2.shape, generator=g))
    return layer


def _kl_gradients(layer: WeightNoiseLinear) -> list[Tensor]:
    of = [layer.mu, *layer.noise.parameters()]
    found = torch.autograd.grad(layer.kl(), of, allow_unused=True)
    return [torch.zeros(1) if gradient is None else gradient for gradient in found]


def _shared_prior_kl(layer: WeightNoiseLinear) -> Tensor:
    """The KL with one prior variance for each input, at its optimum by the definition."""
    mu, var = layer.mu.detach(), layer.noise.var(layer.mu).detach()
    prior_var = (mu**2 + var).mean(0)
    columns = zip(mu.T, var.T, prior_var, strict=True)
    return sum(gaussian_kl(m, v, 0.0, p.item()) for m, v, p in columns)


def _wrong_layer(kl, shared: bool = True):
    """``input_relevance`` with another KL, or with a variance for each weight."""

    def answer(n_in: int, n_out: int) -> WeightNoiseLinear:
        class Noise(WeightNoise):
            def __init__(self) -> None:
                super().__init__()
                rows = 1 if shared else n_out
                self.log_sigma2 = nn.Parameter(torch.full((rows, n_in), -6.0))

            def var(self, mu: Tensor) -> Tensor:
                return self.log_sigma2.exp().expand_as(mu)

        return WeightNoiseLinear(n_in, n_out, Noise(), kl)

    return answer


def _kl_per_input(noise, mu: Tensor) -> Tensor:
    return softplus((mu**2).mean(0, keepdim=True).log() - noise.log_sigma2).sum() / 2


def _kl_sum_of_squares(noise, mu: Tensor) -> Tensor:
    log_ratio = (mu**2).sum(0, keepdim=True).log() - noise.log_sigma2
    return len(mu) / 2 * softplus(log_ratio).sum()


def _kl_per_weight(noise, mu: Tensor) -> Tensor:
    return softplus((mu**2).log() - noise.log_sigma2).sum() / 2


EXERCISES = (
    Exercise(
        number="08.1",
        title="the price under the best prior",
        solution=ard_kl,
        probe=lambda answer: answer(_MU, _SIGMA2),
        checks={
            "it is the smallest KL over all prior variances": Check(
                lambda answer: close(answer(_MU, _SIGMA2), _best_over_a_grid(_MU, _SIGMA2), 1e-4),
                "put lambda2 = mu**2 + sigma2 into (7); what is left?",
            ),
            "a weight with mean 0 costs nothing": Check(
                lambda answer: close(answer(0 * _MU, _SIGMA2), 0.0),
                "the best prior of N(0, sigma2) is N(0, sigma2) itself",
            ),
            "at mu**2 = sigma2 it is ½ log 2 for each weight": Check(
                lambda answer: close(answer(_SIGMA2.sqrt(), _SIGMA2), 3 * math.log(2)),
                "alpha = 1 there; six weights make 3 log 2",
            ),
            "only the ratio of mu**2 and sigma2 counts": Check(
                lambda answer: close(answer(7 * _MU, 49 * _SIGMA2), answer(_MU, _SIGMA2), 1e-9),
                "scaling a weight and its prior changes nothing",
            ),
        },
        known_errors=(
            KnownError(
                lambda mu, sigma2: torch.log1p(mu**2 / sigma2).sum(),
                "the ½ is missing: (7) has ½ log(lambda2 / sigma2).",
            ),
            KnownError(
                lambda mu, sigma2: 0.5 * torch.log1p(sigma2 / mu**2).sum(),
                "this is ½ log(1 + alpha): it punishes noise, and no weight would ever be removed. "
                "The ratio is upside down.",
            ),
            KnownError(
                lambda mu, sigma2: (0.5 * torch.log1p(mu**2 / sigma2) + 0.5).sum(),
                "there is a ½ too much: the −½ of (7) cancels (mu² + sigma²) / (2 lambda²) = ½.",
            ),
            KnownError(
                lambda mu, sigma2: 0.5 * torch.log1p(mu**2 / sigma2).mean(),
                "this is the mean over weights. The KL of independent weights is a sum.",
            ),
            KnownError(
                lambda mu, sigma2: 0.5 * torch.log1p(mu**2 / sigma2**2).sum(),
                "the argument is already a variance; it is squared once more here.",
            ),
        ),
        hints=(
            "Which lambda2 makes (7) smallest? Differentiate with respect to lambda2.",
            "At lambda2 = mu**2 + sigma2 the last two terms of (7) cancel.",
            "0.5 * torch.log1p(mu**2 / sigma2).sum()",
        ),
    ),
    Exercise(
        number="08.2",
        title="log alpha that survives a mean of 0",
        solution=log_alpha,
        probe=lambda answer: answer(_MU, _SIGMA2.log()),
        checks={
            "it is log(sigma2 / mu**2)": Check(
                lambda answer: close(answer(_MU, _SIGMA2.log()), (_SIGMA2 / _MU**2).log(), 1e-9),
                "log_sigma2 is already the logarithm of the variance; mu enters squared",
            ),
            "the sign of mu does not matter": Check(
                lambda answer: close(answer(-_MU, _SIGMA2.log()), answer(_MU, _SIGMA2.log())),
                "log of a negative number is NaN: take |mu| or mu**2",
            ),
            "at mu = 0 value and gradient are finite": Check(
                lambda answer: bool(_slope(answer, 0.0).isfinite().all()),
                "log 0 is −inf; hold |mu| at the smallest normal number before the logarithm",
            ),
            "at mu = 1e-30 it is still exact in float32": Check(
                lambda answer: close(_slope(answer, 1e-30)[0], -2 - 2 * math.log(1e-30), 1e-3),
                "mu**2 = 1e-60 is 0 in float32, and 1e-8 added to |mu| hides it",
            ),
        },
        known_errors=(
            KnownError(
                lambda mu, log_sigma2: log_sigma2 - (mu**2).log(),
                "right in the middle, but mu**2 underflows to 0 below |mu| = 1e-23 in float32, and "
                "at mu = 0 the logarithm and its gradient are infinite.",
            ),
            KnownError(
                lambda mu, log_sigma2: log_sigma2 - mu.abs().clamp_min(1e-38).log(),
                "the factor 2 is missing: alpha divides by mu squared.",
            ),
            KnownError(
                lambda mu, log_sigma2: 2 * log_sigma2 - 2 * mu.abs().clamp_min(1e-38).log(),
                "log_sigma2 is the log of the variance; doubling it takes it for log sigma.",
            ),
            KnownError(
                lambda mu, log_sigma2: 2 * mu.abs().clamp_min(1e-38).log() - log_sigma2,
                "this is −log alpha: it grows with relevance.",
            ),
        ),
        hints=(
            "log(mu**2) = 2 log|mu|; only one of the two forms underflows at 1e-30.",
            "Where |mu| is 0, something must stand in for it. What is the least harm?",
            "mu.abs().clamp_min(torch.finfo(mu.dtype).tiny)",
        ),
    ),
    Exercise(
        number="08.3",
        title="how papers count compression",
        solution=compression,
        probe=lambda answer: answer(_MASKS),
        checks={
            "one layer that keeps a tenth is compressed ten times": Check(
                lambda answer: close(answer([torch.eye(10)]), 10.0), "100 weights, 10 kept"
            ),
            "nothing removed is a compression of 1": Check(
                lambda answer: close(answer([torch.ones(3, 4), torch.ones(2, 3)]), 1.0),
                "all weights over kept weights",
            ),
            "a large layer counts for more than a small one": Check(
                lambda answer: close(answer([torch.eye(10), torch.ones(5, 10)]), 150 / 60),
                "add up weights over the layers before dividing",
            ),
        },
        known_errors=(
            KnownError(
                lambda masks: sum(m.numel() / float(m.sum()) for m in masks) / len(masks),
                "this is the mean of the layers' ratios. A layer of 1000 weights then counts as "
                "much as one of 235 200.",
            ),
            KnownError(
                lambda masks: 1 / (sum(float(m.mean()) for m in masks) / len(masks)),
                "the layers' shares are averaged without their sizes.",
            ),
            KnownError(
                lambda masks: sum(float(m.sum()) for m in masks) / sum(m.numel() for m in masks),
                "this is the share that is kept; the compression is its inverse.",
            ),
            KnownError(
                lambda masks: (
                    sum(m.numel() for m in masks) / sum(m.numel() - float(m.sum()) for m in masks)
                ),
                "the removed weights are counted where the kept ones should be.",
            ),
        ),
        hints=(
            "Count over the whole network, not layer by layer.",
            "Two sums: mask.numel() and mask.sum().",
        ),
    ),
    Exercise(
        number="08.4",
        title="a posterior of your own: the relevance of an input",
        solution=input_relevance,
        probe=lambda answer: torch.cat(
            [_layer(answer).kl().view(1), _layer(answer).noise.var(_layer(answer).mu).flatten()]
        ),
        checks={
            "weights out of one input share their variance": agrees(
                lambda answer: _layer(answer).noise.var(_layer(answer).mu),
                lambda answer: _layer(answer).noise.var(_layer(answer).mu)[:1].expand(4, 3),
                "one log_sigma2 for each of the n_in columns of mu: shape (1, n_in)",
            ),
            "the KL is that of the best shared prior N(0, lambda2_i)": Check(
                lambda answer: close(_layer(answer).kl(), _shared_prior_kl(_layer(answer)), 1e-8),
                "lambda2_i is the mean of mu² + sigma² over the n_out weights; put it into (7) and "
                "add them up",
            ),
            "with one output it is ARD": agrees(
                lambda answer: _layer(answer, n_out=1).kl(),
                lambda answer: _best_over_a_grid(
                    _layer(answer, n_out=1).mu[0].detach(),
                    _layer(answer, n_out=1).noise.var(torch.ones(1, 3))[0].detach(),
                ),
                "with n_out = 1 nothing is shared, and (9) must come back",
                atol=1e-4,
            ),
            "the KL reaches the means and the variances": Check(
                lambda answer: all(bool(g.ne(0).all()) for g in _kl_gradients(_layer(answer))),
                "do not detach anything",
            ),
        },
        known_errors=(
            KnownError(
                _wrong_layer(_kl_per_input),
                "the factor n_out is missing: n_out weights pay for each input.",
            ),
            KnownError(
                _wrong_layer(_kl_sum_of_squares),
                "the prior variance is the mean of mu² + sigma² over the outputs, not the sum.",
            ),
            KnownError(
                _wrong_layer(_kl_per_weight),
                "every weight has a prior of its own here; the n_out weights of an input share "
                "one.",
            ),
            KnownError(
                _wrong_layer(_kl_per_weight, shared=False),
                "this is ARD for every weight, the layer you already had.",
            ),
        ),
        hints=(
            "Two parts. The law: a WeightNoise whose var() repeats one variance per input over all "
            "outputs. The price: a function kl(noise, mu).",
            "(7) summed over the n_out weights of input i is smallest at lambda2_i = mean of "
            "mu² + sigma². As in (9), the last terms cancel.",
            "n_out / 2 * softplus(-log_alpha).sum() with alpha_i = sigma2_i / mean_j mu_ij²; and "
            "WeightNoiseLinear(n_in, n_out, InputNoise(), kl).",
        ),
    ),
)

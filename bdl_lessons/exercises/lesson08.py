"""Exercises of lesson 08: useless weights, log alpha, weights without data, relevance of inputs."""

from __future__ import annotations

import functools
import math

import torch
from torch import Tensor, nn
from torch.nn.functional import softplus

from bdl_lessons.exercises.grader import Criterion, Exercise, KnownError, agrees, close, normals
from bdl_lessons.models import WeightNoise
from bdl_lessons.probability import gaussian_kl


def surviving_share(threshold: float) -> float:
    """Share of useless weights, with estimates from N(0, 1), whose ``log_alpha`` is below."""
    smallest = math.sqrt(1 + math.exp(-threshold))  # alpha = 1 / (w_hat**2 - 1) by (2)
    return math.erfc(smallest / math.sqrt(2))


def safe_log_alpha(mu: Tensor, log_sigma2: Tensor) -> Tensor:
    """Equation (4) with finite values and gradients for every ``mu``, zero and 1e-30 included."""
    tiny = torch.finfo(mu.dtype).tiny
    return log_sigma2 - 2 * mu.abs().clamp_min(tiny).log()


def untouched_log_sigma2(mu: Tensor, log_sigma2: Tensor) -> Tensor:
    """Where gradient descent on the KL (10) alone leaves ``log_sigma2`` (K,) of weights (K,).

    By (12) the slopes have the ratio ``-mu / 2``: ``log_sigma2 + mu**2 / 4`` does not change.
    """
    return log_sigma2 + mu**2 / 4


def input_relevance(n_in: int, n_out: int) -> WeightNoise:
    """A linear layer in which the weights out of one input share a variance and a prior."""

    class InputRelevance(WeightNoise):
        def __init__(self, linear):
            super().__init__(linear)
            self.log_sigma2 = nn.Parameter(torch.full((1, n_in), -6.0))

        def weight_var(self):
            return self.log_sigma2.exp().expand_as(self.mu)

        def kl(self):
            mean_square = (self.mu**2).mean(0, keepdim=True).clamp_min(1e-30)
            log_alpha = self.log_sigma2 - mean_square.log()
            return n_out / 2 * torch.nn.functional.softplus(-log_alpha).sum()

    return InputRelevance(nn.Linear(n_in, n_out))


_normal = normals(8)
_MU = _normal(6)
_LOG_SIGMA2 = 12 * _normal(6)
_SMALL = torch.tensor([1e-12, 1e-18])
_SMALL_LOG_SIGMA2 = torch.tensor([-2.0, -2.0])
_START = torch.tensor([3.0, -2.0, 0.8, 0.0], dtype=torch.float64)
_START_LOG_SIGMA2 = torch.tensor([-1.0, 0.0, -3.0, -2.0], dtype=torch.float64)


@functools.cache
def _counted_share(threshold: float) -> float:
    """The share among 2001 quantiles of N(0, 1), each posterior found by descent on its ELBO.

    Fixed-point steps of the slopes of (10) and of the data term: ``sigma2 = keep`` and
    ``mu = w_hat - beta mu`` with ``beta = 1 / (mu**2 + sigma2)``.
    """
    levels = (torch.arange(2001, dtype=torch.float64) + 0.5) / 2001
    w_hat = torch.special.ndtri(levels)
    mu = w_hat.clone()
    sigma2 = torch.ones_like(w_hat)
    for _ in range(3000):
        total = mu**2 + sigma2
        mu = w_hat * total / (1 + total)
        sigma2 = total / (1 + total)
    log_alpha = (sigma2 / mu**2).log()
    return float((log_alpha < threshold).double().mean())


@functools.cache
def _descended() -> Tensor:
    """``log_sigma2`` after gradient descent on the KL (10) in small steps."""
    mu = _START
    log_sigma2 = _START_LOG_SIGMA2
    for _ in range(40_000):
        total = mu**2 + log_sigma2.exp()
        step_of_mu = -2e-3 * mu / total
        step_of_log_sigma2 = 1e-3 * mu**2 / total
        mu = mu + step_of_mu
        log_sigma2 = log_sigma2 + step_of_log_sigma2
    return log_sigma2


def _value_and_slope(answer, mu: float) -> Tensor:
    """log alpha ``(2,)`` in float32 at log_sigma2 = -2, and its derivative by ``mu``."""
    mu = torch.tensor([mu], dtype=torch.float32, requires_grad=True)
    value = answer(mu, torch.tensor([-2.0])).sum()
    (slope,) = torch.autograd.grad(value, mu)
    return torch.stack([value.detach(), slope[0]])


def _ordinary_and_small_means(answer) -> Tensor:
    """log alpha ``(8,)`` of ordinary means, and of two small ones in float32, to two digits."""
    ordinary = answer(_MU, _LOG_SIGMA2)
    small = answer(_SMALL, _SMALL_LOG_SIGMA2).double().round(decimals=2)
    return torch.cat([ordinary, small])


def _layer(answer, n_in: int = 3, n_out: int = 4) -> WeightNoise:
    """The answer's layer with means and variances drawn at random."""
    layer = answer(n_in, n_out).double()
    generator = torch.Generator().manual_seed(9)
    with torch.no_grad():
        layer.mu.copy_(torch.randn(n_out, n_in, generator=generator))
        (log_sigma2,) = _noise_parameters(layer)
        log_sigma2.copy_(torch.randn(log_sigma2.shape, generator=generator))
    return layer


def _noise_parameters(layer: WeightNoise) -> list[nn.Parameter]:
    """What the answer adds to the weights and the bias."""
    of_linear = {id(parameter) for parameter in layer.inner.parameters()}
    return [parameter for parameter in layer.parameters() if id(parameter) not in of_linear]


def _var(answer) -> Tensor:
    return _layer(answer).weight_var()


def _kl_and_var(answer) -> Tensor:
    """The KL and the variances in one vector: what tells two layers apart."""
    kl = _layer(answer).kl().reshape(-1)
    return torch.cat([kl, _var(answer).flatten()]).detach()


def _has_a_variance_for_each_input(answer) -> bool:
    """Whether the variances are equal along the outputs, and differ along the inputs."""
    var = _var(answer)
    first_output = var[:1]
    are_equal_along_outputs = close(var, first_output.expand(len(var), 3))
    return are_equal_along_outputs and len({*first_output[0].tolist()}) == 3


def _correlation(answer) -> float:
    """The largest correlation of two outputs of one example, over 20,000 draws."""
    layer = _layer(answer)
    generator = torch.Generator().manual_seed(4)
    x = torch.ones(20_000, 3, dtype=torch.float64)
    outputs = layer(x, "per_example", generator).detach()
    correlations = torch.corrcoef(outputs.T) - torch.eye(4)
    return float(correlations.abs().max())


def _kl_gradients(layer: WeightNoise) -> list[Tensor]:
    parameters = [layer.mu, *_noise_parameters(layer)]
    gradients = torch.autograd.grad(layer.kl(), parameters, allow_unused=True)
    return [torch.zeros(1) if gradient is None else gradient for gradient in gradients]


def _shared_prior_kl(layer: WeightNoise) -> Tensor:
    """The KL with one prior variance for each input, at its optimum by the definition."""
    mu = layer.mu.detach()
    var = layer.weight_var().detach()
    prior_var = (mu**2 + var).mean(0)
    return sum(
        gaussian_kl(mu_of_input, var_of_input, mean_p=0.0, var_p=prior_var_of_input.item())
        for mu_of_input, var_of_input, prior_var_of_input in zip(
            mu.T, var.expand_as(mu).T, prior_var, strict=True
        )
    )


def _wrong_layer(wrong_kl, shape=lambda n_in, n_out: (1, n_in), expanded: bool = True):
    """``input_relevance`` with another KL, variances of another shape, or not repeated."""

    def answer(n_in: int, n_out: int) -> WeightNoise:
        class Wrong(WeightNoise):
            def __init__(self, linear: nn.Linear) -> None:
                super().__init__(linear)
                self.log_sigma2 = nn.Parameter(torch.full(shape(n_in, n_out), -6.0))

            def weight_var(self) -> Tensor:
                var = self.log_sigma2.exp()
                return var.expand_as(self.mu) if expanded else var

            def kl(self) -> Tensor:
                return wrong_kl(self)

        return Wrong(nn.Linear(n_in, n_out))

    return answer


def _kl_right(layer: WeightNoise) -> Tensor:
    n_out = len(layer.mu)
    return n_out * _kl_without_n_out(layer)


def _kl_without_n_out(layer: WeightNoise) -> Tensor:
    log_alpha = layer.log_sigma2 - (layer.mu**2).mean(0, keepdim=True).log()
    return softplus(-log_alpha).sum() / 2


def _kl_of_sum_of_squares(layer: WeightNoise) -> Tensor:
    n_out = len(layer.mu)
    log_alpha = layer.log_sigma2 - (layer.mu**2).sum(0, keepdim=True).log()
    return n_out / 2 * softplus(-log_alpha).sum()


def _kl_with_wrong_sign(layer: WeightNoise) -> Tensor:
    n_out = len(layer.mu)
    log_alpha = layer.log_sigma2 - (layer.mu**2).mean(0, keepdim=True).log()
    return n_out / 2 * softplus(log_alpha).sum()


def _kl_per_weight(layer: WeightNoise) -> Tensor:
    log_alpha = layer.log_sigma2 - (layer.mu**2).log()
    return softplus(-log_alpha).sum() / 2


EXERCISES = (
    Exercise(
        number="08.1",
        title="predict how many useless weights survive",
        kind="predict",
        solution=surviving_share,
        probe=lambda answer: torch.tensor([float(answer(t)) for t in (-2.0, 0.0, 3.0)]),
        criteria=(
            Criterion(
                "at the threshold 3 it is what counting gives",
                agrees(lambda answer: answer(3.0), lambda answer: _counted_share(3.0), atol=2e-3),
                advice=(
                    "log alpha < 3 means ŵ² > 1 + e⁻³ by (2); which share of N(0, 1) lies there?"
                ),
            ),
            Criterion(
                "at the threshold 0 too",
                agrees(lambda answer: answer(0.0), lambda answer: _counted_share(0.0), atol=2e-3),
                advice="alpha < 1 means ŵ² > 2",
            ),
            Criterion(
                "at the threshold −2 few are left",
                agrees(lambda answer: answer(-2.0), lambda answer: _counted_share(-2.0), atol=1e-3),
                advice="both tails of N(0, 1) count, and the threshold is a logarithm",
            ),
            Criterion(
                "without a threshold it is the share beyond one standard error",
                agrees(lambda answer: answer(60.0), math.erfc(1 / math.sqrt(2)), atol=1e-6),
                advice="for a very large threshold every |ŵ| > 1 is kept",
            ),
        ),
        known_errors=(
            KnownError(
                lambda threshold: math.erfc(math.sqrt((1 + math.exp(-threshold)) / 2)) / 2,
                diagnosis=(
                    "this is one tail of N(0, 1). A weight is kept for ŵ far from 0 on either side."
                ),
            ),
            KnownError(
                lambda threshold: math.erf(math.sqrt((1 + math.exp(-threshold)) / 2)),
                diagnosis="this is the share that is removed.",
            ),
            KnownError(
                lambda threshold: math.erfc(math.sqrt((1 + math.exp(threshold)) / 2)),
                diagnosis="in (2), ŵ² = 1 + 1/alpha: a large alpha belongs to an estimate near 1.",
            ),
            KnownError(
                lambda threshold: math.erfc((1 + math.exp(-threshold)) / math.sqrt(2)),
                diagnosis="this is where ŵ² ends; its root is |ŵ|.",
            ),
            KnownError(
                lambda threshold: math.erfc(math.sqrt(1 + math.exp(-threshold))),
                diagnosis="erfc(c) is twice a tail of N(0, 1/2). For N(0, 1) it is erfc(c / √2).",
            ),
            KnownError(
                lambda threshold: math.erfc(1 / math.sqrt(2)),
                diagnosis=(
                    "this is every |ŵ| > 1. Those just above 1 have a large alpha and are removed "
                    "too."
                ),
            ),
        ),
        hints=(
            "Turn log alpha < threshold into a condition on ŵ² with the last formula of (2).",
            "ŵ² > 1 + exp(−threshold). N(0, 1) lies beyond ±c with probability erfc(c / √2).",
        ),
    ),
    Exercise(
        number="08.2",
        title="log alpha that survives a mean of 0",
        kind="debug",
        solution=safe_log_alpha,
        probe=_ordinary_and_small_means,
        criteria=(
            Criterion(
                "it is log(sigma2 / mu**2)",
                agrees(
                    lambda answer: answer(_MU, _LOG_SIGMA2),
                    (_LOG_SIGMA2.exp() / _MU**2).log(),
                ),
                advice="log_sigma2 is already the logarithm of the variance; mu enters squared",
            ),
            Criterion(
                "the sign of mu does not matter",
                agrees(
                    lambda answer: answer(-_MU, _LOG_SIGMA2),
                    lambda answer: answer(_MU, _LOG_SIGMA2),
                ),
                advice="log of a negative number is NaN: take |mu| or mu**2",
            ),
            Criterion(
                "at mu = 0 value and gradient are finite",
                lambda answer: bool(_value_and_slope(answer, 0.0).isfinite().all()),
                advice=(
                    "log 0 is −inf; hold |mu| at the smallest normal number before the logarithm"
                ),
            ),
            Criterion(
                "at mu = 1e-30 it is still exact in float32",
                agrees(
                    lambda answer: _value_and_slope(answer, 1e-30)[0],
                    -2 - 2 * math.log(1e-30),
                    atol=1e-3,
                ),
                advice=(
                    "mu**2 = 1e-60 is 0 in float32, 1e-8 added to |mu| hides it, a clamp cuts it "
                    "off"
                ),
            ),
        ),
        known_errors=(
            KnownError(
                lambda mu, log_sigma2: log_sigma2 - (mu**2).log(),
                diagnosis=(
                    "right for ordinary weights. Try the two ends: mu**2 is 0 in float32 below "
                    "|mu| = 1e-23, and at mu = 0 the logarithm is infinite, or its gradient is."
                ),
            ),
            KnownError(
                lambda mu, log_sigma2: log_sigma2 - (mu**2 + 1e-30).log(),
                diagnosis=(
                    "1e-30 is added to a square: it hides every |mu| below 1e-15. Take the "
                    "logarithm of |mu| itself, and hold it at the smallest normal number."
                ),
            ),
            KnownError(
                lambda mu, log_sigma2: log_sigma2 - 2 * (mu.abs() + 1e-8).log(),
                diagnosis=(
                    "1e-8 is far more than many means: below it log alpha no longer grows as mu "
                    "falls."
                ),
            ),
            KnownError(
                lambda mu, log_sigma2: (log_sigma2 - 2 * mu.abs().clamp_min(1.2e-38).log()).clamp(
                    -10, 10
                ),
                diagnosis=(
                    "a clamp changes log alpha outside of its bounds, and its gradient is 0 there. "
                    "If the sampled variance is made from it, a weight with a tiny mean loses its "
                    "noise."
                ),
            ),
            KnownError(
                lambda mu, log_sigma2: log_sigma2 - mu.abs().clamp_min(1.2e-38).log(),
                diagnosis="the factor 2 is missing: alpha divides by mu squared.",
            ),
            KnownError(
                lambda mu, log_sigma2: 2 * log_sigma2 - 2 * mu.abs().clamp_min(1.2e-38).log(),
                diagnosis=(
                    "log_sigma2 is the log of the variance; doubling it takes it for log sigma."
                ),
            ),
            KnownError(
                lambda mu, log_sigma2: 2 * mu.abs().clamp_min(1.2e-38).log() - log_sigma2,
                diagnosis="this is −log alpha: it grows with relevance.",
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
        title="derive what becomes of weights that no data reach",
        kind="derive",
        solution=untouched_log_sigma2,
        probe=lambda answer: answer(_START, _START_LOG_SIGMA2),
        criteria=(
            Criterion(
                "gradient descent on the KL ends there",
                agrees(
                    lambda answer: answer(_START, _START_LOG_SIGMA2),
                    lambda answer: _descended(),
                    atol=0.02,
                ),
                advice=(
                    "by (12), d log_sigma2 / d mu is the ratio of the slopes: integrate it from mu "
                    "to 0"
                ),
            ),
            Criterion(
                "the sign of mu does not matter",
                agrees(
                    lambda answer: answer(-_START, _START_LOG_SIGMA2),
                    lambda answer: answer(_START, _START_LOG_SIGMA2),
                ),
                advice="mu enters squared",
            ),
            Criterion(
                "a weight that starts at mu = 0 stays",
                agrees(lambda answer: answer(0 * _START, _START_LOG_SIGMA2), _START_LOG_SIGMA2),
                advice="both slopes of (12) are 0 there, or 0 in effect: alpha is infinite",
            ),
            Criterion(
                "it rises by the same amount from every start of log_sigma2",
                agrees(
                    lambda answer: answer(_START, 0 * _START) - answer(_START, 5 + 0 * _START),
                    torch.full((4,), -5.0, dtype=torch.float64),
                ),
                advice="the ratio of the slopes does not contain sigma",
            ),
        ),
        known_errors=(
            KnownError(
                lambda mu, log_sigma2: log_sigma2 - mu**2 / 4,
                diagnosis="the sign: both slopes are followed downhill, mu to 0 and log_sigma2 up.",
            ),
            KnownError(
                lambda mu, log_sigma2: log_sigma2 + mu**2 / 2,
                diagnosis=(
                    "a factor 2 too much: the ratio is −mu / 2, its integral from mu to 0 is mu² / "
                    "4."
                ),
            ),
            KnownError(
                lambda mu, log_sigma2: torch.log(mu**2 + log_sigma2.exp()),
                diagnosis=(
                    "this is right for descent in (mu, sigma), where mu² + sigma² does not change. "
                    "Here the parameters are mu and log_sigma2, and their slopes have another "
                    "ratio."
                ),
            ),
            KnownError(
                lambda mu, log_sigma2: log_sigma2,
                diagnosis=(
                    "it does rise while mu falls: by little for small means, but not by nothing."
                ),
            ),
        ),
        hints=(
            "With steps along −slope, d mu is proportional to −mu / (mu² + sigma²), and "
            "d log_sigma2 to +mu² / (2 (mu² + sigma²)).",
            "So d log_sigma2 / d mu = −mu / 2. Integrate from the start to mu = 0.",
        ),
    ),
    Exercise(
        number="08.4",
        title="a posterior of your own: the relevance of an input",
        kind="extend",
        solution=input_relevance,
        probe=_kl_and_var,
        criteria=(
            Criterion(
                "weight_var() has the shape of the means",
                lambda answer: _var(answer).shape == (4, 3),
                advice=(
                    "weight_var() must return (n_out, n_in): repeat the (1, n_in) variances over "
                    "the outputs with expand_as(mu). Otherwise all outputs of an example share one "
                    "draw"
                ),
            ),
            Criterion(
                "weights out of one input share their variance, and inputs do not",
                _has_a_variance_for_each_input,
                advice="one log_sigma2 for each of the n_in columns of mu: shape (1, n_in)",
            ),
            Criterion(
                "the outputs of an example have independent noise",
                lambda answer: _correlation(answer) < 0.05,
                advice="a draw for each example and each output; is weight_var() of that shape?",
            ),
            Criterion(
                "the KL is that of the best shared prior N(0, 1/beta_i)",
                agrees(
                    lambda answer: _layer(answer).kl(),
                    lambda answer: _shared_prior_kl(_layer(answer)),
                    atol=1e-8,
                ),
                advice=(
                    "1 / beta_i is the mean of mu² + sigma² over the n_out weights; put it into "
                    "(8) and add them up: kl() returns one number"
                ),
            ),
            Criterion(
                "the KL reaches the means and the variances",
                lambda answer: all(
                    bool(gradient.ne(0).all()) for gradient in _kl_gradients(_layer(answer))
                ),
                advice="do not detach anything",
            ),
        ),
        known_errors=(
            KnownError(
                _wrong_layer(_kl_without_n_out),
                diagnosis=(
                    "the factor n_out is missing: the KL adds up the n_out weights of an input."
                ),
            ),
            KnownError(
                _wrong_layer(lambda layer: 2 * _kl_right(layer)),
                diagnosis="a factor 2 too much: (8) and (10) begin with ½.",
            ),
            KnownError(
                _wrong_layer(_kl_with_wrong_sign),
                diagnosis=(
                    "softplus(log alpha) grows with the noise; the KL (10) is softplus(−log alpha)."
                ),
            ),
            KnownError(
                _wrong_layer(_kl_of_sum_of_squares),
                diagnosis=(
                    "the prior variance is the mean of mu² + sigma² over the outputs, not the sum."
                ),
            ),
            KnownError(
                _wrong_layer(_kl_per_weight),
                diagnosis=(
                    "every weight has a prior of its own here; the n_out weights of an input share "
                    "one."
                ),
            ),
            KnownError(
                _wrong_layer(_kl_per_weight, shape=lambda n_in, n_out: (n_out, n_in)),
                diagnosis="this is ARD for every weight, the layer you already had.",
            ),
            KnownError(
                _wrong_layer(_kl_right, expanded=False),
                diagnosis=(
                    "weight_var() has shape (1, n_in). It must match mu, (n_out, n_in): with one "
                    "variance for all outputs the layer also draws one number for all of them, and "
                    "they are perfectly correlated. expand_as(mu) repeats it."
                ),
            ),
            KnownError(
                _wrong_layer(_kl_right, shape=lambda n_in, n_out: (1, 1)),
                diagnosis="all inputs share one variance here; each input needs its own.",
            ),
        ),
        hints=(
            "One class, a WeightNoise with two methods: weight_var() repeats one variance per "
            "input over all outputs, kl() returns one number.",
            "(8) summed over the n_out weights of input i is smallest at 1 / beta_i = mean of "
            "mu² + sigma². As in (10), the other terms cancel.",
            "n_out / 2 * softplus(-log_alpha).sum() with alpha_i = sigma2_i / mean_j mu_ij²; and "
            "InputRelevance(nn.Linear(n_in, n_out)) is the layer.",
        ),
    ),
)

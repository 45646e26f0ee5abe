"""Exercises of lesson 06: predict variances, derive them, flip signs, repair a noisy bias."""

from __future__ import annotations

from functools import cache

import torch
from torch import Generator, Tensor

from bdl_lessons.exercises.grader import Criterion, Exercise, KnownError, agrees, close, normals


def variance_ratios() -> list[float]:
    """Predicted Var(one draw for all) / Var(a draw for each) of a minibatch mean: B = 1, 10, 1000.

    The loss of example n is w + e_n with w ~ N(0, 1) from the weights, e_n ~ N(0, 9).
    """
    var = 10.0
    cov = 1.0
    return [(var + (batch_size - 1) * cov) / var for batch_size in (1, 10, 1000)]


def derivative_variances(n_inputs: int, batch_size: int) -> tuple[float, float, float]:
    """Variances of the estimates of a derivative: one draw, a draw for each, one with signs.

    The estimate is the mean over the minibatch of d(a - y)² / d(sigma_1²) from drawn weights. All
    examples are alike: every x_i = 1, every sigma_i = 1, and a has mean y.
    """
    variance = n_inputs + 1.0
    return variance, variance / batch_size, 2 + (n_inputs - 1) / batch_size


def flipout(x: Tensor, mu: Tensor, sigma: Tensor, generator: Generator) -> Tensor:
    """Activations ``(B, Q)`` of Flipout: one draw of the noise, random signs for each example.

    ``x`` is ``(B, K)``, ``mu`` and ``sigma`` are ``(K, Q)``.
    """
    shape_out = (len(x), mu.shape[1])
    noise = sigma * torch.randn(mu.shape, generator=generator, device=x.device).to(x)
    bits_in = torch.randint(2, x.shape, generator=generator, device=x.device).to(x)
    bits_out = torch.randint(2, shape_out, generator=generator, device=x.device).to(x)
    flip_in = 2 * bits_in - 1
    flip_out = 2 * bits_out - 1
    return x @ mu + ((x * flip_in) @ noise) * flip_out


def noisy_layer(
    x: Tensor, mu: Tensor, sigma: Tensor, bias_mu: Tensor, bias_sigma: Tensor, generator: Generator
) -> Tensor:
    """Activations ``(B, Q)``, a draw of the Gaussian weights and biases for each example.

    ``x`` is ``(B, K)``, ``mu`` and ``sigma`` are ``(K, Q)``, ``bias_mu``, ``bias_sigma`` ``(Q,)``.
    """
    gamma = x @ mu + bias_mu
    delta = x**2 @ sigma**2 + bias_sigma**2
    return gamma + delta.sqrt() * torch.randn(gamma.shape, generator=generator).to(x)


_normal = normals(6)
_MU = _normal(3, 20)
_SIGMA = (1 + 0.3 * _normal(3, 20)).exp()
_BIAS_MU = _normal(20)
_BIAS_SIGMA = (1.2 + 0.3 * _normal(20)).exp()
_X = torch.tensor([[1.0, 3.0, 0.5], [0.0, 0.5, 0.3], [1.0, 3.0, 0.5]], dtype=torch.float64)


@cache
def _measured_ratios() -> list[float]:
    """Of 4000 simulated minibatches of each size."""
    errors = [3 * _normal(4000, batch_size) for batch_size in (1, 10, 1000)]
    return [_measured_ratio(errors_of_size) for errors_of_size in errors]


def _measured_ratio(errors: Tensor) -> float:
    """Var(one draw of w for all) / Var(a draw for each), of the means over e_n ``(4000, B)``."""
    with_one_draw = _normal(4000, 1) + errors
    with_a_draw_each = _normal(*errors.shape) + errors
    return float(with_one_draw.mean(1).var() / with_a_draw_each.mean(1).var())


@cache
def _measured_variances() -> Tensor:
    """Of 100,000 simulated estimates for K = 4, B = 2: one draw, a draw for each, signs."""
    a_draw_each = _normal(100_000, 2, 4)
    one_draw = _normal(100_000, 1, 4)
    flipped = one_draw * _normal(100_000, 2, 4).sign()
    return torch.stack(
        [
            _estimates_of_derivative(one_draw).var(),
            _estimates_of_derivative(a_draw_each).var(),
            _estimates_of_derivative(flipped).var(),
        ]
    )


def _estimates_of_derivative(noise: Tensor) -> Tensor:
    """Means over the minibatch, for noise ``(S, B, K)`` of the weights."""
    error = noise.sum(-1)
    return (error * noise[..., 0]).mean(1)


def _noise(layer, x: Tensor = _X) -> Tensor:
    """Activations of 200 minibatches less their means, over their standard deviations."""
    generator = Generator().manual_seed(3)
    draws = torch.stack([layer(x, _MU, _SIGMA, generator) for _ in range(200)])
    return (draws - x @ _MU) / (x**2 @ _SIGMA**2).sqrt()


def _noise_with_bias(layer, x: Tensor = _X) -> Tensor:
    """The same for a layer with a noisy bias."""
    generator = Generator().manual_seed(3)
    draws = torch.stack(
        [layer(x, _MU, _SIGMA, _BIAS_MU, _BIAS_SIGMA, generator) for _ in range(200)]
    )
    return (draws - x @ _MU - _BIAS_MU) / (x**2 @ _SIGMA**2 + _BIAS_SIGMA**2).sqrt()


def _standard(noise: Tensor) -> bool:
    """Whether every mean is 0 and the variance of every example is 1, to 5 standard errors."""
    means = noise.mean(0)
    variances = noise.var((0, 2))
    error_of_mean = 1 / 200**0.5
    error_of_variance = (2 / 4000) ** 0.5
    mean_is_0 = float(means.abs().max()) < 5 * error_of_mean
    variance_is_1 = float((variances - 1).abs().max()) < 5 * error_of_variance
    return mean_is_0 and variance_is_1


def _uncorrelated(noise: Tensor) -> bool:
    """Whether neither the examples of a minibatch nor the units of an example are correlated."""
    for axis in (1, 2):
        series = noise.movedim(axis, 0).flatten(1)
        correlations = torch.corrcoef(series) - torch.eye(len(series))
        if float(correlations.abs().max()) >= 5 / series.shape[1] ** 0.5:
            return False
    return True


def _flips(layer, n_in: int, n_out: int) -> Tensor:
    """The noise of 60 examples of ones, to 6 digits, ``(60, n_out)``."""
    x = torch.ones(60, n_in, dtype=torch.float64)
    sigma = torch.ones(n_in, n_out, dtype=torch.float64)
    noise = layer(x, 0 * sigma, sigma, Generator().manual_seed(5))
    return noise.round(decimals=6)


def _traits(noise: Tensor) -> list[float]:
    """What tells wrong layers apart, however they draw: means, variances, correlations."""
    second_and_third_example = noise[:, 1:].movedim(1, 0).flatten(1)
    correlation = torch.corrcoef(second_and_third_example)[0, 1]
    size_of_correlation = float(correlation > 0.1) + float(correlation > 0.95)
    between_units = torch.corrcoef(noise[:, 1].T)  # of the second example
    n_units = len(between_units)
    off_diagonal = (between_units.sum() - n_units) / (n_units * (n_units - 1))
    units_are_correlated = float(off_diagonal > 0.2)
    has_mean = float(noise.mean(0).abs().max() > 0.5)
    variances_in_halves = noise.var((0, 2)).mul(2).round()
    return [
        has_mean,
        *variances_in_halves.tolist(),
        size_of_correlation,
        units_are_correlated,
    ]


def _traits_of_flips(answer) -> list[float]:
    """The traits of the noise, and the number of its values with a single weight."""
    traits = _traits(_noise(answer))
    n_values = len(_flips(answer, 1, 1).unique())
    return [*traits, float(n_values)]


def _noisy_layer_with_added_stds(x, mu, sigma, bias_mu, bias_sigma, generator) -> Tensor:
    mean = x @ mu + bias_mu
    std = (x**2 @ sigma**2).sqrt() + bias_sigma
    return mean + std * torch.randn(mean.shape, generator=generator)


EXERCISES = (
    Exercise(
        number="06.1",
        title="predict what a shared draw does",
        kind="predict",
        solution=variance_ratios,
        probe=lambda answer: answer(),
        criteria=(
            Criterion(
                "one example: sharing the draw changes nothing",
                lambda answer: close(answer()[0], 1.0, 0.005),
                advice="at B = 1 there is no second example to share with",
            ),
            Criterion(
                "ten examples",
                lambda answer: close(answer()[1], 1.9, 0.01),
                advice=(
                    "what do the losses of two examples have in common if w is shared? That is the "
                    "covariance; put it and Var = 1 + 9 into (2)"
                ),
            ),
            Criterion(
                "a thousand examples",
                lambda answer: close(answer()[2], 100.9, 0.5),
                advice=(
                    "put B = 1000 into (2), with Var = 10 and Cov = 1, and do not round before the "
                    "end"
                ),
            ),
            Criterion(
                "4000 simulated minibatches of each size agree",
                lambda answer: all(
                    abs(predicted / measured - 1) < 0.14
                    for predicted, measured in zip(answer(), _measured_ratios(), strict=True)
                ),
                advice=(
                    "draw w once or B times, add 3 · randn, average over the minibatch, and take "
                    "the variance of many such averages"
                ),
            ),
        ),
        known_errors=(
            KnownError(
                lambda: [1.0, 10.0, 1000.0],
                diagnosis=(
                    "this would be right if the examples did not differ. The part of e_n falls as "
                    "1/B, whether or not w is shared."
                ),
            ),
            KnownError(
                lambda: [1 / ratio for ratio in variance_ratios()],
                diagnosis=(
                    "upside down: the question is how much larger the variance is with one draw."
                ),
            ),
            KnownError(
                lambda: [(size + 9) / 9 for size in (1, 10, 1000)],
                diagnosis=(
                    "with a draw of its own for each example w varies too: its Var[L_n] is 1 + 9, "
                    "not 9."
                ),
            ),
            KnownError(
                lambda: [10.0, 1.9, 1.009],
                diagnosis=(
                    "these are the variances with one draw. Divide each by the variance with a "
                    "draw for each example, 10 / B."
                ),
            ),
            KnownError(
                lambda: [ratio**0.5 for ratio in variance_ratios()],
                diagnosis="these are ratios of standard deviations. The task asks for variances.",
            ),
            KnownError(
                lambda: [1.1, 2.0, 101.0],
                diagnosis=(
                    "B examples make B (B − 1) pairs of different examples, not B²: at B = 1 there "
                    "is none."
                ),
            ),
        ),
        hints=(
            "What are Var and Cov of the losses when w is shared? And when it is not?",
            "Shared: Var = 10, Cov = 1. A draw for each: Var = 10, Cov = 0. Use (2) for both.",
            "(10 + (B − 1) · 1) / 10",
        ),
    ),
    Exercise(
        number="06.2",
        title="derive three variances",
        kind="derive",
        solution=derivative_variances,
        probe=lambda answer: [*answer(4, 2), *answer(4, 3)],
        criteria=(
            Criterion(
                "they are those of 100,000 simulated estimates, K = 4 and B = 2",
                lambda answer: close(
                    torch.tensor(answer(4, 2)) / _measured_variances(), torch.ones(3), 0.07
                ),
                advice=(
                    "write a − y as the noise of weight 1 plus that of the K − 1 others; you need "
                    "E[ε²] = 1 and E[ε⁴] = 3, and the square of the mean is subtracted"
                ),
            ),
            Criterion(
                "one input, one example: nothing tells the three apart",
                agrees(lambda answer: answer(1, 1), (2.0, 2.0, 2.0)),
                advice=(
                    "for K = 1 and B = 1 all three estimates are ε², with variance E[ε⁴] − E[ε²]²"
                ),
            ),
            Criterion(
                "100 inputs, one example",
                agrees(lambda answer: answer(100, 1), (101.0, 101.0, 101.0)),
                advice=(
                    "how does ε_1 Σ_i ε_i vary? For one example signs change nothing, because −ε "
                    "has the same distribution as ε"
                ),
            ),
            Criterion(
                "a million examples",
                lambda answer: close(
                    torch.tensor(answer(10, 1_000_000)), torch.tensor([11.0, 0.0, 2.0]), 1e-3
                ),
                advice=(
                    "with endless examples, what is still random if they share ε? Signs average "
                    "products of two different weights away; what do they do to ε_1²?"
                ),
            ),
        ),
        known_errors=(
            KnownError(
                lambda K, B: (K + 1.0, (K + 1) / B, (K + 1) / B),
                diagnosis=(
                    "signs make the activations of two examples uncorrelated, but (r ε_1)² = ε_1² "
                    "is the same number in all of them."
                ),
            ),
            KnownError(
                lambda K, B: (K + 1.0, (K + 1) / B, K + 1.0),
                diagnosis=(
                    "signs do help: the products of ε_1 with the other K − 1 change sign from "
                    "example to example, so that they average out."
                ),
            ),
            KnownError(
                lambda K, B: (K + 2.0, (K + 2) / B, 3 + (K - 1) / B),
                diagnosis="these are second moments. Subtract the square of the mean, which is 1.",
            ),
            KnownError(
                lambda K, B: (K - 1.0, (K - 1) / B, (K - 1) / B),
                diagnosis="ε_1 stands in both factors: its fourth moment is 3, not 1.",
            ),
        ),
        hints=(
            "On target a − y = Σ_i ε_i. Insert it in (6), with x = σ = 1.",
            "One example: ε_1 (ε_1 + r) with r ~ N(0, K − 1). Its mean is 1, and its second moment "
            "3 + (K − 1). Then think about B.",
            "With signs the mean over B examples is ε_1² + ε_1 Σ_{i>1} ε_i m_i, where m_i, the "
            "mean of B random signs, has variance 1/B.",
        ),
    ),
    Exercise(
        number="06.3",
        title="decorrelate by random signs",
        kind="extend",
        solution=flipout,
        probe=_traits_of_flips,
        criteria=(
            Criterion(
                "every activation has mean γ and variance δ",
                lambda answer: _standard(_noise(answer)),
                advice="the signs belong on the noise, not on x @ mu, and are −1 or +1",
            ),
            Criterion(
                "no two activations of a minibatch are correlated",
                lambda answer: _uncorrelated(_noise(answer)),
                advice=(
                    "every example needs signs of its own, and so does every output of an example"
                ),
            ),
            Criterion(
                "one noise matrix: with a single weight only the sign differs",
                lambda answer: (
                    len(_flips(answer, 1, 1).unique()) == 2
                    and len(_flips(answer, 1, 1).abs().unique()) == 1
                ),
                advice="draw the noise once, in the shape of mu; every example flips it",
            ),
            Criterion(
                "inputs have signs of their own",
                lambda answer: len(_flips(answer, 2, 1).abs().unique()) == 2,
                advice=(
                    "for x = (1, 1) the noise is ε_1 + ε_2 or ε_1 − ε_2, up to its sign: multiply "
                    "each input of each example by a sign before the product with the noise"
                ),
            ),
            Criterion(
                "outputs have signs of their own",
                lambda answer: len(_flips(answer, 1, 2).prod(1).unique()) == 2,
                advice=(
                    "multiply each output of each example by a sign after the product with the "
                    "noise"
                ),
            ),
        ),
        known_errors=(
            KnownError(
                lambda x, mu, sigma, generator: (
                    x @ (mu + sigma * torch.randn(mu.shape, generator=generator))
                ),
                diagnosis=(
                    "all examples have the same noise: one draw of the weights for the minibatch, "
                    "which no example flips on its own."
                ),
            ),
            KnownError(
                lambda x, mu, sigma, generator: noisy_layer(
                    x, mu, sigma, bias_mu=0 * mu[0], bias_sigma=0 * mu[0], generator=generator
                ),
                diagnosis=(
                    "the size of the noise differs between examples, as in the local "
                    "reparameterization trick. Flipout draws one noise matrix and changes its "
                    "signs."
                ),
            ),
            KnownError(
                lambda x, mu, sigma, generator: flipout(x, 0 * mu, sigma, generator),
                diagnosis=(
                    "the mean x @ mu is lost. Only the noise is flipped; the mean is added to it."
                ),
            ),
        ),
        hints=(
            "Noise of the weights: sigma * randn, in the shape of mu. Signs: 2 * randint(2) − 1.",
            "Signs of shape (B, K) multiply x, signs of shape (B, Q) multiply the product.",
            "x @ mu + ((x * flip_in) @ noise) * flip_out",
        ),
    ),
    Exercise(
        number="06.4",
        title="a bias that brings the covariance back",
        kind="debug",
        solution=noisy_layer,
        probe=lambda answer: _traits(_noise_with_bias(answer)),
        criteria=(
            Criterion(
                "no two activations of a minibatch are correlated",
                lambda answer: _uncorrelated(_noise_with_bias(answer)),
                advice=(
                    "which random numbers do several examples share, or several units of one "
                    "example?"
                ),
            ),
            Criterion(
                "mean and variance of each activation are right",
                lambda answer: _standard(_noise_with_bias(answer)),
                advice=(
                    "a bias is the weight of an input that is always 1, and variances of "
                    "independent terms add"
                ),
            ),
            Criterion(
                "an input of zeros still has the noise of the bias",
                lambda answer: _standard(_noise_with_bias(answer, x=0 * _X)),
                advice="where x = 0 the weights add nothing, and the bias is left",
            ),
        ),
        known_errors=(
            KnownError(
                lambda x, mu, sigma, bias_mu, bias_sigma, generator: (
                    noisy_layer(x, mu, sigma, bias_mu, 0 * bias_sigma, generator)
                    + bias_sigma * torch.randn(len(bias_mu), generator=generator)
                ),
                diagnosis=(
                    "this is still the bug: the noise of the bias has the shape (Q,), so all "
                    "examples share it, and their losses are correlated as in (3)."
                ),
            ),
            KnownError(
                lambda x, mu, sigma, bias_mu, bias_sigma, generator: (
                    noisy_layer(x, mu, sigma, bias_mu, 0 * bias_sigma, generator)
                    + bias_sigma * torch.randn(len(x), 1, generator=generator)
                ),
                diagnosis=(
                    "examples have noise of their own now, but all units of an example share that "
                    "of the bias: it has the shape (B, 1). Every unit has a bias of its own."
                ),
            ),
            KnownError(
                lambda x, mu, sigma, bias_mu, bias_sigma, generator: (
                    noisy_layer(x, mu, sigma, bias_mu, 0 * bias_sigma, generator)
                    + bias_sigma * torch.randn(1, generator=generator)
                ),
                diagnosis=(
                    "one number is the noise of all biases in all examples, so that examples and "
                    "units are correlated."
                ),
            ),
            KnownError(
                lambda x, mu, sigma, bias_mu, bias_sigma, generator: noisy_layer(
                    x, mu, sigma, bias_mu, 0 * bias_sigma, generator
                ),
                diagnosis=(
                    "the covariance is gone, and so is the noise of the bias: its posterior has a "
                    "variance too."
                ),
            ),
            KnownError(
                _noisy_layer_with_added_stds,
                diagnosis=(
                    "standard deviations were added. Variances of independent terms add; take the "
                    "root of their sum."
                ),
            ),
        ),
        hints=(
            "Print the shape of every random tensor. Which has no axis for the examples?",
            "Give the bias a draw for each example, or let its variance join delta.",
            "delta = x**2 @ sigma**2 + bias_sigma**2, and one randn of shape (B, Q)",
        ),
    ),
)

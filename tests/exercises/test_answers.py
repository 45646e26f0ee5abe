"""Answers that readers may give: right ones written in another way, and wrong ones."""

import math

import pytest
import torch
from torch import nn

from bdl_lessons.exercises.grader import find, grade


def solution(number):
    return find(number).solution


def normal(*shape, generator):
    return torch.randn(shape, generator=generator, dtype=torch.float64)


def signs(*shape, generator):
    return 2.0 * torch.randint(2, shape, generator=generator).double() - 1


def cosine(x, z):
    return x @ z / (x.norm() * z.norm())


def one_unit_after_the_other(x, group, p_drop, generator):
    """Draws for each group when it is met; the input itself without dropout."""
    drawn = {}
    columns = []
    if p_drop == 0:
        return x
    for unit, of in enumerate(group.tolist()):
        if of not in drawn:
            drawn[of] = torch.bernoulli(torch.full((len(x),), 1 - p_drop), generator=generator)
        columns.append(x[:, unit] * drawn[of] / (1 - p_drop))
    return torch.stack(columns, 1)


def cold_posterior(X, y, tau, beta, kl_weight):
    cov = torch.linalg.inv(tau * X.T @ X + beta * torch.eye(X.shape[1]))
    return tau * cov @ X.T @ y, kl_weight * cov


def weight_twice(X, y, tau, beta, kl_weight):
    mean, cov = solution("02.4")(X, y, tau, beta, kl_weight)
    return mean, kl_weight * cov


def estimate(*lost, weights=True, coins=1):
    """04.3 by other draws, with something lost: a normaliser, the weights, the common coin."""

    def answer(row, p_drop, sigma, length_scale, n_samples, generator):
        noise = sigma * normal(n_samples, len(row), generator=generator)
        size = len(row) if coins > 1 else 1
        w = noise + row * (torch.rand(n_samples, size, generator=generator) < 1 - p_drop)
        each = [-(w - mean).square().sum(1) / (2 * sigma**2) for mean in (row, 0 * row)]
        log_probs = [math.log(1 - p_drop), math.log(p_drop)] if weights else [0, 0]
        log_q = torch.logaddexp(each[0] + log_probs[0], each[1] + log_probs[1])
        found = (log_q + length_scale**2 * w.square().sum(1) / 2).mean()
        for name, width in (("sigma", sigma), ("length_scale", length_scale)):
            found = found - (0 if name in lost else len(row) * math.log(width))
        return found

    return answer


def passes_of(is_random):
    """05.4 with another way to recognise a random module."""

    def answer(model, x, n_samples):
        modes = [(module, module.training) for module in model.modules()]
        for module, _ in modes:
            module.training = is_random(module)
        with torch.no_grad():
            passes = torch.stack([model(x) for _ in range(n_samples)])
        for module, mode in modes:
            module.training = mode
        return passes

    return answer


def flipped(shape_in, shape_out):
    """Flipout with signs of these shapes, in which B, K and Q are the sizes, 1 is shared."""

    def answer(x, mu, sigma, rng):
        sizes = {"B": len(x), "K": mu.shape[0], "Q": mu.shape[1], "1": 1}
        flip_in, flip_out = (
            signs(*(sizes[axis] for axis in shape), generator=rng)
            for shape in (shape_in, shape_out)
        )
        noise = sigma * normal(*mu.shape, generator=rng)
        return x @ mu + ((x * flip_in) @ noise) * flip_out

    return answer


def with_bias_noise(shape):
    """06.4 with weights that are drawn locally; the noise of the bias has this shape."""

    def answer(x, mu, sigma, bias_mu, bias_sigma, rng):
        sizes = {"B": len(x), "Q": mu.shape[1], "1": 1}
        noise = normal(len(x), mu.shape[1], generator=rng)
        bias = bias_mu + bias_sigma * normal(*(sizes[axis] for axis in shape), generator=rng)
        return x @ mu + (x**2 @ sigma**2).sqrt() * noise + bias

    return answer


def cut_weights(errors):
    weights = solution("13.2")(errors).clamp(min=0)
    return weights / weights.sum()


def by_joint_likelihood(first, second, n_test, n_train):
    """The densities of all examples multiplied before the draws are averaged."""
    scores = [m.sum(-1).logsumexp(1) / m.shape[-1] for m in (first, second)]
    gaps = scores[0] - scores[1]
    error = gaps.std() * math.sqrt(1 / len(gaps) + n_test / n_train)
    return torch.stack([gaps.mean(), error])


def by_logsumexp(log_draws=True, correction=0):
    def answer(first, second, n_test, n_train):
        scores = [m.logsumexp(1) - log_draws * math.log(m.shape[1]) for m in (first, second)]
        gaps = (scores[0] - scores[1]).mean(1)
        error = torch.sqrt(gaps.var(correction=correction) * (1 / len(gaps) + n_test / n_train))
        return torch.stack([gaps.mean(), error])

    return answer


def correlations_of(precision):
    """Correlation matrix of the weights whose posterior has this precision."""
    cov = torch.linalg.inv(precision)
    std = cov.diagonal().sqrt()
    return cov / std / std[:, None]


def at_least_one(gap, std, fraction):
    room = (gap / (2 * std)) ** 2 - fraction / (1 - fraction)
    return float(math.ceil(1 / room)) if room > 0 else math.inf


RIGHT = [
    ("01.2", one_unit_after_the_other),
    ("02.1", lambda: [0.19, 0.31, 1.25, 97]),
    ("03.2", lambda x, z: (math.pi - cosine(x, z).clamp(-1, 1).acos()) / (2 * math.pi)),
    ("04.3", estimate()),
    ("05.4", passes_of(lambda module: "Dropout" in type(module).__name__)),
    ("05.4", passes_of(lambda module: isinstance(module, nn.modules.dropout._DropoutNd))),
    ("06.2", lambda K, B: torch.tensor([K + 1, (K + 1) / B, 2 + (K - 1) / B])),
    ("06.3", flipped("BK", "BQ")),
    ("06.4", with_bias_noise("BQ")),
    ("12.2", lambda xi, sigma, g: solution("12.2")(xi.float(), sigma.float(), g)),
    ("13.1", lambda n_known, n_ood: solution("13.1")(n_known, n_ood).float()),
    ("15.1", lambda cost: [2 * cost, cost / 2, cost - cost**2]),
]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=["float32", "float64"])
@pytest.mark.parametrize(("number", "answer"), RIGHT)
def test_a_right_answer_is_solved_in_whatever_precision_the_notebook_is(number, answer, dtype):
    before = torch.get_default_dtype()
    torch.set_default_dtype(dtype)
    try:
        report = grade(find(number), answer)
    finally:
        torch.set_default_dtype(before)
    assert report.solved, report


NEARLY_RIGHT = [
    ("02.1", lambda: [0.2, 0.3, 1.25, 97]),
    ("03.1", lambda K: (math.sqrt(5 / K) * 1.06, 15 / K)),
    ("03.1", lambda K: (math.sqrt(5 / (K + 1)), 15 / K)),
    ("03.2", lambda x, z: solution("03.2")(x, z).clamp(max=0.49)),
    ("04.1", lambda data_factor, before, after: data_factor**0.5 * after / before),
    ("04.2", lambda std, n, p_drops: solution("04.2")(std, n, [max(p_drops)] * len(p_drops))),
    ("04.3", lambda *args: 1.03 * solution("04.3")(*args)),
    ("04.4", lambda output, y, *kl: solution("04.4")(output, y, *kl) * len(y)),
    ("04.4", lambda output, y, kl, tau, n: (output - y).norm() ** 2 / 12 + kl / (tau * n)),
    ("06.4", with_bias_noise("B1")),
    ("13.4", at_least_one),
    ("15.1", lambda cost: [2 * cost, cost / 2, cost - cost**2 / 2]),
    ("13.4", lambda *pilot: solution("13.4")(*pilot) + 1e-6),  # no whole number
    ("04.3", estimate(weights=False)),  # overlapping spikes tell these two from one spike alone
    ("04.3", estimate(coins=3)),
]
WRONG = [
    ("01.4", lambda probs, p_drop, n: probs / (1 - p_drop) ** n, "probabilities were divided"),
    ("02.4", cold_posterior, "cold posterior"),
    ("02.4", weight_twice, "has the weight twice"),
    ("03.2", lambda x, z: cosine(x, z).acos(), "arccos out of its range"),
    ("03.4", lambda C, y, tau, h: solution("03.4")(C, y, tau, 1), "whatever the horizon is"),
    ("04.3", estimate("sigma"), "log N(w; m, sigma²) contains"),
    ("04.3", estimate("length_scale"), "log p(w) contains"),
    ("04.3", estimate("sigma", "length_scale"), "both densities lack"),
    ("07.1", lambda x, w, tau: 1 / (tau * w**2 * (x**2).sum(0)), "It is at most 1"),
    ("10.1", lambda q, p: (q * (q / p).log2()).nansum(), "base 2"),
    ("10.1", lambda q, p: torch.xlogy(q, q / p).mean(), "mean over cells"),
    ("10.1", lambda q, p: torch.xlogy(q, q / p).mean() / math.log(2), "two things are left"),
    ("11.3", lambda precision: solution("11.3")(precision.float()), "only the first digits"),
    ("11.3", lambda lam: -correlations_of(lam).logdet() / 2, "correlation matrix of the weights"),
    ("13.2", lambda errors: solution("13.2")(errors).float(), "only the first digits"),
    ("13.3", by_logsumexp(), "the variance is still divided by the number of splits"),
    ("13.3", by_joint_likelihood, "the joint likelihood of all test examples"),
    ("06.3", flipped("1K", "BQ"), "no   inputs have signs of their own"),
    ("06.3", flipped("BK", "B1"), "no   outputs have signs of their own"),
]
ONE_CHECK = [
    ("12.2", find("12.2").known_errors[3].answer, "samples and units have scales of their own"),
    ("13.2", cut_weights, "a weight may be negative"),
    ("13.3", by_logsumexp(), "it is the package's paired difference"),
    ("13.3", by_logsumexp(False, 1), "the score is that of the averaged density"),
]


@pytest.mark.parametrize(
    ("number", "answer", "told"), [*((*row, "") for row in NEARLY_RIGHT), *WRONG, *ONE_CHECK]
)
def test_a_wrong_answer_is_told_its_error_and_none_that_it_has_not(number, answer, told):
    report = grade(find(number), answer)
    assert not report.solved
    assert told in f"{report.form} {report.diagnosis} {report.lines}"
    assert told or report.diagnosis is None
    failed = [line for line in report.lines if line.startswith("no")]
    assert (number, answer, told) not in ONE_CHECK or len(failed) == 1

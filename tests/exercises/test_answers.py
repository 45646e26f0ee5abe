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


def signs(shape, generator):
    return 2.0 * torch.randint(2, shape, generator=generator).double() - 1


def cosine(x, z):
    return x @ z / (x.norm() * z.norm())


def one_unit_after_the_other(x, group, p_drop, generator):
    """Draws for each group when it is met; the input itself without dropout."""
    if p_drop == 0:
        return x
    keep = 1 - p_drop
    masks = {}
    columns = []
    for unit, number in enumerate(group.tolist()):
        if number not in masks:
            masks[number] = torch.bernoulli(torch.full((len(x),), keep), generator=generator)
        columns.append(x[:, unit] * masks[number] / keep)
    return torch.stack(columns, 1)


def cold_posterior(X, y, tau, beta, kl_weight):
    cov = torch.linalg.inv(tau * X.T @ X + beta * torch.eye(X.shape[1]))
    return tau * cov @ X.T @ y, kl_weight * cov


def weight_twice(X, y, tau, beta, kl_weight):
    mean, cov = solution("02.4")(X, y, tau, beta, kl_weight)
    return mean, kl_weight * cov


def estimate(lost=(), with_probs=True, common_coin=True):
    """04.3 by other draws, with something lost: a normaliser, the weights, the common coin."""

    def answer(row, p_drop, sigma, length_scale, n_samples, generator):
        noise = sigma * normal(n_samples, len(row), generator=generator)
        n_coins = 1 if common_coin else len(row)
        is_kept = torch.rand(n_samples, n_coins, generator=generator) < 1 - p_drop
        w = noise + row * is_kept
        log_kept = -(w - row).square().sum(1) / (2 * sigma**2)
        log_dropped = -w.square().sum(1) / (2 * sigma**2)
        if with_probs:
            log_kept = log_kept + math.log(1 - p_drop)
            log_dropped = log_dropped + math.log(p_drop)
        log_q = torch.logaddexp(log_kept, log_dropped)
        log_p = -(length_scale**2) * w.square().sum(1) / 2
        kl = (log_q - log_p).mean()
        if "sigma" not in lost:
            kl = kl - len(row) * math.log(sigma)
        if "length_scale" not in lost:
            kl = kl - len(row) * math.log(length_scale)
        return kl

    return answer


def by_mean_of_logs(row, p_drop, sigma, length_scale, n_samples, generator):
    """04.3 with the logarithms of both spikes averaged, by other draws than the reference."""
    noise = normal(n_samples, len(row), generator=generator)
    is_kept = torch.rand(n_samples, 1, generator=generator) < 1 - p_drop
    w = row * is_kept + sigma * noise
    prior = torch.distributions.Normal(0.0, 1 / length_scale)
    kept = torch.distributions.Normal(row, sigma).log_prob(w).sum(1)
    dropped = torch.distributions.Normal(0.0, sigma).log_prob(w).sum(1)
    log_q = (1 - p_drop) * kept + p_drop * dropped
    return (log_q - prior.log_prob(w).sum(1)).mean()


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

    def answer(x, mu, sigma, generator):
        sizes = {"B": len(x), "K": mu.shape[0], "Q": mu.shape[1], "1": 1}
        flip_in = signs([sizes[axis] for axis in shape_in], generator)
        flip_out = signs([sizes[axis] for axis in shape_out], generator)
        noise = sigma * normal(*mu.shape, generator=generator)
        return x @ mu + ((x * flip_in) @ noise) * flip_out

    return answer


def with_bias_noise(shape, std_factor=1.0):
    """06.4 with weights that are drawn locally; the noise of the bias has this shape."""

    def answer(x, mu, sigma, bias_mu, bias_sigma, generator):
        sizes = {"B": len(x), "Q": mu.shape[1], "1": 1}
        noise = normal(len(x), mu.shape[1], generator=generator)
        bias_noise = normal(*[sizes[axis] for axis in shape], generator=generator)
        bias = bias_mu + std_factor * bias_sigma * bias_noise
        return x @ mu + (x**2 @ sigma**2).sqrt() * noise + bias

    return answer


def cut_weights(errors):
    weights = solution("13.2")(errors).clamp(min=0)
    return weights / weights.sum()


def by_joint_likelihood(first, second, n_test, n_train):
    """The densities of all examples multiplied before the draws are averaged."""

    def score(log_p):
        return log_p.sum(-1).logsumexp(1) / log_p.shape[-1]

    gaps = score(first) - score(second)
    error = gaps.std() * math.sqrt(1 / len(gaps) + n_test / n_train)
    return torch.stack([gaps.mean(), error])


def by_logsumexp(averaged=True, correction=0):
    """13.3 with the densities of the draws averaged or only added, and this correction."""

    def score(log_p):
        log_sum = log_p.logsumexp(1)
        return log_sum - math.log(log_p.shape[1]) if averaged else log_sum

    def answer(first, second, n_test, n_train):
        gaps = (score(first) - score(second)).mean(1)
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


def given_label(probs, right, wrong):
    """Each mask's probabilities of the label that is given, class by class."""
    n_classes = probs.shape[1]
    columns = []
    for given in range(n_classes):
        chances = [right if true == given else wrong for true in range(n_classes)]
        columns.append(sum(chance * probs[:, true] for true, chance in enumerate(chances)))
    return torch.stack(columns, dim=1)


def entropy_of(probs):
    return -torch.xlogy(probs, probs).sum(-1)


def noisy(in_mean=False, in_masks=False):
    def answer(probs, error):
        given = given_label(probs, 1 - error, error / (probs.shape[1] - 1))
        first = given if in_mean else probs
        second = given if in_masks else probs
        return entropy_of(first.mean(0)) - entropy_of(second).mean()

    return answer


def by_channel(chances):
    """``chances``: of error and number of classes, those of the right class and of each other."""

    def answer(probs, error):
        given = given_label(probs, *chances(error, probs.shape[1]))
        return entropy_of(given.mean(0)) - entropy_of(given).mean()

    return answer


def entropy_of_given(probs, error):
    return entropy_of(given_label(probs, 1 - error, error / (probs.shape[1] - 1)).mean(0))


def by_binary_entropy(probs, error):
    coin = entropy_of(torch.tensor([error, 1 - error]))
    return noisy()(probs, error) - coin - error * math.log(probs.shape[1] - 1)


def costs_of(probs, cost):
    return (probs[:, None] * cost).sum(-1)


def decided(choose, is_reversed=False):
    def answer(probs, cost, silence):
        best, number = choose(costs_of(probs, cost))
        speaks = (best > silence) if is_reversed else (best <= silence)
        return [int(n) if s else -1 for n, s in zip(number, speaks, strict=True)]

    return answer


def with_one_more_class(probs, cost, silence):
    padded = torch.nn.functional.pad(costs_of(probs, cost), (0, 1), value=silence)
    return padded.argmin(-1)


def by_largest_cost(probs, cost, silence):
    best, number = probs.max(-1)
    return torch.where((1 - best) * cost.max() <= silence, number, -1)


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
    ("12.2", lambda xi, sigma, rng: solution("12.2")(xi.float(), sigma.float(), rng)),
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
    ("06.4", with_bias_noise("BQ", std_factor=0.5)),
    ("13.4", at_least_one),
    ("15.1", lambda cost: [2 * cost, cost / 2, cost - cost**2 / 2]),
    ("13.4", lambda *pilot: solution("13.4")(*pilot) + 1e-6),  # no whole number
    ("04.3", estimate(with_probs=False)),  # overlapping spikes tell these two from one spike alone
    ("04.3", estimate(common_coin=False)),
]
WRONG = [
    ("01.4", lambda probs, p_drop, n: probs / (1 - p_drop) ** n, "probabilities were divided"),
    ("02.4", cold_posterior, "cold posterior"),
    ("02.4", weight_twice, "has the weight twice"),
    ("03.2", lambda x, z: cosine(x, z).acos(), "arccos out of its range"),
    ("03.4", lambda C, y, tau, h: solution("03.4")(C, y, tau, 1), "whatever the horizon is"),
    ("04.3", by_mean_of_logs, "weighted mean of the logarithms"),
    ("04.3", estimate(lost=["sigma"]), "log N(w; m, sigma²) contains"),
    ("04.3", estimate(lost=["length_scale"]), "log p(w) contains"),
    ("04.3", estimate(lost=["sigma", "length_scale"]), "both densities lack"),
    ("07.1", lambda x, w, tau: 1 / (tau * w**2 * (x**2).sum(0)), "It is at most 1"),
    ("10.1", lambda q, p: (q * (q / p).log2()).nansum(), "base 2"),
    ("10.1", lambda q, p: torch.xlogy(q, q / p).mean(), "mean over cells"),
    ("10.1", lambda q, p: torch.xlogy(q, q / p).mean() / math.log(2), "two things are left"),
    ("11.3", lambda precision: solution("11.3")(precision.float()), "only the first digits"),
    ("11.3", lambda lam: -correlations_of(lam).logdet() / 2, "correlation matrix of the weights"),
    ("13.2", lambda errors: solution("13.2")(errors).float(), "only the first digits"),
    ("13.3", by_logsumexp(), "the variance is still divided by the number of splits"),
    ("13.3", by_joint_likelihood, "the joint likelihood of all test examples"),
    ("06.1", lambda: [10.0, 1.9, 1.009], "the variances with one draw"),
    ("06.1", lambda: [1.0, 1.9**0.5, 100.9**0.5], "ratios of standard deviations"),
    ("06.4", with_bias_noise("1Q"), "all examples share it"),
    ("06.4", with_bias_noise("B1"), "all units of an example share that of the bias"),
    ("06.4", with_bias_noise("11"), "one number is the noise of all biases"),
    ("06.3", flipped("1K", "BQ"), "no   inputs have signs of their own"),
    ("06.3", flipped("BK", "B1"), "no   outputs have signs of their own"),
]
WRONG += [
    ("15.1", lambda c: [2 * c, c / 2, 2 * c * c / 2], "lacks what no answer costs"),
    ("15.1", lambda c: [2 * c, c / 2, c * c + c], "also where one is given"),
    ("15.1", lambda c: [2 * c, c / 2, c / 2 + c - 2 * c * c], "every input is answered"),
    ("15.1", lambda c: [1, 1 / 4, 1 / 4], "answers every input"),
    ("15.2", noisy(in_mean=True), "only the averaged probabilities"),
    ("15.2", noisy(in_masks=True), "only the masks have the errors"),
    ("15.2", lambda p, e: noisy(in_mean=True, in_masks=True)(p, e) / math.log(2), "in bits"),
    ("15.2", entropy_of_given, "is to be subtracted"),
    ("15.2", by_channel(lambda e, n_classes: (1 - e, e)), "sum to more than 1"),
    ("15.2", by_channel(lambda e, n_classes: (1 - e, 0)), "as if they could be seen"),
    ("15.2", by_binary_entropy, "the first entropy in"),
    ("15.3", lambda p, cost, silence: costs_of(p, cost).argmin(-1), "always answers"),
    ("15.3", decided(lambda of: of.max(-1)), "the largest expected cost"),
    ("15.3", decided(lambda of: of.min(-1), is_reversed=True), "wrong way round"),
    ("15.3", with_one_more_class, "not that of one more class"),
    ("15.3", by_largest_cost, "with the largest cost for all errors"),
]
ONE_CHECK = [
    ("12.2", find("12.2").known_errors[3].answer, "samples and units have scales of their own"),
    ("13.2", cut_weights, "a weight may be negative"),
    ("13.3", by_logsumexp(), "it is the package's paired difference"),
    (
        "13.3",
        by_logsumexp(averaged=False, correction=1),
        "the score is that of the averaged density",
    ),
]


def all_text(report):
    return f"{report.form} {report.diagnosis} {report.lines}"


@pytest.mark.parametrize(("number", "answer"), NEARLY_RIGHT)
def test_a_nearly_right_answer_is_told_of_no_error_that_it_has_not(number, answer):
    report = grade(find(number), answer)
    assert not report.solved
    assert report.diagnosis is None


@pytest.mark.parametrize(("number", "answer", "message"), WRONG)
def test_a_wrong_answer_is_told_its_error(number, answer, message):
    report = grade(find(number), answer)
    assert not report.solved
    assert message in all_text(report)


@pytest.mark.parametrize(("number", "answer", "claim"), ONE_CHECK)
def test_an_answer_with_one_error_fails_one_check(number, answer, claim):
    report = grade(find(number), answer)
    assert not report.solved
    (failed,) = [line for line in report.lines if line.startswith("no")]
    assert claim in failed

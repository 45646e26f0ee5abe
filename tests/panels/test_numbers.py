"""The numbers that each panel states: from the mathematics by another way, or from its arrays."""

import functools
import itertools
import math
import re

import numpy as np
import pytest
import torch
from matplotlib.figure import Figure
from matplotlib.path import Path
from scipy.integrate import quad, trapezoid
from scipy.special import dawsn, expit
from torch.distributions import MultivariateNormal, Normal, kl_divergence

from bdl_lessons.datasets import bioassay, digits
from bdl_lessons.evaluation import mutual_information, predictive_entropy
from bdl_lessons.inference import predict, to_sparse
from bdl_lessons.models import ARD, mlp
from bdl_lessons.panels import (
    arrays,
    dropout_prior,
    dropout_rate,
    evidence_bar,
    householder_depth,
    in_between_uncertainty,
    kl_partition,
    many_networks,
    mc_dropout_co2,
    minibatch_variance,
    noise_and_kl,
    penalty_ellipse,
    pruning_threshold,
    rotated_digit,
    structure_and_nll,
    truncated_posterior,
    wide_network,
)
from bdl_lessons.probability import all_masks, mask_probs, mass_near_zero
from bdl_lessons.reference import BayesLogistic, GridPosterior, RandomFeatures
from reproductions.panel_arrays import structure_and_nll as experiment
from tests.draws import normal, seeded
from tests.tables import close

panel_of = functools.cache(lambda module: module.panel())


def readout(module, **setting):
    return re.sub("<.*?>", "", panel_of(module).render(**setting).readout)


def stated(module, **setting):
    """The numbers that stand in bold in the readout."""
    return [*map(float, re.findall(r"<b>([-\d.]+)", panel_of(module).render(**setting).readout))]


@pytest.mark.parametrize("p_drop", [0.0, 0.2, 0.9])
@pytest.mark.parametrize("sigma", [1.0, 0.3, 0.02])
def test_dropout_prior_has_the_kl_of_its_integral(p_drop, sigma):
    w = np.linspace(-8, 9, 100_001)
    prior = -0.5 * (2 * w) ** 2 + np.log(2) - 0.5 * np.log(2 * np.pi)
    log_q = dropout_prior.log_q(w, 1.0, p_drop, sigma)
    assert trapezoid(np.exp(log_q), w) == pytest.approx(1, abs=1e-9)
    integral = trapezoid(np.exp(log_q) * (log_q - prior), w)
    assert dropout_prior.exact_kl(1.0, p_drop, 2.0, sigma) == pytest.approx(integral, abs=2e-3)


def test_dropout_prior_states_the_noise_of_equation_21_and_a_slope_that_meets_its_limit():
    setting = {"p_drop": 0.4, "length_scale": 2.0, "n_train": 1000, "sigma": 0.01}
    noise, _, slope, limit = stated(dropout_prior, **setting)
    assert noise == pytest.approx((2 * 2.0**2 / 0.6 / (1000 * 1e-4)) ** -0.5, rel=1e-2)
    assert limit == pytest.approx(0.6 * 4)
    assert slope == pytest.approx(limit, abs=2e-3)


def test_dropout_rate_states_the_mean_of_all_masks_and_the_answer_by_weight_scaling():
    masks = all_masks(10).numpy()
    x = np.array(dropout_rate.POINTS["far away"])
    for trained, rate, factor in zip(dropout_rate.TRAINED, (0.3, 0.0), (1, 1 / 0.7), strict=True):
        net = dropout_rate.trained_at(rate, arrays.load("dropout_rate"))
        hidden = np.tanh(x @ net["w1"] + net["b1"])
        answers = expit((hidden * factor * masks) @ net["w2"] + net["b2"])[:, 0]
        scaled = expit((hidden * factor * 0.7) @ net["w2"] + net["b2"]).item()
        exact = mask_probs(torch.from_numpy(masks), 0.3).numpy() @ answers
        setting = {"p_drop": 0.3, "point": "far away", "trained": trained}
        kept, mean, _, scaling, _ = stated(dropout_rate, **setting)
        assert kept == (arrays.load("dropout_rate")["uniforms"] >= 0.3).sum()
        assert (mean, scaling) == pytest.approx((exact, scaled), abs=6e-4)


def test_dropout_rate_shows_that_training_with_dropout_makes_the_sub_networks_vote_together():
    at = {"p_drop": 0.3, "point": "inside a class"}
    votes = [stated(dropout_rate, **at, trained=one)[-1] for one in dropout_rate.TRAINED]
    assert votes == [1.4, 20.3]  # as lesson 01 says


def log_joint_of_the_line(w):
    x, y = torch.tensor([[1.0, 2.0, 3.0], [2.0, 3.0, 5.0]], dtype=torch.float64)
    likelihood = Normal(w[:, :1] + w[:, 1:] * x, 1.0).log_prob(y).sum(-1)
    return likelihood + Normal(0.0, 1.0).log_prob(w).sum(-1)


POSTERIORS = {
    evidence_bar.LINE: (log_joint_of_the_line, (-5, -3), (5, 5), 1.0),
    evidence_bar.BIOASSAY: (
        BayesLogistic(*bioassay.load(), 100.0).log_joint, (-6, -8), (12, 45), 100.0,
    ),
}  # fmt: skip


@pytest.mark.parametrize("posterior", POSTERIORS)
def test_evidence_bar_splits_the_evidence_as_sums_over_a_grid_do(posterior):
    log_joint, low, high, prior_var = POSTERIORS[posterior]
    grid = GridPosterior(log_joint, low, high, n=300)
    std = grid.cov.diagonal().sqrt()
    prior = Normal(torch.zeros(2).double(), prior_var**0.5)
    for shift, scale, correlation in (((0.6, -0.4), 0.8, 0.3), ((0.0, 0.0), 0.85, 0.5)):
        corr = torch.tensor([[1.0, correlation], [correlation, 1.0]], dtype=torch.float64)
        mean = grid.mean + torch.tensor(shift) * std
        cov = scale**2 * torch.outer(std, std) * corr
        q = MultivariateNormal(mean, cov)
        gap = grid.kl_from(q.log_prob(grid.points))
        evidence = grid.log_evidence
        kl_prior = -q.entropy() - prior.log_prob(mean).sum() + cov.trace() / prior_var / 2
        setting = {"shift_1": shift[0], "shift_2": shift[1], "scale": scale}
        setting |= {"correlation": correlation, "posterior": posterior}
        found = re.findall(r"-?\d+\.\d+", readout(evidence_bar, **setting))
        expected = [evidence - gap + kl_prior, kl_prior, evidence - gap, gap, evidence]
        assert [*map(float, found)] == pytest.approx([*map(float, expected)], abs=2e-3)
    assert posterior == evidence_bar.LINE or 0.11 < gap < 0.13  # lesson 02 says so


def test_evidence_bar_draws_ellipses_that_hold_the_mass_they_are_named_after():
    figure = Figure()
    setting = {"shift_1": 0.6, "shift_2": -0.4, "scale": 0.8, "correlation": 0.7}
    evidence_bar.build_figure(figure)(**setting, posterior=evidence_bar.LINE)
    cov = 0.8**2 * torch.tensor([[1.0, 0.7], [0.7, 1.0]])
    draws = MultivariateNormal(torch.tensor([0.6, -0.4]), cov).sample((40_000,)).numpy()
    ellipses = figure.axes[0].lines[: len(evidence_bar.MASS)]
    shares = [Path(each.get_xydata()).contains_points(draws).mean() for each in ellipses]
    assert shares == pytest.approx([0.9, 0.5, 0.1], abs=0.015)


def test_householder_depth_bounds_the_kl_and_rotates_without_changing_the_eigenvalues():
    module = householder_depth
    for log_std in module.LOG_STDS:
        for seed in module.SEEDS:
            alpha, vectors, _ = module.draws(log_std, seed)
            kls = module.kl_by_depth(alpha, vectors)
            top = module.kl_per_output(alpha, alpha.mean().expand(module.K))
            assert kls[0] - 1e-12 <= kls.min() <= kls.max() <= top + 1e-12
            eigenvalues = np.linalg.eigvalsh(module.covariance(alpha, vectors[:3]))
            np.testing.assert_allclose(eigenvalues, np.sort(alpha))


def test_householder_depth_states_the_correlation_and_the_kl():
    alpha, vectors, eta = householder_depth.draws(1.0, 0)
    cov = householder_depth.covariance(alpha, vectors[:3])
    i, j = householder_depth.pair(1.0, 0)
    correlation, kl, low, high = stated(householder_depth, depth=3, log_std=1.0, seed=0)
    assert correlation == pytest.approx(cov[i, j] / np.sqrt(cov[i, i] * cov[j, j]), abs=0.006)
    assert kl == pytest.approx(np.log((1 + np.diag(cov)) / alpha.numpy()).sum() / 2, abs=6e-4)
    assert low < kl < high
    other, _, moved = householder_depth.draws(1.5, 0)  # a slider scales the same random numbers
    torch.testing.assert_close(eta / alpha.sqrt(), moved / other.sqrt())


def test_householder_depth_starts_with_a_correlation_and_a_kl_that_hardly_grows():
    """And a reflection can undo what others did, as lesson 10 says."""
    correlation, kl, low, high = stated(householder_depth)
    assert correlation > 0.6
    assert 24 < low < kl < high < 1.02 * low
    kls = householder_depth.kl_by_depth(*householder_depth.draws(1.5, 4)[:2])
    assert np.diff(kls).min() < 0
    assert 0.15 < kls[8] - kls[0] < 0.3


def test_in_between_uncertainty_compares_the_gap_with_the_larger_cluster():
    stored = arrays.load("in_between_uncertainty")
    position = in_between_uncertainty.POSITION

    def ratio(std):
        left, middle, right = np.interp([-1, 0, 1], position, std)
        return middle / max(left, right)

    text = readout(in_between_uncertainty, depth=2, p_drop=0.1)
    assert ", ".join(f"{ratio(std):.2f}" for std in stored["std_2"][2]) in text
    assert f"Gaussian process {ratio(stored['gp_std_2']):.1f}" in text
    for std in stored["std_1"].reshape(-1, len(position)):  # Foong et al.'s theorem
        variance = std.astype(float) ** 2
        assert np.diff(variance, 2).min() > -1e-5 * variance.max()  # stored in single precision
        assert ratio(std) < 0.5


NOISES = [*zip(kl_partition.DISTRIBUTIONS, (0, 1, 2), strict=True)]


@pytest.mark.parametrize(("noise", "missing"), NOISES)
def test_kl_partition_has_laws_of_one_mean_and_variance_and_states_the_slope(noise, missing):
    theta = kl_partition.THETA
    (index, probs) = kl_partition._cells(noise, 6)
    centres = (index.double() + 0.5) / 2**6
    mean = probs @ centres
    close(mean, theta, atol=0.02)
    close(probs @ (centres - mean) ** 2, kl_partition.ALPHA * theta**2, atol=0.03)
    text = readout(kl_partition, halvings=6, noise=noise)
    assert f"Missing dimensions: {missing}" in text
    rise = float(re.search(r"The last halving added ([\d.]+)\.", text)[1])
    assert rise == pytest.approx(missing * math.log(2), abs=0.03)
    if missing == 0:
        q = Normal(theta, theta.abs() * kl_partition.ALPHA**0.5)
        exact = kl_divergence(q, Normal(0.0, 1.0)).sum().item()
        assert stated(kl_partition, halvings=6, noise=noise)[0] == pytest.approx(exact, abs=1e-3)


def test_kl_partition_draws_the_mass_where_it_is():
    noise = kl_partition.DISTRIBUTIONS[2]
    rows, columns = np.nonzero(kl_partition._picture(*kl_partition._cells(noise, 1), 1))
    corners = {(c / 2 - 2, r / 2 - 3) for r, c in zip(rows, columns, strict=True)}
    assert corners == {(0.0, 0.0), (1.5, -1.5)}  # cells of 0 and of theta / keep = (1.8, -1.05)


@pytest.mark.parametrize("n_networks", [1, 5, 20])
def test_many_networks_states_the_mean_answer_and_its_range(n_networks):
    text = readout(many_networks, n_networks=n_networks)
    logits = arrays.load("many_networks")["logits"][:n_networks].astype(float)
    for part, place in zip(text.split(";"), many_networks.PLACES.values(), strict=True):
        p = expit(logits[:, *place])
        told = [float(number) for number in re.findall(r"\d\.\d\d", part)]
        assert told == pytest.approx([p.mean(), p.min(), p.max()], abs=0.006)
    at_star = logits[:, *many_networks.PLACES["at the star"]]  # as lesson 00 says:
    assert 7 <= (at_star > 0).sum() <= 13 if n_networks == 20 else (at_star < 0).all()


def test_mc_dropout_co2_states_the_spread_of_the_first_draws_which_tau_does_not_move():
    data = mc_dropout_co2.six_years()
    stored = arrays.load("mc_dropout_co2")
    last = stored["draws"][mc_dropout_co2.RATES.index(0.2), :10, -1].astype(float)
    _, at_end = stated(mc_dropout_co2, p_drop=0.2, n_samples=10)
    assert at_end == pytest.approx(data.residual_std * last.std(), abs=0.006)
    assert stated(mc_dropout_co2, tau=0.25) == stated(mc_dropout_co2, tau=100.0)


def test_mc_dropout_co2_has_a_wider_and_more_likely_band_for_more_admitted_noise():
    """As lesson 05 tells the lecturer."""
    texts = [readout(mc_dropout_co2, tau=tau) for tau in (0.25, 6.0, 100.0)]
    inside = [float(re.search(r"(\d+) %", text)[1]) for text in texts]
    scores = [float(re.search(r"likelihood (-?[\d.]+)", text)[1]) for text in texts]
    assert inside == sorted(inside, reverse=True)
    assert scores == sorted(scores, reverse=True)


def test_minibatch_variance_is_that_of_minibatches_that_are_drawn():
    """Of 20 patients with replacement; one draw of the weights for each, or one per example."""
    x, y, mu, var = minibatch_variance.posterior()
    n_batches, m = 10_000, 20
    rows = torch.randint(len(x), (n_batches, m), generator=seeded())
    estimates = []
    for n_draws in (1, m):
        b = (x[rows] * (mu + (10 * var).sqrt() * normal(n_batches, n_draws, 10))).sum(-1)
        estimates.append((minibatch_variance.TAU / 2 * (y[rows] - b) ** 2).mean(1).var())
    shown = stated(minibatch_variance, batch_size=m, noise_scale=10.0, quantity="loss")[0]
    assert shown == pytest.approx((estimates[0] / estimates[1]).item(), rel=0.05)


def test_minibatch_variance_has_the_best_independent_gaussian_and_a_tau_of_its_residuals():
    x, y, mu, var = (t.requires_grad_() for t in minibatch_variance.posterior())
    loss = minibatch_variance.TAU / 2 * ((y - x @ mu).square().sum() + (x.square() @ var).sum())
    kl = 0.5 * (var + mu.square() - 1 - var.log()).sum()
    for grad in torch.autograd.grad(loss + kl, (mu, var)):
        close(grad, 0 * grad, atol=1e-8)
    assert (y - x @ mu).var().item() == pytest.approx(1 / minibatch_variance.TAU, rel=0.1)


def test_minibatch_variance_crosses_where_the_covariance_becomes_more_than_half():
    for scale in minibatch_variance.NOISE_SCALES:
        for quantity in minibatch_variance.QUANTITIES.values():
            parts = minibatch_variance.example_parts(scale, quantity, "per minibatch")
            first = minibatch_variance.crossing_size(parts)
            for size in (first - 1, first):
                data, noise, shared = parts.at(size, 1)
                assert (shared > data + noise) == (size == first)


@pytest.mark.parametrize("log_alpha", [-4.0, 0.0, 2.0])
def test_noise_and_kl_states_what_follows_from_alpha(log_alpha):
    alpha, p_drop, kl, _, sigmoid, slope, flips = stated(noise_and_kl, log_alpha=log_alpha, mu=0.5)
    exact = np.exp(log_alpha)
    assert alpha == pytest.approx(exact, rel=1e-3)
    assert p_drop / (1 - p_drop) == pytest.approx(exact, rel=0.05)
    z = 1 / np.sqrt(2 * exact)
    assert kl == pytest.approx(2 * quad(dawsn, 0, z)[0], abs=6e-5)
    assert sigmoid == pytest.approx(kl, abs=0.01)
    assert slope == pytest.approx(-z * dawsn(z), abs=6e-5)
    assert flips == pytest.approx(Normal(1.0, exact**0.5).cdf(torch.tensor(0.0)).item(), abs=6e-4)


@pytest.mark.parametrize("mu", noise_and_kl.MEANS)
def test_noise_and_kl_draws_densities_with_the_moments_of_noise_and_weight(mu):
    figure = Figure()
    noise_and_kl.build_figure(figure)(log_alpha=-2.0, mu=mu)
    for axes, mean in zip(figure.axes[:2], (1.0, mu), strict=True):
        ((x, density),) = [line.get_data() for line in axes.lines if line.get_animated()]
        assert trapezoid(density, x) == pytest.approx(1, abs=0.01)
        assert trapezoid(x * density, x) == pytest.approx(mean, abs=0.02)
        variance = trapezoid((x - mean) ** 2 * density, x)
        assert variance == pytest.approx(np.exp(-2.0) * mean**2, rel=0.03)


@pytest.mark.parametrize(("T", "ratio"), [(0, 25), (1, 4), (4, 25)])
def test_penalty_ellipse_has_the_loss_that_noise_adds_and_the_weights_that_are_best(T, ratio):
    now = penalty_ellipse.setting(0.32, T, ratio)
    h, y = penalty_ellipse.examples()
    angle = 0.5 * np.arctan2(2 * now.C[0, 1], now.C[0, 0] - now.C[1, 1])
    assert (angle - np.deg2rad(30 * T) + 0.1) % np.pi == pytest.approx(0.1)  # 30 degrees each
    rng = np.random.default_rng(1)
    eta = rng.multivariate_normal([0, 0], now.C, (200_000, 1))
    losses = 0.5 * ((y - (h * (1 + eta)) @ now.w) ** 2 - (y - h @ now.w) ** 2).mean(1)
    assert losses.mean() == pytest.approx(now.penalty, abs=4 * losses.std() / len(eta) ** 0.5)
    assert now.shares.sum() == pytest.approx(now.penalty)
    omega = (h[:, :, None] * h[:, None] * np.outer(now.w, now.w)).mean(0)
    assert now.bound == pytest.approx(np.linalg.eigvalsh(omega).max() * now.alpha.sum() / 2)
    assert now.penalty <= now.bound

    def objective(w):
        return 0.5 * np.mean((y - h @ w) ** 2) + 0.5 * w @ ((h.T @ h / len(h)) * now.C) @ w

    nearby = [objective(now.w + 0.01 * step) for step in rng.standard_normal((50, 2))]
    assert min(nearby) > objective(now.w)


@pytest.mark.parametrize("network", pruning_threshold.NETWORKS)
def test_pruning_threshold_states_the_kept_weights_and_the_accuracy_of_the_pruned_network(network):
    stored = arrays.load("pruning_threshold")
    data = digits(seed=0)
    mus, log_alphas, biases = pruning_threshold.weights(stored, network)
    model = mlp((64, pruning_threshold.WIDTH, 10), ARD())
    with torch.no_grad():
        for layer, *values in zip((model[0], model[2]), mus, log_alphas, biases, strict=True):
            mu, log_alpha, bias = map(torch.from_numpy, values)
            layer.mu.copy_(mu)
            layer.bias.copy_(bias)
            floor = mu.abs().clamp_min(torch.finfo(torch.float32).tiny).log()
            layer.noise.log_sigma2.copy_(log_alpha + 2 * floor)
    accuracy = (to_sparse(model)(data.x_test).argmax(-1) == data.y_test).double().mean().item()
    kept, accuracy_percent = stated(pruning_threshold, threshold=3.0, network=network)
    assert kept == sum((values < 3).sum() for values in log_alphas)
    assert accuracy_percent == pytest.approx(100 * accuracy, abs=0.5)


def test_pruning_threshold_shows_what_lesson_08_says_about_the_curves():
    """At 3 nine in ten weights go without a loss, or all if labels are random; above, not more."""
    stored = arrays.load("pruning_threshold")
    data = digits(seed=0)
    x = data.x_test.numpy()
    y = data.y_test.numpy()
    at_3 = pruning_threshold.THRESHOLDS.index(3.0)
    for network in pruning_threshold.NETWORKS:
        accuracies, sparsities = pruning_threshold.threshold_curves(stored, network, x, y)
        assert (np.diff(sparsities) <= 0).all()
        if "random" in network:
            assert sparsities[at_3] == 1
        else:
            assert sparsities[at_3] > 0.9
            assert abs(accuracies[at_3:] - accuracies[at_3]).max() < 0.01
            assert accuracies[0] < 0.3
    _, (first, _), _ = pruning_threshold.weights(stored, "sparse VD")
    assert 20 <= (first >= 3).all(1).sum() <= 30, "half of the units have no input left"


def test_rotated_digit_states_the_stored_draws_and_the_entropies_of_the_stored_network():
    """Ours from 5000 other draws: each is off by about 0.01 nats."""
    logits = torch.from_numpy(arrays.load("rotated_digit")["logits"]).double()
    at = rotated_digit.RATES.index(0.25), rotated_digit.ANGLES.index(60)
    probs = logits[at].softmax(-1).mean(0)
    text = readout(rotated_digit, angle=60, p_drop=0.25)
    assert f"Most probable: {probs.argmax()} (mean {probs.max():.2f}" in text
    assert (logits[:, 0].softmax(-1).mean(1).argmax(-1) == 1).all(), "upright it is a one"
    turned = rotated_digit.rotated(rotated_digit.the_one(), 30).view(1, 64)
    fresh = predict(rotated_digit.trained(), turned, 5000, "shared", generator=seeded(2))
    expected = predictive_entropy(fresh).item(), mutual_information(fresh).item()
    text = readout(rotated_digit, angle=30)
    found = re.search(r"entropy ([\d.]+) nats, of which ([\d.]+)", text).groups()
    assert [*map(float, found)] == pytest.approx(expected, abs=0.06)


def test_structure_and_nll_states_the_paired_difference_and_its_error():
    runs = arrays.load("structure_and_nll")["digits"].astype(float)
    at = structure_and_nll.KL_WEIGHTS.index(1.0), slice(None), 0, 0
    names = [f"VSD, T = {depth}, per weight" for depth in (0, 2)]
    none, two = (runs[structure_and_nll.METHODS.index(name)][at] for name in names)
    difference = two - none
    n = experiment.N_SEEDS
    split = experiment.TASKS["digits"].split(0)
    overlap = len(split.test[1]) / len(split.train[1])
    error = difference.std(ddof=1) * (1 / n + overlap) ** 0.5
    text = readout(structure_and_nll, kl_weight=1.0)
    assert f"digits: NLL {difference.mean():+.3f} ± {error:.3f}" in text


def test_structure_and_nll_cuts_no_bar_off():
    figure = Figure()
    update = structure_and_nll.build_figure(figure)
    for setting in itertools.product(structure_and_nll.KL_WEIGHTS, structure_and_nll.READINGS):
        update(*setting)
        for axis in figure.axes[:3]:
            low, high = axis.get_ylim()
            ends = np.concatenate(axis.collections[0].get_segments())[:, 1]
            assert low < ends.min() < ends.max() < high


def test_truncated_posterior_states_the_mass_near_zero_and_the_decades_to_one_half():
    _, mass, half = stated(truncated_posterior, decades=10, z_score=1.5)
    assert mass == pytest.approx(mass_near_zero(1.5, -10 * math.log(10)).item(), abs=6e-4)
    assert mass_near_zero(1.5, -half * math.log(10)).item() == pytest.approx(0.5, abs=2e-3)


def gaps(nonlinearity, depth, width, n_networks):
    """The relative errors of the covariances of some networks."""
    exact = wide_network.closed_form(nonlinearity, depth)
    noises = map(wide_network.draw_noise, range(n_networks))
    networks = [wide_network.sample(nonlinearity, depth, width, noise) for noise in noises]
    return torch.stack([(n.covariance - exact).norm() / exact.norm() for n in networks])


@pytest.mark.parametrize("nonlinearity", wide_network.KERNELS)
def test_wide_network_tends_to_the_closed_form(nonlinearity):
    depth = wide_network.DEPTHS[-1]
    narrow, wide = (gaps(nonlinearity, depth, wide_network.WIDTHS[i], 5).median() for i in (0, -1))
    assert wide < 0.06
    assert narrow > 5 * wide


def test_wide_network_of_about_300_relu_units_is_right_to_ten_percent():
    """Lesson 03's answer to its second question."""
    assert 0.07 < gaps("relu", 1, 256, 12).square().mean().sqrt() < 0.16


@pytest.mark.parametrize("nonlinearity", wide_network.KERNELS)
def test_wide_network_samples_functions_as_sampled_weights_would(nonlinearity):
    """Mean and standard deviation of a covariance entry over networks, both ways of sampling."""
    width, depth, n = 8, 2, 500
    rng = seeded()
    noise = wide_network.draw_noise(0)
    variances = {"weight_var": wide_network.WEIGHT_VAR, "bias_var": wide_network.BIAS_VAR}
    on_grid = []
    by_weights = []
    for start in range(0, n * width, width):  # disjoint columns: independent networks
        columns = slice(start, start + width)
        part = noise._replace(units=noise.units[..., columns], phases=noise.phases[columns])
        on_grid.append(wide_network.sample(nonlinearity, depth, width, part).covariance[30, 12])
        features = RandomFeatures(1, width, nonlinearity, rng, depth=depth, **variances)
        phi = features(wide_network.GRID[[30, 12], None])
        by_weights.append(variances["bias_var"] + variances["weight_var"] * phi[0] @ phi[1])
    on_grid = torch.stack(on_grid)
    by_weights = torch.stack(by_weights)
    error = ((on_grid.var() + by_weights.var()) / n).sqrt()
    assert (on_grid.mean() - by_weights.mean()).abs() < 4 * error
    assert 0.6 < on_grid.std() / by_weights.std() < 1.7

"""The numbers that each panel states: from the mathematics by another way, or from its arrays.

What a picture draws under which name is held by ``test_pictures.py``.
"""

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
from scipy.stats import t as student
from torch.distributions import MultivariateNormal, Normal, kl_divergence

from bdl_lessons.datasets import bioassay, digits
from bdl_lessons.evaluation import mutual_information, paired_difference, predictive_entropy
from bdl_lessons.inference import predict, to_sparse
from bdl_lessons.models import ARD, mlp
from bdl_lessons.panels import (
    arrays,
    ascent,
    asking_for_labels,
    conditioning,
    convex_variance,
    dropout_prior,
    dropout_rate,
    evidence_bar,
    false_alarms,
    householder_depth,
    in_between_uncertainty,
    kl_partition,
    many_networks,
    mc_dropout_co2,
    minibatch_variance,
    noise_and_kl,
    noise_balance,
    noise_choice,
    penalty_ellipse,
    pruning_threshold,
    rao_blackwell,
    reflection_on_two_weights,
    rotated_digit,
    structure_and_nll,
    truncated_posterior,
    wide_network,
)
from bdl_lessons.probability import (
    all_masks,
    gaussian_kl_full,
    loguniform_kl,
    mask_probs,
    mass_near_zero,
)
from bdl_lessons.reference import BayesLinear, BayesLogistic, GridPosterior, RandomFeatures
from reproductions.panel_arrays import structure_and_nll as experiment
from tests.draws import normal, seeded
from tests.panels.drawn import BOLD_NUMBER
from tests.tables import close


@functools.cache
def panel_of(module):
    return module.panel()


def readout(module, **setting):
    """The text under the picture, without its markup."""
    return re.sub("<.*?>", "", panel_of(module).render(**setting).readout)


def stated(module, **setting):
    """The numbers that stand in bold in the readout."""
    text = panel_of(module).render(**setting).readout
    return [float(number) for number in BOLD_NUMBER.findall(text)]


def decimals(text):
    return [float(number) for number in re.findall(r"-?\d+\.\d+", text)]


# Lesson 00


@pytest.mark.parametrize("weight_decay", [0.0, 1e-3])
@pytest.mark.parametrize("n_networks", [1, 5, 20])
def test_many_networks_states_the_mean_answer_and_its_range(n_networks, weight_decay):
    number = many_networks.WEIGHT_DECAYS.index(weight_decay)
    logits = arrays.load("many_networks")["logits"][number, :n_networks].astype(float)
    statements = readout(many_networks, n_networks=n_networks, weight_decay=weight_decay).split(";")
    places = many_networks.PLACES.values()
    for statement, (column, row) in zip(statements, places, strict=True):
        probs = expit(logits[:, column, row])
        expected = [probs.mean(), probs.min(), probs.max()]
        assert decimals(statement) == pytest.approx(expected, abs=0.006)


def test_many_networks_disagree_at_the_star_as_lesson_00_says():
    column, row = many_networks.PLACES["at the star"]
    at_star = arrays.load("many_networks")["logits"][0, :, column, row]
    assert (at_star[:5] < 0).all()
    assert 7 <= (at_star > 0).sum() <= 13


def test_many_networks_doubt_at_the_star_with_weight_decay_and_not_at_the_circle():
    number = many_networks.WEIGHT_DECAYS.index(1e-3)
    logits = arrays.load("many_networks")["logits"][[0, number]].astype(float)
    without, with_decay = np.median(np.abs(logits[..., 20, 20]), axis=1)
    assert expit(without) > 0.9
    assert expit(with_decay) < 0.7
    assert (expit(logits[:, :, 33, 33]) > 0.95).all()


# Lesson 01


@pytest.mark.parametrize(
    ("trained", "trained_rate", "factor"),
    [("at this p_drop", 0.3, 1.0), ("without dropout", 0.0, 1 / 0.7)],
)
def test_dropout_rate_states_the_mean_of_all_masks_and_the_answer_by_weight_scaling(
    trained, trained_rate, factor
):
    stored = arrays.load("dropout_rate")
    weights = dropout_rate.trained_at(trained_rate, stored)
    x = np.array(dropout_rate.POINTS["far away"])
    masks = all_masks(10)
    hidden = np.tanh(x @ weights["w1"] + weights["b1"])

    def answer(noise):
        logits = (hidden * noise) @ weights["w2"] + weights["b2"]
        return expit(logits)[..., 0]

    probs_of_masks = mask_probs(masks, 0.3).numpy()
    mean = probs_of_masks @ answer(factor * masks.numpy())
    scaled = answer(factor * 0.7)
    numbers = stated(dropout_rate, p_drop=0.3, point="far away", trained=trained)
    *_, stated_mean, _, stated_scaled, _ = numbers
    assert stated_mean == pytest.approx(mean, abs=6e-4)
    assert stated_scaled == pytest.approx(scaled, abs=6e-4)


def test_dropout_rate_draws_a_mask_for_each_example_of_each_batch():
    """Of 32 masks of ten units; equal masks would have equal counts in a batch, or in all."""
    counts = []
    for batch in dropout_rate.BATCHES:
        numbers = stated(dropout_rate, batch=batch, p_drop=0.5)
        counts.append(numbers[:4])
    counts = np.array(counts)
    assert abs(counts.mean() - 5) < 4 * np.sqrt(2.5 / counts.size)
    assert all(len(set(batch)) > 1 for batch in counts.tolist())
    assert len(np.unique(counts, axis=0)) == len(dropout_rate.BATCHES)  # bits: counts of units
    fewer = stated(dropout_rate, batch=3, p_drop=0.7)[:4]
    assert (np.array(fewer) <= counts[2]).all()


def test_dropout_rate_shows_that_training_with_dropout_makes_the_sub_networks_vote_together():
    """As lesson 01 says."""
    votes = {}
    for trained in dropout_rate.TRAINED:
        numbers = stated(dropout_rate, p_drop=0.3, point="inside a class", trained=trained)
        votes[trained] = numbers[-1]
    assert votes == {"at this p_drop": 1.4, "without dropout": 20.3}


# Lesson 02


def log_joint_of_the_line(w):
    x = torch.tensor([1.0, 2.0, 3.0], dtype=torch.float64)
    y = torch.tensor([2.0, 3.0, 5.0], dtype=torch.float64)
    intercept = w[:, :1]
    slope = w[:, 1:]
    log_likelihood = Normal(intercept + slope * x, 1.0).log_prob(y).sum(-1)
    log_prior = Normal(0.0, 1.0).log_prob(w).sum(-1)
    return log_likelihood + log_prior


def grid_posterior(posterior):
    """A posterior on a grid, and the variance of its prior."""
    if posterior == evidence_bar.LINE:
        grid = GridPosterior(log_joint_of_the_line, low=(-5, -3), high=(5, 5), n=300)
        return grid, 1.0
    X, y = bioassay.load()
    model = BayesLogistic(X, y, prior_var=100.0)
    grid = GridPosterior(model.log_joint, low=(-6, -8), high=(12, 45), n=300)
    return grid, 100.0


@pytest.mark.parametrize(
    ("shift", "scale", "correlation"), [((0.6, -0.4), 0.8, 0.3), ((0.0, 0.0), 0.85, 0.5)]
)
@pytest.mark.parametrize("posterior", [evidence_bar.LINE, evidence_bar.BIOASSAY])
def test_evidence_bar_splits_the_evidence_as_sums_over_a_grid_do(
    posterior, shift, scale, correlation
):
    grid, prior_var = grid_posterior(posterior)
    std = grid.cov.diagonal().sqrt()
    corr = torch.tensor([[1.0, correlation], [correlation, 1.0]], dtype=torch.float64)
    mean = grid.mean + torch.tensor(shift) * std
    cov = scale**2 * torch.outer(std, std) * corr
    q = MultivariateNormal(mean, cov)
    prior = Normal(torch.zeros(2).double(), prior_var**0.5)
    cross_entropy = -prior.log_prob(mean).sum() + cov.trace() / prior_var / 2
    kl_prior = (cross_entropy - q.entropy()).item()
    gap = grid.kl_from(q.log_prob(grid.points)).item()
    evidence = grid.log_evidence.item()

    text = readout(
        evidence_bar,
        shift_1=shift[0],
        shift_2=shift[1],
        scale=scale,
        correlation=correlation,
        posterior=posterior,
    )
    elbo = evidence - gap
    expected = [elbo + kl_prior, kl_prior, elbo, gap, evidence]
    assert decimals(text) == pytest.approx(expected, abs=2e-3)


def test_evidence_bar_leaves_a_gap_of_about_0_12_nats_at_the_best_gaussian_that_lesson_02_names():
    *_, gap, _ = stated(
        evidence_bar,
        shift_1=0.0,
        shift_2=0.0,
        scale=0.85,
        correlation=0.5,
        posterior=evidence_bar.BIOASSAY,
    )
    assert 0.11 < gap < 0.13


def test_evidence_bar_draws_ellipses_that_hold_the_mass_they_are_named_after():
    figure = Figure()
    update = evidence_bar.build_figure(figure)
    update(shift_1=0.6, shift_2=-0.4, scale=0.8, correlation=0.7, posterior=evidence_bar.LINE)
    cov = 0.8**2 * torch.tensor([[1.0, 0.7], [0.7, 1.0]])
    draws = MultivariateNormal(torch.tensor([0.6, -0.4]), cov).sample((40_000,)).numpy()
    plane, _ = figure.axes
    shares = []
    for ellipse in plane.lines[: len(evidence_bar.MASS)]:
        outline = Path(ellipse.get_xydata())
        shares.append(outline.contains_points(draws).mean())
    assert shares == pytest.approx([0.9, 0.5, 0.1], abs=0.015)


def exact_gradient(target, mean, root):
    """Of the closed ELBO of a linear model, by the mean and the factor of q."""
    q_mean, q_cov = ascent.in_weights(target, mean, root)
    prior_mean = torch.zeros_like(q_mean)
    prior_cov = target.prior_var * torch.eye(2, dtype=torch.float64)
    kl = gaussian_kl_full(q_mean, q_cov, prior_mean, prior_cov)
    elbo = target.data_term(q_mean, q_cov) - kl
    return torch.autograd.grad(elbo, [mean, root])


@pytest.mark.parametrize("gradient", [ascent.REPARAMETERISED, ascent.SCORE])
def test_both_gradients_of_the_ascent_are_unbiased(gradient):
    target = ascent.target_of(ascent.LINE)
    log_likelihood = ascent.log_likelihood_of(ascent.LINE)
    mean = torch.tensor([-0.5, 0.8], dtype=torch.float64, requires_grad=True)
    root = torch.tensor([[0.7, 0.0], [-0.2, 0.5]], dtype=torch.float64, requires_grad=True)
    eps = torch.randn(1_000_000, 2, generator=seeded(), dtype=torch.float64)
    value = ascent.objective(target, log_likelihood, gradient, mean, root, eps)
    by_mean, by_root = torch.autograd.grad(value, [mean, root])
    exact_by_mean, exact_by_root = exact_gradient(target, mean, root)
    error_by_mean = by_mean - exact_by_mean
    assert error_by_mean.norm() < 0.05 * exact_by_mean.norm()
    error_by_root = by_root - exact_by_root  # of the lower triangle alone: the rest is zero
    assert error_by_root.tril().norm() < 0.05 * exact_by_root.tril().norm()


@pytest.mark.parametrize("step", [0, 20])
def test_ascent_states_the_kl_of_its_q_from_the_posterior(step):
    gap, other_gap = stated(ascent, step=step, posterior=ascent.LINE)
    correlation = -math.sqrt(0.6)
    posterior = torch.tensor([[1, correlation], [correlation, 1]], dtype=torch.float64)
    for gradient, stated_kl in ((ascent.REPARAMETERISED, gap), (ascent.SCORE, other_gap)):
        path = ascent.ascend(ascent.LINE, gradient, 8)
        mean = torch.from_numpy(path.means[step])
        root = torch.from_numpy(path.roots[step])
        kl = gaussian_kl_full(mean, root @ root.mT, torch.zeros_like(mean), posterior)
        assert stated_kl == pytest.approx(kl.item(), abs=6e-3)


# Lesson 03


@pytest.mark.parametrize("units", conditioning.UNITS)
def test_conditioning_states_the_moments_of_the_joint_gaussian(units):
    """By the precision matrix of f at 4 and three noisy targets, which the panel does not use."""
    mean, std = stated(conditioning, units=units, n_points=3, x=-2.0, y=1.5)
    inputs = torch.tensor([4.0, -2.0, -0.5, 0.5], dtype=torch.float64)
    targets = torch.tensor([1.5, -0.4, 0.7], dtype=torch.float64)
    joint = conditioning.UNITS[units].kernel(inputs, inputs)
    noise_var = torch.tensor([0.0, 0.01, 0.01, 0.01], dtype=torch.float64)
    precision = torch.linalg.inv(joint + noise_var.diag())
    expected_mean = -precision[0, 1:] @ targets / precision[0, 0]
    assert std == pytest.approx(precision[0, 0].item() ** -0.5, abs=6e-3)
    assert mean == pytest.approx(expected_mean.item(), abs=6e-3)


def test_conditioning_on_one_point_reaches_as_far_as_lesson_03_says():
    share = {}
    for units in conditioning.UNITS:
        _, before = stated(conditioning, units=units, n_points=0)
        for x in (-2.0, 2.0):
            _, after = stated(conditioning, units=units, n_points=1, x=x)
            share[units, x] = after / before
    assert share["ReLU", 2.0] == pytest.approx(0.2, abs=0.05)
    assert share["ReLU", -2.0] == pytest.approx(1, abs=0.01)
    assert share["erf", 2.0] < share["erf", -2.0] < 0.7
    assert (share["cos", -2.0], share["cos", 2.0]) == (1, 1)


def test_conditioning_moves_the_mean_and_no_standard_deviation_with_the_target():
    low = stated(conditioning, n_points=2, y=-2.0)
    high = stated(conditioning, n_points=2, y=2.0)
    assert low[1] == high[1]
    assert low[0] != high[0]


def relative_errors(nonlinearity, depth, width, n_networks):
    """Of the covariances of some networks."""
    exact = wide_network.closed_form(nonlinearity, depth)
    errors = []
    for seed in range(n_networks):
        noise = wide_network.draw_noise(seed)
        network = wide_network.sample(nonlinearity, depth, width, noise)
        errors.append((network.covariance - exact).norm() / exact.norm())
    return torch.stack(errors)


@pytest.mark.parametrize("nonlinearity", wide_network.KERNELS)
def test_wide_network_tends_to_the_closed_form(nonlinearity):
    depth = wide_network.DEPTHS[-1]
    narrow = relative_errors(nonlinearity, depth, wide_network.WIDTHS[0], n_networks=5).median()
    wide = relative_errors(nonlinearity, depth, wide_network.WIDTHS[-1], n_networks=5).median()
    assert wide < 0.06
    assert narrow > 5 * wide


def test_wide_network_of_about_300_relu_units_is_right_to_ten_percent():
    """Lesson 03's answer to its second question."""
    errors = relative_errors("relu", depth=1, width=256, n_networks=12)
    assert 0.07 < errors.square().mean().sqrt() < 0.16


@pytest.mark.parametrize("nonlinearity", wide_network.KERNELS)
def test_wide_network_samples_functions_as_sampled_weights_would(nonlinearity):
    """Mean and standard deviation of a covariance entry over networks, both ways of sampling."""
    width = 8
    depth = 2
    n_networks = 500
    row, column = 30, 12
    inputs = wide_network.GRID[[row, column], None]
    noise = wide_network.draw_noise(0)
    rng = seeded()
    on_grid = []
    by_weights = []
    for start in range(0, n_networks * width, width):  # disjoint columns: independent networks
        units = noise.units[..., start : start + width]
        phases = noise.phases[start : start + width]
        part = noise._replace(units=units, phases=phases)
        network = wide_network.sample(nonlinearity, depth, width, part)
        on_grid.append(network.covariance[row, column])
        features = RandomFeatures(
            1,
            width,
            nonlinearity,
            rng,
            depth=depth,
            weight_var=wide_network.WEIGHT_VAR,
            bias_var=wide_network.BIAS_VAR,
        )
        phi_1, phi_2 = features(inputs)
        by_weights.append(wide_network.BIAS_VAR + wide_network.WEIGHT_VAR * phi_1 @ phi_2)
    on_grid = torch.stack(on_grid)
    by_weights = torch.stack(by_weights)
    error = ((on_grid.var() + by_weights.var()) / n_networks).sqrt()
    assert (on_grid.mean() - by_weights.mean()).abs() < 4 * error
    assert 0.6 < on_grid.std() / by_weights.std() < 1.7


# Lesson 04


@pytest.mark.parametrize("p_drop", [0.0, 0.2, 0.9])
@pytest.mark.parametrize("sigma", [1.0, 0.3, 0.02])
def test_dropout_prior_has_the_kl_of_its_integral(p_drop, sigma):
    w = np.linspace(-8, 9, 100_001)
    log_prior = -0.5 * (2 * w) ** 2 + np.log(2) - 0.5 * np.log(2 * np.pi)
    log_q = dropout_prior.log_q(w, 1.0, p_drop, sigma)
    q = np.exp(log_q)
    assert trapezoid(q, w) == pytest.approx(1, abs=1e-9)
    integral = trapezoid(q * (log_q - log_prior), w)
    assert dropout_prior.exact_kl(1.0, p_drop, 2.0, sigma) == pytest.approx(integral, abs=2e-3)


def test_dropout_prior_states_the_noise_of_equation_21_and_a_slope_that_meets_its_limit():
    keep = 0.6
    length_scale = 2.0
    n_train = 1000
    noise, _, slope, limit = stated(
        dropout_prior, p_drop=1 - keep, length_scale=length_scale, n_train=n_train, sigma=0.01
    )
    tau = 2 * length_scale**2 / keep / (n_train * 1e-4)
    assert noise == pytest.approx(tau**-0.5, rel=1e-2)
    assert limit == pytest.approx(keep * length_scale**2)
    assert slope == pytest.approx(limit, abs=2e-3)


@pytest.mark.parametrize("noise_std", [0.1, 1.0])
@pytest.mark.parametrize("p_drop", [0.02, 0.5])
def test_noise_choice_is_where_the_elbo_over_all_masks_is_stationary(p_drop, noise_std):
    """In the weights and in tau, with the 1024 masks enumerated; found by Newton's method here."""
    n_train = 40
    x, true_weights, noise = map(torch.tensor, noise_choice._data())
    x = x[:n_train]
    y = x @ true_weights + noise_std * noise[:n_train]
    masks = all_masks(10).double()
    probs = mask_probs(masks, p_drop).double()

    def minus_elbo(parameters):
        theta = parameters[:10]
        log_tau = parameters[10]
        outputs = (masks * theta) @ x.T  # (masks, examples)
        squared = probs @ (y - outputs).square()
        data = 0.5 * (log_tau.exp() * squared - log_tau).sum()
        return data + 0.5 * (1 - p_drop) * theta.square().sum()

    parameters = torch.zeros(11, dtype=torch.float64, requires_grad=True)
    optimizer = torch.optim.LBFGS([parameters], max_iter=500, line_search_fn="strong_wolfe")

    def closure():
        optimizer.zero_grad()
        loss = minus_elbo(parameters)
        loss.backward()
        return loss

    optimizer.step(closure)
    theta = parameters.detach()[:10]
    log_tau = parameters.detach()[10]
    outputs = (masks * theta) @ x.T
    mean = probs @ outputs
    residual_var = (y - mean).square().mean().item() / noise_std**2
    mask_var = (probs @ (outputs - mean).square()).mean().item() / noise_std**2
    numbers = stated(noise_choice, p_drop=p_drop, noise_std=noise_std, n_train=n_train)
    residual, over_masks, chosen, ratio = numbers
    assert residual == pytest.approx(residual_var, rel=0.01)
    assert over_masks == pytest.approx(mask_var, rel=0.01)
    assert chosen == pytest.approx(math.exp(-log_tau) / noise_std**2, rel=0.01)
    assert ratio == pytest.approx(chosen**0.5, rel=0.01)


# Lesson 05


@pytest.mark.parametrize("activation", mc_dropout_co2.ACTIVATIONS)
def test_mc_dropout_co2_states_the_coverage_of_the_network_whose_weights_are_stored(activation):
    """It has the median coverage of fifteen; ours is by noise in y, from 1000 other draws."""
    months = mc_dropout_co2.window(mc_dropout_co2.START)
    network = mc_dropout_co2.trained(mc_dropout_co2.ACTIVATIONS[activation])
    outputs = predict(network, months.x_later.float(), 1000, generator=seeded(4))
    f = outputs.double()[..., 0]
    noise_std = 1 / (6**0.5 * months.data.residual_std)
    y_drawn = f + noise_std * normal(200, 1, 1)  # 200 draws of y for each f
    is_below = y_drawn < months.y_later[:, 0]
    probability_below = is_below.double().mean((0, 1))
    is_covered = (probability_below > 0.025) & (probability_below < 0.975)
    (median,) = stated(mc_dropout_co2, activation=activation)
    assert 100 * is_covered.double().mean().item() == pytest.approx(median, abs=8)


@pytest.mark.parametrize("activation", mc_dropout_co2.ACTIVATIONS)
def test_mc_dropout_co2_covers_more_for_more_admitted_noise(activation):
    """As lesson 05 tells the lecturer."""
    covered = []
    for tau in mc_dropout_co2.TAUS:
        (median,) = stated(mc_dropout_co2, activation=activation, tau=tau)
        covered.append(median)
    assert covered == sorted(covered, reverse=True)


def test_rotated_digit_states_what_its_network_says_of_the_chosen_one():
    """Ours from 5000 other draws: those of 100 are off by about 0.07 nats."""
    eleventh_one = rotated_digit.ones()[10]
    turned = rotated_digit.rotated(eleventh_one, 30).view(1, 64)
    network = rotated_digit.trained(0.25)
    logits = predict(network, turned, 5000, "shared", generator=seeded(2))
    probs = logits.softmax(-1).mean((0, 1))
    text = readout(rotated_digit, number=11, angle=30, p_drop=0.25)
    first, mean = re.search(r"Most probable: (\d) \(mean ([\d.]+)", text).groups()
    assert int(first) == probs.argmax()
    assert float(mean) == pytest.approx(probs.max().item(), abs=0.15)
    entropy, information = re.search(r"entropy ([\d.]+) nats, of which ([\d.]+)", text).groups()
    assert float(entropy) == pytest.approx(predictive_entropy(logits).item(), abs=0.25)
    assert float(information) == pytest.approx(mutual_information(logits).item(), abs=0.25)


@pytest.mark.parametrize("angle", [0, 45, 75])
def test_rotated_digit_states_how_many_ones_are_called_something_else(angle):
    copies = rotated_digit.rotated(rotated_digit.ones(), angle).flatten(1)
    logits = predict(rotated_digit.trained(0.5), copies, 400, "shared", generator=seeded(2))
    probs = logits.softmax(-1).mean(0)
    is_wrong = probs.argmax(-1) != 1
    is_sure = is_wrong & (probs.amax(-1) > 0.9)
    text = readout(rotated_digit, angle=angle, p_drop=0.5)
    wrong, sure = re.search(r"ones (\d+) % are .* else, (\d+) % with", text).groups()
    assert float(wrong) == pytest.approx(100 * is_wrong.double().mean().item(), abs=8)
    assert float(sure) == pytest.approx(100 * is_sure.double().mean().item(), abs=8)


# Lesson 06


@pytest.mark.parametrize("off_target", [0.0, 2.0, 20.0])
@pytest.mark.parametrize("n_inputs", [1, 2, 10])
def test_rao_blackwell_has_the_variances_of_gradients_from_autograd(n_inputs, off_target):
    """Of (a - y)² for log sigma² of one weight, with inputs and variances that are not 1."""
    n_draws = 400_000
    x = 0.7
    log_var = torch.full((n_draws, n_inputs), -0.4, dtype=torch.float64, requires_grad=True)
    delta = n_inputs * x**2 * math.exp(-0.4)
    offset = -math.sqrt(off_target * delta)
    eps = normal(n_draws, n_inputs)
    drawn = offset + (x * (log_var / 2).exp() * eps).sum(1)
    noise = normal(n_draws, seed=1)
    local = offset + (x**2 * log_var.exp()).sum(1).sqrt() * noise
    exact = delta / n_inputs
    numbers = stated(rao_blackwell, n_inputs=n_inputs, off_target=off_target, zeta=1.2)
    weights, activation, left_out, ratio, guess, mean = numbers
    for activations, expected in ((drawn, weights), (local, activation)):
        gradient = torch.autograd.grad(activations.square().sum(), log_var)[0][:, 0]
        assert gradient.mean().item() == pytest.approx(exact, rel=0.06)
        assert gradient.var().item() / exact**2 == pytest.approx(expected, rel=0.03)
    assert left_out == pytest.approx(weights - activation)
    assert ratio == pytest.approx(weights / activation, abs=0.006)

    zeta = (drawn.detach() - offset) / math.sqrt(delta)
    is_near = (zeta - 1.2).abs() < 0.05
    eps_given_zeta = eps[is_near, 0].mean().item()
    derivative = (offset + 1.2 * math.sqrt(delta)) * x * math.exp(-0.2)  # for one unit of eps
    assert guess == pytest.approx(eps_given_zeta, abs=0.04)
    assert mean == pytest.approx(derivative * eps_given_zeta / exact, rel=0.08)


def test_minibatch_variance_is_that_of_minibatches_that_are_drawn():
    """Of 20 patients with replacement; one draw of the weights for each, or one per example."""
    x, y, mu, var = minibatch_variance.posterior()
    std = (10 * var).sqrt()  # at the noise scale 10
    n_batches = 10_000
    size = 20
    rows = torch.randint(len(x), (n_batches, size), generator=seeded())

    def variance(n_draws):
        w = mu + std * normal(n_batches, n_draws, 10)
        outputs = (x[rows] * w).sum(-1)
        losses = minibatch_variance.TAU / 2 * (y[rows] - outputs) ** 2
        batch_losses = losses.mean(1)
        return batch_losses.var().item()

    stated_ratio, *_ = stated(
        minibatch_variance, batch_size=size, noise_scale=10.0, quantity="loss"
    )
    ratio = variance(n_draws=1) / variance(n_draws=size)
    assert stated_ratio == pytest.approx(ratio, rel=0.05)


def test_minibatch_variance_has_the_best_independent_gaussian_and_a_tau_of_its_residuals():
    x, y, mu, var = minibatch_variance.posterior()
    mu.requires_grad_()
    var.requires_grad_()
    residuals = y - x @ mu
    expected_squares = residuals.square().sum() + (x.square() @ var).sum()
    kl = 0.5 * (var + mu.square() - 1 - var.log()).sum()
    objective = minibatch_variance.TAU / 2 * expected_squares + kl
    for gradient in torch.autograd.grad(objective, (mu, var)):
        close(gradient, 0 * gradient, atol=1e-8)
    assert residuals.var().item() == pytest.approx(1 / minibatch_variance.TAU, rel=0.1)


@pytest.mark.parametrize("quantity", minibatch_variance.QUANTITIES.values())
@pytest.mark.parametrize("noise_scale", minibatch_variance.NOISE_SCALES)
def test_minibatch_variance_crosses_where_the_covariance_becomes_more_than_half(
    noise_scale, quantity
):
    parts = minibatch_variance.example_parts(noise_scale, quantity, "per minibatch")
    crossing = minibatch_variance.crossing_size(parts)

    def covariance_is_more_than_half(size):
        data, noise, shared = parts.at(size, 1)
        return shared > data + noise

    assert covariance_is_more_than_half(crossing)
    assert not covariance_is_more_than_half(crossing - 1)


# Lesson 07


@pytest.mark.parametrize("kl_weight", noise_balance.KL_WEIGHTS)
@pytest.mark.parametrize("sensitivity", [0.125, 2.0, 32.0])
def test_noise_balance_rests_where_the_sum_is_smallest(sensitivity, kl_weight):
    """Found on a grid of values; the panel looks where the slope changes its sign."""
    weight = noise_balance.KL_WEIGHTS[kl_weight]
    log_alpha = torch.linspace(-6, 0, 20_001, dtype=torch.float64)
    total = sensitivity * log_alpha.exp() + weight * loguniform_kl(log_alpha)
    *_, resting = stated(noise_balance, sensitivity=sensitivity, kl_weight=kl_weight)
    assert resting == pytest.approx(log_alpha[total.argmin()].exp().item(), rel=0.01)


def test_noise_balance_has_a_quarter_of_the_noise_for_four_times_the_sensitivity():
    """As lesson 07 says of small alpha, where the slope of the KL is -1/2."""

    def resting_alpha(**setting):
        return stated(noise_balance, **setting)[-1]

    at_8 = resting_alpha(sensitivity=8.0)
    at_32 = resting_alpha(sensitivity=32.0)
    assert at_8 / at_32 == pytest.approx(4, rel=0.1)
    at_a_third_of_the_kl = resting_alpha(sensitivity=32.0, kl_weight="1/3 (A2)")
    assert at_32 / at_a_third_of_the_kl == pytest.approx(3, rel=0.05)


@pytest.mark.parametrize("log_alpha", [-4.0, 0.0, 2.0])
def test_noise_and_kl_states_what_follows_from_alpha(log_alpha):
    alpha = math.exp(log_alpha)
    z = 1 / math.sqrt(2 * alpha)
    integral, _ = quad(dawsn, 0, z)
    kl = 2 * integral
    noise = Normal(1.0, alpha**0.5)
    sign_flips = noise.cdf(torch.tensor(0.0)).item()

    numbers = stated(noise_and_kl, log_alpha=log_alpha, mu=0.5)
    shown_alpha, p_drop, shown_kl, _, sigmoid, slope, shown_flips = numbers
    assert shown_alpha == pytest.approx(alpha, rel=1e-3)
    assert p_drop / (1 - p_drop) == pytest.approx(alpha, rel=0.05)
    assert shown_kl == pytest.approx(kl, abs=6e-5)
    assert sigmoid == pytest.approx(kl, abs=0.01)
    assert slope == pytest.approx(-z * dawsn(z), abs=6e-5)
    assert shown_flips == pytest.approx(sign_flips, abs=6e-4)


@pytest.mark.parametrize("mu", noise_and_kl.MEANS)
def test_noise_and_kl_draws_densities_with_the_moments_of_noise_and_weight(mu):
    figure = Figure()
    update = noise_and_kl.build_figure(figure)
    update(log_alpha=-2.0, mu=mu)
    noise_axes, weight_axes, _ = figure.axes
    for axes, mean in ((noise_axes, 1.0), (weight_axes, mu)):
        (density_line,) = [line for line in axes.lines if line.get_animated()]
        x, density = density_line.get_data()
        variance = trapezoid((x - mean) ** 2 * density, x)
        assert trapezoid(density, x) == pytest.approx(1, abs=0.01)
        assert trapezoid(x * density, x) == pytest.approx(mean, abs=0.02)
        assert variance == pytest.approx(np.exp(-2.0) * mean**2, rel=0.03)


# Lesson 08


@pytest.mark.parametrize("network", pruning_threshold.NETWORKS)
def test_pruning_threshold_states_the_kept_weights_and_the_accuracy_of_the_pruned_network(network):
    stored = arrays.load("pruning_threshold")
    data = digits(seed=0)
    mus, log_alphas, biases = pruning_threshold.weights(stored, network)
    model = mlp((64, pruning_threshold.WIDTH, 10), ARD)
    with torch.no_grad():
        for layer, *values in zip((model[0], model[2]), mus, log_alphas, biases, strict=True):
            mu, log_alpha, bias = map(torch.from_numpy, values)
            layer.mu.copy_(mu)
            layer.bias.copy_(bias)
            floor = mu.abs().clamp_min(torch.finfo(torch.float32).tiny).log()
            layer.log_sigma2.copy_(log_alpha + 2 * floor)
    pruned = to_sparse(model)(data.x_test).argmax(-1)
    accuracy = (pruned == data.y_test).double().mean().item()
    n_kept, accuracy_percent = stated(pruning_threshold, threshold=3.0, network=network)
    assert n_kept == sum((values < 3).sum() for values in log_alphas)
    assert accuracy_percent == pytest.approx(100 * accuracy, abs=0.5)


@pytest.mark.parametrize("network", pruning_threshold.NETWORKS)
def test_pruning_threshold_shows_what_lesson_08_says_about_the_curves(network):
    """At 3 nine in ten weights go without a loss, or all if labels are random; above, not more."""
    stored = arrays.load("pruning_threshold")
    data = digits(seed=0)
    accuracies, sparsities = pruning_threshold.threshold_curves(
        stored, network, data.x_test.numpy(), data.y_test.numpy()
    )
    at_3 = pruning_threshold.THRESHOLDS.index(3.0)
    assert (np.diff(sparsities) <= 0).all()
    if network == "sparse VD, random labels":
        assert sparsities[at_3] == 1
    else:
        assert sparsities[at_3] > 0.9
        assert abs(accuracies[at_3:] - accuracies[at_3]).max() < 0.01
        assert accuracies[0] < 0.3


def test_pruning_threshold_leaves_half_of_the_units_without_an_input():
    stored = arrays.load("pruning_threshold")
    _, (log_alpha, _), _ = pruning_threshold.weights(stored, "sparse VD")
    n_empty_units = (log_alpha >= 3).all(1).sum()
    assert 20 <= n_empty_units <= 30


# Lesson 09


def test_in_between_uncertainty_compares_the_gap_with_the_larger_cluster():
    stored = arrays.load("in_between_uncertainty")

    def ratio(std):
        in_gap = std[56]  # at 0
        at_clusters = std[[16, 96]]  # at -1 and 1
        return in_gap / at_clusters.max()

    text = readout(in_between_uncertainty, depth=2, p_drop=0.1)
    ratios_of_networks = [f"{ratio(std):.2f}" for std in stored["std_2"][2]]
    assert ", ".join(ratios_of_networks) in text
    ratio_of_process = ratio(stored["gp_std_2"])
    assert f"Gaussian process {ratio_of_process:.1f}" in text


def test_in_between_uncertainty_has_the_convex_variances_of_the_theorem():
    """Foong et al.: with one hidden layer the variance of MC dropout is convex along a line."""
    stds = arrays.load("in_between_uncertainty")["std_1"]
    for std in stds.reshape(-1, stds.shape[-1]):
        variance = std.astype(float) ** 2
        assert np.diff(variance, 2).min() > -1e-5 * variance.max()  # stored in single precision
        assert in_between_uncertainty.gap_ratio(std) < 0.5


UNIT_NOISE = ("ReLU, noise on the units", "tanh, noise on the units")


def variance_by_hand(x, distance, weight, network):
    """The variance of three units with output weights 1, -1 and ``weight``, p_drop = 1/2."""

    def activation(u):
        if network.startswith("tanh"):
            return math.tanh(2 * u)
        return max(u, 0.0)

    def terms(x):
        first = activation(x - 2 + distance)
        second = activation(2 + distance - x)
        third = activation(x - 2)
        return [first, -second, weight * third]

    if network in UNIT_NOISE:  # each factor is 0 or 2, of variance 1
        return sum(term**2 for term in terms(x))
    with_input = sum(terms(x))
    without_input = sum(terms(0.0))
    return (with_input - without_input) ** 2 / 4


@pytest.mark.parametrize("network", [*UNIT_NOISE, "ReLU, noise on the input"])
@pytest.mark.parametrize(("distance", "weight"), [(1.0, -4.0), (0.75, 0.0), (1.5, 2.0)])
def test_convex_variance_states_the_variance_at_the_clusters_and_in_the_middle(
    distance, weight, network
):
    numbers = stated(convex_variance, distance=distance, weight=weight, network=network)
    expected = [variance_by_hand(x, distance, weight, network) for x in (1.0, 2.0, 3.0)]
    assert numbers[:3] == pytest.approx(expected, abs=6e-3)


def test_convex_variance_finds_no_hill_with_relu_units_that_have_the_noise():
    for distance, weight in itertools.product(convex_variance.DISTANCES, convex_variance.WEIGHTS):
        text = readout(convex_variance, distance=distance, weight=weight)
        assert "Nowhere from 1 to 3 above the straight line" in text


@pytest.mark.parametrize(
    ("weight", "network", "height"),
    [
        (0.0, "tanh, noise on the units", 2 * math.tanh(2) ** 2 - math.tanh(4) ** 2),
        (-4.0, "ReLU, noise on the input", (3**2 - 1) / 4),
    ],
)
def test_convex_variance_finds_the_hills_where_the_proof_breaks(weight, network, height):
    text = readout(convex_variance, distance=1.0, weight=weight, network=network)
    assert f"Above the straight line by up to {height:.2f}, at x = 2.00" in text


# Lesson 10


NOISES = [
    ("one factor for each weight", 0),
    ("one factor for both", 1),
    ("keep or drop both", 2),
]
"""Each distribution, and the dimensions that it misses."""


@pytest.mark.parametrize("noise", [noise for noise, _ in NOISES])
def test_kl_partition_has_distributions_of_one_mean_and_variance(noise):
    theta = kl_partition.THETA
    index, probs = kl_partition._cells(noise, 6)
    centres = (index.double() + 0.5) / 2**6
    mean = probs @ centres
    variance = probs @ (centres - mean) ** 2
    close(mean, theta, atol=0.02)
    close(variance, kl_partition.ALPHA * theta**2, atol=0.03)


@pytest.mark.parametrize(("noise", "missing"), NOISES)
def test_kl_partition_states_that_a_halving_adds_log_2_for_each_missing_dimension(noise, missing):
    text = readout(kl_partition, halvings=6, noise=noise)
    assert f"Missing dimensions: {missing}" in text
    growth = float(re.search(r"The last halving added ([\d.]+)\.", text)[1])
    assert growth == pytest.approx(missing * math.log(2), abs=0.03)


def test_kl_partition_states_the_exact_kl_of_a_distribution_with_a_density():
    theta = kl_partition.THETA
    q = Normal(theta, theta.abs() * kl_partition.ALPHA**0.5)
    exact = kl_divergence(q, Normal(0.0, 1.0)).sum().item()
    kl, _ = stated(kl_partition, halvings=6, noise="one factor for each weight")
    assert kl == pytest.approx(exact, abs=1e-3)


def test_kl_partition_draws_the_mass_where_it_is():
    index, probs = kl_partition._cells("keep or drop both", 1)
    picture = kl_partition._picture(index, probs, 1)
    cells = np.argwhere(picture)
    corners = {(column / 2 - 2, row / 2 - 3) for row, column in cells}
    assert corners == {(0.0, 0.0), (1.5, -1.5)}  # cells of 0 and of theta / keep = (1.8, -1.05)


def test_truncated_posterior_states_the_decades_to_one_half():
    *_, half = stated(truncated_posterior, decades=10, z_score=1.5)
    assert mass_near_zero(1.5, -half * math.log(10)).item() == pytest.approx(0.5, abs=2e-3)


# Lesson 11


@pytest.mark.parametrize("seed", householder_depth.SEEDS)
@pytest.mark.parametrize("log_std", householder_depth.LOG_STDS)
def test_householder_depth_bounds_the_kl_and_rotates_without_changing_the_eigenvalues(
    log_std, seed
):
    alpha, vectors, _ = householder_depth.draws(log_std, seed)
    kls = householder_depth.kl_by_depth(alpha, vectors)
    equal_variances = alpha.mean().expand(householder_depth.K)
    at_most = householder_depth.kl_per_output(alpha, equal_variances)
    assert kls[0] - 1e-12 <= kls.min() <= kls.max() <= at_most + 1e-12
    eigenvalues = np.linalg.eigvalsh(householder_depth.covariance(alpha, vectors[:3]))
    np.testing.assert_allclose(eigenvalues, np.sort(alpha))


def test_householder_depth_states_the_correlation_and_the_kl():
    alpha, vectors, _ = householder_depth.draws(1.0, 0)
    cov = householder_depth.covariance(alpha, vectors[:3])
    i, j = householder_depth.pair(1.0, 0)
    expected_correlation = cov[i, j] / np.sqrt(cov[i, i] * cov[j, j])
    expected_kl = np.log((1 + np.diag(cov)) / alpha.numpy()).sum() / 2
    correlation, kl, low, high = stated(householder_depth, depth=3, log_std=1.0, seed=0)
    assert correlation == pytest.approx(expected_correlation, abs=0.006)
    assert kl == pytest.approx(expected_kl, abs=6e-4)
    assert low < kl < high


def test_householder_depth_scales_the_same_random_numbers():
    alpha, _, eta = householder_depth.draws(1.0, 0)
    other_alpha, _, other_eta = householder_depth.draws(1.5, 0)
    torch.testing.assert_close(eta / alpha.sqrt(), other_eta / other_alpha.sqrt())


def test_householder_depth_starts_with_a_correlation_and_a_kl_that_hardly_grows():
    correlation, kl, low, high = stated(householder_depth)
    assert correlation > 0.6
    assert 24 < low < kl < high < 1.02 * low


def test_householder_depth_shows_that_a_reflection_can_undo_what_others_did():
    """As lesson 11 says."""
    alpha, vectors, _ = householder_depth.draws(1.5, 4)
    kls = householder_depth.kl_by_depth(alpha, vectors)
    assert np.diff(kls).min() < 0
    assert 0.15 < kls[8] - kls[0] < 0.3


@pytest.mark.parametrize("alphas", reflection_on_two_weights.ALPHAS)
def test_reflection_on_two_weights_states_the_gap_the_kl_and_both_losses(alphas):
    """From the evidence of the linear model and PyTorch's KL divergences."""
    gap, kl, *losses = stated(reflection_on_two_weights, angle=20, depth=1, alphas=alphas)
    x, y, tau, permuted = map(torch.as_tensor, reflection_on_two_weights.data())
    now = reflection_on_two_weights.fitted(20, 1, alphas)
    mean = torch.from_numpy(now.mean)
    cov = torch.from_numpy(now.cov)
    prior_var = mean.square() + cov.diagonal()  # (7): the second moments
    prior = MultivariateNormal(torch.zeros(2).double(), prior_var.diag())
    q = MultivariateNormal(mean, cov)
    assert float(kl_divergence(q, prior)) == pytest.approx(kl, abs=0.006)

    exact = BayesLinear(x * prior_var.sqrt(), y, 1 / tau, 1.0)
    log_lik = Normal(x @ mean, tau**-0.5).log_prob(y).sum()
    expected_log_lik = log_lik - tau / 2 * (x.T @ x * cov).sum()
    elbo = expected_log_lik - kl_divergence(q, prior)
    assert float(exact.log_evidence() - elbo) == pytest.approx(gap, abs=6e-4)

    scale = prior_var.sqrt().diag()
    exact_cov = scale @ exact.cov @ scale

    def prediction(inputs, weight_cov):
        """Of y about its mean, which both posteriors have alike."""
        var_of_f = torch.einsum("ni,ij,nj->n", inputs, weight_cov, inputs)
        return Normal(0.0, (1 / tau + var_of_f).sqrt())

    for inputs, loss in zip((x, permuted), losses, strict=True):
        exact_prediction = prediction(inputs, exact_cov)
        approximation = prediction(inputs, cov)
        lost = kl_divergence(exact_prediction, approximation).mean()
        assert 1e6 * float(lost) == pytest.approx(loss, abs=0.06)


def test_reflection_on_two_weights_shows_what_the_lesson_says():
    """(9) at given alphas; the exact posterior near 34 degrees; the losses of the answer."""
    free, held = reflection_on_two_weights.ALPHAS
    kl = [each.kl for each in reflection_on_two_weights.curve(1, held)]
    assert min(kl) == pytest.approx(kl[0], abs=1e-9)
    curve = reflection_on_two_weights.curve(1, free)
    gaps = [each.gap for each in curve]
    assert gaps[0] == pytest.approx(0.346, abs=6e-4)
    assert reflection_on_two_weights.ANGLES[np.argmin(gaps)] in (34, 78, 80)
    assert min(gaps) < 0.003
    given, permuted = 1e6 * np.array([each.losses for each in curve]).T
    assert given.max() == pytest.approx(3.6, abs=0.06)
    assert permuted.max() == pytest.approx(22.3, abs=0.5)
    assert permuted[0] / given[0] == pytest.approx(15.6, abs=0.5)


def test_structure_and_nll_states_the_paired_difference_and_its_error():
    scores = arrays.load("structure_and_nll")["digits"].astype(float)
    kl_weight = structure_and_nll.KL_WEIGHTS.index(1.0)

    def nll(method):
        """Of each run, by the average of draws."""
        row = structure_and_nll.METHODS.index(method)
        return scores[row, kl_weight, :, 0, 0]

    difference = nll("VSD, T = 2, per weight") - nll("VSD, T = 0, per weight")
    split = experiment.TASKS["digits"].split(0)
    overlap = len(split.test[1]) / len(split.train[1])
    error = difference.std(ddof=1) * (1 / experiment.N_SEEDS + overlap) ** 0.5
    text = readout(structure_and_nll, kl_weight=1.0)
    assert f"digits: NLL {difference.mean():+.3f} ± {error:.3f}" in text


def test_structure_and_nll_cuts_no_bar_off():
    figure = Figure()
    update = structure_and_nll.build_figure(figure)
    for kl_weight, reading in itertools.product(
        structure_and_nll.KL_WEIGHTS, structure_and_nll.READINGS
    ):
        update(kl_weight, reading)
        for axis in figure.axes[:3]:
            low, high = axis.get_ylim()
            bars = axis.collections[0].get_segments()
            ends = np.concatenate(bars)[:, 1]
            assert low < ends.min() < ends.max() < high


# Lesson 12

PENALTY_SETTINGS = pytest.mark.parametrize(("n_reflections", "ratio"), [(0, 25), (1, 4), (4, 25)])


@PENALTY_SETTINGS
def test_penalty_ellipse_turns_the_noise_by_30_degrees_a_reflection(n_reflections, ratio):
    C = penalty_ellipse.setting(0.32, n_reflections, ratio).C
    angle = 0.5 * np.arctan2(2 * C[0, 1], C[0, 0] - C[1, 1])
    error = angle - np.deg2rad(30 * n_reflections)
    margin = 0.1  # so that no rounding falls below zero
    assert (error + margin) % np.pi == pytest.approx(margin)


@PENALTY_SETTINGS
def test_penalty_ellipse_has_the_loss_that_noise_adds(n_reflections, ratio):
    now = penalty_ellipse.setting(0.32, n_reflections, ratio)
    h, y = penalty_ellipse.examples()
    rng = np.random.default_rng(1)
    eta = rng.multivariate_normal([0, 0], now.C, size=(200_000, 1))
    noisy_inputs = h * (1 + eta)
    noisy = (y - noisy_inputs @ now.w) ** 2
    clean = (y - h @ now.w) ** 2
    added = 0.5 * (noisy - clean).mean(1)
    std_error = added.std() / len(eta) ** 0.5
    assert added.mean() == pytest.approx(now.penalty, abs=4 * std_error)


@PENALTY_SETTINGS
def test_penalty_ellipse_has_a_penalty_of_two_shares_below_its_bound(n_reflections, ratio):
    now = penalty_ellipse.setting(0.32, n_reflections, ratio)
    h, _ = penalty_ellipse.examples()
    terms = h * now.w
    omega = terms.T @ terms / len(terms)
    largest_eigenvalue = np.linalg.eigvalsh(omega).max()
    assert now.shares.sum() == pytest.approx(now.penalty)
    assert now.bound == pytest.approx(largest_eigenvalue * now.alpha.sum() / 2)
    assert now.penalty <= now.bound


@PENALTY_SETTINGS
def test_penalty_ellipse_has_the_weights_that_are_best(n_reflections, ratio):
    now = penalty_ellipse.setting(0.32, n_reflections, ratio)
    h, y = penalty_ellipse.examples()
    S = h.T @ h / len(h)

    def objective(w):
        loss = 0.5 * np.mean((y - h @ w) ** 2)
        penalty = 0.5 * w @ (S * now.C) @ w
        return loss + penalty

    steps = np.random.default_rng(1).standard_normal((50, 2))
    nearby = [objective(now.w + 0.01 * step) for step in steps]
    assert min(nearby) > objective(now.w)


# Lesson 13


def simulated_tables(n_splits, correlation, gap, n_tables):
    """Gaps in the naive and in the corrected error, ``(n_tables,)`` each."""
    rng = np.random.default_rng(1)
    common = rng.standard_normal((n_tables, 1))
    of_each_split = rng.standard_normal((n_tables, n_splits))
    differences = gap + correlation**0.5 * common + (1 - correlation) ** 0.5 * of_each_split
    gaps = differences.mean(axis=1)
    std = differences.std(axis=1, ddof=1)
    naive_error = std * (1 / n_splits) ** 0.5
    corrected_error = std * (1 / n_splits + 1 / 9) ** 0.5
    return gaps / naive_error, gaps / corrected_error


@pytest.mark.parametrize(
    ("n_splits", "correlation", "gap"),
    [(10, 0.1, 0.0), (50, 0.3, 0.0), (3, 0.0, 0.5), (20, 0.1, 1)],
)
def test_false_alarms_states_the_shares_of_simulated_tables(n_splits, correlation, gap):
    n_comparisons = 4
    numbers = stated(
        false_alarms,
        n_splits=n_splits,
        correlation=correlation,
        gap=gap,
        n_comparisons=n_comparisons,
    )
    needed = student.ppf(1 - 0.05 / 2 / n_comparisons, n_splits - 1)

    def percent_beyond(gaps, threshold):
        return 100 * (abs(gaps) > threshold).mean()

    naive, corrected = simulated_tables(n_splits, correlation, gap, n_tables=60_000)
    expected = [
        percent_beyond(naive, 2),
        percent_beyond(corrected, 2),
        percent_beyond(corrected, needed),
    ]
    assert numbers[:3] == pytest.approx(expected, abs=1.2)

    def percent_with_one_beyond(gaps, threshold):
        comparisons = gaps.reshape(-1, n_comparisons)
        counts = (abs(comparisons) > threshold).any(axis=1)
        return 100 * counts.mean()

    naive, corrected = simulated_tables(n_splits, correlation, 0.0, n_tables=60_000)
    expected = [
        percent_with_one_beyond(naive, 2),
        percent_with_one_beyond(corrected, 2),
        percent_with_one_beyond(corrected, needed),
    ]
    assert numbers[3:] == pytest.approx(expected, abs=2.2)


@pytest.mark.parametrize("n_splits", false_alarms.N_SPLITS)
def test_false_alarms_has_the_errors_of_the_package(n_splits):
    differences = normal(n_splits, seed=3).numpy()
    difference = paired_difference(differences, 0 * differences, test_fraction=0.1)
    std = differences.std(ddof=1)
    naive_error = std * false_alarms.naive_factor(n_splits)
    corrected_error = std * false_alarms.corrected_factor(n_splits)
    assert naive_error == pytest.approx(difference.std_error)
    assert corrected_error == pytest.approx(difference.corrected_std_error)


def test_false_alarms_shows_what_lesson_13_says():
    """Of ten and of fifty splits, of sixteen gaps, and of a gap of one standard deviation."""
    naive, corrected, _, naive_16, corrected_16, best_of_16 = stated(false_alarms)
    assert (naive, corrected) == (20, 8)
    assert (naive_16, corrected_16, best_of_16) == (97, 72, 5)
    naive_of_50, corrected_of_50, *_ = stated(false_alarms, n_splits=50)
    assert (naive_of_50, corrected_of_50) == (44, 5)
    _, alone, best_of_many, *_ = stated(false_alarms, gap=1.0)
    assert (alone, best_of_many) == (63, 12)


# Lesson 15


@pytest.mark.parametrize("rule", ["variation ratios", "plain network, entropy"])
@pytest.mark.parametrize("share", asking_for_labels.SHARES)
def test_asking_for_labels_states_its_gain_and_what_it_asked_for(rule, share):
    stored = arrays.load("asking_for_labels")
    rules = stored["rules"].tolist()
    column = asking_for_labels.SHARES.index(share)
    of_rule = rules.index(rule)
    of_random = rules.index(asking_for_labels.RANDOM_OF[rule])
    last_accuracy = stored["accuracy"][:, column, :, -1]
    expected_gain = (last_accuracy[of_rule] - last_accuracy[of_random]).mean()
    expected_percent = 100 * stored["is_ambiguous"][of_rule, column].mean()

    text = panel_of(asking_for_labels).render(rule=rule, share=share).readout
    stated_rule, gain, percent = re.findall("<b>(.*?)</b>", text)
    assert stated_rule == rule
    assert float(gain) == pytest.approx(expected_gain, abs=0.051)
    assert float(percent) == pytest.approx(expected_percent, abs=0.51)

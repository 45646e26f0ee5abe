"""What a panel draws under each name: colour and dash by its legend, and the data behind them.

``test_numbers.py`` holds what a readout states. Here an artist is looked up by the look that the
legend gives its name, so a name that stands at another artist is seen.
"""

import math

import numpy as np
import pytest
from matplotlib.colors import to_hex
from scipy.integrate import quad, trapezoid
from scipy.special import dawsn, expit, ndtr
from scipy.stats import t as student

from bdl_lessons.core import INK, RED
from bdl_lessons.datasets import co2
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
    structure_by_direction,
    truncated_posterior,
    wide_network,
)
from tests.panels.drawn import band, by_tick, centre, draw, hue, legends, named, span, the

LEGENDS = {
    ascent: [
        {"posterior": "grey -", "q": "blue -", "its mean": "ink :"},
        {"this gradient": "blue -", "the other": "grey --"},
    ],
    conditioning: [
        {"mean": "blue -", "± 2 std": "grey area", "your point": "red o"},
        {"before": "grey --", "after": "blue -"},
    ],
    convex_variance: [
        {
            "variance": "blue -",
            "of one unit": "blue --",
            "straight line": "ink -.",
            "hill above it": "red area",
        },
    ],
    asking_for_labels: [{"random": "grey --", "this rule": "blue -"}],
    structure_by_direction: [{"q with T reflections": "blue -", "exact posterior": "red --"}],
    dropout_prior: [
        {"masks 0, 1": "blue -", "nn.Dropout": "red --"},
        {"q(w)": "blue -", "prior": "grey --"},
        {"this σ": "blue -", "1 … 0.001": "grey -", "slope": "red --"},
    ],
    dropout_rate: [{"exact mean": "blue -", "weight scaling": "red --"}],
    evidence_bar: [{"posterior": "grey -", "q": "blue -"}],
    false_alarms: [
        {
            "by std/√M": "red --",
            "by (2)": "blue -",
            "two errors": "ink :",
            "best of many": "grey -.",
        },
        {
            "all are zero, and one counts": "orange area //",
            "a gap of the chosen size counts": "green area",
        },
    ],
    in_between_uncertainty: [
        {"Gaussian process": "grey area", "MC dropout": "blue area"},
        {"Gaussian process": "ink --", "MC dropout": "blue -"},
    ],
    kl_partition: [
        {
            "one factor for each weight": "blue -",
            "one factor for both": "red --",
            "keep or drop both": "green -.",
        },
    ],
    mc_dropout_co2: [
        {"months of the six years": "ink .", "later months": "red x", "mean": "blue -"},
    ],
    minibatch_variance: [
        {"local": "blue -", "per example": "ink --", "per minibatch": "red -."},
        {"examples": "grey area", "own noise": "blue area //", "covariance": "red area .."},
    ],
    noise_and_kl: [
        {"N(1, α)": "blue -", "binary": "red -"},
        {"q(w)": "blue -", "prior ∝ 1/|w|": "grey --"},
        {"exact": "blue -", "cubic": "red --", "sigmoid": "green :"},
    ],
    noise_balance: [
        {"sum": "ink -", "KL term": "blue --", "expected loss": "red -."},
        {"loss: towards less noise": "red -.", "KL: towards more noise": "blue --"},
    ],
    noise_choice: [
        {"by the ELBO": "ink -", "training residual alone": "blue --"},
        {"over masks": "red area //", "training residual": "blue area"},
    ],
    penalty_ellipse: [
        {"2 std of h ∘ ξ": "red -", "equal output at w₀": "blue :"},
        {"w₀, without noise": "blue dots", "clean loss": "blue -", "R": "red --"},
        {"bound ½ λmax Σα": "ink --"},
    ],
    pruning_threshold: [{"test accuracy": "ink -", "sparsity": "blue :"}],
    rao_blackwell: [
        {"(6), drawn weights": "grey o", "(7), drawn activation": "blue -"},
        {"left out": "red area //", "stays": "blue area"},
    ],
    rotated_digit: [{"called something else": "ink -", "with more than 0.9": "red --"}],
    reflection_on_two_weights: [
        {"exact posterior": "ink --", "VSD": "blue -"},
        {"inputs as given": "green :", "permuted": "orange -"},
    ],
    structure_and_nll: [
        {
            "VSD ± 2 errors of the difference to T = 0": "blue -",
            "VD": "red dots",
            "MAP": "grey --",
            "MC dropout": "ink :",
            "α, digits": "ink o",
            "α, diabetes": "ink s",
        },
    ],
    truncated_posterior: [
        {"|w| < 0.1": "red area", "|w| > 0.1": "blue area", "truncation": "ink --"},
    ],
}
"""For each legend: its texts, and the hue and dash that it shows for them."""


def name_of(module):
    return module.__name__.split(".")[-1]


def face_hue(collection):
    """The hue of the first thing that a collection fills."""
    first_colour = collection.get_facecolor()[0]
    return hue(first_colour[:3])


def line_of(axes, hue_name):
    """The only line of a hue."""
    (line,) = [line for line in axes.lines if hue(line.get_color()) == hue_name]
    return line


def moving_line(axes):
    """The only line that an update moves."""
    (line,) = [line for line in axes.lines if line.get_animated()]
    return line


def height_at(line, x):
    """Where a line passes at x, between its points."""
    return np.interp(x, line.get_xdata(), line.get_ydata())


def heights_of(collection):
    """The y values of each of its curves, ``(n_curves, n_points)``."""
    return np.array([curve[:, 1] for curve in collection.get_segments()])


def covariance_of_ellipse(line, mean):
    """That of a Gaussian whose ellipse of two standard deviations is drawn.

    On such an ellipse the points have the mean square 4 / 2 in each standardised direction.
    """
    outline = line.get_xydata()[:-1] - mean  # the last point is the first again
    return outline.T @ outline / len(outline) / 2


@pytest.mark.parametrize("module", LEGENDS, ids=name_of)
def test_legends_show_these_looks(module):
    figure, _ = draw(module)
    assert legends(figure) == LEGENDS[module]


@pytest.mark.parametrize(
    ("network", "n_masks"), [("tanh, noise on the units", 8), ("ReLU, noise on the input", 2)]
)
def test_convex_variance(network, n_masks):
    """All masks are equally probable, so the variance is the plain one of their functions."""
    figure, numbers = draw(convex_variance, weight=0.0, network=network, distance=0.75)
    stated_height = numbers[3]
    left, right = figure.axes
    (outputs,) = left.collections
    functions = heights_of(outputs)
    assert len(functions) == n_masks

    variance_line = the(right, "variance")
    variance = variance_line.get_ydata()
    np.testing.assert_allclose(variance, functions.var(axis=0), atol=1e-9)

    variance_of_units = heights_of(the(right, "of one unit"))
    if network.endswith("on the units"):
        np.testing.assert_allclose(variance_of_units.sum(axis=0), variance, atol=1e-9)
    else:
        assert len(variance_of_units) == 0

    chord = the(right, "straight line")
    clusters = chord.get_xdata()
    assert list(clusters) == [1, 3]
    assert chord.get_ydata() == pytest.approx(height_at(variance_line, clusters))

    places, low, high = band(the(right, "hill above it"))
    assert (places[0], places[-1]) == pytest.approx((1, 3))
    np.testing.assert_allclose(low, height_at(chord, places), atol=1e-9)
    variance_there = height_at(variance_line, places)
    np.testing.assert_allclose(high, np.maximum(low, variance_there), atol=1e-9)
    assert (high - low).max() == pytest.approx(stated_height, abs=6e-3)


def test_dropout_prior():
    keep = 0.6
    length_scale = 2.0
    sigma = 0.3
    figure, (noise, kl, slope, _) = draw(
        dropout_prior, p_drop=1 - keep, length_scale=length_scale, n_train=1000, sigma=sigma
    )
    left, middle, right = figure.axes

    decays, inverted = the(left, "nn.Dropout").get_data()
    log_noise = np.interp(math.log(1e-4), np.log(decays), np.log(inverted))
    assert log_noise == pytest.approx(math.log(noise), abs=0.01)
    growth_of_decay = decays[-1] / decays[0]
    assert inverted[-1] / inverted[0] == pytest.approx(growth_of_decay**0.5)
    classic = the(left, "masks 0, 1").get_ydata()
    np.testing.assert_allclose(classic, inverted / keep)  # their weights are smaller by keep
    (star,) = [dots for dots in left.collections if face_hue(dots) == "orange"]
    assert star.get_offsets().tolist() == [[1e-4, pytest.approx(noise, rel=0.01)]]

    w, density = the(middle, "q(w)").get_data()
    assert trapezoid(density, w) == pytest.approx(1, abs=1e-3)
    assert trapezoid(w * density, w) == pytest.approx(keep, abs=1e-3)
    w, prior = the(middle, "prior").get_data()
    gaussian = np.exp(-((length_scale * w) ** 2) / 2) * length_scale / math.sqrt(2 * math.pi)
    np.testing.assert_allclose(prior, gaussian)

    def kl_of_one_gaussian(std):
        """What is left at Θ = 0, where both spikes are the same."""
        ratio = (length_scale * std) ** 2
        return (ratio - 1 - math.log(ratio)) / 2

    exact = the(right, "this σ")
    assert height_at(exact, 0) == pytest.approx(kl_of_one_gaussian(sigma))
    assert height_at(exact, 1) == pytest.approx(kl, abs=0.02)
    at_zero = [height_at(ghost, 0) for ghost in named(right, "1 … 0.001")]
    expected_at_zero = [kl_of_one_gaussian(std) for std in (1, 0.1, 0.01, 0.001)]
    assert at_zero == pytest.approx(expected_at_zero)
    tangent = the(right, "slope")
    assert height_at(tangent, 1) == pytest.approx(kl, abs=0.006)
    x, y = tangent.get_data()
    assert (y[-1] - y[0]) / (x[-1] - x[0]) == pytest.approx(slope, abs=6e-4)


@pytest.mark.parametrize("trained", dropout_rate.TRAINED)
def test_dropout_rate(trained):
    figure, (*n_kept, mean, std, scaled, _) = draw(
        dropout_rate, p_drop=0.3, point="far away", trained=trained
    )
    networks, histogram, plane = figure.axes
    edges, units, _ = networks.collections
    faces = [to_hex(colour) for colour in units.get_facecolor()]
    is_filled = np.array(faces).reshape(4, 10) != "#ffffff"
    assert is_filled.sum(axis=1).tolist() == n_kept
    thick = np.array(edges.get_linewidths()) > 1
    assert thick.reshape(4, 10, 3).all(axis=2).tolist() == is_filled.tolist()
    for colour, row in zip(dropout_rate.COLOURS, np.array(faces).reshape(4, 10), strict=True):
        assert set(row) == {colour.lower(), "#ffffff"}

    assert abs(mean - scaled) > 0.01
    assert the(histogram, "exact mean").get_xdata() == pytest.approx([mean, mean], abs=6e-4)
    assert the(histogram, "weight scaling").get_xdata() == pytest.approx([scaled] * 2, abs=6e-4)
    (bars,) = histogram.patches
    heights, edges, _ = bars.get_data()
    middles = (edges[1:] + edges[:-1]) / 2
    half_a_bin = 0.013
    assert heights.sum() == pytest.approx(1)
    assert heights @ middles == pytest.approx(mean, abs=half_a_bin)
    variance = heights @ (middles - mean) ** 2
    assert np.sqrt(variance) == pytest.approx(std, abs=half_a_bin)

    boundaries, *_, rings, star = plane.collections
    (point,) = star.get_offsets().tolist()
    assert point == list(dropout_rate.POINTS["far away"])
    points = arrays.load("dropout_rate")["x"].tolist()
    assert all(example in points for example in rings.get_offsets().tolist())
    assert [to_hex(c) for c in rings.get_edgecolor()] == [c.lower() for c in dropout_rate.COLOURS]
    weights = dropout_rate.trained_at(
        0.3 if trained == "at this p_drop" else 0.0, arrays.load("dropout_rate")
    )
    factor = 1 if trained == "at this p_drop" else 1 / 0.7
    colours = [colour.lower() for colour in dropout_rate.COLOURS]
    masks = dict(zip(colours, is_filled, strict=True))
    masks[INK.lower()] = 0.7
    drawn = zip(boundaries.get_segments(), boundaries.get_colors(), strict=True)
    for segment, colour in drawn:
        on_line = dropout_rate.predict(weights, segment, noise=factor * masks[to_hex(colour)])
        assert on_line == pytest.approx(0.5, abs=0.12), "not the boundary of this mask"
    (image,) = plane.images
    x, y = point
    left, right, bottom, top = image.get_extent()
    n_rows, n_columns = image.get_array().shape
    column = round((x - left) / (right - left) * (n_columns - 1))
    row = round((y - bottom) / (top - bottom) * (n_rows - 1))
    assert image.get_array()[row, column] == pytest.approx(scaled, abs=0.02)


def test_evidence_bar():
    shift = (0.6, -0.4)
    figure, (elbo, gap, _) = draw(
        evidence_bar, shift_1=shift[0], shift_2=shift[1], scale=0.8, correlation=0.3
    )
    plane, steps = figure.axes
    x_of = by_tick(steps)
    prior_bar, gap_bar = steps.patches
    prior_label = steps.get_xticklabels()[0]
    gap_label = steps.get_xticklabels()[1]
    assert centre(prior_bar) == pytest.approx(x_of["minus KL(q‖prior)"])
    assert hue(prior_bar.get_facecolor()[:3]) == hue(prior_label.get_color())
    assert centre(gap_bar) == pytest.approx(x_of["plus KL(q‖posterior)"])
    assert hue(gap_bar.get_facecolor()[:3]) == hue(gap_label.get_color())

    target = evidence_bar.line_target()
    q_mean, q_cov = target.place(shift, 0.8, 0.3)
    data_term, kl_prior = target.bound(q_mean, q_cov)
    top = data_term - target.log_evidence
    assert span(gap_bar) == pytest.approx((-gap, 0), abs=6e-4)
    assert span(prior_bar) == pytest.approx((-gap, top), abs=6e-4)
    assert prior_bar.get_height() == pytest.approx(kl_prior)
    assert elbo == pytest.approx(data_term - kl_prior, abs=6e-4)
    elbo_line = moving_line(steps)
    assert elbo_line.get_ydata() == pytest.approx([-gap, -gap], abs=6e-4)
    heights = {text.get_text(): text.get_position()[1] for text in steps.texts}
    assert heights["ELBO"] == pytest.approx(-gap - 0.15, abs=6e-4)
    assert heights["expected log-likelihood"] == pytest.approx(top + 0.15)
    assert heights["log evidence"] == pytest.approx(0.12)

    ellipses = [line for line in named(plane, "q") if line.get_linestyle() == "-"]
    for ellipse in ellipses:
        outline = ellipse.get_xydata()[:-1]  # the last point is the first again
        assert outline.mean(axis=0) == pytest.approx(shift, abs=1e-9)
    (posterior,) = named(plane, "posterior")
    for contour in posterior.get_segments():
        middle = (contour.min(axis=0) + contour.max(axis=0)) / 2
        assert middle == pytest.approx([0, 0], abs=0.01)


def test_false_alarms():
    n_splits = 20
    correlation = 0.2
    figure, numbers = draw(
        false_alarms, n_splits=n_splits, correlation=correlation, gap=0.0, n_comparisons=4
    )
    left, right = figure.axes
    variance_of_mean = correlation + (1 - correlation) / n_splits
    unit_of_naive = (variance_of_mean * n_splits / (1 - correlation)) ** 0.5
    unit_of_corrected = (variance_of_mean / (1 - correlation) / (1 / n_splits + 1 / 9)) ** 0.5
    for name, unit, stated_percent in (
        ("by std/√M", unit_of_naive, numbers[0]),
        ("by (2)", unit_of_corrected, numbers[1]),
    ):
        distribution = student(df=n_splits - 1, scale=unit)
        line = the(left, name)
        t, density = line.get_data()
        np.testing.assert_allclose(density, distribution.pdf(t), rtol=0.02, atol=1e-4)
        beyond_two_errors = 2 * distribution.sf(2)
        assert stated_percent == pytest.approx(100 * beyond_two_errors, abs=0.6)

        colour = hue(line.get_color())
        tails = [area for area in left.collections if face_hue(area) == colour]
        inner_ends = []
        for tail in tails:
            t, _, high = band(tail)
            inner_ends.append(min(abs(t)))
            np.testing.assert_allclose(high, distribution.pdf(t), rtol=0.02, atol=1e-4)
        assert inner_ends == pytest.approx([2, 2])

    two_errors = [line.get_xdata()[0] for line in named(left, "two errors")]
    assert two_errors == [-2, 2]
    needed = student.ppf(1 - 0.025 / 4, n_splits - 1)
    best_of_many = [line.get_xdata()[0] for line in named(left, "best of many")]
    assert best_of_many == pytest.approx([-needed, needed])

    x_of = by_tick(right)
    assert list(x_of) == ["std/√M:\ntwo errors", "(2):\ntwo errors", "(2): best\nof many"]
    for name, percents, side in (
        ("a gap of the chosen size counts", numbers[:3], 1),
        ("all are zero, and one counts", numbers[3:], -1),
    ):
        bars = named(right, name)
        heights = [bar.get_height() for bar in bars]
        assert heights == pytest.approx(percents, abs=0.51)
        for bar, x in zip(bars, x_of.values(), strict=True):
            distance_to_the_side = side * (centre(bar) - x)
            assert 0 < distance_to_the_side < 0.5


def test_false_alarms_draws_no_curve_above_its_axis():
    for setting in ({"n_splits": 50, "correlation": 0.0}, {"n_splits": 3}, {"gap": 1.5}):
        figure, _ = draw(false_alarms, **setting)
        densities, _ = figure.axes
        _, top = densities.get_ylim()
        for name in ("by std/√M", "by (2)"):
            density = the(densities, name).get_ydata()
            assert density.max() < top


def test_householder_depth():
    setting = {"log_std": 1.0, "seed": 2}
    figure, (correlation, kl, without, at_most) = draw(householder_depth, depth=3, **setting)
    cloud, heat, spectrum, kl_axes, _ = figure.axes
    alpha, vectors, _ = householder_depth.draws(**setting)
    cov = householder_depth.covariance(alpha, vectors[:3])
    i, j = householder_depth.pair(**setting)

    text_colours = {}
    for text in cloud.texts:
        colour_it_names, _, _ = text.get_text().partition(":")
        text_colours[colour_it_names] = hue(text.get_color())
    assert text_colours == {"red": "red", "blue": "blue"}

    dots = {face_hue(collection): collection.get_offsets() for collection in cloud.collections}
    covariances = {"red": np.diag(alpha[[i, j]]), "blue": cov[np.ix_([i, j], [i, j])]}
    for colour, expected in covariances.items():
        of_ellipse = covariance_of_ellipse(line_of(cloud, colour), mean=1)
        np.testing.assert_allclose(of_ellipse, expected, atol=1e-9)
        of_dots = np.cov(np.asarray(dots[colour]).T)
        np.testing.assert_allclose(of_dots, expected, atol=0.3 * expected.max())

    (image,) = heat.images
    assert image.get_array()[i, j] == pytest.approx(correlation, abs=0.006)

    markers = {line.get_marker(): line.get_ydata() for line in spectrum.lines}
    assert spectrum.get_title(loc="left") == "● eigenvalues  — α̃"
    np.testing.assert_allclose(markers["o"], np.sort(alpha)[::-1])  # a rotation keeps them
    np.testing.assert_allclose(markers["None"], np.sort(np.diag(cov))[::-1])

    assert (kl_axes.get_xlabel(), kl_axes.get_ylabel()) == ("T, reflections", "nats")
    line_by_dash = {line.get_linestyle(): line for line in kl_axes.lines}
    largest_growth = at_most - without
    assert line_by_dash["--"].get_ydata() == pytest.approx([largest_growth] * 2, abs=2e-3)
    depths, growth = line_by_dash["-"].get_data()
    assert (depths[0], growth[0]) == (0, 0)
    assert growth[3] == pytest.approx(kl - without, abs=2e-3)
    (here,) = kl_axes.collections
    assert here.get_offsets().tolist() == [[3, growth[3]]]


@pytest.mark.parametrize("alphas", reflection_on_two_weights.ALPHAS)
def test_reflection_on_two_weights(alphas):
    setting = {"angle": 20, "depth": 2, "alphas": alphas}
    figure, (gap, _, given, permuted) = draw(reflection_on_two_weights, **setting)
    plane, gap_axes, loss_axes = figure.axes
    now = reflection_on_two_weights.fitted(**setting)

    for name, cov in {"VSD": now.cov, "exact posterior": now.exact_cov}.items():
        of_ellipse = covariance_of_ellipse(the(plane, name), mean=now.mean)
        np.testing.assert_allclose(of_ellipse, cov, rtol=1e-6)

    assert height_at(moving_line(gap_axes), 20) == pytest.approx(gap, abs=6e-4)
    (gap_here,) = gap_axes.collections
    assert gap_here.get_offsets().tolist() == [[20, pytest.approx(gap, abs=6e-4)]]
    for name, loss, colour in (
        ("inputs as given", given, "green"),
        ("permuted", permuted, "orange"),
    ):
        assert height_at(the(loss_axes, name), 20) == pytest.approx(loss, abs=0.06)
        (here,) = [dots for dots in loss_axes.collections if face_hue(dots) == colour]
        assert here.get_offsets().tolist() == [[20, pytest.approx(loss, abs=0.06)]]


def test_in_between_uncertainty():
    figure, _ = draw(in_between_uncertainty, depth=2, p_drop=0.1)
    left, right = figure.axes
    stored = arrays.load("in_between_uncertainty")
    mean = stored["mean_2"][2][0]
    std = stored["std_2"][2]

    x, low, high = band(the(left, "Gaussian process"))
    np.testing.assert_allclose((low + high) / 2, stored["gp_mean_2"], atol=1e-5)
    np.testing.assert_allclose(high - low, 4 * stored["gp_std_2"], atol=1e-5)
    assert (x[0], x[-1]) == (-1.4, 1.4)
    _, low, high = band(the(left, "MC dropout"))
    np.testing.assert_allclose((low + high) / 2, mean, atol=1e-5)
    np.testing.assert_allclose(high - low, 4 * std[0], atol=1e-5)

    np.testing.assert_allclose(the(right, "Gaussian process").get_ydata(), stored["gp_std_2"])
    np.testing.assert_allclose(heights_of(the(right, "MC dropout")), std)
    assert right.get_ylabel() == "standard deviation of f"


def test_kl_partition():
    figure, (kl, _) = draw(kl_partition, halvings=5, noise="one factor for both")
    plane, curves = figure.axes
    missing = {"one factor for each weight": 0, "one factor for both": 1, "keep or drop both": 2}
    for name, n_dimensions in missing.items():
        (line,) = named(curves, name)
        halvings, kls = line.get_data()
        assert halvings[0] == 0
        last_growth = kls[-1] - kls[-2]
        assert last_growth == pytest.approx(n_dimensions * math.log(2), abs=0.03)
    ring = moving_line(curves)
    assert ring.get_xydata().tolist() == [[5, pytest.approx(kl, abs=6e-4)]]

    (image,) = plane.images
    assert image.get_extent() == [-2, 4, -3, 2]
    mass = np.asarray(image.get_array()) ** 2
    rows, columns = np.indices(mass.shape)
    probs = mass / mass.sum()
    x = -2 + (columns + 0.5) / 32
    y = -3 + (rows + 0.5) / 32
    mean = [(probs * x).sum(), (probs * y).sum()]
    assert mean == pytest.approx([1.2, -0.7], abs=0.05)  # the window cuts the tails


def test_many_networks():
    figure, _ = draw(many_networks, n_networks=5, weight_decay=1e-3)
    plane, dots_axes = figure.axes
    probs = expit(arrays.load("many_networks")["logits"][3, :5].astype(float))
    y_of = by_tick(dots_axes, "y")
    means, dots = dots_axes.collections
    for place, grid_index in {"at the star": 20, "at the circle": 33}.items():
        at_place = probs[:, grid_index, grid_index]
        height = y_of[place]
        near = [x for x, y in dots.get_offsets() if abs(y - height) < 0.3]
        assert near == pytest.approx(at_place)
        (mean,) = [bar for bar in means.get_segments() if abs(bar[:, 1] - height).max() < 1]
        assert mean[:, 0] == pytest.approx([at_place.mean()] * 2)
    (image,) = plane.images
    np.testing.assert_allclose(image.get_array(), probs.mean(axis=0).T)
    first_class, second_class, star, circle, *_ = plane.collections
    np.testing.assert_allclose(star.get_offsets()[0], [0, 0])
    np.testing.assert_allclose(circle.get_offsets()[0], [many_networks.AXIS[33]] * 2)
    examples = {face_hue(dots): dots.get_offsets() for dots in (first_class, second_class)}
    x, y = examples["blue"].T
    assert (x * y > 0).all(), "blue is at the corners of equal signs"


@pytest.mark.parametrize("tau", [0.5, 25.0])
def test_mc_dropout_co2(tau):
    figure, (stated_median,) = draw(
        mc_dropout_co2, start=1985.25, activation="tanh", p_drop=0.2, tau=tau
    )
    left, right = figure.axes
    stored = arrays.load("mc_dropout_co2")
    rate = mc_dropout_co2.RATES.index(0.2)
    months = mc_dropout_co2.window(1985.25)
    f = months.data.residual_std * stored["draws"][1, 4, rate].astype(float)

    (mean_line,) = (line for line in left.lines if line in named(left, "mean"))
    np.testing.assert_allclose(mean_line.get_ydata(), f.mean(axis=0))
    (area,) = [filled for filled in left.collections if not hasattr(filled, "get_segments")]
    places, low, high = band(area)
    assert places[0] == pytest.approx(0, abs=0.1)
    for level, ends in ((0.025, low), (0.975, high)):
        std_units = tau**0.5 * (ends - f)
        probability_below = ndtr(std_units).mean(axis=0)
        np.testing.assert_allclose(probability_below, level, atol=1e-6)

    no_residual = 0 * months.y[:, 0]
    trend = months.data.to_ppm(months.x[:, 0], no_residual)
    record = co2()
    for name, start, end, y in (
        ("months of the six years", 1985.25, 1991.25, months.y),
        ("later months", 1991.25, 1994.75, months.y_later),
    ):
        is_shown = (record.times >= start) & (record.times < end)
        times, height = the(left, name).get_data()
        np.testing.assert_allclose(times, record.times[is_shown] - 1985.25)
        np.testing.assert_allclose(height, months.data.residual_std * y[:, 0])
        if name == "months of the six years":
            np.testing.assert_allclose(height, record.ppm[is_shown] - trend)

    noise = mc_dropout_co2.TAUS.index(tau)
    covered = stored["covered"][1, :, rate, noise].astype(float)
    medians = np.nanmedian(covered, axis=1)
    bars, *_ = [lines for lines in right.collections if hasattr(lines, "get_segments")]
    np.testing.assert_allclose(heights_of(bars)[:, 0], medians)
    assert stated_median == pytest.approx(medians[4], abs=0.5)
    (dots,) = [line for line in right.lines if line.get_marker() == "o"]
    of_each_network = covered[np.isfinite(covered)]
    np.testing.assert_allclose(np.sort(dots.get_ydata()), np.sort(of_each_network))


def test_minibatch_variance():
    size = 50
    figure, (minibatch_ratio, example_ratio, covariance, crossing) = draw(
        minibatch_variance, batch_size=size, noise_scale=30.0, quantity="gradient for log σ²"
    )
    left, right = figure.axes
    variance = {}
    for name in ("local", "per example", "per minibatch"):
        sizes, values = the(left, name).get_data()
        assert (sizes[0], sizes[-1]) == pytest.approx((1, 1000))
        log_variance = np.interp(math.log(size), np.log(sizes), np.log(values))
        variance[name] = math.exp(log_variance)
    assert the(left, "local").get_ydata()[0] == pytest.approx(1)
    assert variance["per minibatch"] / variance["local"] == pytest.approx(minibatch_ratio, rel=0.01)
    assert variance["per example"] / variance["local"] == pytest.approx(example_ratio, rel=0.01)
    (half,) = [line for line in left.lines if line.get_marker() == "o"]
    assert half.get_xdata() == [crossing]

    x_of = by_tick(right)
    tops = {}
    for estimator, whole in variance.items():
        parts = minibatch_variance.example_parts(30.0, "log_sigma2", estimator)
        expected = {
            "examples": parts.data / size,
            "own noise": parts.noise / size,
            "covariance": parts.shared * (size - 1) / size,
        }
        unit = sum(expected.values()) * variance["per minibatch"] / whole
        x = x_of[estimator]
        bottom = 0
        for name, part in expected.items():
            (bar,) = [bar for bar in named(right, name) if abs(centre(bar) - x) < 0.1]
            top = bottom + part / unit
            assert span(bar) == pytest.approx((bottom, top), abs=0.002)
            bottom = top
        tops[estimator] = bottom
    assert tops["per minibatch"] == pytest.approx(1)
    (shared,) = [bar for bar in named(right, "covariance") if bar.get_height() > 0]
    assert shared.get_height() == pytest.approx(covariance / 100, abs=0.006)


def test_rao_blackwell():
    figure, (weights, activation, left_out, ratio, guess, mean) = draw(
        rao_blackwell, n_inputs=5, off_target=2.0, zeta=0.8
    )
    left, middle, right = figure.axes
    grey, orange, foot = left.lines
    eps, others = np.concatenate([grey.get_xydata(), orange.get_xydata()]).T
    zeta = eps / math.sqrt(5) + others * math.sqrt(4 / 5)  # along the arrow
    n_grey = len(grey.get_xdata())
    assert np.abs(zeta[n_grey:] - 0.8).max() < rao_blackwell.HALF_WIDTH
    assert np.abs(zeta[:n_grey] - 0.8).min() >= rao_blackwell.HALF_WIDTH
    moments = np.cov(eps, others)
    std_error = (2 / len(eps)) ** 0.5
    np.testing.assert_allclose(moments, np.eye(2), atol=4 * std_error)
    (arrow,) = left.patches
    tail, head = arrow.get_path().vertices[[0, 2]]
    direction = (head - tail) / np.linalg.norm(head - tail)
    np.testing.assert_allclose(direction, [5**-0.5, 0.8**0.5], atol=0.01)
    assert foot.get_xydata()[0] == pytest.approx([0.8 * 5**-0.5, 0.8 * 0.8**0.5])
    assert foot.get_xdata()[0] == pytest.approx(guess, abs=0.006)

    all_dots, orange_estimates, _, diamond = middle.lines
    at = np.concatenate([all_dots.get_xydata(), orange_estimates.get_xydata()])
    np.testing.assert_allclose(at[:, 0], zeta)
    np.testing.assert_allclose(at[:, 1], math.sqrt(5) * (zeta - math.sqrt(2)) * eps)
    places, heights = the(middle, "(7), drawn activation").get_data()
    np.testing.assert_allclose(heights, (places - math.sqrt(2)) * places)
    assert diamond.get_xydata()[0] == pytest.approx([0.8, mean], abs=0.006)

    share = activation / weights
    assert by_tick(right) == {"(6)": 0, "(7)": 1}
    spans = {}
    for name in ("stays", "left out"):
        for bar in named(right, name):
            spans[name, round(centre(bar))] = span(bar)
    assert spans["stays", 0] == pytest.approx((0, share))
    assert spans["stays", 1] == pytest.approx((0, share))
    assert spans["left out", 0] == pytest.approx((share, 1))
    assert left_out / weights == pytest.approx(1 - share)
    assert ratio == pytest.approx(1 / share, abs=0.006)


def test_noise_choice():
    figure, (residual, over_masks, chosen, ratio) = draw(
        noise_choice, p_drop=0.1, noise_std=0.3, n_train=20
    )
    left, right = figure.axes
    for name, std in (("by the ELBO", ratio), ("training residual alone", residual**0.5)):
        rates, heights = the(left, name).get_data()
        at_rate = np.exp(np.interp(math.log(0.1), np.log(rates), np.log(heights)))
        assert at_rate == pytest.approx(std, rel=0.01)
    assert by_tick(right) == {"ELBO's 1/τ": 0, "true noise": 1}
    (lower,) = named(right, "training residual")
    (upper,) = named(right, "over masks")
    assert span(lower) == pytest.approx((0, residual), rel=0.01)
    assert span(upper) == pytest.approx((residual, residual + over_masks), rel=0.01)
    assert chosen == pytest.approx(residual + over_masks, rel=0.01)
    (truth,) = (bar for bar in right.patches if round(centre(bar)) == 1)
    assert span(truth) == (0, 1)


def test_noise_balance():
    figure, (up, down, resting) = draw(
        noise_balance, log_alpha=-2.0, sensitivity=2.0, kl_weight="1/2"
    )
    left, right = figure.axes
    total_line = the(left, "sum")
    log_alpha = np.asarray(total_line.get_xdata())
    total = np.asarray(total_line.get_ydata())
    kl = np.asarray(the(left, "KL term").get_ydata())
    loss = np.asarray(the(left, "expected loss").get_ydata())
    np.testing.assert_allclose(total, kl + loss)
    np.testing.assert_allclose(loss, 2 * np.exp(log_alpha))
    for name, curve, stated_slope in (
        ("loss: towards less noise", loss, up),
        ("KL: towards more noise", -kl, down),
    ):
        slope_line = the(right, name)
        slope = slope_line.get_ydata()
        by_differences = np.gradient(curve, log_alpha)
        np.testing.assert_allclose(slope[1:-1], by_differences[1:-1], atol=0.01)
        assert stated_slope == pytest.approx(height_at(slope_line, -2.0), abs=0.002)

    here, rest = left.collections
    on_the_sum = [-2.0, height_at(total_line, -2.0)]
    np.testing.assert_allclose(here.get_offsets(), [on_the_sum], atol=1e-4)
    ((lowest_log_alpha, lowest_total),) = np.asarray(rest.get_offsets())
    assert lowest_total == pytest.approx(total.min(), abs=1e-4)
    assert np.exp(lowest_log_alpha) == pytest.approx(resting, abs=0.005)


def test_noise_and_kl():
    log_alpha = -1.0
    alpha = math.exp(log_alpha)
    figure, numbers = draw(noise_and_kl, log_alpha=log_alpha, mu=0.5)
    _, _, stated_kl, _, _, stated_slope, _ = numbers
    left, middle, right = figure.axes

    x, density = the(left, "N(1, α)").get_data()
    assert trapezoid((x - 1) ** 2 * density, x) == pytest.approx(alpha, rel=0.02)
    stems = the(left, "binary").get_segments()
    places = np.array([bottom[0] for bottom, _ in stems])
    probs = np.array([top[1] for _, top in stems])
    assert probs.sum() == pytest.approx(1)
    assert probs @ places == pytest.approx(1)
    assert probs @ (places - 1) ** 2 == pytest.approx(alpha)

    w, density = the(middle, "q(w)").get_data()
    assert trapezoid(w * density, w) == pytest.approx(0.5, abs=1e-3)
    (prior,) = named(middle, "prior ∝ 1/|w|")
    w, density = prior.get_data()
    is_far = abs(w) > 0.05
    np.testing.assert_allclose(density[is_far] * abs(w[is_far]), 0.3)

    tangent = moving_line(right)
    (exact,) = [line for line in named(right, "exact") if line is not tangent]
    (cubic,) = named(right, "cubic")
    (sigmoid,) = named(right, "sigmoid")
    for place in (-4.0, -1.0, 1.0):
        z = math.exp(-place / 2) / math.sqrt(2)
        integral, _ = quad(dawsn, 0, z)
        assert height_at(exact, place) == pytest.approx(2 * integral, abs=1e-3)

    error_of_sigmoid = abs(sigmoid.get_ydata() - exact.get_ydata())
    assert 1e-4 < error_of_sigmoid.max() < 0.02
    error_of_cubic = abs(cubic.get_ydata() - exact.get_ydata())
    is_small_noise = exact.get_xdata() < -1
    assert error_of_cubic[is_small_noise].max() < 0.05
    assert height_at(cubic, 1.0) < -1

    (dot,) = right.collections
    assert dot.get_offsets().tolist() == [[log_alpha, pytest.approx(stated_kl, abs=6e-5)]]
    (x_0, x_1), (y_0, y_1) = tangent.get_data()
    assert (y_1 - y_0) / (x_1 - x_0) == pytest.approx(stated_slope, abs=6e-5)


def test_penalty_ellipse():
    figure, numbers = draw(penalty_ellipse, mean_alpha=0.2, n_reflections=2, ratio=4)
    noise, weights, bars_axes = figure.axes
    alpha_1, alpha_2, c_12, w_1, w_2, penalty, clean_loss, bound = numbers
    w = np.array([w_1, w_2])
    h, y = penalty_ellipse.examples()
    w_clean = np.linalg.lstsq(h, y, rcond=None)[0]

    cov = covariance_of_ellipse(the(noise, "2 std of h ∘ ξ"), mean=1)
    assert cov[0, 1] == pytest.approx(c_12, abs=1e-4)
    assert np.linalg.eigvalsh(cov) == pytest.approx([alpha_2, alpha_1], abs=1e-4)
    for line in named(noise, "equal output at w₀"):
        start, end = line.get_xydata() @ w_clean
        assert start == pytest.approx(end)

    def loss(weights):
        return 0.5 * np.mean((y - h @ weights) ** 2)

    def penalty_at(point, inputs):
        """Half the variance of the output, by the covariance C of the noise."""
        terms = inputs * point
        return 0.5 * np.einsum("ni,ij,nj->n", terms, C, terms).mean()

    clean, *_ = named(weights, "w₀, without noise")
    np.testing.assert_allclose(clean.get_offsets()[0], w_clean)
    losses = [loss(point) for point in the(weights, "clean loss").get_xydata()]
    assert losses == pytest.approx([clean_loss] * len(losses), abs=1e-4)
    contour = the(weights, "R").get_xydata()
    assert abs(contour - w).sum(axis=1).min() < 0.1, "the minimum lies on the contour"
    rng = np.random.default_rng(0)
    C = np.array([[cov[0, 0], c_12], [c_12, cov[1, 1]]])
    eta = rng.multivariate_normal([0, 0], C, size=100_000)
    every_fourth_input = h[::4]
    for point in contour[::10]:
        output_vars = [((row * eta) @ point).var() for row in every_fourth_input]
        expected = penalty_at(point, every_fourth_input)
        assert 0.5 * np.mean(output_vars) == pytest.approx(expected, rel=0.03)
        assert penalty_at(point, h) == pytest.approx(penalty, rel=0.01)

    x_of = by_tick(bars_axes)
    height_of = {round(centre(bar)): bar.get_height() for bar in bars_axes.patches}
    assert height_of[x_of["sum = R"]] == pytest.approx(penalty, abs=6e-5)
    shares = penalty_ellipse.setting(0.2, 2, 4).shares
    drawn_shares = [height_of[x_of["α₁"]], height_of[x_of["α₂"]]]
    assert drawn_shares == pytest.approx(shares)
    assert the(bars_axes, "bound ½ λmax Σα").get_ydata() == pytest.approx([bound] * 2, abs=6e-5)


def test_penalty_ellipse_writes_a_bound_that_is_above_the_axis():
    figure, (*_, bound) = draw(penalty_ellipse, mean_alpha=1.0)
    _, _, bars_axes = figure.axes
    (note,) = bars_axes.texts
    assert note.get_text() == f"↑ {bound:.2f}"

    figure, _ = draw(penalty_ellipse)
    _, _, bars_axes = figure.axes
    (note,) = bars_axes.texts
    assert note.get_text() == ""


def test_pruning_threshold():
    threshold = 2.0
    figure, (n_kept, accuracy) = draw(pruning_threshold, threshold=threshold, network="ARD")
    histogram, curves, mosaic = figure.axes
    _, log_alphas, _ = pruning_threshold.weights(arrays.load("pruning_threshold"), "ARD")
    of_all_weights = np.concatenate([values.ravel() for values in log_alphas])

    counts = {hue(patch.get_facecolor()[:3]): patch.get_data() for patch in histogram.patches}
    assert histogram.get_title(loc="left") == "Kept (blue) and removed"
    kept, edges, _ = counts["blue"]
    n_below = (of_all_weights < threshold).sum()
    assert kept.sum() == n_kept == n_below
    is_above = edges[:-1] >= threshold
    assert kept[is_above].sum() == 0
    assert counts["grey"].values.sum() == len(of_all_weights)

    thresholds, sparsity = the(curves, "sparsity").get_data()
    expected = [(of_all_weights >= other).mean() for other in thresholds]
    np.testing.assert_allclose(sparsity, expected)
    assert (thresholds[0], thresholds[-1]) == curves.get_xlim()
    drawn_accuracy = height_at(the(curves, "test accuracy"), threshold)
    assert drawn_accuracy == pytest.approx(accuracy / 100, abs=6e-4)
    for axes in (histogram, curves):
        assert line_of(axes, "red").get_xdata() == [threshold, threshold]

    readout = pruning_threshold.panel().render(threshold=threshold, network="ARD").readout
    percents = [100 * (values >= threshold).mean() for values in log_alphas]
    assert f"sparsity {percents[0]:.1f} % − {percents[1]:.1f} %;" in readout

    (image,) = mosaic.images
    shown = np.asarray(np.ma.filled(image.get_array(), np.nan))
    is_weight = ~np.isnan(shown)
    assert is_weight.sum() == log_alphas[0].size
    assert (shown[is_weight] != 0).sum() == (log_alphas[0] < threshold).sum()


def test_the_names_of_pruned_curves_are_free_of_all_curves():
    for network in pruning_threshold.NETWORKS:
        figure, _ = draw(pruning_threshold, network=network)
        curves = figure.axes[1]
        figure.canvas.draw()
        frame = curves.get_legend().get_window_extent()
        for name in ("test accuracy", "sparsity"):
            line = the(curves, name)
            points = curves.transData.transform(line.get_xydata())
            assert not frame.count_contains(points), f"{network}: {name}"


def test_rotated_digit():
    figure, _ = draw(rotated_digit, number=11, angle=30, p_drop=0.25)
    digit, votes, curves = figure.axes
    rate = rotated_digit.RATES.index(0.25)
    probs = arrays.load("rotated_digit")["probs"][rate].astype(float)  # (digits, angles, classes)

    angles, wrong = the(curves, "called something else").get_data()
    sure = the(curves, "with more than 0.9").get_ydata()
    assert list(angles) == list(range(0, 181, 5))
    is_wrong = probs.argmax(axis=-1) != 1
    np.testing.assert_allclose(wrong, 100 * is_wrong.mean(axis=0))
    assert (sure <= wrong).all()
    assert sure.max() > 50
    assert line_of(curves, "blue").get_xdata() == [30, 30]

    draws, means = votes.collections
    assert votes.get_title(loc="left") == "100 draws (dots) and their mean"
    assert face_hue(draws) == "blue"
    assert face_hue(means) == "red"
    dots = np.asarray(draws.get_offsets())
    for label, mean in np.asarray(means.get_offsets()):
        of_class = dots[dots[:, 0].round() == label, 1]
        assert len(of_class) == 100
        assert of_class.mean() == pytest.approx(mean)
    np.testing.assert_allclose(means.get_offsets()[:, 1], probs[10, 6], atol=0.15)
    assert digit.get_title(loc="left") == "30°"
    upright = rotated_digit.ones()[10]
    (image,) = digit.images
    np.testing.assert_allclose(image.get_array(), rotated_digit.rotated(upright, 30))


@pytest.mark.parametrize("reading", structure_and_nll.READINGS)
def test_structure_and_nll(reading):
    figure, _ = draw(structure_and_nll, kl_weight=1.0, reading=reading)
    (legend,) = figure.legends
    stored = arrays.load("structure_and_nll")
    method_at = {
        "VD": "VD, per weight",
        "0": "VSD, T = 0, per weight",
        "2": "VSD, T = 2, per weight",
        "8": "VSD, T = 8, per weight",
    }
    read = structure_and_nll.READINGS.index(reading)
    titles = ["digits: NLL", "digits: ECE", "diabetes: log likelihood"]
    scores = [("digits", 0), ("digits", 1), ("diabetes", 1)]
    for axes, title, (task, score) in zip(figure.axes[:3], titles, scores, strict=True):
        assert axes.get_title(loc="left") == title
        x_of = by_tick(axes)
        assert list(x_of) == list(method_at)

        def runs(method, setting, task=task, score=score):
            row = structure_and_nll.METHODS.index(method)
            return stored[task][row, setting, :, read, score].astype(float)

        without = runs("VSD, T = 0, per weight", setting=2)
        level_without = line_of(axes, "blue").get_ydata()
        assert level_without == pytest.approx([without.mean()] * 2)
        (bars,) = [drawn for drawn in axes.collections if hasattr(drawn, "get_segments")]
        (dots,) = [drawn for drawn in axes.collections if len(drawn.get_offsets()) == len(x_of)]
        colours = dots.get_facecolor()
        for (label, x), dot, colour in zip(x_of.items(), dots.get_offsets(), colours, strict=True):
            values = runs(method_at[label], setting=2)
            assert dot.tolist() == pytest.approx([x, values.mean()])
            assert hue(colour[:3]) == ("red" if label == "VD" else "blue")
            (ends,) = [bar for bar in bars.get_segments() if bar[0, 0] == x]
            difference = values - without
            overlap = 0.238 / (1 - 0.238)
            error = difference.std(ddof=1) * (1 / len(values) + overlap) ** 0.5
            half_length = abs(ends[1, 1] - ends[0, 1]) / 2
            assert half_length == pytest.approx(2 * error)
            assert ends[:, 1].mean() == pytest.approx(values.mean())
        for name in ("MAP", "MC dropout"):
            level = runs(name, setting=0).mean()
            assert the(axes, name, legend).get_ydata() == pytest.approx([level] * 2)

    alpha_axes = figure.axes[3]
    for name in ("digits", "diabetes"):
        x, alphas = the(alpha_axes, f"α, {name}", legend).get_data()
        assert list(x) == list(by_tick(alpha_axes).values())
        rows = [structure_and_nll.METHODS.index(method) for method in method_at.values()]
        expected = stored[f"{name}_alpha"][rows, 2].reshape(4, -1).mean(axis=1)
        np.testing.assert_allclose(alphas, expected)


def test_truncated_posterior():
    decades = 10
    figure, (z_score, mass, _) = draw(truncated_posterior, decades=decades, z_score=1.5)
    left, right = figure.axes
    areas = {}
    ends = {}
    for name in ("|w| < 0.1", "|w| > 0.1"):
        x, low, high = band(the(left, name))
        areas[name] = trapezoid(high - low, x)
        ends[name] = (x[0], x[-1])
        w = 10.0**x
        of_positive = np.exp(-((w - z_score) ** 2) / 2)
        of_negative = np.exp(-((w + z_score) ** 2) / 2)
        np.testing.assert_allclose(high, of_positive + of_negative, atol=1e-9)
    assert ends["|w| < 0.1"] == pytest.approx((-decades, -1))
    assert ends["|w| > 0.1"] == pytest.approx((-1, truncated_posterior.RIGHT_END))
    assert areas["|w| < 0.1"] / sum(areas.values()) == pytest.approx(mass, abs=2e-3)
    assert the(left, "truncation").get_xdata() == [-decades, -decades]

    assert right.get_xlabel() == "decades of truncation"
    assert right.get_ylabel() == "posterior mass of |w| < 0.1"
    moving = [line for line in right.lines if line.get_animated()]
    (dot,) = [line for line in moving if len(line.get_xdata()) == 1]
    (curve,) = [line for line in moving if line is not dot]
    assert dot.get_xydata().tolist() == [[decades, pytest.approx(mass, abs=6e-4)]]
    x = curve.get_xdata()
    assert (x[0], x[-1]) == (1, 40)
    assert height_at(curve, decades) == pytest.approx(mass, abs=2e-3)


def test_ascent():
    figure, (gap, other_gap) = draw(ascent, step=12, gradient=ascent.SCORE, n_samples=64)
    plane, climb = figure.axes
    path = the(plane, "its mean").get_xydata()
    assert len(path) == 13
    assert path[0].tolist() == [-2, 2]
    widths = [np.ptp(ellipse.get_xdata()) for ellipse in named(plane, "q")]
    assert max(widths) > 0.5
    for name, expected in (("this gradient", gap), ("the other", other_gap)):
        steps, elbo = the(climb, name).get_data()
        assert list(steps) == list(range(13))
        assert -elbo[-1] == pytest.approx(expected, abs=6e-3)


@pytest.mark.parametrize("units", ["ReLU", "cos"])
def test_conditioning(units):
    figure, (mean, std) = draw(conditioning, units=units, n_points=3, x=-1.5, y=1.0)
    functions, deviations = figure.axes
    red = the(functions, "your point")
    assert red.get_xydata().tolist() == [[-1.5, 1.0]]
    assert line_of(functions, "ink").get_xydata().tolist() == [[-0.5, -0.4], [0.5, 0.7]]

    area, samples, *_ = functions.collections
    x, low, high = band(area)
    there = int(abs(x - 4).argmin())
    assert (high + low)[there] / 2 == pytest.approx(mean, abs=6e-3)
    assert (high - low)[there] / 4 == pytest.approx(std, abs=6e-3)
    mean_line = the(functions, "mean").get_ydata()
    np.testing.assert_allclose(mean_line, (low + high) / 2, atol=1e-9)
    after = the(deviations, "after").get_ydata()
    np.testing.assert_allclose(after, (high - low) / 4, atol=1e-9)
    before = the(deviations, "before").get_ydata()
    assert (after <= before + 1e-12).all()
    curves = heights_of(samples)
    assert len(curves) == 5
    noise_std = 0.1
    for place, value in [(-1.5, 1.0), (-0.5, -0.4), (0.5, 0.7)]:
        nearest = abs(x - place).argmin()
        missed = abs(curves[:, nearest] - value)
        assert missed.max() < 4 * noise_std


@pytest.mark.parametrize("nonlinearity", ["relu", "cos"])
def test_wide_network(nonlinearity):
    figure, (width, deviation) = draw(wide_network, width=32, nonlinearity=nonlinearity, depth=2)
    functions, this_network, limit, colour_bar, all_widths = figure.axes
    names = [(axes.get_xlabel(), axes.get_ylabel()) for axes in figure.axes]
    assert names == [
        ("input x", "output f(x)"),
        ("input x′", "input x"),
        ("input x′", ""),
        ("", "Cov[f(x), f(x′)]"),
        ("width K", "relative deviation"),
    ]
    assert this_network.get_title(loc="left") == "Covariance of\nthis network"
    assert limit.get_title(loc="left") == "Covariance\nfor K = ∞"
    covariance = np.asarray(this_network.images[0].get_array())
    exact = wide_network.closed_form(nonlinearity, 2).numpy()
    np.testing.assert_allclose(limit.images[0].get_array(), exact)
    relative_error = np.linalg.norm(covariance - exact) / np.linalg.norm(exact)
    assert relative_error == pytest.approx(deviation / 100, abs=6e-4)
    texts = [text.get_text() for text in colour_bar.texts]
    assert texts == [f"{min(0, exact.min()):.1f}", f"{exact.max():.1f}"]

    area, samples, *_ = functions.collections
    x, low, high = band(area)
    assert (x[0], x[-1]) == functions.get_xlim()
    np.testing.assert_allclose(high, 2 * np.sqrt(np.diag(exact)))
    np.testing.assert_allclose(low, -high)
    curves = heights_of(samples)
    assert curves.shape == (4, len(x))
    std = np.sqrt(np.diag(covariance))
    assert abs(curves).max() < 1.0 + 4 * std.max()

    widths, deviations = line_of(all_widths, "blue").get_data()
    assert list(widths) == [2**power for power in range(13)]
    assert deviations[5] == pytest.approx(deviation / 100, abs=6e-4)
    assert line_of(all_widths, "red").get_xydata().tolist() == [[width, deviations[5]]]
    rate_of_one_over_root_width = line_of(all_widths, "grey").get_ydata()
    slopes = np.diff(np.log(rate_of_one_over_root_width)) / np.diff(np.log(widths))
    np.testing.assert_allclose(slopes, -0.5)


@pytest.mark.parametrize("rule", ["entropy", "five networks, mutual information"])
def test_asking_for_labels(rule):
    figure, _ = draw(asking_for_labels, rule=rule, share=0.4, n_labels=40)
    stored = arrays.load("asking_for_labels")
    rules = stored["rules"].tolist()
    left, *tiles = figure.axes
    names = {"this rule": rule, "random": asking_for_labels.RANDOM_OF[rule]}
    share = asking_for_labels.SHARES.index(0.4)
    for name, recorded in names.items():
        (line,) = named(left, name)
        accuracy = stored["accuracy"][rules.index(recorded), share].astype(float)
        assert line.get_ydata() == pytest.approx(accuracy.mean(0), abs=1e-3)
        assert list(line.get_xdata()) == [20, 30, 40, 50, 60, 70, 80, 90, 100]
    third_round = 2
    images = stored["images"][rules.index(rule), share, third_round]
    is_ambiguous = stored["is_ambiguous"][rules.index(rule), share, 0, third_round]
    assert len(tiles) == len(images)
    for tile, pixels, ambiguous in zip(tiles, images, is_ambiguous, strict=True):
        (shown,) = tile.images
        assert np.allclose(np.asarray(shown.get_array()).ravel(), pixels / 32)
        frame = {to_hex(spine.get_edgecolor()) for spine in tile.spines.values()}
        expected_colour = to_hex(RED) if ambiguous else "#ffffff"
        assert frame == {expected_colour}


@pytest.mark.parametrize("n_reflections", [0, 1, 8])
def test_structure_by_direction(n_reflections):
    setting = {"angle": 90, "n_reflections": n_reflections, "n_train": 60}
    figure, (q_std, exact_std, q_mean, exact_mean, *traces) = draw(
        structure_by_direction, **setting
    )
    stored = arrays.load("structure_by_direction")
    exact = stored["exact"][1]
    q = stored["q"][1, structure_by_direction.REFLECTIONS.index(n_reflections)]
    left, right = figure.axes
    across = np.array([1.0] * 4 + [-1.0] * 4)
    for name, cov, std in [
        ("q with T reflections", q, q_std),
        ("exact posterior", exact, exact_std),
    ]:
        x, variance = the(left, name).get_data()
        assert (x[0], x[-1]) == (0, 90)
        assert variance[0] == pytest.approx(cov.sum())  # the input (1, ..., 1)
        assert variance[-1] == pytest.approx(across @ cov @ across)
        assert variance[-1] ** 0.5 == pytest.approx(std, abs=6e-4)
    single_points = [line for line in left.lines if len(line.get_xdata()) == 1]
    dots = {hue(line.get_color()): line.get_xydata()[0] for line in single_points}
    assert dots["blue"] == pytest.approx([90, across @ q @ across])
    assert dots["red"] == pytest.approx([90, across @ exact @ across])

    rows = stored["x"][:60]
    heights = [bar.get_height() for bar in right.patches]
    for height, cov, mean in zip(heights, [q, exact], [q_mean, exact_mean], strict=True):
        variances = np.einsum("ni,ij,nj->n", rows, cov, rows)
        assert height == pytest.approx(variances.mean())
        assert height == pytest.approx(mean, abs=6e-5)
    assert traces == pytest.approx([8, 8], abs=0.006)

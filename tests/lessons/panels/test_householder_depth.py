import re

import numpy as np
import pytest
import torch

from bdl_lessons.lessons.panels import householder_depth as module


@pytest.fixture(scope="module")
def panel():
    return module.panel()


def numbers(panel, **params) -> list[float]:
    """Correlation, two effective ranks, the price, its lower and its upper bound."""
    return [float(n) for n in re.findall("<b>(.+?)</b>", panel.render(**params).readout)]


def test_every_control_changes_the_picture(panel):
    assert len({panel.render(depth=depth).png for depth in module.DEPTHS}) == 9
    assert len({panel.render(spread=spread).png for spread in module.SPREADS}) == 7
    assert len({panel.render(seed=seed).png for seed in module.SEEDS}) == 5


def test_the_noise_stays_when_a_slider_moves():
    alpha, vectors, eta = module.draws(0.5, seed=1)
    other_alpha, other_vectors, other_eta = module.draws(1.5, seed=1)
    torch.testing.assert_close(vectors, other_vectors)
    assert torch.allclose(eta / alpha.sqrt(), other_eta / other_alpha.sqrt())
    for values in (alpha, other_alpha):
        assert values.mean() == pytest.approx(0.25)


@pytest.mark.parametrize("seed", module.SEEDS)
@pytest.mark.parametrize("spread", module.SPREADS)
def test_what_the_lesson_says_about_eigenvalues_and_price(spread, seed):
    alpha, vectors, _ = module.draws(spread, seed)
    kls = module.kl_by_depth(alpha, vectors)
    top = module.kl_per_output(alpha, alpha.mean().expand(module.K))
    assert (kls >= kls[0] - 1e-12).all()
    assert (kls <= top + 1e-12).all()
    for depth in module.DEPTHS:
        eigenvalues = np.linalg.eigvalsh(module.covariance(alpha, vectors[:depth]))
        assert np.allclose(np.sort(eigenvalues), np.sort(alpha.numpy()))


def test_at_the_start_of_the_sliders_one_reflection_lowers_the_price_and_all_cost_little():
    alpha, vectors, _ = module.draws(1.0, 0)
    kls = module.kl_by_depth(alpha, vectors)
    assert np.diff(kls).min() < 0
    top = module.kl_per_output(alpha, alpha.mean().expand(module.K))
    assert top < 1.01 * kls[0]


def test_equal_alphas_leave_nothing_to_see(panel):
    shown = {tuple(numbers(panel, depth=depth, spread=0.0)) for depth in module.DEPTHS}
    assert len(shown) == 1
    assert shown.pop()[1] == 20


def test_the_readout_is_the_mathematics(panel):
    alpha, vectors, _ = module.draws(1.0, 0)
    cov = module.covariance(alpha, vectors[:3])
    i, j = module.pair(1.0, 0)
    correlation, rank, rank_of_correlations, price, low, high = numbers(panel, depth=3)
    assert correlation == pytest.approx(cov[i, j] / np.sqrt(cov[i, i] * cov[j, j]), abs=0.006)
    shares = alpha / alpha.sum()
    assert rank == pytest.approx(float((-(shares * shares.log()).sum()).exp()), abs=0.06)
    assert 1 < rank_of_correlations < 20
    expected = np.log((1 + np.diag(cov)) / alpha.numpy()).sum() / 2
    assert price == pytest.approx(expected, abs=6e-4)
    assert low < price < high


def test_effective_rank_counts_directions():
    assert module.effective_rank(np.eye(7)) == pytest.approx(7)
    assert module.effective_rank(np.ones((4, 4))) == pytest.approx(1)


def test_the_ellipse_lies_two_standard_deviations_out():
    cov = np.array([[0.5, -0.3], [-0.3, 0.4]])
    points = module.ellipse(cov) - 1
    distances = np.einsum("ip,ij,jp->p", points, np.linalg.inv(cov), points)
    assert np.allclose(distances, 4)

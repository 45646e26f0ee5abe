from itertools import product

import numpy as np
import pytest
import torch
from matplotlib.figure import Figure

from bdl_lessons.panels import householder_depth as module


def test_the_noise_stays_when_a_slider_moves():
    alpha, vectors, eta = module.draws(0.5, seed=1)
    other_alpha, other_vectors, other_eta = module.draws(1.5, seed=1)
    torch.testing.assert_close(vectors, other_vectors)
    assert torch.allclose(eta / alpha.sqrt(), other_eta / other_alpha.sqrt())
    for values in (alpha, other_alpha):
        assert values.mean() == pytest.approx(0.25)


@pytest.mark.parametrize("seed", module.SEEDS)
@pytest.mark.parametrize("log_std", module.LOG_STDS)
def test_what_the_lesson_says_about_eigenvalues_and_kl(log_std, seed):
    alpha, vectors, _ = module.draws(log_std, seed)
    kls = module.kl_by_depth(alpha, vectors)
    top = module.kl_per_output(alpha, alpha.mean().expand(module.K))
    assert (kls >= kls[0] - 1e-12).all()
    assert (kls <= top + 1e-12).all()
    for depth in module.DEPTHS:
        eigenvalues = np.linalg.eigvalsh(module.covariance(alpha, vectors[:depth]))
        assert np.allclose(np.sort(eigenvalues), np.sort(alpha.numpy()))


def test_the_start_shows_a_correlation_and_a_kl_that_hardly_grows(numbers):
    correlation, kl, low, high = numbers()
    assert correlation > 0.6
    assert low < kl < high < 1.02 * low
    alpha, vectors, _ = module.draws(1.5, 4)
    kls = module.kl_by_depth(alpha, vectors)
    assert np.diff(kls).min() < 0  # a reflection can undo what others did
    assert 0.15 < kls[8] - kls[0] < 0.3
    assert 24 < kls[0] < 25


def test_the_readout_is_the_mathematics(numbers):
    alpha, vectors, _ = module.draws(1.0, 0)
    cov = module.covariance(alpha, vectors[:3])
    i, j = module.pair(1.0, 0)
    correlation, kl, low, high = numbers(depth=3, log_std=1.0, seed=0)
    assert correlation == pytest.approx(cov[i, j] / np.sqrt(cov[i, i] * cov[j, j]), abs=0.006)
    expected = np.log((1 + np.diag(cov)) / alpha.numpy()).sum() / 2
    assert kl == pytest.approx(expected, abs=6e-4)
    assert low < kl < high


def test_the_ellipses_lie_within_the_axes():
    figure = Figure(figsize=(9.6, 3.2))
    update = module.build_figure(figure)
    cloud = figure.axes[0]
    (left, right), (bottom, top) = cloud.get_xlim(), cloud.get_ylim()
    for setting in product((0, 2, 8), module.LOG_STDS, module.SEEDS):
        update(*setting)
        x, y = np.concatenate([line.get_xydata() for line in cloud.lines]).T
        assert left < x.min() < x.max() < right, setting
        assert bottom < y.min() < y.max() < top, setting

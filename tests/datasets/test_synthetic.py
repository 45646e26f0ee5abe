from __future__ import annotations

import numpy as np
import pytest
import torch

from bdl_lessons import datasets

REGRESSIONS = [datasets.gap, datasets.cubic, datasets.origin_clusters]
ALL = [*REGRESSIONS, datasets.two_moons]


def tensors(data) -> list[torch.Tensor]:
    return [value for value in vars(data).values() if isinstance(value, torch.Tensor)]


@pytest.mark.parametrize("make", ALL)
def test_one_seed_one_set(make):
    for a, b, c in zip(*(tensors(make(seed=s)) for s in (3, 3, 4)), strict=True):
        assert torch.equal(a, b)
        assert torch.isfinite(a).all()
        if a.is_floating_point():
            assert not torch.equal(a, c)


@pytest.mark.parametrize("make", ALL)
def test_bad_arguments_are_named(make):
    for n, error in ((1, ValueError), (2.5, TypeError), (True, TypeError)):
        with pytest.raises(error, match="n_train"):
            make(n_train=n)
    for std in (-1.0, float("nan"), float("inf")):
        with pytest.raises(ValueError, match="noise_std"):
            make(noise_std=std)


@pytest.mark.parametrize("make", REGRESSIONS)
def test_regressions_are_float64_with_named_columns(make):
    data = make(n_train=11)
    assert data.x.dtype == data.y.dtype == torch.float64
    assert data.x.shape == (11, len(data.feature_names))
    assert data.y.shape == (11,)


def test_two_moons_without_noise_lie_on_their_circles():
    data = datasets.two_moons(n_train=101, n_test=50, noise_std=0)
    assert data.x_train.shape == (101, 2)
    assert data.x_test.shape == (50, 2)
    assert sorted(torch.bincount(data.y_train).tolist()) == [50, 51]
    x, upper = data.x_train, data.y_train == 0
    ones = torch.ones(101)
    torch.testing.assert_close(x[upper].norm(dim=1), ones[upper])
    assert (x[upper, 1] >= 0).all()
    centre = torch.tensor([1.0, 0.5])
    torch.testing.assert_close((x[~upper] - centre).norm(dim=1), ones[~upper])
    assert (x[~upper, 1] <= 0.5).all()
    assert data.y_train[:20].unique().numel() == 2, "rows are shuffled"


def test_gap_leaves_the_gap_empty_and_has_the_stated_noise():
    data = datasets.gap(n_train=20_001, noise_std=0.3)
    x = data.x[:, 0]
    left, right = (x >= -1) & (x <= -0.7), (x >= 0.5) & (x <= 1)
    assert (left | right).all()
    assert left.sum() == 10_000
    noise = data.y - datasets.gap_mean(x)
    assert noise.mean().abs() < 5 * 0.3 / 20_001**0.5
    assert noise.std().item() == pytest.approx(0.3, rel=5 / (2 * 20_001) ** 0.5)
    np.testing.assert_allclose(datasets.gap_mean(x.numpy()), datasets.gap_mean(x).numpy())


def test_cubic_noise_has_variance_9():
    data = datasets.cubic(n_train=20_000)
    assert data.x.min() >= -4
    assert data.x.max() <= 4
    noise = data.y - data.x[:, 0] ** 3
    assert noise.var().item() == pytest.approx(9, rel=5 * (2 / 20_000) ** 0.5)
    assert len(datasets.cubic().x) == 20


def test_origin_clusters_sit_where_they_should():
    data = datasets.origin_clusters(n_train=10_000)
    first, second = data.x[:5000], data.x[5000:]
    for cluster, centre in ((first, 1.0), (second, -1.0)):
        assert (cluster.mean(0) - centre).abs().max() < 5 * 0.1 / 5000**0.5
        assert (cluster.std(0) - 0.1).abs().max() < 5 * 0.1 / (2 * 5000) ** 0.5


def test_origin_targets_are_one_function_plus_the_stated_noise():
    noisy, clean = (datasets.origin_clusters(n_train=10_000, noise_std=s) for s in (0.1, 0.0))
    assert torch.equal(noisy.x, clean.x)
    noise = noisy.y - clean.y
    assert noise.std().item() == pytest.approx(0.1, rel=5 / (2 * 10_000) ** 0.5)
    # From draw to draw the target at (1, 1) has the variance of the prior,
    # 4² E[relu(h)²] + 1 with h ~ N(0, 17), that is 16 · 17/2 + 1 = 137.
    values = torch.stack(
        [datasets.origin_clusters(2, spread_std=0, noise_std=0, seed=s).y[0] for s in range(2000)]
    )
    assert values.mean().abs() < 5 * (137 / 2000) ** 0.5
    assert values.var().item() == pytest.approx(137, rel=0.2)

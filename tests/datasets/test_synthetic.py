from __future__ import annotations

import pytest
import torch

from bdl_lessons.datasets import origin_clusters


def test_one_seed_one_set():
    a, b, c = (origin_clusters(seed=seed) for seed in (3, 3, 4))
    torch.testing.assert_close((a.x, a.y), (b.x, b.y))
    assert (a.x - c.x).abs().max() > 0.01
    assert (a.y - c.y).abs().max() > 0.01


def test_bad_arguments_are_named():
    for n, error in ((1, ValueError), (2.5, TypeError), (True, TypeError)):
        with pytest.raises(error, match="n_train"):
            origin_clusters(n_train=n)
    for std in (-1.0, float("nan"), float("inf")):
        for name in ("noise_std", "spread_std"):
            with pytest.raises(ValueError, match=name):
                origin_clusters(**{name: std})


def test_float64_with_named_columns():
    data = origin_clusters(n_train=11)
    assert data.x.dtype == data.y.dtype == torch.float64
    assert data.x.shape == (11, len(data.feature_names))
    assert data.y.shape == (11,)


def test_origin_clusters_sit_where_they_should():
    data = origin_clusters(n_train=10_000)
    first, second = data.x[:5000], data.x[5000:]
    for cluster, centre in ((first, 1.0), (second, -1.0)):
        assert (cluster.mean(0) - centre).abs().max() < 5 * 0.1 / 5000**0.5
        assert (cluster.std(0) - 0.1).abs().max() < 5 * 0.1 / (2 * 5000) ** 0.5


def test_origin_targets_are_one_function_plus_the_stated_noise():
    noisy, clean = (origin_clusters(n_train=10_000, noise_std=s) for s in (0.1, 0.0))
    torch.testing.assert_close(noisy.x, clean.x)
    noise = noisy.y - clean.y
    assert noise.std().item() == pytest.approx(0.1, rel=5 / (2 * 10_000) ** 0.5)
    # From draw to draw the target at (1, 1) has the variance of the prior,
    # 4² E[relu(h)²] + 1 with h ~ N(0, 17), that is 16 · 17/2 + 1 = 137.
    values = torch.stack(
        [origin_clusters(2, spread_std=0, noise_std=0, seed=s).y[0] for s in range(2000)]
    )
    assert values.mean().abs() < 5 * (137 / 2000) ** 0.5
    assert values.var().item() == pytest.approx(137, rel=0.2)

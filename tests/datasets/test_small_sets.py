from __future__ import annotations

import pytest
import torch
from sklearn.datasets import load_digits

from bdl_lessons import datasets


def test_digits_are_a_partition_in_0_to_1():
    data = datasets.digits()
    assert data.x_train.shape == (1437, 64)
    assert data.x_test.shape == (360, 64)
    assert data.x_train.dtype == torch.float32
    assert data.y_train.dtype == torch.int64
    assert data.x_train.min() == 0
    assert data.x_train.max() == 1
    pixels, labels = load_digits(return_X_y=True)
    together = torch.cat([data.x_train, data.x_test]) * 16
    assert sorted(map(tuple, together.int().tolist())) == sorted(map(tuple, pixels.astype(int)))
    assert torch.bincount(torch.cat([data.y_train, data.y_test])).tolist() == [
        int((labels == k).sum()) for k in range(10)
    ]


def test_images_keep_their_labels():
    data = datasets.digits(seed=7)
    pixels, labels = load_digits(return_X_y=True)
    row = next(
        i
        for i, p in enumerate(pixels)
        if (torch.from_numpy(p) == (16 * data.x_test[0]).round()).all()
    )
    assert labels[row] == data.y_test[0]


def test_the_test_rows_depend_on_the_seed_alone():
    few, every, other = (datasets.digits(**o) for o in ({"n_train": 50}, {}, {"seed": 1}))
    torch.testing.assert_close(few.x_test, every.x_test)
    torch.testing.assert_close(few.x_train, every.x_train[:50])
    assert not torch.allclose(other.x_test, every.x_test)


@pytest.mark.parametrize("options", [{"n_test": 0}, {"n_test": 1797}, {"n_train": 1438}])
def test_digits_bad_sizes(options):
    with pytest.raises(ValueError, match="n_train and n_test must"):
        datasets.digits(**options)


def test_diabetes_is_raw():
    data = datasets.diabetes()
    assert data.x.shape == (442, 10)
    assert data.y.shape == (442,)
    assert data.x.dtype == torch.float64
    assert data.feature_names[2].startswith("body mass index")
    assert 15 < data.x[:, 2].min() < data.x[:, 2].max() < 50
    assert (data.y.min(), data.y.max()) == (25, 346)


def test_one_seed_one_set():
    a, b, c = (datasets.origin_clusters(seed=seed) for seed in (3, 3, 4))
    torch.testing.assert_close((a.x, a.y), (b.x, b.y))
    assert (a.x - c.x).abs().max() > 0.01
    assert (a.y - c.y).abs().max() > 0.01


def test_bad_arguments_are_named():
    for n, error in ((1, ValueError), (2.5, TypeError), (True, TypeError)):
        with pytest.raises(error, match="n_train"):
            datasets.origin_clusters(n_train=n)
    for std in (-1.0, float("nan"), float("inf")):
        for name in ("noise_std", "spread_std"):
            with pytest.raises(ValueError, match=name):
                datasets.origin_clusters(**{name: std})


def test_float64_with_named_columns():
    data = datasets.origin_clusters(n_train=11)
    assert data.x.dtype == data.y.dtype == torch.float64
    assert data.x.shape == (11, len(data.feature_names))
    assert data.y.shape == (11,)


def test_origin_clusters_sit_where_they_should():
    data = datasets.origin_clusters(n_train=10_000)
    first, second = data.x[:5000], data.x[5000:]
    for cluster, centre in ((first, 1.0), (second, -1.0)):
        assert (cluster.mean(0) - centre).abs().max() < 5 * 0.1 / 5000**0.5
        assert (cluster.std(0) - 0.1).abs().max() < 5 * 0.1 / (2 * 5000) ** 0.5


def test_origin_targets_are_one_function_plus_the_stated_noise():
    noisy, clean = (datasets.origin_clusters(n_train=10_000, noise_std=s) for s in (0.1, 0.0))
    torch.testing.assert_close(noisy.x, clean.x)
    noise = noisy.y - clean.y
    assert noise.std().item() == pytest.approx(0.1, rel=5 / (2 * 10_000) ** 0.5)
    # From draw to draw the target at (1, 1) has the variance of the prior,
    # 4² E[relu(h)²] + 1 with h ~ N(0, 17), that is 16 · 17/2 + 1 = 137.
    values = torch.stack(
        [datasets.origin_clusters(2, spread_std=0, noise_std=0, seed=s).y[0] for s in range(2000)]
    )
    assert values.mean().abs() < 5 * (137 / 2000) ** 0.5
    assert values.var().item() == pytest.approx(137, rel=0.2)

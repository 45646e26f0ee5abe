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

import pytest
import torch
from sklearn.datasets import load_digits

from bdl_lessons import datasets
from bdl_lessons.datasets import bioassay


def test_digits_are_a_partition_in_0_to_1():
    data = datasets.digits()
    assert (data.x_train.shape, data.x_test.shape) == ((1437, 64), (360, 64))
    assert (data.x_train.dtype, data.y_train.dtype) == (torch.float32, torch.int64)
    assert (data.x_train.min(), data.x_train.max()) == (0, 1)
    pixels, labels = load_digits(return_X_y=True)
    together = torch.cat([data.x_train, data.x_test]) * 16
    assert sorted(map(tuple, together.int().tolist())) == sorted(map(tuple, pixels.astype(int)))
    known = {tuple(image): label for image, label in zip(pixels.astype(int), labels, strict=True)}
    found = [known[tuple(image)] for image in together.int().tolist()]
    assert found == [*data.y_train.tolist(), *data.y_test.tolist()]


def test_the_test_rows_depend_on_the_seed_alone():
    few, every, other = (datasets.digits(**o) for o in ({"n_train": 50}, {}, {"seed": 1}))
    torch.testing.assert_close(few.x_test, every.x_test)
    torch.testing.assert_close(few.x_train, every.x_train[:50])
    assert not torch.allclose(other.x_test, every.x_test)


def test_origin_clusters_sit_where_they_should():
    data = datasets.origin_clusters(n_train=10_000)
    first = data.x[:5000]
    second = data.x[5000:]
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


def test_diabetes_has_the_units_of_its_source():
    data = datasets.diabetes()
    assert (data.x.shape, data.y.shape, data.x.dtype) == ((442, 10), (442,), torch.float64)
    assert data.feature_names[2].startswith("body mass index")
    assert 15 < data.x[:, 2].min() < data.x[:, 2].max() < 50
    assert (data.y.min(), data.y.max()) == (25, 346)


def test_one_row_per_animal_adds_up_to_the_table():
    X, y = bioassay.load()
    assert (X.shape, y.shape) == ((20, 2), (20,))
    assert (X[:, 0] == 1).all()
    for dose, deaths in zip(bioassay.LOG_DOSE, bioassay.DEATHS, strict=True):
        at_dose = X[:, 1] == dose
        assert at_dose.sum() == 5
        assert y[at_dose].sum() == deaths

import pytest
import torch
from sklearn.datasets import load_digits

from bdl_lessons import datasets
from bdl_lessons.datasets import bioassay


def test_digits_are_a_partition_in_0_to_1():
    data = datasets.digits()
    assert data.x_train.shape == (1437, 64)
    assert data.x_test.shape == (360, 64)
    assert data.x_train.dtype == torch.float32
    assert data.y_train.dtype == torch.int64
    assert data.x_train.min() == 0
    assert data.x_train.max() == 1


def test_digits_are_those_of_scikit_learn_each_once_with_its_label():
    data = datasets.digits()
    pixels = 16 * torch.cat([data.x_train, data.x_test])
    labels = torch.cat([data.y_train, data.y_test])
    examples = [
        (*image, label) for image, label in zip(pixels.int().tolist(), labels.tolist(), strict=True)
    ]
    source_pixels, source_labels = load_digits(return_X_y=True)
    source = [
        (*image, label)
        for image, label in zip(source_pixels.astype(int), source_labels, strict=True)
    ]
    assert sorted(examples) == sorted(source)


def test_the_test_rows_depend_on_the_seed_alone():
    all_rows = datasets.digits()
    few_rows = datasets.digits(n_train=50)
    torch.testing.assert_close(few_rows.x_test, all_rows.x_test)
    torch.testing.assert_close(few_rows.x_train, all_rows.x_train[:50])
    other_seed = datasets.digits(seed=1)
    assert not torch.allclose(other_seed.x_test, all_rows.x_test)


def test_origin_clusters_sit_where_they_should():
    data = datasets.origin_clusters(n_train=10_000)
    error_of_mean = 0.1 / 5000**0.5
    error_of_std = 0.1 / (2 * 5000) ** 0.5
    for cluster, centre in ((data.x[:5000], 1.0), (data.x[5000:], -1.0)):
        assert (cluster.mean(0) - centre).abs().max() < 5 * error_of_mean
        assert (cluster.std(0) - 0.1).abs().max() < 5 * error_of_std


def test_origin_targets_are_one_function_plus_the_stated_noise():
    noisy = datasets.origin_clusters(n_train=10_000, noise_std=0.1)
    clean = datasets.origin_clusters(n_train=10_000, noise_std=0.0)
    torch.testing.assert_close(noisy.x, clean.x)
    noise = noisy.y - clean.y
    assert noise.std().item() == pytest.approx(0.1, rel=5 / (2 * 10_000) ** 0.5)


def test_the_function_of_origin_targets_is_a_draw_from_its_prior():
    """From draw to draw the target at (1, 1) has the variance of the prior.

    It is 4² E[relu(h)²] + 1 with h ~ N(0, 17), that is 16 · 17/2 + 1 = 137.
    """
    functions = [
        datasets.origin_clusters(2, spread_std=0, noise_std=0, seed=seed) for seed in range(2000)
    ]
    values = torch.stack([function.y[0] for function in functions])
    assert values.mean().abs() < 5 * (137 / 2000) ** 0.5
    assert values.var().item() == pytest.approx(137, rel=0.2)


def test_diabetes_has_the_units_of_its_source():
    data = datasets.diabetes()
    assert data.x.shape == (442, 10)
    assert data.y.shape == (442,)
    assert data.x.dtype == torch.float64
    assert data.feature_names[2].startswith("body mass index")
    body_mass_index = data.x[:, 2]
    assert 15 < body_mass_index.min() < body_mass_index.max() < 50
    assert data.y.min() == 25
    assert data.y.max() == 346


def test_one_row_per_animal_adds_up_to_the_table():
    X, y = bioassay.load()
    assert X.shape == (20, 2)
    assert y.shape == (20,)
    assert (X[:, 0] == 1).all()
    for dose, deaths in zip(bioassay.LOG_DOSE, bioassay.DEATHS, strict=True):
        at_dose = X[:, 1] == dose
        assert at_dose.sum() == 5
        assert y[at_dose].sum() == deaths

"""Noise against a prior on other images: how they are changed and split, and the layout."""

import numpy as np
import pytest
import torch

from bdl_lessons.panels import arrays
from reproductions.datasets.files import DatasetError
from reproductions.panel_arrays import noise_away as experiment
from tests.draws import seeded


@pytest.fixture(scope="module")
def digits():
    try:
        return experiment.splits("mnist", label_noise=0.3, n_splits=2)
    except DatasetError as error:
        pytest.skip(str(error))


def test_images_are_halved_and_no_image_is_in_two_parts(digits):
    assert digits.x_train.shape == (2, experiment.N_TRAIN, 196)
    assert digits.x_test.shape == (2, experiment.N_TEST, 196)
    everything = torch.cat([digits.x_train, digits.x_validation], dim=1).flatten(0, 1)
    assert everything.unique(dim=0).shape == everything.shape  # bits: a copy has the same
    distinct = digits.x_test.flatten(0, 1).unique(dim=0)  # bits: a copy has the same
    assert distinct.shape == (2 * experiment.N_TEST, 196)


def test_labels_are_random_where_they_are_said_to_be(digits):
    is_other = (digits.y_test != digits.y_true).double().mean()
    assert 0.2 < is_other < 0.34  # one in ten random labels is right
    clean = experiment.splits("mnist", label_noise=0.0, n_splits=2)
    assert torch.equal(clean.y_test, clean.y_true)  # bits: integers
    assert torch.equal(clean.y_true, digits.y_true)  # bits: integers


def test_changed_images_are_what_their_names_say(digits):
    x = digits.x_test
    changed = experiment.changed(x, seeded())
    assert tuple(changed) == experiment.CHANGES
    is_blank = x == 0
    assert torch.equal(changed["at home"], x)  # bits: the same
    assert torch.equal(changed["noisy ink"][is_blank], x[is_blank])  # bits: zeros
    assert torch.equal(changed["noisy blanks"][~is_blank], x[~is_blank])  # bits: copies
    noise = changed["noisy pixels"] - x
    assert noise.std().item() == pytest.approx(0.3, rel=0.02)
    on_ink = (changed["noisy ink"] / x - 1)[~is_blank]
    assert on_ink.std().item() == pytest.approx(0.6, rel=0.02)
    permuted = changed["permuted"]
    assert torch.equal(permuted.sort(1).values, x.sort(1).values)  # bits: copies
    right = changed["one pixel"].unflatten(-1, (14, 14))
    assert torch.equal(right[..., 1:], x.unflatten(-1, (14, 14))[..., :-1])  # bits: copies


def test_the_layout_is_that_of_the_stored_arrays(digits):
    computed = experiment.make_arrays(n_splits=2, n_steps=4)
    stored = arrays.load("noise_away")
    assert computed.keys() == stored.keys()
    for key, values in computed.items():
        assert values.dtype == stored[key].dtype, key
        assert values.shape[:-1] == stored[key].shape[:-1], key
        if key in ("changes", "predictions"):
            assert values.tolist() == stored[key].tolist()
        else:
            assert np.isfinite(values).all(), key


@pytest.mark.slow
def test_mnist_with_random_labels_shows_again_what_lesson_12_says(digits):
    again = experiment._race(digits, experiment.N_STEPS)
    _, _, draws = again["accuracy"].mean(-1) - again["accuracy"][0].mean(-1)
    gain = dict(zip(experiment.CHANGES, draws, strict=True))
    assert gain["noisy blanks"] < -5
    assert gain["noisy pixels"] < -5
    assert gain["noisy ink"] > 0
    assert abs(gain["at home"]) < 6

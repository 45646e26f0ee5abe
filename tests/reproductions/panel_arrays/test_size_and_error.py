"""Error against the share of weights kept: what is deleted, how images change, and the layout."""

import numpy as np
import pytest
import torch

from bdl_lessons.inference import BatchedNetworks
from bdl_lessons.models import Deterministic, mlp
from bdl_lessons.panels import arrays
from reproductions.panel_arrays import size_and_error as experiment
from tests.draws import normal, seeded


def test_the_largest_weights_of_each_network_stay_and_the_others_are_not_trained():
    torch.manual_seed(0)
    networks = BatchedNetworks([mlp((6, 5, 4), Deterministic) for _ in range(2)])
    before = [values.detach().clone() for values in networks.parameters()]
    experiment.keep_largest(networks, torch.tensor([0.5, 0.1]))
    for number, share in enumerate((0.5, 0.1)):
        old = torch.cat([v[number].flatten() for v in before if v.dim() == 3]).abs()
        new = torch.cat([v[number].flatten() for v in networks.parameters() if v.dim() == 3]).abs()
        is_kept = new > 0
        assert is_kept.double().mean().item() == pytest.approx(share, abs=1 / len(old))
        assert old[is_kept].min() > old[~is_kept].max()
    for values, old in zip(networks.parameters(), before, strict=True):
        if values.dim() < 3:
            assert torch.equal(values, old)  # bits: biases are not touched
    networks(normal(2, 3, 6).float(), "mean").square().sum().backward()
    for matrix in networks.parameters():
        if matrix.dim() == 3:
            assert not matrix.grad[matrix == 0].any()
            assert matrix.grad[matrix != 0].any()


def test_changed_images_are_what_their_names_say():
    x = normal(2, 30, 64).float()
    changed = experiment.shifted(x, seeded())
    assert tuple(changed) == experiment.SHIFTS
    images = x.unflatten(-1, (8, 8))
    right = changed["one pixel right"].unflatten(-1, (8, 8))
    assert torch.equal(right[..., 1:], images[..., :-1])  # bits: copies
    assert not right[..., 0].any()
    turned = changed["turned by 90°"].unflatten(-1, (8, 8))
    assert torch.equal(turned[..., 0, :], images[..., :, -1])  # bits: copies
    noise = changed["pixel noise 0.3"] - x
    assert noise.std().item() == pytest.approx(0.3, rel=0.05)
    permuted = changed["pixels permuted"]
    assert torch.equal(permuted.sort(-2).values, x.sort(-2).values)  # bits: copies
    rows = torch.cdist(permuted, x)
    assert rows.min() > 1e-3, "no image is left whole"


def test_the_layout_is_that_of_the_stored_arrays(monkeypatch):
    monkeypatch.setattr(experiment, "N_DRAWS", 2)
    computed = experiment.make_arrays(n_splits=2, n_steps=8)
    stored = arrays.load("size_and_error")
    assert computed.keys() == stored.keys()
    for key, values in computed.items():
        assert values.dtype == stored[key].dtype, key
        assert values.shape[:-1] == stored[key].shape[:-1], key
        assert np.isfinite(values).all(), key


@pytest.mark.slow
def test_two_splits_trained_again_show_what_lesson_08_says():
    again = experiment.make_arrays(n_splits=2)
    stored = arrays.load("size_and_error")
    kept = again["kept"].mean(2)
    assert np.allclose(kept, stored["kept"][..., :2].mean(2), rtol=0.1)
    assert np.allclose(again["error"].mean(2), stored["error"][..., :2].mean(2), atol=1.5)
    change = (again["nll"][0] - again["nll"][1]).mean(2)
    assert (change[0] > -0.02).all()
    assert (change[1:] < 0).all()

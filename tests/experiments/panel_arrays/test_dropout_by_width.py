import numpy as np
import pytest
import torch

from bdl_lessons.experiments.panel_arrays import dropout_by_width
from bdl_lessons.lessons.panels import arrays
from bdl_lessons.models import BinaryDropout, GaussianDropout


@pytest.fixture(scope="module")
def stored():
    return arrays.load("dropout_by_width")


def test_the_arrays_have_one_entry_for_each_run(stored):
    shape = (len(dropout_by_width.METHODS), len(dropout_by_width.WIDTHS), dropout_by_width.SEEDS)
    assert stored["error"].shape == shape
    assert stored["alpha"].shape == (*shape, 3)
    assert ((stored["error"] > 0) & (stored["error"] < 60)).all()


def test_alpha_is_stored_where_it_is_learned_and_within_its_bound(stored):
    for name, alpha in zip(dropout_by_width.METHODS, stored["alpha"], strict=True):
        if name.startswith("variational"):
            assert ((alpha > 0) & (alpha <= 1 + 1e-6)).all()
        else:
            assert np.isnan(alpha).all()


def test_the_fixed_methods_have_matched_noise():
    like = torch.zeros((), dtype=torch.float64)
    for name in ("binary", "Gaussian A"):
        for p_drop, factory in zip(
            dropout_by_width.RATES, dropout_by_width.METHODS[name], strict=True
        ):
            assert isinstance(factory, BinaryDropout | GaussianDropout)
            noise = factory.linear(3, 2).noise
            xi = noise.sample(torch.Size([100_000]), torch.Generator().manual_seed(0), like)
            assert xi.var() == pytest.approx(p_drop / (1 - p_drop), abs=0.02)


@pytest.mark.slow
def test_the_committed_arrays_are_what_training_gives(stored):
    for name in ("Gaussian A", "variational A", "variational B"):
        row = list(dropout_by_width.METHODS).index(name)
        error, *alpha = dropout_by_width.train(name, dropout_by_width.WIDTHS[0], seed=1)
        assert error == pytest.approx(stored["error"][row, 0, 1], abs=1.0)
        assert np.allclose(alpha, stored["alpha"][row, 0, 1], atol=0.02, equal_nan=True)

"""The posteriors behind the panel of lesson 14."""

import numpy as np
import pytest
import torch

from bdl_lessons.panels import arrays
from bdl_lessons.panels.structure_by_direction import N_TRAIN, REFLECTIONS
from reproductions.panel_arrays import structure_by_direction as module


def kl_to(exact, cov):
    precision = np.linalg.inv(exact)
    product = precision @ cov
    return (np.trace(product) - len(cov) - np.linalg.slogdet(product)[1]) / 2


def test_stored_posteriors_come_nearer_with_every_reflection_and_keep_the_trace():
    stored = arrays.load("structure_by_direction")
    for exact, family in zip(stored["exact"], stored["q"], strict=True):
        gaps = [kl_to(exact, cov) for cov in family]
        assert all(np.diff(gaps) < 0)
        assert gaps[0] > 1
        assert gaps[-1] < 0.01
        for cov in family:
            assert np.trace(np.linalg.inv(exact) @ cov) == pytest.approx(8, abs=0.01)


def test_the_exact_posterior_is_that_of_the_first_rows():
    stored = arrays.load("structure_by_direction")
    for n_train, exact in zip(N_TRAIN, stored["exact"], strict=True):
        rows = stored["x"][:n_train]
        precision = rows.T @ rows / module.NOISE_STD**2 + np.eye(8)
        np.testing.assert_allclose(exact, np.linalg.inv(precision), atol=1e-12)


def test_without_reflections_no_other_variances_come_nearer():
    generator = torch.Generator().manual_seed(0)
    factor = torch.randn(8, 8, generator=generator, dtype=torch.float64)
    precision = factor @ factor.T + torch.eye(8, dtype=torch.float64)
    mean = torch.ones(8, dtype=torch.float64)
    cov = module.best_covariance(precision, mean, 0, n_steps=1, n_starts=1, generator=generator)
    exact = torch.linalg.inv(precision).numpy()
    best = kl_to(exact, cov.numpy())
    for seed in range(10):
        factors = np.exp(0.1 * np.random.default_rng(seed).standard_normal(8))
        assert kl_to(exact, cov.numpy() * np.diag(factors)) > best


def test_a_short_training_has_the_layout_that_is_stored():
    short = module.make_arrays(n_steps=2, n_starts=2)
    stored = arrays.load("structure_by_direction")
    assert short.keys() == stored.keys()
    assert {key: values.shape for key, values in short.items()} == {
        key: values.shape for key, values in stored.items()
    }
    assert stored["q"].shape[1] == len(REFLECTIONS)

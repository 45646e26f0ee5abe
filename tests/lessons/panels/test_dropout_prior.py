import re

import numpy as np
import pytest
import torch

from bdl_lessons.lessons.panels.dropout_prior import (
    LENGTHSCALES,
    RATES,
    exact_kl,
    log_q,
    panel,
    separated_kl,
)
from bdl_lessons.probability import dropout_mixture, mixture_kl, mixture_kl_monte_carlo


@pytest.mark.parametrize("p_drop", [0.0, 0.2, 0.9])
@pytest.mark.parametrize("s_std", [1.0, 0.3, 0.02])
def test_the_kl_is_the_integral(p_drop, s_std):
    m, length_scale = 1.0, 2.0
    w = np.linspace(-8, 9, 100_001)
    prior = -0.5 * (w * length_scale) ** 2 + np.log(length_scale) - 0.5 * np.log(2 * np.pi)
    density = np.exp(log_q(w, m, p_drop, s_std))
    assert np.trapezoid(density, w) == pytest.approx(1, abs=1e-9)
    integral = np.trapezoid(density * (log_q(w, m, p_drop, s_std) - prior), w)
    assert exact_kl(m, p_drop, length_scale, s_std) == pytest.approx(integral, abs=2e-3)


def test_the_kl_is_that_of_the_package_within_its_standard_error():
    probs, means = dropout_mixture(torch.tensor([[1.0]], dtype=torch.float64), 0.3)
    kl, error = mixture_kl_monte_carlo(
        probs, means[0], 0.4**2, 0.25, n_samples=100_000, generator=torch.Generator().manual_seed(0)
    )
    assert abs(exact_kl(1.0, 0.3, 2.0, 0.4) - kl) < 4 * error
    formula = mixture_kl(probs, means, 0.4**2, 0.25)
    assert separated_kl(1.0, 0.3, 2.0, 0.4) == pytest.approx(formula.item(), rel=1e-12)


def test_the_formula_misses_the_entropy_of_the_mask_when_spikes_overlap_and_nothing_when_apart():
    entropy = -(0.8 * np.log(0.8) + 0.2 * np.log(0.2))
    gap = [exact_kl(m, 0.2, 1.0, 0.1) - separated_kl(m, 0.2, 1.0, 0.1) for m in (0.0, 1.0)]
    assert gap == pytest.approx([entropy, 0.0], abs=1e-5)


@pytest.fixture(scope="module")
def shown():
    return panel()


def numbers(shown, **params) -> list[float]:
    """tau, noise standard deviation, KL, its slope, the limit of the slope."""
    bold = re.findall("<b>(.+?)</b>", shown.render(**params).readout)
    return [float(number) for number in bold]


def test_every_control_moves_the_picture_and_the_readout(shown):
    start = shown.render()
    for move in ({"p_drop": 0.5}, {"length_scale": 2.0}, {"n_train": 100_000}, {"s_std": 0.01}):
        moved = shown.render(**move)
        assert moved.png != start.png
        assert moved.readout != start.readout


def test_the_slope_of_the_kl_reaches_its_limit(shown):
    *_, slope, limit = numbers(shown, s_std=0.01, p_drop=0.4, length_scale=2.0)
    assert slope == pytest.approx(limit, abs=2e-3)
    assert limit == pytest.approx(0.6 * 4)


def test_the_noise_in_the_readout_is_equation_7_for_inverted_dropout(shown):
    tau, noise_std, *_ = numbers(shown, p_drop=0.5, length_scale=2.0, n_train=1000)
    assert tau == pytest.approx(2.0**2 / (0.5 * 1000 * 1e-4))
    assert noise_std == pytest.approx(tau**-0.5, rel=1e-2)


def test_the_readout_is_finite_at_the_corners(shown):
    for p_drop in (RATES[0], RATES[-1]):
        for length_scale in (LENGTHSCALES[0], LENGTHSCALES[-1]):
            for s_std in (1.0, 0.001):
                found = numbers(shown, p_drop=p_drop, length_scale=length_scale, s_std=s_std)
                assert len(found) == 5
                assert np.isfinite(found).all()

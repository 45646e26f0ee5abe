import re

import numpy as np
import pytest
import torch
from matplotlib.figure import Figure
from scipy.integrate import trapezoid

from bdl_lessons.panels.dropout_prior import build_figure, exact_kl, kl_slope, log_q, separated_kl
from bdl_lessons.probability import dropout_mixture, mixture_kl


@pytest.mark.parametrize("p_drop", [0.0, 0.2, 0.9])
@pytest.mark.parametrize("sigma", [1.0, 0.3, 0.02])
def test_the_kl_is_the_integral(p_drop, sigma):
    theta, length_scale = 1.0, 2.0
    w = np.linspace(-8, 9, 100_001)
    prior = -0.5 * (w * length_scale) ** 2 + np.log(length_scale) - 0.5 * np.log(2 * np.pi)
    density = np.exp(log_q(w, theta, p_drop, sigma))
    assert trapezoid(density, w) == pytest.approx(1, abs=1e-9)
    integral = trapezoid(density * (log_q(w, theta, p_drop, sigma) - prior), w)
    assert exact_kl(theta, p_drop, length_scale, sigma) == pytest.approx(integral, abs=2e-3)


def test_the_formula_misses_the_entropy_of_the_mask_when_spikes_overlap_and_nothing_when_apart():
    entropy = -(0.8 * np.log(0.8) + 0.2 * np.log(0.2))
    thetas = np.array([0.0, 1.0])
    formula = mixture_kl(*dropout_mixture(torch.tensor([[1.0]]).double(), 0.2), 0.1**2)
    assert separated_kl(1.0, 0.2, 1.0, 0.1) == pytest.approx(formula.item(), rel=1e-12)
    gap = exact_kl(thetas, 0.2, 1.0, 0.1) - separated_kl(thetas, 0.2, 1.0, 0.1)
    assert gap == pytest.approx([entropy, 0.0], abs=1e-5)


def test_the_readout_says_the_slope_and_its_limit(numbers):
    _, _, slope, limit = numbers(sigma=0.01, p_drop=0.4, length_scale=2.0)
    assert slope == pytest.approx(limit, abs=2e-3)
    assert limit == pytest.approx(0.6 * 4)
    assert kl_slope(1.0, 0.4, 2.0, 0.5) < 0.9 * limit  # where the spikes overlap


def test_the_noise_is_equation_21_for_both_kinds_of_masks(numbers):
    setting, figure = {"p_drop": 0.5, "length_scale": 2.0, "n_train": 1000, "sigma": 0.1}, Figure()
    build_figure(figure)(**setting)
    (reading,) = (text.get_text() for text in figure.axes[0].texts)
    found = [float(number) for number in re.findall(r": ([\d.]+)", reading)]
    taus = [2 * 2.0**2 * factor / (1000 * 1e-4) for factor in (1 / 0.5, 0.5)]
    assert found == pytest.approx([tau**-0.5 for tau in taus], rel=1e-2)
    assert numbers(**setting)[0] == pytest.approx(taus[0] ** -0.5, rel=1e-2)

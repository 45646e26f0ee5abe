import numpy as np
import pytest
from matplotlib.figure import Figure
from scipy.integrate import quad, trapezoid
from scipy.special import dawsn

from bdl_lessons.panels import noise_and_kl


@pytest.mark.parametrize("log_alpha", [-4.0, 0.0, 2.0])
def test_the_readout_is_the_mathematics(numbers, log_alpha):
    alpha, p_drop, kl, _, sigmoid, slope, flips = numbers(log_alpha=log_alpha)
    exact = np.exp(log_alpha)
    assert alpha == pytest.approx(exact, rel=1e-3)
    assert p_drop / (1 - p_drop) == pytest.approx(exact, rel=0.05)
    z = 1 / np.sqrt(2 * exact)
    assert kl == pytest.approx(2 * quad(dawsn, 0, z)[0], abs=6e-5)
    assert sigmoid == pytest.approx(kl, abs=0.01)
    assert slope == pytest.approx(-z * dawsn(z), abs=6e-5)
    generator = np.random.default_rng(0)
    factors = 1 + np.sqrt(exact) * generator.standard_normal(200_000)
    assert flips == pytest.approx((factors < 0).mean(), abs=0.005)


@pytest.mark.parametrize("mu", noise_and_kl.MEANS)
def test_the_densities_have_the_mean_and_the_variance_of_noise_and_weight(mu):
    figure = Figure()
    noise_and_kl.build_figure(figure)(log_alpha=-2.0, mu=mu)
    (noise,) = [line for line in figure.axes[0].lines if line.get_animated()]
    (weight,) = [line for line in figure.axes[1].lines if line.get_animated()]
    for curve, mean in ((noise, 1.0), (weight, mu)):
        x, density = curve.get_data()
        density = density / trapezoid(density, x)
        assert trapezoid(x * density, x) == pytest.approx(mean, abs=0.01)
        variance = trapezoid((x - mean) ** 2 * density, x)
        assert variance == pytest.approx(np.exp(-2.0) * mean**2, rel=0.03)


def test_the_kl_does_not_depend_on_the_mean_of_the_weight(numbers):
    divergences = {tuple(numbers(mu=mu)) for mu in noise_and_kl.MEANS}
    assert len(divergences) == 1

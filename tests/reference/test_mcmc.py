import math

import pytest
import torch

from bdl_lessons.reference import hmc
from reproductions.chains import split_r_hat
from tests.draws import normal, seeded
from tests.tables import refused

COV = torch.tensor([[2.0, 0.9], [0.9, 0.5]], dtype=torch.float64)
MEAN = torch.tensor([1.0, -2.0], dtype=torch.float64)
START = MEAN.expand(2, 2)


def gaussian(point):
    deviation = point - MEAN
    gradient = deviation @ COV.inverse()
    return (deviation * gradient).sum(-1) / 2, gradient


def run(potential=gaussian, start=START, n_warmup=150, n_draws=200, n_leapfrog=12, step_size=0.3):
    return hmc(
        potential,
        start,
        n_warmup=n_warmup,
        n_draws=n_draws,
        n_leapfrog=n_leapfrog,
        step_size=step_size,
        generator=seeded(),
    )


def errors(draws):
    """Means and second moments less the exact ones, in standard errors over the chains."""
    deviation = draws - MEAN
    product = deviation.prod(-1, keepdim=True)
    moments = torch.cat([deviation, deviation**2, product], -1).mean(0)
    exact = torch.stack([*torch.zeros(2), COV[0, 0], COV[1, 1], COV[0, 1]])
    standard_error = moments.std(0) / len(moments) ** 0.5
    return (moments.mean(0) - exact) / standard_error


def test_a_correlated_gaussian_has_its_moments():
    draws, acceptance = run(start=4 * normal(32, 2, seed=1))
    assert draws.shape == (200, 32, 2)
    assert (errors(draws).abs() < 4.5).all()
    assert (split_r_hat(draws) < 1.03).all()
    assert float(acceptance.mean()) == pytest.approx(0.8, abs=0.1)


def test_a_large_step_stays_exact_and_is_accepted_less_often():
    """Without rejection the leapfrog's error would show: at half the limit of stability, 20 %."""
    smallest_std = float(torch.linalg.eigvalsh(COV)[0]) ** 0.5
    draws, acceptance = run(
        start=4 * normal(32, 2, seed=1), n_warmup=0, n_draws=400, step_size=1.5 * smallest_std
    )
    assert (errors(draws[100:]).abs() < 4.5).all()
    assert float(acceptance.max()) < 0.95


def test_each_chain_adapts_its_own_step():
    def two_scales(point):  # the second chain's density is a hundred times narrower
        scale = torch.tensor([[1.0], [0.01]], dtype=torch.float64)
        return (point / scale).square().sum(-1) / 2, point / scale**2

    start = torch.tensor([[1.0, 1.0], [0.01, 0.01]], dtype=torch.float64)
    draws, acceptance = run(two_scales, start)
    assert acceptance.min() > 0.6
    assert acceptance.max() < 0.95
    ratio = draws[:, 1].std() / draws[:, 0].std()
    assert float(ratio) == pytest.approx(0.01, rel=0.4)


def test_a_path_that_diverges_is_rejected():
    def well(point):  # no density beyond 3
        inside = point.abs().amax(-1) < 3
        energy = torch.where(inside, point.square().sum(-1) / 2, math.nan)
        return energy, point

    start = torch.zeros(4, 2, dtype=torch.float64)
    draws, _ = run(well, start)
    assert float(draws.abs().max()) < 3
    assert float(draws.std()) > 0.5


def test_the_graph_of_a_potential_is_let_go():
    scale = torch.ones((), requires_grad=True)

    def with_graph(point):
        energy, gradient = gaussian(point)
        return scale * energy, scale * gradient

    draws, _ = run(with_graph, n_warmup=1, n_draws=2)
    assert not draws.requires_grad


test_bad_input_is_refused = refused(
    (lambda: run(lambda w: (w.square().sum(1), w[:, :1])), r"potential .*\(2, 1\)"),
    (lambda: run(lambda w: (w.square().sum(1, True), w)), "potential must give"),
    (lambda: run(lambda w: w), "potential must return two tensors"),
    (lambda: run(lambda w: (w.sum(1) * math.nan, w)), "potential at start must be finite"),
)

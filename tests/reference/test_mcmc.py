import math

import pytest
import torch

from bdl_lessons.reference import hmc
from reproductions.chains import split_r_hat
from tests.draws import normal, seeded
from tests.tables import refused

COV = torch.tensor([[2.0, 0.9], [0.9, 0.5]], dtype=torch.float64)
MEAN = torch.tensor([1.0, -2.0], dtype=torch.float64)
SETTINGS = {"n_warmup": 150, "n_draws": 200, "n_leapfrog": 12, "step_size": 0.3}


def gaussian(point):
    gradient = (point - MEAN) @ COV.inverse()
    return ((point - MEAN) * gradient).sum(-1) / 2, gradient


def sample(potential=gaussian, n_chains=32, **settings):
    start = 4 * normal(n_chains, 2, seed=1)
    return hmc(potential, start, generator=seeded(), **(SETTINGS | settings))


def errors(draws):
    """Means and second moments less the exact ones, in standard errors over the chains."""
    off = draws - MEAN
    found = torch.cat([off, off**2, off.prod(-1, keepdim=True)], -1).mean(0)
    exact = torch.stack([*torch.zeros(2), COV[0, 0], COV[1, 1], COV[0, 1]])
    return (found.mean(0) - exact) / (found.std(0) / len(found) ** 0.5)


def test_a_correlated_gaussian_has_its_moments():
    draws, acceptance = sample()
    assert draws.shape == (200, 32, 2)
    assert (errors(draws).abs() < 4.5).all()
    assert (split_r_hat(draws) < 1.03).all()
    assert float(acceptance.mean()) == pytest.approx(0.8, abs=0.1)


def test_a_large_step_stays_exact_and_is_accepted_less_often():
    """Without rejection the leapfrog's error would show: at half the limit of stability, 20 %."""
    narrow = float(torch.linalg.eigvalsh(COV)[0]) ** 0.5
    draws, acceptance = sample(n_warmup=0, n_draws=400, step_size=1.5 * narrow)
    assert (errors(draws[100:]).abs() < 4.5).all()
    assert float(acceptance.max()) < 0.95


def test_each_chain_adapts_its_own_step():
    def two_scales(point):  # the second chain's density is a hundred times narrower
        scale = torch.tensor([[1.0], [0.01]], dtype=torch.float64)
        return (point / scale).square().sum(-1) / 2, point / scale**2

    start = torch.tensor([[1.0, 1.0], [0.01, 0.01]], dtype=torch.float64)
    draws, acceptance = hmc(two_scales, start, generator=seeded(), **SETTINGS)
    assert ((acceptance > 0.6) & (acceptance < 0.95)).all()
    assert float(draws[:, 1].std() / draws[:, 0].std()) == pytest.approx(0.01, rel=0.4)


def test_a_path_that_diverges_is_rejected():
    def well(point):  # no density beyond 3
        inside = point.abs().amax(-1) < 3
        energy = torch.where(inside, point.square().sum(-1) / 2, math.nan)
        return energy, point

    start = torch.zeros(4, 2, dtype=torch.float64)
    draws, _ = hmc(well, start, generator=seeded(), **SETTINGS)
    assert float(draws.abs().max()) < 3
    assert float(draws.std()) > 0.5


def test_the_graph_of_a_potential_is_let_go():
    scale = torch.ones((), requires_grad=True)
    draws = run(lambda w: [scale * part for part in gaussian(w)], n_warmup=1, n_draws=2)[0]
    assert not draws.requires_grad


START = MEAN.expand(2, 2)


def run(potential=gaussian, **change):
    return hmc(potential, START, generator=seeded(), **SETTINGS | change)


test_bad_input_is_refused = refused(
    (lambda: run(lambda w: (w.square().sum(1), w[:, :1])), r"potential .*\(2, 1\)"),
    (lambda: run(lambda w: (w.square().sum(1, True), w)), "potential must give"),
    (lambda: run(lambda w: w), "potential must return two tensors"),
    (lambda: run(lambda w: (w.sum(1) * math.nan, w)), "potential at start must be finite"),
)

from collections import deque
from functools import partial

import pytest
import torch
from torch import nn

from bdl_lessons.inference import BatchedNetworks, sgd
from bdl_lessons.models import Deterministic, initialise, mlp, wrap
from bdl_lessons.probability import gaussian_nll
from reproductions.posteriors.swag import SWAG, fit_swag, predict_swag
from tests.draws import seeded


def collected(n=7, max_rank=4):
    """SWAG over two tensors that took ``n`` random values, and these as ``(n, D)``."""
    g = seeded(1)
    parameters = [torch.zeros(2, dtype=torch.float64), torch.zeros(1, 2, dtype=torch.float64)]
    swag = SWAG(parameters)
    values = []
    swag.deviations = deque(maxlen=max_rank)
    for _ in range(n):
        for p in parameters:
            p.copy_(torch.randn(p.shape, generator=g, dtype=torch.float64) + 1)
        values.append(flat(parameters))
        swag.collect()
    return swag, torch.stack(values)


def flat(tensors):
    return torch.cat([t.flatten() for t in tensors])


def dense_posterior(values, max_rank):
    """Mean and covariance as published, from all values; the deviations at their own time."""
    n = len(values)
    running = values.cumsum(0) / torch.arange(1, n + 1)[:, None]
    D = (values - running)[-max_rank:]
    cov = values.var(0, correction=0).diag() + D.T @ D / (len(D) - 1)
    return values.mean(0), cov / 2


@pytest.mark.parametrize(("n", "max_rank"), [(7, 4), (3, 20)])
def test_draws_have_the_dense_posterior_over_all_tensors_together(n, max_rank):
    """Also with fewer models than ``max_rank``: the divisor is the number that is there."""
    swag, values = collected(n, max_rank)
    g = seeded(2)
    n_draws = 4000
    draws = torch.stack([flat(swag.draw(g)) for _ in range(n_draws)])
    mean, cov = dense_posterior(values, max_rank)
    var = cov.diagonal()
    assert ((draws.mean(0) - mean).abs() / (var / n_draws).sqrt()).max() < 5
    error = ((var[:, None] * var + cov.square()) / n_draws).sqrt()
    assert ((torch.cov(draws.T) - cov).abs() / error).max() < 5


def test_small_steps_around_large_weights_keep_their_variance():
    """Mean of squares minus square of the mean would lose it in float32."""
    weight = torch.zeros(1)
    swag = SWAG([weight])
    values = 100 + 1e-3 * torch.randn(50, generator=seeded(3), dtype=torch.float64)
    for value in values:
        weight.fill_(value)
        swag.collect()
    assert swag.var[0].item() == pytest.approx(values.var(correction=0).item(), rel=0.05)


def settings(**change):
    return {
        "n_epochs": 30,
        "collect_from": 10,
        "batch_size": 10,
        "generator": seeded(4),
        "optimizer": sgd(0.05),
        "final_factor": 0.5,
        "kl_weight": 0.0,
    } | change


@pytest.fixture
def line():
    x = torch.randn(50, 1, generator=seeded(5))
    return x, 2 * x + 1 + 0.5 * torch.randn(50, 1, generator=seeded(6))


def test_momentum_lasts_from_epoch_to_epoch_and_the_model_is_left_at_the_mean(line):
    """An optimiser made anew each epoch would forget it: the first step of all would be as long."""
    optimizers = []

    def optimizer(parameters):
        optimizers.append(sgd(0.05)(parameters))
        return optimizers[-1]

    model = initialise(mlp((1, 1), Deterministic), seeded())
    nll = partial(gaussian_nll, tau=1.0)
    swag = fit_swag(model, *line, nll, **settings(optimizer=optimizer))
    assert len(optimizers) == 1
    assert swag.n_collected == 20
    predict_swag(swag, model, line[0], 2, generator=seeded(7))
    torch.testing.assert_close(flat(model.parameters()), flat(swag.mean))
    assert optimizers[0].param_groups[0]["lr"] == pytest.approx(0.025)


def test_members_have_the_law_of_their_own_iterates(line):
    x, y = line
    networks = [initialise(mlp((1, 4, 1), Deterministic), seeded(seed)) for seed in range(3)]
    members = BatchedNetworks(networks)
    both = (x.expand(3, 50, 1), torch.stack([y, y + 5, -y]))
    swag = fit_swag(members, *both, partial(gaussian_nll, tau=1.0), **settings())
    draws = predict_swag(swag, members, both[0], 20, generator=seeded(7))
    assert draws.shape == (20, 3, 50, 1)
    assert (draws.mean(0) - both[1]).square().mean((1, 2)).max() < 0.6


def test_every_draw_has_batch_norm_statistics_of_its_own():
    model = wrap(
        nn.Sequential(nn.Linear(2, 3), nn.BatchNorm1d(3), nn.ReLU(), nn.Linear(3, 1)),
        Deterministic,
    )
    model = initialise(model, seeded())
    x = torch.randn(60, 2, generator=seeded(1))
    y = x[:, :1] * 2
    swag = fit_swag(model, x, y, partial(gaussian_nll, tau=1.0), **settings())
    model.eval()
    draws = predict_swag(swag, model, x[:5], 3, generator=seeded(7), train_x=x)
    g = seeded(7)
    for draw in draws:
        swag.put(swag.draw(g))
        h = model[0](x, "mean")
        h = (h - h.mean(0)) / (h.var(0) + model[1].eps).sqrt() * model[1].weight + model[1].bias
        torch.testing.assert_close(draw, model[3](h.relu(), "mean")[:5], atol=1e-5, rtol=1e-5)
    assert not model.training
    assert model[1].momentum == 0.1

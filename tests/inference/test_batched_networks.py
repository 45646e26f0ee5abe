import math
from functools import partial

import pytest
import torch
from torch import nn

from bdl_lessons import models
from bdl_lessons.inference import BatchedNetworks, adam, fit, fit_batched, predict_batched
from bdl_lessons.probability import gaussian_nll
from tests.draws import seeded
from tests.tables import refused

SQUARES = partial(gaussian_nll, tau=1.0)


def train(members, x, y, nll=SQUARES, **changes):
    settings = {"n_steps": 2, "generator": seeded(), "optimizer": adam(0.0)}
    return fit_batched(members, x, y, nll, **settings | changes)


def networks(factory, n=3, widths=(4, 5, 2)):
    return [models.initialise(models.mlp(widths, factory), seeded(seed)) for seed in range(n)]


def test_training_in_a_batch_is_training_one_at_a_time():
    taus = [0.5, 2.0, 7.0]
    weights = [0.0, 1.0, 10.0]
    x = torch.randn(3, 20, 4, generator=seeded())
    y = torch.randn(3, 20, 2, generator=seeded(1))
    nets = networks(models.Deterministic)
    options = {"n_steps": 30, "optimizer": adam(1e-2)}
    members = BatchedNetworks(nets)
    of_each = {"nll_args": (torch.tensor(taus),), "kl_weight": torch.tensor(weights)}
    together = train(members, x, y, gaussian_nll, **of_each, **options)
    for i, net in enumerate(nets):
        nll = partial(gaussian_nll, tau=taus[i])
        alone = fit(net, x[i], y[i], nll, kl_weight=weights[i], generator=seeded(), **options)
        torch.testing.assert_close(together[:, i], alone, rtol=1e-4, atol=1e-5)
        for ours, theirs in zip(members.network(i).parameters(), net.parameters(), strict=True):
            torch.testing.assert_close(ours, theirs, rtol=1e-3, atol=1e-5)


def test_members_may_have_rates_of_their_own():
    rates = [0.1, 0.5, 0.8]
    nets = [models.mlp((1, 1), partial(models.BinaryDropout, p_drop=p_drop)) for p_drop in rates]
    for net in nets:
        net[0].weight.data.fill_(1.0)
        net[0].bias.data.zero_()
    members = BatchedNetworks(nets)
    outputs = members(torch.ones(3, 40_000, 1), "per_example", seeded())[..., 0]
    for draws, p_drop in zip(outputs, rates, strict=True):
        torch.testing.assert_close(draws, (draws > 0) / (1 - p_drop))
        assert (draws == 0).double().mean().item() == pytest.approx(p_drop, abs=0.01)
    torch.testing.assert_close(members.kl(), torch.stack([net.kl() for net in nets]))
    assert [members.network(i)[0].p_drop for i in range(3)] == rates


def test_predictions_have_the_distribution_of_the_noise():
    nets = networks(partial(models.GaussianDropout, p_drop=0.2), 2, (3, 1))
    x = torch.randn(2, 5, 3, generator=seeded())
    draws = predict_batched(BatchedNetworks(nets), x, 20_000, generator=seeded(1), chunk_rows=5_000)
    assert draws.shape == (20_000, 2, 5, 1)
    for i, net in enumerate(nets):
        var = 0.25 * (x[i] * net[0].weight[0]).square().sum(1)
        torch.testing.assert_close(draws[:, i, :, 0].var(0), var, rtol=0.06, atol=0)
        error = (draws[:, i].mean(0) - net(x[i], "mean"))[:, 0].abs()
        assert (error < 5 * (var / 20_000).sqrt()).all()


def test_every_draw_of_a_hierarchical_layer_has_scales_of_its_own():
    """They are drawn once for a batch of examples; a chunk of draws must not share them."""
    nearly_none = {"init_p_drop": 1e-6, "min_alpha": 1e-9}
    method = partial(models.HierarchicalDropout, n_reflections=0, init_std=0.5, **nearly_none)
    nets = networks(method, 2, (1, 1))
    draws = predict_batched(BatchedNetworks(nets), torch.ones(2, 3, 1), 4000, generator=seeded())
    for number, net in enumerate(nets):
        scales = (draws[:, number, :, 0] - net[0].bias) / net[0].weight
        torch.testing.assert_close(scales.log().std(0), torch.full((3,), 0.5), rtol=0.06, atol=0)


def nothing(output, y):
    return output.mean() * 0


def test_the_kl_has_a_weight_for_each_step_and_is_divided_by_the_training_set():
    members = BatchedNetworks(networks(models.Deterministic, 2))
    kl = members.kl().detach()
    x = torch.randn(2, 8, 4, generator=seeded())
    y = torch.zeros(2, 8, 2)
    losses = train(members, x, y, nothing, batch_size=2, kl_weight=lambda step: 3.0 * step)
    torch.testing.assert_close(losses, torch.stack([kl * 0, kl * 3 / 8]))


def pair(*factories, widths=((4, 5, 2),) * 2, activations=(nn.ReLU,) * 2):
    return BatchedNetworks([*map(models.mlp, widths, factories, activations)])


DROP = partial(models.BinaryDropout, p_drop=0.1)


test_networks_must_fit_together = refused(
    (lambda: BatchedNetworks([]), "must not be empty"),
    (lambda: pair(DROP, DROP, widths=((4, 5, 2), (4, 6, 2))), "alike"),
    (lambda: pair(DROP, models.Deterministic), "0.type"),
    (lambda: pair(DROP, partial(DROP, length_scale=2.0)), r"\['0.length_scale'"),
    (
        lambda: pair(models.StructuredDropout, partial(models.StructuredDropout, kl_per="weight")),
        "kl_per",
    ),
    (lambda: pair(DROP, DROP, activations=(nn.ELU, partial(nn.ELU, 0.5))), "alike"),
)

X = torch.zeros(3, 6, 4)
Y = torch.zeros(3, 6, 2)
THREE = BatchedNetworks(networks(models.Deterministic))

test_bad_arguments_are_named = refused(
    (lambda: train(THREE, X[0], Y[0]), "M = 3"),
    (lambda: train(THREE, X, Y, batch_size=7), r"batch_size must be in 1\.\.6"),
    (lambda: train(THREE, X, Y.double()), "y must have the dtype"),
    (lambda: train(THREE, X * math.nan, Y), "at step 0"),
    (lambda: THREE(X[:2], "mean"), "M = 3 networks"),
    (lambda: predict_batched(THREE, X.double(), 2, generator=seeded()), "x must have the dtype"),
    errors=(TypeError, ValueError, FloatingPointError),
)

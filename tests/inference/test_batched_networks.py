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


def train(members, x, y, nll=SQUARES, n_steps=2, learning_rate=0.0, **options):
    return fit_batched(
        members,
        x,
        y,
        nll,
        n_steps=n_steps,
        optimizer=adam(learning_rate),
        generator=seeded(),
        **options,
    )


def networks(factory, n=3, widths=(4, 5, 2)):
    return [models.initialise(models.mlp(widths, factory), seeded(seed)) for seed in range(n)]


def test_training_in_a_batch_is_training_one_at_a_time():
    taus = [0.5, 2.0, 7.0]
    kl_weights = [0.0, 1.0, 10.0]
    x = torch.randn(3, 20, 4, generator=seeded())
    y = torch.randn(3, 20, 2, generator=seeded(1))
    nets = networks(models.Deterministic)
    members = BatchedNetworks(nets)
    losses = train(
        members,
        x,
        y,
        gaussian_nll,
        n_steps=30,
        learning_rate=1e-2,
        nll_args=(torch.tensor(taus),),
        kl_weight=torch.tensor(kl_weights),
    )
    for i, net in enumerate(nets):
        losses_alone = fit(
            net,
            x[i],
            y[i],
            partial(gaussian_nll, tau=taus[i]),
            n_steps=30,
            optimizer=adam(1e-2),
            kl_weight=kl_weights[i],
            generator=seeded(),
        )
        torch.testing.assert_close(losses[:, i], losses_alone, rtol=1e-4, atol=1e-5)
        in_batch = members.network(i).parameters()
        for parameter, alone in zip(in_batch, net.parameters(), strict=True):
            torch.testing.assert_close(parameter, alone, rtol=1e-3, atol=1e-5)


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
        share_of_zeros = (draws == 0).double().mean()
        assert share_of_zeros.item() == pytest.approx(p_drop, abs=0.01)
    torch.testing.assert_close(members.kl(), torch.stack([net.kl() for net in nets]))
    assert [members.network(i)[0].p_drop for i in range(3)] == rates


def test_predictions_have_the_distribution_of_the_noise():
    nets = networks(partial(models.GaussianDropout, p_drop=0.2), 2, (3, 1))
    x = torch.randn(2, 5, 3, generator=seeded())
    n_draws = 20_000
    draws = predict_batched(
        BatchedNetworks(nets), x, n_draws, generator=seeded(1), chunk_rows=5_000
    )
    assert draws.shape == (n_draws, 2, 5, 1)
    alpha = 0.25
    for i, net in enumerate(nets):
        of_network = draws[:, i, :, 0]
        var = alpha * (x[i] * net[0].weight[0]).square().sum(1)
        torch.testing.assert_close(of_network.var(0), var, rtol=0.06, atol=0)
        error = of_network.mean(0) - net(x[i], "mean")[:, 0]
        assert (error.abs() < 5 * (var / n_draws).sqrt()).all()


def test_every_draw_of_a_hierarchical_layer_has_scales_of_its_own():
    """They are drawn once for a batch of examples; a chunk of draws must not share them."""
    method = partial(
        models.HierarchicalDropout,
        n_reflections=0,
        init_std=0.5,
        init_p_drop=1e-6,  # nearly no noise beside that of the scales
        min_alpha=1e-9,
    )
    nets = networks(method, 2, (1, 1))
    draws = predict_batched(BatchedNetworks(nets), torch.ones(2, 3, 1), 4000, generator=seeded())
    for number, net in enumerate(nets):
        scales = (draws[:, number, :, 0] - net[0].bias) / net[0].weight
        torch.testing.assert_close(scales.log().std(0), torch.full((3,), 0.5), rtol=0.06, atol=0)


def no_nll(output, y):
    return output.mean() * 0


def test_the_kl_has_a_weight_for_each_step_and_is_divided_by_the_training_set():
    members = BatchedNetworks(networks(models.Deterministic, 2))
    kl = members.kl().detach()
    x = torch.randn(2, 8, 4, generator=seeded())
    y = torch.zeros(2, 8, 2)
    losses = train(members, x, y, no_nll, batch_size=2, kl_weight=lambda step: 3.0 * step)
    torch.testing.assert_close(losses[0], 0 * kl)
    torch.testing.assert_close(losses[1], 3 * kl / 8)


DROP = partial(models.BinaryDropout, p_drop=0.1)
VSD = models.StructuredDropout


def pair(first=DROP, second=DROP, second_widths=(4, 5, 2), second_activation=nn.ReLU):
    """Two networks, of which the second differs in what is given."""
    networks = [
        models.mlp((4, 5, 2), first, nn.ReLU),
        models.mlp(second_widths, second, second_activation),
    ]
    return BatchedNetworks(networks)


def with_elu(alpha):
    return models.mlp((4, 5, 2), DROP, partial(nn.ELU, alpha))


test_networks_must_fit_together = refused(
    (lambda: BatchedNetworks([]), "must not be empty"),
    (lambda: pair(second_widths=(4, 6, 2)), "alike"),
    (lambda: pair(second=models.Deterministic), "0.type"),
    (lambda: pair(second=partial(DROP, length_scale=2.0)), r"\['0.length_scale'"),
    (lambda: pair(VSD, partial(VSD, kl_per="weight")), "kl_per"),
    (lambda: pair(second_activation=nn.ELU), "alike"),
    (lambda: BatchedNetworks([with_elu(1.0), with_elu(0.5)]), "alike"),
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

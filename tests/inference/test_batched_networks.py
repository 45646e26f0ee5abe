import math
from functools import partial

import pytest
import torch
from torch import nn
from torch.nn.functional import cross_entropy

from bdl_lessons.inference import BatchedNetworks, adam, fit, fit_batched, predict_batched
from bdl_lessons.models import (
    ARD,
    BayesByBackprop,
    BinaryDropout,
    Deterministic,
    GaussianDropout,
    HierarchicalDropout,
    SparseVD,
    VariationalDropout,
    initialise,
    lenet5,
    mlp,
)
from bdl_lessons.probability import gaussian_nll

FACTORIES = [
    BinaryDropout(0.3),
    GaussianDropout(0.3, "A"),
    GaussianDropout(0.3, "B"),
    VariationalDropout("A", alpha_per="unit"),
    VariationalDropout("B", alpha_per="weight"),
    BayesByBackprop(),
    SparseVD(),
    ARD(),
]


def name_of(factory):
    return f"{type(factory).__name__}-{getattr(factory, 'noise', '')}"


def gen(seed=0):
    return torch.Generator().manual_seed(seed)


def networks(factory, n=3, widths=(4, 5, 2)):
    return [initialise(mlp(widths, factory), gen(seed)) for seed in range(n)]


@pytest.mark.parametrize("factory", FACTORIES, ids=name_of)
def test_members_do_what_their_networks_do(factory):
    nets = networks(factory)
    members = BatchedNetworks(nets)
    x = torch.randn(3, 6, 4, generator=gen())
    expected = torch.stack([net(rows, "mean") for net, rows in zip(nets, x, strict=True)])
    torch.testing.assert_close(members(x, "mean"), expected)
    torch.testing.assert_close(members.kl(), torch.stack([net.kl() for net in nets]))


@pytest.mark.parametrize("factory", FACTORIES, ids=name_of)
def test_equal_members_draw_different_noise(factory):
    members = BatchedNetworks(networks(factory, 1) * 3)
    x = torch.randn(1, 6, 4, generator=gen()).expand(3, 6, 4)
    outputs = members(x, "per_example", gen(1))
    assert not torch.allclose(outputs[0], outputs[1])
    assert not torch.allclose(outputs[1], outputs[2])


def test_a_convolutional_network():
    nets = [initialise(lenet5(Deterministic()), gen(seed)) for seed in range(2)]
    x = torch.randn(2, 3, 1, 28, 28, generator=gen())
    expected = torch.stack([net(rows, "mean") for net, rows in zip(nets, x, strict=True)])
    torch.testing.assert_close(BatchedNetworks(nets)(x, "mean"), expected, atol=1e-5, rtol=1e-5)


def test_training_in_a_batch_is_training_one_at_a_time():
    taus, weights = [0.5, 2.0, 7.0], [0.0, 1.0, 10.0]
    x, y = torch.randn(3, 20, 4, generator=gen()), torch.randn(3, 20, 2, generator=gen(1))
    nets = networks(Deterministic())
    members = BatchedNetworks(nets)
    together = fit_batched(
        members,
        x,
        y,
        gaussian_nll,
        nll_args=(torch.tensor(taus),),
        kl_weight=torch.tensor(weights),
        n_steps=30,
        generator=gen(),
        optimizer=adam(1e-2),
    )
    for i, net in enumerate(nets):
        alone = fit(
            net,
            x[i],
            y[i],
            partial(gaussian_nll, tau=taus[i]),
            kl_weight=weights[i],
            n_steps=30,
            generator=gen(),
            optimizer=adam(1e-2),
        )
        torch.testing.assert_close(together[:, i], alone, rtol=1e-4, atol=1e-5)
        for ours, theirs in zip(members.network(i).parameters(), net.parameters(), strict=True):
            torch.testing.assert_close(ours, theirs, rtol=1e-3, atol=1e-5)


def test_members_may_have_rates_of_their_own():
    rates = [0.1, 0.5, 0.8]
    nets = [mlp((1, 1), BinaryDropout(p_drop)) for p_drop in rates]
    for net in nets:
        net[0].weight.data.fill_(1.0)
        net[0].bias.data.zero_()
    members = BatchedNetworks(nets)
    outputs = members(torch.ones(3, 40_000, 1), "per_example", gen())[..., 0]
    for draws, p_drop in zip(outputs, rates, strict=True):
        torch.testing.assert_close(draws, (draws > 0) / (1 - p_drop))
        assert (draws == 0).double().mean().item() == pytest.approx(p_drop, abs=0.01)
    torch.testing.assert_close(members.kl(), torch.stack([net.kl() for net in nets]))
    assert [members.network(i)[0].noise.p_drop for i in range(3)] == rates


def test_predictions_have_the_distribution_of_the_noise():
    nets = networks(GaussianDropout(0.2, "A"), 2, (3, 1))
    x = torch.randn(2, 5, 3, generator=gen())
    draws = predict_batched(BatchedNetworks(nets), x, 20_000, generator=gen(1), chunk_rows=5_000)
    assert draws.shape == (20_000, 2, 5, 1)
    for i, net in enumerate(nets):
        var = 0.25 * (x[i] * net[0].weight[0]).square().sum(1)
        torch.testing.assert_close(draws[:, i, :, 0].var(0), var, rtol=0.06, atol=0)
        error = (draws[:, i].mean(0) - net(x[i], "mean"))[:, 0].abs()
        assert (error < 5 * (var / 20_000).sqrt()).all()


def test_every_draw_of_a_hierarchical_layer_has_scales_of_its_own():
    """They are drawn once for a batch of examples; a chunk of draws must not share them."""
    nets = networks(HierarchicalDropout(GaussianDropout(1e-6), init_std=0.5), 2, (1, 1))
    draws = predict_batched(BatchedNetworks(nets), torch.ones(2, 3, 1), 4000, generator=gen())
    for number, net in enumerate(nets):
        scales = (draws[:, number, :, 0] - net[0].bias) / net[0].weight
        torch.testing.assert_close(scales.log().std(0), torch.full((3,), 0.5), rtol=0.06, atol=0)


def test_an_epoch_shows_each_member_every_row_once_in_its_own_order(monkeypatch):
    seen, forward = [], BatchedNetworks.__call__

    def watched(members, rows, *args):
        seen.append(rows)
        return forward(members, rows, *args)

    monkeypatch.setattr(BatchedNetworks, "__call__", watched)
    x = torch.arange(6.0).view(1, 6, 1).expand(2, 6, 1)
    fit_batched(
        BatchedNetworks(networks(Deterministic(), 2, (1, 1))),
        x,
        x,
        partial(gaussian_nll, tau=1.0),
        n_steps=3,
        batch_size=2,
        generator=gen(),
        optimizer=adam(1e-3),
    )
    order = torch.cat(seen, 1)[..., 0]
    assert order.sort(1).values.tolist() == [[0, 1, 2, 3, 4, 5]] * 2
    assert order[0].tolist() != order[1].tolist()


def test_the_weight_of_the_kl_may_depend_on_the_step():
    members = BatchedNetworks(networks(Deterministic(), 2))
    kl = members.kl().detach()
    x = torch.randn(2, 4, 4, generator=gen())
    losses = fit_batched(
        members,
        x,
        torch.zeros(2, 4, 2),
        lambda output, y: output.mean() * 0,
        n_steps=2,
        generator=gen(),
        optimizer=adam(0.0),
        kl_weight=lambda step: 3.0 * step,
    )
    torch.testing.assert_close(losses, torch.stack([kl * 0, kl * 3 / 4]))


def test_labels_of_classes():
    members = BatchedNetworks(networks(Deterministic(), 2))
    x = torch.randn(50, 4, generator=gen())
    y = (x[:, 0] > 0).long()
    losses = fit_batched(
        members,
        x.expand(2, 50, 4),
        y.expand(2, 50),
        cross_entropy,
        n_steps=200,
        batch_size=10,
        kl_weight=0.0,
        generator=gen(),
        optimizer=adam(3e-2),
    )
    assert (losses[-20:].mean(0) < 0.2).all()
    assert (losses[0] > 0.4).all()


def test_networks_must_fit_together():
    with pytest.raises(ValueError, match="must not be empty"):
        BatchedNetworks([])
    with pytest.raises(ValueError, match="same layers"):
        BatchedNetworks([mlp((4, 5, 2), BinaryDropout(0.1)), mlp((4, 6, 2), BinaryDropout(0.1))])
    with pytest.raises(ValueError, match="random layers"):
        BatchedNetworks([mlp((4, 2), BinaryDropout(0.1)), mlp((4, 2), Deterministic())])


@pytest.mark.parametrize("other", [nn.Tanh, lambda: nn.ELU(0.5)])
def test_another_activation_is_refused(other):
    nets = [mlp((4, 5, 2), BinaryDropout(0.1), kind) for kind in (nn.ELU, other)]
    with pytest.raises(ValueError, match="same layers"):
        BatchedNetworks(nets)


def test_the_kl_is_divided_by_the_training_set_and_not_by_the_minibatch():
    networks_ = BatchedNetworks(networks(BinaryDropout(0.0), 2))
    losses = fit_batched(
        networks_,
        torch.zeros(2, 8, 4),
        torch.zeros(2, 8, 2),
        lambda output, y: output.mean() * 0,
        n_steps=2,
        batch_size=2,
        generator=gen(),
        optimizer=adam(0.0),
    )
    torch.testing.assert_close(losses, (networks_.kl().detach() / 8).expand(2, 2))


def test_bad_arguments_are_named():
    members = BatchedNetworks(networks(Deterministic()))
    x, y = torch.zeros(3, 6, 4), torch.zeros(3, 6, 2)
    common = {"generator": gen(), "optimizer": adam(1e-3)}
    with pytest.raises(ValueError, match="M = 3"):
        fit_batched(members, x[0], y[0], partial(gaussian_nll, tau=1.0), n_steps=1, **common)
    with pytest.raises(ValueError, match="n_steps"):
        fit_batched(members, x, y, partial(gaussian_nll, tau=1.0), n_steps=0, **common)
    with pytest.raises(ValueError, match=r"batch_size must be in 1\.\.6"):
        fit_batched(
            members, x, y, partial(gaussian_nll, tau=1.0), n_steps=1, batch_size=7, **common
        )
    with pytest.raises(TypeError, match="x must have the dtype"):
        fit_batched(members, x.double(), y, partial(gaussian_nll, tau=1.0), n_steps=1, **common)
    with pytest.raises(ValueError, match=r"nll must return a 0-dim mean, got \(6,\)"):
        fit_batched(members, x, y, lambda f, y: (f - y)[:, 0], n_steps=1, kl_weight=0.0, **common)
    with pytest.raises(ValueError, match="networks first"):
        members(x[:2], "mean")
    with pytest.raises(ValueError, match="n_samples"):
        predict_batched(members, x, 0, generator=gen())
    with pytest.raises(TypeError, match="n_samples"):
        predict_batched(members, x, 2.5, generator=gen())
    with pytest.raises(ValueError, match="x must be finite"):
        predict_batched(members, x * math.nan, 2, generator=gen())
    with pytest.raises(FloatingPointError, match="at step 0"):
        fit_batched(members, x * math.nan, y, partial(gaussian_nll, tau=1.0), n_steps=1, **common)

"""The induced penalty against exact Hessians, closed forms and Monte Carlo on small networks."""

import pytest
import torch
from torch import nn
from torch.nn.functional import cross_entropy

from bdl_lessons.evaluation import (
    gauss_newton,
    layer_penalties,
    loss_hessian,
    loss_increase,
    penalty,
    penalty_from_roots,
    sensitivity,
    softmax_root,
    spectral_bound,
)
from bdl_lessons.models import GaussianDropout, initialise, mlp
from tests.draws import normal

B, K, L = 4, 5, 3


W1, W2 = 0.5 * normal(K, 6, seed=1), 0.5 * normal(6, L, seed=2)
LABELS = torch.tensor([0, 2, 1, 1])
H0 = normal(B, K, seed=3)
BASIS = torch.linalg.qr(normal(K, K, seed=4)).Q
ALPHA = normal(K, seed=5).exp()
COV = BASIS * ALPHA @ BASIS.T


def tanh_net(h):
    return torch.tanh(h @ W1) @ W2


def relu_net(h):
    return torch.relu(h @ W1) @ W2


def loss_of(net):
    return lambda h, label: cross_entropy(net(h), label)


def output_jacobian(net, h):
    return torch.stack([torch.func.jacrev(net)(row) for row in h])


def gauss_newton_of(net):
    return gauss_newton(output_jacobian(net, H0), softmax_root(net(H0)))


def test_the_hessian_is_that_of_finite_differences():
    step, loss = 1e-4, loss_of(tanh_net)
    eye = step * torch.eye(K, dtype=torch.float64)

    def slopes(h, label):
        return torch.stack([loss(h + a, label) - loss(h - a, label) for a in eye]) / (2 * step)

    for h, label, found in zip(H0, LABELS, loss_hessian(loss, H0, LABELS), strict=True):
        expected = [(slopes(h + a, label) - slopes(h - a, label)) / (2 * step) for a in eye]
        torch.testing.assert_close(found, torch.stack(expected), atol=1e-6, rtol=0)


def test_softmax_root_gives_the_hessian_of_the_cross_entropy_for_every_label():
    logits = normal(B, L, seed=6)
    root = softmax_root(logits)
    for label in range(L):
        labels = torch.full((B,), label)
        exact = loss_hessian(lambda f, y: cross_entropy(f, y), logits, labels)
        torch.testing.assert_close(root.mT @ root, exact, atol=1e-12, rtol=0)


def test_gauss_newton_is_exact_behind_relu_and_not_behind_tanh():
    exact = loss_hessian(loss_of(relu_net), H0, LABELS)
    torch.testing.assert_close(gauss_newton_of(relu_net), exact, atol=1e-10, rtol=0)
    gap = gauss_newton_of(tanh_net) - loss_hessian(loss_of(tanh_net), H0, LABELS)
    assert gap.abs().max() > 0.02


def test_penalty_is_half_the_trace():
    H = gauss_newton_of(tanh_net)
    for row in range(B):
        Q = torch.diag(H0[row]) @ COV @ torch.diag(H0[row])
        torch.testing.assert_close(penalty(H, H0, COV)[row], 0.5 * torch.trace(H[row] @ Q))


def test_trace_and_frobenius_form_are_one_number():
    hessian_root = softmax_root(tanh_net(H0)) @ output_jacobian(tanh_net, H0)
    H = hessian_root.mT @ hessian_root
    trace = penalty(H, H0, COV)
    by_root = penalty_from_roots(hessian_root, H0, BASIS * ALPHA.sqrt())
    torch.testing.assert_close(by_root, trace)


def test_the_spectral_bound_holds_and_is_reached():
    omega = sensitivity(gauss_newton_of(tanh_net), H0)
    penalties = 0.5 * (omega * COV).sum((-2, -1))
    assert (penalties <= spectral_bound(omega, COV)).all()
    worst = torch.linalg.eigh(omega[0]).eigenvectors[:, -1]
    reached = 0.5 * (omega[0] * 0.3 * torch.outer(worst, worst)).sum()
    cov = 0.3 * torch.outer(worst, worst)
    torch.testing.assert_close(reached, spectral_bound(omega[0], cov))


@pytest.mark.parametrize("net", [tanh_net, relu_net])
def test_monte_carlo_increase_approaches_the_penalty(net):
    g = torch.Generator().manual_seed(0)
    H = loss_hessian(loss_of(net), H0, LABELS)
    scale = 1e-4
    root = (scale**0.5) * BASIS * ALPHA.sqrt()
    found = loss_increase(loss_of(net), H0, root, LABELS, n_samples=20_000, generator=g)
    expected = penalty(H, H0, scale * COV)
    assert ((found.value - expected).abs() <= 4 * found.std_err + 0.02 * expected.abs()).all()
    assert found.std_err.sum() < 0.03 * expected.abs().sum()


def two_layers():
    net = mlp((K, 7, L), GaussianDropout(0.2), nn.Tanh)
    return initialise(net, torch.Generator().manual_seed(2)).double()


def test_layer_penalties_are_those_of_each_layer():
    network = two_layers()
    covs = [COV, 0.1 * torch.eye(7, dtype=torch.float64)]
    found = layer_penalties(network, H0, covs)
    first, activation, last = network
    hidden = activation(first(H0, "mean"))
    for value, h, tail, cov in (
        (found[0], H0, lambda h: last(activation(first(h, "mean")), "mean"), covs[0]),
        (found[1], hidden, lambda h: last(h, "mean"), covs[1]),
    ):
        H = gauss_newton(output_jacobian(tail, h), softmax_root(tail(h)))
        torch.testing.assert_close(value, penalty(H, h, cov).mean())


def increase(noise_root, n_samples=2):
    how = {"n_samples": n_samples, "generator": torch.Generator()}
    return loss_increase(lambda h: h.sum(), H0, noise_root, **how)


EYE, ROOT, h, COLUMN = torch.eye(K).double(), normal(L, K), normal(K), normal(K, 1)


@pytest.mark.parametrize(
    ("call", "name"),
    [
        (lambda: sensitivity(EYE, COLUMN), "hessian"),
        (lambda: penalty(EYE, COLUMN, COV), "hessian"),
        (lambda: penalty(EYE, h, ALPHA[:, None]), "noise_cov"),
        (lambda: penalty(EYE, h, ALPHA), "noise_cov"),
        (lambda: penalty_from_roots(ROOT, COLUMN, BASIS), r"h \(..., K\)"),
        (lambda: penalty_from_roots(ROOT.expand(4, L, K), h.expand(4, K), ALPHA), "noise_root"),
        (lambda: penalty_from_roots(ROOT, h, BASIS[:1]), "noise_root"),
        (lambda: spectral_bound(EYE, COV[:1]), "noise_cov"),
        (lambda: increase(BASIS[:1]), "h must"),
        (lambda: increase(EYE, n_samples=1), "n_samples must be >= 2, got 1"),
        (lambda: gauss_newton(torch.ones(5, 3, 4), torch.ones(5, 2, 2)), "output_root .*got"),
        (lambda: layer_penalties(two_layers(), H0, [COV]), "noise_covs must hold 2 .*, got 1"),
    ],
)
def test_a_shape_that_would_broadcast_to_another_meaning_is_refused(call, name):
    with pytest.raises(ValueError, match=name):
        call()

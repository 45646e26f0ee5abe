"""The induced penalty against exact Hessians, closed forms and Monte Carlo on small networks."""

import pytest
import torch
from torch.nn.functional import cross_entropy

from bdl_lessons.evaluation import (
    gauss_newton,
    loss_hessian,
    loss_increase,
    penalty,
    penalty_from_roots,
    sensitivity,
    softmax_root,
    spectral_bound,
)
from tests.draws import normal, seeded
from tests.tables import refused

B, K, L = 4, 5, 3


def output_jacobian(net, h):
    return torch.stack([torch.func.jacrev(net)(row) for row in h])


W1 = 0.5 * normal(K, 6, seed=1)
W2 = 0.5 * normal(6, L, seed=2)
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


def gauss_newton_of(net):
    return gauss_newton(output_jacobian(net, H0), softmax_root(net(H0)))


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
    exact = loss_hessian(loss_of(tanh_net), H0, LABELS)
    assert (gauss_newton_of(tanh_net) - exact).abs().max() > 0.02


def test_penalty_is_half_the_trace_from_matrices_and_from_their_roots():
    H = gauss_newton_of(tanh_net)
    Q = torch.stack([torch.diag(h) @ COV @ torch.diag(h) for h in H0])
    trace = torch.stack([torch.trace(product) for product in H @ Q])
    torch.testing.assert_close(penalty(H, H0, COV), trace / 2)
    hessian_root = softmax_root(tanh_net(H0)) @ output_jacobian(tanh_net, H0)
    by_root = penalty_from_roots(hessian_root, H0, BASIS * ALPHA.sqrt())
    torch.testing.assert_close(by_root, trace / 2)


def test_the_spectral_bound_holds_and_is_reached():
    omega = sensitivity(gauss_newton_of(tanh_net), H0)
    penalties = 0.5 * (omega * COV).sum((-2, -1))
    assert (penalties <= spectral_bound(omega, COV)).all()
    worst = torch.linalg.eigh(omega[0]).eigenvectors[:, -1]
    cov = 0.3 * torch.outer(worst, worst)
    torch.testing.assert_close(0.5 * (omega[0] * cov).sum(), spectral_bound(omega[0], cov))


@pytest.mark.parametrize("net", [tanh_net, relu_net])
def test_monte_carlo_increase_approaches_the_penalty(net):
    noise_root = 1e-2 * BASIS * ALPHA.sqrt()
    increase = loss_increase(
        loss_of(net), H0, noise_root, LABELS, n_samples=5_000, generator=seeded()
    )
    hessian = loss_hessian(loss_of(net), H0, LABELS)
    expected = penalty(hessian, H0, noise_root @ noise_root.T)
    allowed = 4 * increase.std_err + 0.02 * expected.abs()
    assert ((increase.value - expected).abs() <= allowed).all()
    assert increase.std_err.sum() < 0.06 * expected.abs().sum()


EYE = torch.eye(K).double()
ROOT = normal(L, K)
h = normal(K)
COLUMN = normal(K, 1)
MANY = {"n_samples": 2, "generator": torch.Generator()}

test_a_shape_that_would_broadcast_to_another_meaning_is_refused = refused(
    (lambda: sensitivity(EYE, COLUMN), "hessian"),
    (lambda: penalty(EYE, h, ALPHA), "noise_cov"),
    (lambda: penalty_from_roots(ROOT, COLUMN, BASIS), r"h \(\.\.\., K\)"),
    (lambda: penalty_from_roots(ROOT, h, BASIS[:1]), "noise_root"),
    (lambda: spectral_bound(EYE, COV[:1]), "noise_cov"),
    (lambda: loss_increase(torch.sum, H0, BASIS[:1], **MANY), "h must"),
    (lambda: gauss_newton(torch.ones(5, 3, 4), torch.ones(5, 2, 2)), "output_root .*got"),
)

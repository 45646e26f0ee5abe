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
    output_jacobian,
    penalty,
    penalty_by_direction,
    penalty_from_roots,
    sensitivity,
    softmax_root,
    spectral_bound,
)
from bdl_lessons.models import GaussianDropout, initialise, mlp

B, K, L = 4, 5, 3


def normal(*shape, seed=0):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


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


def gauss_newton_of(net):
    return gauss_newton(output_jacobian(net, H0), softmax_root(net(H0)))


def test_the_hessian_is_that_of_finite_differences():
    step = 1e-4
    eye = step * torch.eye(K, dtype=torch.float64)
    loss = loss_of(tanh_net)
    for h, label, found in zip(
        H0, LABELS, loss_hessian(loss_of(tanh_net), H0, LABELS), strict=True
    ):
        expected = torch.stack(
            [
                torch.stack(
                    [
                        loss(h + a + b, label)
                        - loss(h + a - b, label)
                        - loss(h - a + b, label)
                        + loss(h - a - b, label)
                        for b in eye
                    ]
                )
                for a in eye
            ]
        ) / (4 * step**2)
        torch.testing.assert_close(found, expected, atol=1e-6, rtol=0)


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


def test_trace_frobenius_and_spectral_form_are_one_number():
    hessian_root = softmax_root(tanh_net(H0)) @ output_jacobian(tanh_net, H0)
    H = hessian_root.mT @ hessian_root
    trace = penalty(H, H0, COV)
    by_root = penalty_from_roots(hessian_root, H0, BASIS * ALPHA.sqrt())
    directions = penalty_by_direction(sensitivity(H, H0), ALPHA, BASIS)
    assert directions.shape == (B, K)
    torch.testing.assert_close(by_root, trace)
    torch.testing.assert_close(directions.sum(-1), trace)


def test_the_spectral_bound_holds_and_is_reached():
    omega = sensitivity(gauss_newton_of(tanh_net), H0)
    assert (penalty_by_direction(omega, ALPHA, BASIS).sum(-1) <= spectral_bound(omega, COV)).all()
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


def test_monte_carlo_increase_is_exact_for_a_quadratic_loss():
    g = torch.Generator().manual_seed(1)
    A = normal(K, K, seed=7)

    def loss(h):
        return (h @ A).square().sum() / 2

    root = BASIS * ALPHA.sqrt()
    found = loss_increase(loss, H0, root, n_samples=20_000, generator=g)
    expected = penalty((A @ A.T).expand(B, K, K), H0, COV)
    assert ((found.value - expected).abs() < 4 * found.std_err).all()


def test_loss_increase_needs_two_pairs():
    with pytest.raises(ValueError, match="n_samples must be >= 2, got 1"):
        loss_increase(
            lambda h: h.sum(), H0, torch.eye(K).double(), n_samples=1, generator=torch.Generator()
        )


@pytest.fixture
def network():
    net = initialise(
        mlp((K, 7, L), GaussianDropout(0.2), nn.Tanh), torch.Generator().manual_seed(2)
    )
    return net.double()


def test_layer_penalties_are_those_of_each_layer(network):
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


def test_the_layers_of_a_network_add_up(network):
    """Independent noise in two layers: to first order in alpha the penalties add."""
    alpha = 0.01
    for layer in (network[0], network[2]):
        layer.noise.raw_log_alpha.data.fill_(torch.tensor(alpha).log())
    covs = [alpha * torch.eye(width, dtype=torch.float64) for width in (K, 7)]
    H = [
        loss_hessian(lambda h, y: cross_entropy(network(h[None], "mean")[0], y), H0, LABELS),
        loss_hessian(
            lambda h, y: cross_entropy(network[2](h[None], "mean")[0], y),
            network[:2](H0, "mean"),
            LABELS,
        ),
    ]
    hidden = network[:2](H0, "mean")
    expected = (penalty(H[0], H0, covs[0]) + penalty(H[1], hidden, covs[1])).mean()
    g = torch.Generator().manual_seed(3)
    n = 400_000
    x, y = H0.repeat(n // B, 1), LABELS.repeat(n // B)
    with torch.no_grad():
        clean = cross_entropy(network(H0, "mean"), LABELS, reduction="none").repeat(n // B)
        draws = cross_entropy(network(x, "per_example", g), y, reduction="none") - clean
    slopes = draws.view(-1, B)
    error = slopes.mean(1).std() / len(slopes) ** 0.5
    assert error < 0.05 * expected
    assert (slopes.mean() - expected).abs() < 4 * error + 0.02 * expected


def test_layer_penalties_need_one_covariance_for_each_layer(network):
    with pytest.raises(ValueError, match="noise_covs must hold 2 matrices, got 1"):
        layer_penalties(network, H0, [COV])


def test_an_axis_of_length_one_is_refused():
    """Each of these would broadcast to a number of another meaning."""
    H, omega, root = torch.eye(K).double(), torch.eye(K).double(), normal(L, K)
    h, column = normal(K), normal(K, 1)
    for call, name in [
        (lambda: sensitivity(H, column), "hessian"),
        (lambda: penalty(H, column, COV), "hessian"),
        (lambda: penalty(H, h, ALPHA[:, None]), "noise_cov"),
        (lambda: penalty(H, h, ALPHA), "noise_cov"),
        (lambda: penalty_from_roots(root, column, BASIS), "h must"),
        (lambda: penalty_from_roots(root.expand(4, L, K), h.expand(4, K), ALPHA), "noise_root"),
        (lambda: penalty_from_roots(root, h, BASIS[:1]), "noise_root"),
        (lambda: penalty_by_direction(omega, ALPHA[:, None], BASIS), "alpha"),
        (lambda: penalty_by_direction(omega, ALPHA, BASIS[:1]), "basis"),
        (lambda: spectral_bound(omega, COV[:1]), "noise_cov"),
        (
            lambda: loss_increase(
                lambda h: h.sum(), H0, BASIS[:1], n_samples=2, generator=torch.Generator()
            ),
            "h must",
        ),
    ]:
        with pytest.raises(ValueError, match=name):
            call()


def test_a_root_for_another_number_of_outputs_is_refused():
    with pytest.raises(ValueError, match="output_root must have shape"):
        gauss_newton(torch.ones(5, 3, 4), torch.ones(5, 2, 2))

import pytest
import torch
from torch import nn
from torch.nn.functional import cross_entropy

from bdl_lessons.models import Deterministic, initialise, mlp, wrap
from reproductions.posteriors import slang
from reproductions.posteriors.slang import LowRankPrecision
from tests.draws import normal, seeded


@pytest.fixture(params=["rank 2", "columns that agree", "zero"])
def q(request):
    factor = normal(5, 2, seed=1)
    if request.param == "columns that agree":
        factor[:, 1] = factor[:, 0]
    if request.param == "zero":
        factor.zero_()
    return LowRankPrecision(normal(5, seed=2), factor, normal(5, seed=3).exp())


def dense_cov(q):
    return torch.linalg.inv(q.factor @ q.factor.T + q.diagonal.diag())


def test_the_root_of_the_covariance_is_exact(q):
    """The draw is linear in its noise: feed it the unit vectors."""
    at_zero = LowRankPrecision(torch.zeros(5).double(), q.factor, q.diagonal)
    noise = torch.randn(5, 5, generator=seeded(4), dtype=torch.float64)
    draws = at_zero.draw(5, seeded(4))
    root = torch.linalg.solve(noise, draws)  # noise @ root = draws
    torch.testing.assert_close(root.T @ root, dense_cov(q))


def test_solve_is_the_dense_one(q):
    b = normal(5, seed=5)
    torch.testing.assert_close(q.solve(b), dense_cov(q) @ b)


def test_a_step_is_the_dense_one(monkeypatch):
    """Keep the two leading eigenvectors of the mixture, put the rest of its diagonal into d."""
    monkeypatch.setattr(slang, "SHARE", 0.2)
    q = LowRankPrecision(
        mean=normal(5, seed=1),
        factor=normal(5, 2, seed=2),
        diagonal=normal(5, seed=3).exp(),
    )
    gradients = normal(7, 5, seed=4)
    direction = normal(5, seed=5)
    prior_precision = normal(5, seed=6).exp()
    n_train = 30
    new = slang.updated(q, gradients, direction, n_train, prior_precision, lr=0.1)

    fisher = n_train * gradients.T @ gradients / len(gradients)
    mixture = 0.8 * q.factor @ q.factor.T + 0.2 * fisher
    values, vectors = torch.linalg.eigh(mixture)
    leading = vectors[:, -2:] * values[-2:] @ vectors[:, -2:].T
    diagonal = 0.8 * q.diagonal + 0.2 * prior_precision + (mixture - leading).diagonal()
    precision = leading + diagonal.diag()
    step = torch.linalg.inv(precision) @ (n_train * direction + prior_precision * q.mean)
    torch.testing.assert_close(new.factor @ new.factor.T, leading)
    torch.testing.assert_close(new.diagonal, diagonal)
    torch.testing.assert_close(new.mean, q.mean - 0.1 * step)


def test_example_gradients_are_those_of_one_example_at_a_time():
    network = wrap(
        nn.Sequential(nn.Conv2d(1, 2, 3), nn.Tanh(), nn.Flatten(), nn.Linear(8, 3)), Deterministic
    )
    network = initialise(network, seeded()).double()
    flat = torch.cat([p.detach().flatten() for p in network.parameters()])
    theta = torch.stack([flat, 2 * flat])
    x = normal(4, 1, 4, 4, seed=1)
    labels = torch.tensor([0, 2, 1, 2])
    gradients = slang.example_gradients(network, cross_entropy, theta, x, labels)
    for i in range(4):
        loss = cross_entropy(network(x[[i]], "mean"), labels[[i]])
        of_parameters = torch.autograd.grad(loss, list(network.parameters()))
        expected = torch.cat([gradient.flatten() for gradient in of_parameters])
        torch.testing.assert_close(gradients[0, i], expected)
    assert not torch.allclose(gradients[0], gradients[1])


def test_a_tempered_posterior_of_classes_has_the_tempered_curvature(monkeypatch):
    """Two equally frequent classes, nothing but biases: along (1, -1) the NLL curves by N / 2."""
    monkeypatch.setattr(slang, "SHARE", 0.05)
    n_train = 500
    network = mlp((1, 2), Deterministic).double()
    for parameter in network.parameters():
        parameter.data.zero_()
    q = slang.fit_slang(
        network,
        torch.zeros(n_train, 1).double(),
        torch.arange(n_train) % 2,
        cross_entropy,
        n_steps=300,
        generator=seeded(1),
        batch_size=50,
        n_samples=1,
        lr=0.01,
        init_precision=500.0,
        kl_weight=0.1,
    )
    direction = torch.tensor([0.0, 0, 1, -1]).double() / 2**0.5
    precision = (q.factor.T @ direction).square().sum() + q.diagonal @ direction.square()
    assert precision.item() == pytest.approx(1 + n_train / 2 / 0.1, rel=0.05)


def two_steps(nll, **settings):
    """The posterior after two steps on five equal examples."""
    return slang.fit_slang(
        initialise(mlp((2, 1), Deterministic), seeded()),
        torch.ones(5, 2),
        torch.zeros(5, 1),
        nll,
        n_steps=2,
        generator=seeded(),
        **settings,
    )


def test_a_constant_gradient_is_its_own_average_from_the_first_step_on(monkeypatch):
    """So momentum changes nothing: the average is divided by the weights that it has so far."""

    def linear(output, y):
        return output.sum() / len(y)

    monkeypatch.setattr(slang, "MOMENTUM", 0.0)
    without_momentum = two_steps(linear).mean
    monkeypatch.setattr(slang, "MOMENTUM", 0.9)
    torch.testing.assert_close(two_steps(linear).mean, without_momentum)


def test_without_data_the_precision_moves_to_that_of_the_prior():
    q = two_steps(lambda output, y: 0 * output.sum(), init_precision=50.0, prior_precision=3.0)
    torch.testing.assert_close(q.diagonal, torch.full((3,), 3 + 0.99**2 * 47))

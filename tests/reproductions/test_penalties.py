from functools import partial

import torch
from torch import nn

from bdl_lessons.evaluation import gauss_newton, penalty, softmax_root
from bdl_lessons.models import GaussianDropout, initialise, mlp
from reproductions.penalties import layer_penalties
from tests.draws import normal, seeded
from tests.tables import refused

B, K, L = 4, 5, 3
H0 = normal(B, K, seed=3)
BASIS = torch.linalg.qr(normal(K, K, seed=4)).Q
ALPHA = normal(K, seed=5).exp()
COV = BASIS * ALPHA @ BASIS.T


def output_jacobian(net, h):
    return torch.stack([torch.func.jacrev(net)(row) for row in h])


METHOD = partial(GaussianDropout, p_drop=0.2)
NETWORK = initialise(mlp((K, 7, L), METHOD, nn.Tanh), seeded(2)).double()


def test_layer_penalties_are_those_of_each_layer():
    covs = [COV, 0.1 * torch.eye(7, dtype=torch.float64)]
    penalties = layer_penalties(NETWORK, H0, covs)
    first, activation, last = NETWORK
    hidden = activation(first(H0, "mean"))
    for value, h, tail, cov in (
        (penalties[0], H0, lambda h: last(activation(first(h, "mean")), "mean"), covs[0]),
        (penalties[1], hidden, lambda h: last(h, "mean"), covs[1]),
    ):
        H = gauss_newton(output_jacobian(tail, h), softmax_root(tail(h)))
        torch.testing.assert_close(value, penalty(H, h, cov).mean())


test_a_layer_without_its_noise_is_named = refused(
    (lambda: layer_penalties(NETWORK, H0, [COV]), "noise_covs must hold 2 .*, got 1"),
)

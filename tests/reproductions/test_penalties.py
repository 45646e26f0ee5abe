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


def mean_penalty(network, h, noise_cov):
    """The penalty of noise on ``h``, from which ``network`` computes the logits."""
    jacobian = torch.stack([torch.func.jacrev(network)(row) for row in h])
    hessian = gauss_newton(jacobian, softmax_root(network(h)))
    return penalty(hessian, h, noise_cov).mean()


METHOD = partial(GaussianDropout, p_drop=0.2)
NETWORK = initialise(mlp((K, 7, L), METHOD, nn.Tanh), seeded(2)).double()


def test_layer_penalties_are_those_of_each_layer():
    hidden_cov = 0.1 * torch.eye(7, dtype=torch.float64)
    of_first, of_last = layer_penalties(NETWORK, H0, [COV, hidden_cov])
    first, activation, last = NETWORK

    def from_hidden(h):
        return last(h, "mean")

    def from_inputs(h):
        return from_hidden(activation(first(h, "mean")))

    hidden = activation(first(H0, "mean"))
    torch.testing.assert_close(of_first, mean_penalty(from_inputs, H0, COV))
    torch.testing.assert_close(of_last, mean_penalty(from_hidden, hidden, hidden_cov))


test_a_layer_without_its_noise_is_named = refused(
    (lambda: layer_penalties(NETWORK, H0, [COV]), "noise_covs must hold 2 .*, got 1"),
)

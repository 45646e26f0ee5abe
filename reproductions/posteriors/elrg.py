"""ELRG: a diagonal and a few directions in which all weights of a layer are correlated."""

import math
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from bdl_lessons.core.autograd import cholesky
from bdl_lessons.core.random import standard_normal
from reproductions.posteriors.matrix import MatrixFactory, MatrixLayer, WeightPosterior, noisy

LOG_SIGMA2 = -10.0
"""Log variance of the diagonal. Published: -10 for MNIST, -12 for images."""


class LowRankPosterior(WeightPosterior):
    r"""``vec W = mu + sigma ∘ eps + R^{-1/2} sum_r v_r eps_r``, a Gaussian with

    .. math:: \Sigma = \mathrm{diag}(\sigma^2) + \frac1R \sum_{r=1}^R v_r v_r^\top .

    The KL to ``N(0, prior_var I)`` needs no matrix of the size of the weights (D of them):

    .. math:: \tfrac12 \Big[ \frac{\sum\sigma^2 + \lVert V\rVert^2/R + \lVert\mu\rVert^2}{p}
              + D (\log p - 1) - \sum\log\sigma^2
              - \log\big|I_R + \tfrac1R V \mathrm{diag}(\sigma^{-2}) V^\top\big| \Big]

    For ``"per_example"`` an example draws R numbers that all its outputs and places share, and one
    for each output and place: in a linear layer that is a matrix of its own, in a convolution the
    places are independent in the diagonal part.
    """

    def __init__(self, settings: "ELRG", weight_shape: tuple[int, ...], bias: bool) -> None:
        super().__init__(weight_shape, bias)
        self.factors = nn.Parameter(torch.zeros(settings.rank, *self.shape))
        self.log_sigma2 = nn.Parameter(torch.full(self.shape, LOG_SIGMA2), requires_grad=False)
        self.register_buffer("prior_var", torch.tensor(1 / weight_shape[1]), persistent=False)
        self._start = 0.5 if math.prod(weight_shape[2:]) == 1 else 0.0

    @torch.no_grad()
    def reset_parameters(self, mu: Tensor, generator: torch.Generator) -> None:
        scale = self._start * mu.std() / len(self.factors) ** 0.5
        self.factors.copy_(scale * standard_normal(self.factors.shape, generator, mu))

    def sample_weights(self, mu: Tensor, n_samples: int, generator: torch.Generator) -> Tensor:
        shared = standard_normal((n_samples, len(self.factors)), generator, mu)
        together = torch.einsum("sr,rlk->slk", shared, self.factors) / len(self.factors) ** 0.5
        return noisy(mu + together, self.log_sigma2.exp(), generator)

    def per_example(
        self, mu: Tensor, x: Tensor, layer: MatrixLayer, generator: torch.Generator
    ) -> Tensor:
        rank, n_out = len(self.factors), len(mu)
        together = layer.activations(x, self.factors.flatten(0, 1))
        together = together.unflatten(-layer.unit_dims, (rank, n_out))  # ranks first, then outputs
        leading = together.shape[: -layer.unit_dims]
        shared = standard_normal((*leading, *[1] * layer.unit_dims), generator, mu)
        mean = layer.activations(x, mu) + (shared * together).sum(-layer.unit_dims - 1) / rank**0.5
        return noisy(mean, layer.activations(x.square(), self.log_sigma2.exp()), generator)

    def kl(self, mu: Tensor) -> Tensor:
        sigma2, v = self.log_sigma2.exp().flatten(), self.factors.flatten(1)
        second_moment = sigma2.sum() + v.square().sum() / len(v) + mu.square().sum()
        inner = torch.eye(len(v), dtype=mu.dtype, device=mu.device) + (v / sigma2) @ v.T / len(v)
        log_det = self.log_sigma2.sum() + 2 * cholesky(inner).diagonal().log().sum()
        kl = second_moment / self.prior_var + mu.numel() * (self.prior_var.log() - 1) - log_det
        return kl / 2


@dataclass(frozen=True)
class ELRG(MatrixFactory):
    """Layer factory of the efficient low-rank Gaussian (Tomczak, Swaroop and Turner, NeurIPS 2020).

    Defaults follow the public code: a diagonal that is *not* learned, v_r at half the standard
    deviation of the weights in linear layers and at zero in convolutions, and a prior whose
    variance is 1 over the number of input units or channels. (The public code says input size and
    takes the number of *outputs* of a linear layer.) Lesson 12.

    Args:
        rank: R, the number of directions, at least 1.
    """

    rank: int = 5
    posterior = LowRankPosterior

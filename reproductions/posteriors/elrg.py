"""ELRG: a Gaussian whose covariance is a diagonal and a few directions. Lesson 13."""

import torch
from torch import Tensor, nn

from bdl_lessons.core.autograd import cholesky
from bdl_lessons.core.random import standard_normal
from bdl_lessons.core.validation import integer
from reproductions.posteriors.matrix import MatrixLayer, noisy

LOG_SIGMA2 = -10.0
"""Log variance of the diagonal. Published: -10 for MNIST, -12 for images."""


class ELRG(MatrixLayer):
    r"""The efficient low-rank Gaussian (Tomczak, Swaroop and Turner, NeurIPS 2020).

    ``vec W = mu + sigma ∘ eps + R^{-1/2} sum_r v_r eps_r``, a Gaussian with

    .. math:: \Sigma = \mathrm{diag}(\sigma^2) + \frac1R \sum_{r=1}^R v_r v_r^\top .

    For ``"per_example"`` an example draws R numbers that all its outputs and places share, and one
    for each output and place: in a convolution the places are independent in the diagonal part.

    As in the public code the diagonal is *not* learned, v_r starts at half the standard deviation
    of the weights in linear layers and at zero in convolutions, and the variance of the prior is 1
    over the number of input units or channels. (The public code says input size and takes the
    number of *outputs* of a linear layer.)

    Args:
        inner: the ``nn.Linear`` or ``nn.Conv2d``; its weights and biases are the means.
        rank: R, at least 1, else TypeError or ValueError.

    >>> layer = ELRG(nn.Linear(3, 2), rank=5)
    >>> layer.draw_matrices(10, torch.Generator()).shape
    torch.Size([10, 2, 4])
    """

    def __init__(self, inner: nn.Linear | nn.Conv2d, rank: int = 5) -> None:
        super().__init__(inner)
        integer("rank", rank, least=1)
        self.factors = nn.Parameter(torch.zeros(rank, *self.mu.shape))
        diagonal = torch.full(self.mu.shape, LOG_SIGMA2)
        self.log_sigma2 = nn.Parameter(diagonal, requires_grad=False)
        prior_var = torch.tensor(1 / self.n_units)
        self.register_buffer("prior_var", prior_var, persistent=False)
        self.reset_noise(torch.default_generator)

    @torch.no_grad()
    def reset_noise(self, generator: torch.Generator) -> None:
        """Draw the directions, after the weights got their start."""
        is_one_pixel = self.weight[0, 0].numel() == 1
        std = self.mu.std() / 2 if is_one_pixel else 0.0
        scale = std / len(self.factors) ** 0.5
        eps = standard_normal(self.factors.shape, generator, self.mu)
        self.factors.copy_(scale * eps)

    def draw_matrices(self, n_samples: int, generator: torch.Generator) -> Tensor:
        """The R numbers of each draw, then those of the diagonal."""
        rank = len(self.factors)
        eps = standard_normal((n_samples, rank), generator, self.mu)
        low_rank_noise = torch.einsum("sr,rlk->slk", eps, self.factors) / rank**0.5
        return noisy(self.mu + low_rank_noise, self.log_sigma2.exp(), generator)

    def draw_activations(self, x: Tensor, generator: torch.Generator) -> Tensor:
        """Per example the R numbers, which outputs and pixels share, then those of the diagonal."""
        (rank, n_out, _) = self.factors.shape
        of_directions = self.activations(x, self.factors.flatten(0, 1))
        of_directions = of_directions.unflatten(-self.unit_dims, (rank, n_out))
        shape = list(of_directions.shape)
        shape[-self.unit_dims :] = [1] * self.unit_dims
        eps = standard_normal(shape, generator, self.mu)
        low_rank_noise = (eps * of_directions).sum(-self.unit_dims - 1) / rank**0.5
        mean = self.activations(x, self.mu) + low_rank_noise
        var = self.activations(x.square(), self.log_sigma2.exp())
        return noisy(mean, var, generator)

    def kl(self) -> Tensor:
        """``KL(q(W) || N(0, prior_var I))``, of weights and biases, in nats, 0-dim."""
        mu = self.mu
        sigma2 = self.log_sigma2.exp().flatten()
        v = self.factors.flatten(1)
        rank = len(v)
        trace = sigma2.sum() + v.square().sum() / rank
        second_moment = trace + mu.square().sum()
        eye = torch.eye(rank, dtype=mu.dtype, device=mu.device)
        gram = eye + (v / sigma2) @ v.T / rank
        log_det_gram = 2 * cholesky(gram).diagonal().log().sum()
        log_det = self.log_sigma2.sum() + log_det_gram
        log_prior_det = mu.numel() * self.prior_var.log()
        return (second_moment / self.prior_var - mu.numel() + log_prior_det - log_det) / 2

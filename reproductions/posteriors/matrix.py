"""ELRG and VMG: the weights and biases of a layer have one joint distribution, drawn as a matrix.

Row j of the matrix holds the K weights that lead to output j, then its bias: ``(L, K + 1)``, or
``(L, K)`` for a layer without bias. A convolution with C channels and filters of k x k pixels has
``K = C * k * k``. Lesson 12.
"""

import math
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor, nn
from torch.nn.functional import softplus

from bdl_lessons.core.autograd import cholesky
from bdl_lessons.core.random import standard_normal
from bdl_lessons.models import LayerFactory, StochasticLayer
from bdl_lessons.models.layers.base import Conv2d, Linear
from bdl_lessons.models.layers.weight_noise import scale_noise
from bdl_lessons.probability import molchanov_kl

LOG_SIGMA2 = -10.0
"""Of ELRG: log variance of the diagonal. Published: -10 for MNIST, -12 for images."""
JITTER = 1e-4
"""Of VMG: variance of the noise on pseudo-outputs. Published: 1e-6, too little in float32."""


class WeightPosterior(nn.Module):
    """The joint distribution of a layer's matrix of weights: the layer's ``noise``.

    ``mu`` is the layer's own ``weight`` and ``bias`` as one matrix: the mean of the distribution,
    or what takes its place. A method adds

    - ``reset_parameters(mu, generator)``: start values, after the layer's weights got theirs;
    - ``sample_weights(mu, n_samples, generator)``: matrices ``(S, L, K + 1)``;
    - ``per_example(mu, x, layer, generator)``: activations with a matrix of its own for every
      example, none of which is formed;
    - ``kl(mu)``: to the prior, a positive sum in nats, 0-dim.
    """

    def __init__(self, weight_shape: tuple[int, ...], bias: bool) -> None:
        super().__init__()
        self.has_bias = bias
        self.shape = (weight_shape[0], math.prod(weight_shape[1:]) + bias)

    def mean(self, mu: Tensor) -> Tensor:
        """The mean matrix, ``(L, K + 1)``."""
        return mu


class MatrixLayer(StochasticLayer):
    """What the linear and the convolutional layer share; a draw is matrices ``(S, L, K + 1)``."""

    noise: WeightPosterior

    @property
    def mu(self) -> Tensor:
        """``weight`` and ``bias`` as one matrix, ``(L, K + 1)``."""
        weight = self.weight.flatten(1)
        return weight if self.bias is None else torch.cat([weight, self.bias[:, None]], 1)

    def activations(self, x: Tensor, matrix: Tensor) -> Tensor:
        """What ``matrix`` makes of ``x``, linear in both (the bias is a weight on a constant 1).

        ``(N, K + 1)`` acts on all of ``x`` and gives N units or channels, not always L of them;
        ``(S, N, K + 1)`` gives each sample of ``x``, ``(S, B, ...)``, its own matrix.
        """
        weight, bias = (matrix, None) if self.bias is None else (matrix[..., :-1], matrix[..., -1])
        return self.linear_map(x, weight.unflatten(-1, self.weight.shape[1:]), bias)

    def reset_noise(self, generator: torch.Generator) -> None:
        self.noise.reset_parameters(self.mu.detach(), generator)

    def sample_weights(self, n_samples: int, generator: torch.Generator) -> Tensor:
        return self.noise.sample_weights(self.mu, n_samples, generator)

    def kl(self) -> Tensor:
        return self.noise.kl(self.mu)

    def _forward_mean(self, x: Tensor) -> Tensor:
        return self.activations(x, self.noise.mean(self.mu))

    def _forward_per_example(self, x: Tensor, generator: torch.Generator) -> Tensor:
        return self.noise.per_example(self.mu, x, self, generator)

    def _forward_with(self, x: Tensor, draw: Tensor) -> Tensor:
        return self.activations(x, draw)


class MatrixLinear(MatrixLayer, Linear):
    """``y = x W + b`` with ``x`` of shape ``(..., B, K)`` and ``y`` ``(..., B, L)``."""


class MatrixConv2d(MatrixLayer, Conv2d):
    """``y = conv(x, W) + b`` with ``x`` of shape ``(..., B, C, H, W)``."""


class MatrixFactory(LayerFactory):
    """Layers with one joint distribution. A method says which as its ``posterior``."""

    layers = (MatrixLinear, MatrixConv2d)
    posterior: ClassVar[type[WeightPosterior]]

    def _noise(self, weight_shape: tuple[int, ...], bias: bool) -> WeightPosterior:
        return self.posterior(self, weight_shape, bias)


def noisy(mean: Tensor, var: Tensor, generator: torch.Generator) -> Tensor:
    """Independent Gaussians. Where ``var`` is 0 its gradient is 0, not infinite."""
    return scale_noise(mean, var, standard_normal(mean.shape, generator, mean))


class LowRankPosterior(WeightPosterior):
    r"""Of ELRG: a diagonal and a few directions in which all weights of a layer are correlated.

    ``vec W = mu + sigma ∘ eps + R^{-1/2} sum_r v_r eps_r``, a Gaussian with

    .. math:: \Sigma = \mathrm{diag}(\sigma^2) + \frac1R \sum_{r=1}^R v_r v_r^\top .

    For ``"per_example"`` an example draws R numbers that all its outputs and places share, and one
    for each output and place: in a convolution the places are independent in the diagonal part.
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
        rank = len(self.factors)
        n_out = len(mu)
        together = layer.activations(x, self.factors.flatten(0, 1))
        together = together.unflatten(-layer.unit_dims, (rank, n_out))  # ranks first, then outputs
        leading = together.shape[: -layer.unit_dims]
        shared = standard_normal((*leading, *[1] * layer.unit_dims), generator, mu)
        mean = layer.activations(x, mu) + (shared * together).sum(-layer.unit_dims - 1) / rank**0.5
        return noisy(mean, layer.activations(x.square(), self.log_sigma2.exp()), generator)

    def kl(self, mu: Tensor) -> Tensor:
        sigma2 = self.log_sigma2.exp().flatten()
        v = self.factors.flatten(1)
        second_moment = sigma2.sum() + v.square().sum() / len(v) + mu.square().sum()
        inner = torch.eye(len(v), dtype=mu.dtype, device=mu.device) + (v / sigma2) @ v.T / len(v)
        log_det = self.log_sigma2.sum() + 2 * cholesky(inner).diagonal().log().sum()
        kl = second_moment / self.prior_var + mu.numel() * (self.prior_var.log() - 1) - log_det
        return kl / 2


@dataclass(frozen=True)
class ELRG(MatrixFactory):
    """Layer factory of the efficient low-rank Gaussian (Tomczak, Swaroop and Turner, NeurIPS 2020).

    As in the public code the diagonal is *not* learned, v_r starts at half the standard deviation
    of the weights in linear layers and at zero in convolutions, and the variance of the prior is 1
    over the number of input units or channels. (The public code says input size and takes the
    number of *outputs* of a linear layer.) ``rank`` is R, at least 1.
    """

    rank: int = 5
    posterior = LowRankPosterior


class MatrixGaussianPosterior(WeightPosterior):
    r"""Of VMG: a matrix Gaussian, conditioned on what the layer does to m pseudo-inputs.

    Before conditioning w_jk has the mean m_jk and the variance v_j u_k, and none are correlated.
    Pseudo-data say that pseudo-inputs ``A`` (m, K + 1) give pseudo-outputs ``B`` (m, L), up to a
    noise of variance ``JITTER * v``. With :math:`\Sigma = A\,\mathrm{diag}(u) A^\top + \epsilon I`

    .. math:: M' = M + (B - A M^\top)^\top \Sigma^{-1} A\,\mathrm{diag}(u), \qquad
              U' = \mathrm{diag}(u) - \mathrm{diag}(u) A^\top \Sigma^{-1} A\,\mathrm{diag}(u) ,

    so an example x has activations of mean ``M' x`` and covariance ``(x U' x) diag(v)``. A and B
    carry multiplicative noise, each of a variance alpha < 1 of its own, drawn once for a batch.

    The prior is ``N(0, 1 / (K + 1))`` for every weight; u starts at its variance, v at 1. ``kl`` is
    the published one: of the matrix Gaussian *before* it is conditioned, and the log-uniform KL of
    each noisy number in A and B (Molchanov's approximation; the paper has Kingma's).
    """

    def __init__(self, settings: "VMG", weight_shape: tuple[int, ...], bias: bool) -> None:
        super().__init__(weight_shape, bias)
        (n_out, n_in) = self.shape
        n_pseudo = settings.n_pseudo
        self.log_input_std = nn.Parameter(torch.zeros(n_in))  # relative to the prior's
        self.log_output_std = nn.Parameter(torch.zeros(n_out))
        self.pseudo_x = nn.Parameter(torch.zeros(n_pseudo, n_in))
        self.pseudo_y = nn.Parameter(torch.zeros(n_pseudo, n_out))
        self.raw_alpha = nn.Parameter(torch.full((2,), -2 * math.log(0.01)))  # of x, of y

    @torch.no_grad()
    def reset_parameters(self, mu: Tensor, generator: torch.Generator) -> None:
        for parameter in (self.log_input_std, self.log_output_std):
            parameter.copy_(0.01 * standard_normal(parameter.shape, generator, mu))
        if self.has_bias:
            self.log_input_std[-1] -= 4
        for parameter in (self.pseudo_x, self.pseudo_y):
            uniform = torch.rand(parameter.shape, generator=generator, device=generator.device)
            parameter.copy_(0.02 * uniform - 0.01)

    def mean(self, mu: Tensor) -> Tensor:
        return self._conditional_mean(mu, self.pseudo_x, self.pseudo_y)

    def sample_weights(self, mu: Tensor, n_samples: int, generator: torch.Generator) -> Tensor:
        """Matheron's rule: draw before conditioning, then correct by what the pseudo-data say."""
        pseudo_x, pseudo_y = self._noisy_pseudo_data((n_samples,), generator)
        output_std = self.log_output_std.exp()
        scale = output_std[:, None] * self._input_var.sqrt()
        free = mu + scale * standard_normal((n_samples, *mu.shape), generator, mu)
        error = standard_normal(pseudo_y.shape, generator, mu) * output_std * JITTER**0.5
        return self._conditional_mean(free, pseudo_x, pseudo_y + error)

    def per_example(
        self, mu: Tensor, x: Tensor, layer: MatrixLayer, generator: torch.Generator
    ) -> Tensor:
        samples = x.shape[: -layer.unit_dims - 1]
        pseudo_x, pseudo_y = self._noisy_pseudo_data(samples, generator)
        mean = layer.activations(x, self._conditional_mean(mu, pseudo_x, pseudo_y))
        u = self._input_var
        output_var = (2 * self.log_output_std).exp().view(-1, *[1] * (layer.unit_dims - 1))
        var = layer.activations(x.square(), u.expand(*samples, 1, len(u)))
        known = torch.linalg.solve_triangular(self._cholesky(pseudo_x), pseudo_x * u, upper=False)
        explained = layer.activations(x, known).square().sum(-layer.unit_dims, keepdim=True)
        return noisy(mean, (var - explained) * output_var, generator)

    def kl(self, mu: Tensor) -> Tensor:
        n_out, n_in = mu.shape
        spread = (2 * self.log_input_std).exp().sum() * (2 * self.log_output_std).exp().sum()
        log_det = 2 * (n_out * self.log_input_std.sum() + n_in * self.log_output_std.sum())
        kl = (spread + n_in * mu.square().sum() - mu.numel() - log_det) / 2
        kl_x, kl_y = molchanov_kl(self.log_alpha)
        return kl + self.pseudo_x.numel() * kl_x + self.pseudo_y.numel() * kl_y

    @property
    def log_alpha(self) -> Tensor:
        """Of the noise on the pseudo-inputs and on the pseudo-outputs, ``(2,)``: below 0."""
        return -softplus(self.raw_alpha)

    @property
    def _input_var(self) -> Tensor:
        return (2 * self.log_input_std).exp() / len(self.log_input_std)

    def _noisy_pseudo_data(self, samples: tuple[int, ...], generator: torch.Generator):
        pseudo_data = (self.pseudo_x, self.pseudo_y)
        for pseudo, noise_std in zip(pseudo_data, (self.log_alpha / 2).exp(), strict=True):
            eps = standard_normal((*samples, *pseudo.shape), generator, pseudo)
            yield pseudo * (1 + noise_std * eps)

    def _conditional_mean(self, mu: Tensor, pseudo_x: Tensor, pseudo_y: Tensor) -> Tensor:
        residual = pseudo_y - pseudo_x @ mu.mT
        weights = torch.cholesky_solve(residual, self._cholesky(pseudo_x))
        return mu + weights.mT @ (pseudo_x * self._input_var)

    def _cholesky(self, pseudo_x: Tensor) -> Tensor:
        gram = pseudo_x * self._input_var @ pseudo_x.mT
        eye = torch.eye(gram.shape[-1], dtype=gram.dtype, device=gram.device)
        return cholesky(gram + JITTER * eye)


@dataclass(frozen=True)
class VMG(MatrixFactory):
    """Layer factory of the variational matrix Gaussian (Louizos and Welling, ICML 2016).

    The paper's Gamma hyper-priors are left out. For convolutions there is no published code: the
    inputs are the pixels under a filter, and places are drawn on their own. ``n_pseudo`` is m, at
    least 1; published for regression: 5.
    """

    n_pseudo: int = 5
    posterior = MatrixGaussianPosterior

"""VMG: inputs and outputs of a layer have covariances of their own, and pseudo-data tie them."""

import math
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn.functional import softplus

from bdl_lessons.core.autograd import cholesky
from bdl_lessons.core.random import standard_normal
from bdl_lessons.probability import molchanov_kl
from reproductions.posteriors.matrix import MatrixFactory, MatrixLayer, WeightPosterior, noisy

JITTER = 1e-4
"""Variance of the noise on pseudo-outputs. Published: 1e-6, too little in float32."""
_LOG_BIAS_STD = -4.0


class MatrixGaussianPosterior(WeightPosterior):
    r"""A matrix Gaussian, conditioned on what the layer does to m pseudo-inputs.

    Before conditioning, with variances u of the K + 1 inputs and v of the L outputs,

    .. math:: W \sim \mathcal{MN}(M, \mathrm{diag}(v), \mathrm{diag}(u)): \quad
              \mathrm{Cov}(w_{jk}, w_{j'k'}) = v_j u_k [j = j'][k = k'] .

    Pseudo-data say that pseudo-inputs ``A`` (m, K + 1) give pseudo-outputs ``B`` (m, L), up to a
    noise of variance ``JITTER * v``. With :math:`\Sigma = A\,\mathrm{diag}(u) A^\top + \epsilon I`

    .. math:: M' = M + (B - A M^\top)^\top \Sigma^{-1} A\,\mathrm{diag}(u), \qquad
              U' = \mathrm{diag}(u) - \mathrm{diag}(u) A^\top \Sigma^{-1} A\,\mathrm{diag}(u) ,

    so an example x has activations of mean ``M' x`` and covariance ``(x U' x) diag(v)``. A and B
    carry multiplicative noise, each of a variance alpha < 1 of its own, drawn once for a batch.

    The prior is ``N(0, 1 / (K + 1))`` for every weight; u starts at its variance, v at 1. ``kl`` is
    the published one, not that of the distribution that is drawn: of the matrix Gaussian *before*
    it is conditioned, and the log-uniform KL of each noisy number in A and B (Molchanov's
    approximation; the paper has Kingma's).
    """

    def __init__(self, settings: "VMG", weight_shape: tuple[int, ...], bias: bool) -> None:
        super().__init__(weight_shape, bias)
        (n_out, n_in), n_pseudo = self.shape, settings.n_pseudo
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
            self.log_input_std[-1] += _LOG_BIAS_STD
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

    The paper's Gamma hyper-priors of the prior and noise precisions are left out. For convolutions
    there is no published code: the inputs are the pixels under a filter, and places are drawn on
    their own. Lesson 12.

    Args:
        n_pseudo: m, at least 1. Published for regression: 5.
    """

    n_pseudo: int = 5
    posterior = MatrixGaussianPosterior

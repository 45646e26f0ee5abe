"""VMG: a matrix Gaussian, conditioned on what the layer does to pseudo-inputs. Lesson 13."""

import math

import torch
from torch import Tensor, nn
from torch.nn.functional import softplus

from bdl_lessons.core.autograd import cholesky
from bdl_lessons.core.random import standard_normal
from bdl_lessons.core.validation import integer
from bdl_lessons.probability import molchanov_kl
from reproductions.posteriors.matrix import MatrixLayer, noisy

JITTER = 1e-4
"""Variance of the noise on pseudo-outputs. Published: 1e-6, too little in float32."""


class VMG(MatrixLayer):
    r"""The variational matrix Gaussian (Louizos and Welling, ICML 2016).

    Before conditioning w_jk has the mean m_jk and the variance v_j u_k, and none are correlated.
    Pseudo-data say that pseudo-inputs ``A`` (m, K + 1) give pseudo-outputs ``B`` (m, L), up to a
    noise of variance ``JITTER * v``. With :math:`\Sigma = A\,\mathrm{diag}(u) A^\top + \epsilon I`

    .. math:: M' = M + (B - A M^\top)^\top \Sigma^{-1} A\,\mathrm{diag}(u), \qquad
              U' = \mathrm{diag}(u) - \mathrm{diag}(u) A^\top \Sigma^{-1} A\,\mathrm{diag}(u) ,

    so an example x has activations of mean ``M' x`` and covariance ``(x U' x) diag(v)``. A and B
    carry multiplicative noise, each of a variance alpha < 1 of its own, drawn once for a batch.

    The prior is ``N(0, 1 / (K + 1))`` for every weight; u starts at its variance, v at 1. The
    paper's Gamma hyper-priors are left out. For convolutions there is no published code: the inputs
    are the pixels under a filter, and places are drawn on their own.

    Args:
        inner: the ``nn.Linear`` or ``nn.Conv2d``; its weights and biases are ``M``.
        n_pseudo: m, at least 1, else TypeError or ValueError; published for regression: 5.

    >>> layer = VMG(nn.Linear(3, 2), n_pseudo=4)
    >>> layer.pseudo_x.shape, layer.pseudo_y.shape
    (torch.Size([4, 4]), torch.Size([4, 2]))
    """

    def __init__(self, inner: nn.Linear | nn.Conv2d, n_pseudo: int = 5) -> None:
        super().__init__(inner)
        integer("n_pseudo", n_pseudo, least=1)
        (n_out, n_in) = self.mu.shape
        self.log_input_std = nn.Parameter(torch.zeros(n_in))  # relative to the prior's
        self.log_output_std = nn.Parameter(torch.zeros(n_out))
        self.pseudo_x = nn.Parameter(torch.zeros(n_pseudo, n_in))
        self.pseudo_y = nn.Parameter(torch.zeros(n_pseudo, n_out))
        self.raw_alpha = nn.Parameter(torch.full((2,), -2 * math.log(0.01)))  # of x, of y
        self.reset_noise(torch.default_generator)

    @torch.no_grad()
    def reset_noise(self, generator: torch.Generator) -> None:
        """Draw the scales around their start, and small pseudo-data."""
        for log_std in (self.log_input_std, self.log_output_std):
            eps = standard_normal(log_std.shape, generator, self.mu)
            log_std.copy_(0.01 * eps)
        if self.bias is not None:
            self.log_input_std[-1] -= 4
        for pseudo in (self.pseudo_x, self.pseudo_y):
            uniform = torch.rand(pseudo.shape, generator=generator, device=generator.device)
            pseudo.copy_(0.02 * uniform - 0.01)

    @property
    def log_alpha(self) -> Tensor:
        """Of the noise on the pseudo-inputs and on the pseudo-outputs, ``(2,)``: below 0."""
        return -softplus(self.raw_alpha)

    @property
    def input_var(self) -> Tensor:
        """``u``, ``(K + 1,)``."""
        return (2 * self.log_input_std).exp() / len(self.log_input_std)

    def mean_matrix(self) -> Tensor:
        """``M'`` under the pseudo-data without their noise."""
        return self.conditional_mean(self.mu, self.pseudo_x, self.pseudo_y)

    def draw_matrices(self, n_samples: int, generator: torch.Generator) -> Tensor:
        """Matheron's rule: draw before conditioning, then correct by what the pseudo-data say."""
        mu = self.mu
        pseudo_x, pseudo_y = self.draw_pseudo_data((n_samples,), generator)
        output_std = self.log_output_std.exp()
        std = output_std[:, None] * self.input_var.sqrt()
        unconditional = mu + std * standard_normal((n_samples, *mu.shape), generator, mu)
        error_std = JITTER**0.5 * output_std
        error = error_std * standard_normal(pseudo_y.shape, generator, mu)
        return self.conditional_mean(unconditional, pseudo_x, pseudo_y + error)

    def draw_activations(self, x: Tensor, generator: torch.Generator) -> Tensor:
        """The pseudo-data of each sample, then the noise of each activation given these."""
        samples = x.shape[: -self.unit_dims - 1]
        pseudo_x, pseudo_y = self.draw_pseudo_data(samples, generator)
        mean = self.activations(x, self.conditional_mean(self.mu, pseudo_x, pseudo_y))
        u = self.input_var
        unconditional_var = self.activations(x.square(), u.expand(*samples, 1, len(u)))
        factor = self.cholesky(pseudo_x)
        root = torch.linalg.solve_triangular(factor, pseudo_x * u, upper=False)
        explained_var = self.activations(x, root).square().sum(-self.unit_dims, keepdim=True)
        output_var = (2 * self.log_output_std).exp()
        if self.unit_dims == 3:
            output_var = output_var[:, None, None]
        return noisy(mean, (unconditional_var - explained_var) * output_var, generator)

    def draw_pseudo_data(
        self, samples: tuple[int, ...], generator: torch.Generator
    ) -> tuple[Tensor, Tensor]:
        """Noisy ``A`` and ``B``: ``(*samples, m, K + 1)`` and ``(*samples, m, L)``."""
        x_std, y_std = (self.log_alpha / 2).exp()
        x_eps = standard_normal((*samples, *self.pseudo_x.shape), generator, self.pseudo_x)
        y_eps = standard_normal((*samples, *self.pseudo_y.shape), generator, self.pseudo_y)
        pseudo_x = self.pseudo_x * (1 + x_std * x_eps)
        pseudo_y = self.pseudo_y * (1 + y_std * y_eps)
        return pseudo_x, pseudo_y

    def conditional_mean(self, mu: Tensor, pseudo_x: Tensor, pseudo_y: Tensor) -> Tensor:
        """``M'`` for ``M = mu``, ``(..., L, K + 1)``."""
        residual = pseudo_y - pseudo_x @ mu.mT
        weights = torch.cholesky_solve(residual, self.cholesky(pseudo_x))
        return mu + weights.mT @ (pseudo_x * self.input_var)

    def cholesky(self, pseudo_x: Tensor) -> Tensor:
        """The factor of ``Sigma``, ``(..., m, m)``."""
        gram = pseudo_x * self.input_var @ pseudo_x.mT
        eye = torch.eye(gram.shape[-1], dtype=gram.dtype, device=gram.device)
        return cholesky(gram + JITTER * eye)

    def kl(self) -> Tensor:
        """The published KL in nats, 0-dim.

        Of the matrix Gaussian *before* it is conditioned, and the log-uniform KL of each noisy
        number in A and B (Molchanov's approximation; the paper has Kingma's).
        """
        mu = self.mu
        (n_out, n_in) = mu.shape
        input_vars = (2 * self.log_input_std).exp()  # over the prior's
        output_vars = (2 * self.log_output_std).exp()
        trace = input_vars.sum() * output_vars.sum()
        log_det = 2 * (n_out * self.log_input_std.sum() + n_in * self.log_output_std.sum())
        kl_weights = (trace + n_in * mu.square().sum() - mu.numel() - log_det) / 2
        kl_x, kl_y = molchanov_kl(self.log_alpha)
        return kl_weights + self.pseudo_x.numel() * kl_x + self.pseudo_y.numel() * kl_y

"""Bayesian linear regression: posterior, evidence and predictions in closed form. Lesson 02."""

import math

import torch
from torch import Tensor

from bdl_lessons.core import validation
from bdl_lessons.probability import gaussian_kl_full


class BayesLinear:
    r"""Linear regression with known noise and a Gaussian prior, solved in closed form.

    .. math:: y = \Phi w + \varepsilon, \quad \varepsilon \sim N(0, \sigma^2 I_N), \quad
              w \sim N(0, v I_K)

    The posterior is Gaussian, with precision :math:`\Lambda = \Phi^\top\Phi/\sigma^2 + I/v`, mean
    :math:`\mu = \Lambda^{-1}\Phi^\top y/\sigma^2` and covariance :math:`\Lambda^{-1}` (Bishop 2006,
    section 3.3). Gradients flow to ``noise_var`` and ``prior_var`` where those are tensors.

    Args:
        Phi: ``(N, K)``, the features of each example.
        y: ``(N,)``, in its own units; there is no intercept unless Phi has a column for it.
        noise_var: :math:`\sigma^2` in squared units of ``y``, one number > 0.
        prior_var: :math:`v`, variance of each weight before the data, one number > 0.

    Raises:
        TypeError, ValueError: for another dtype or shape, a NaN, or a value out of range.

    >>> Phi, y = torch.tensor([[1.0], [1.0], [1.0]]), torch.tensor([4.0, 4.0, 4.0])
    >>> model = BayesLinear(Phi, y, noise_var=1.0, prior_var=1.0)
    >>> [round(value.item(), 3) for value in (model.mean, model.cov)]
    [3.0, 0.25]
    """

    def __init__(
        self, Phi: Tensor, y: Tensor, noise_var: float | Tensor, prior_var: float | Tensor
    ):
        validation.floating("Phi", Phi)
        validation.floating("y", y)
        validation.same_dtype("y", y, "Phi", Phi)
        validation.shapes("Phi must be (N, K) and y (N,)", Phi, y)
        self.Phi = Phi
        self.y = y
        noise_var = validation.like(y[0], "noise_var", noise_var)
        prior_var = validation.like(y[0], "prior_var", prior_var)
        self.noise_var = validation.variance("noise_var", noise_var)
        self.prior_var = validation.variance("prior_var", prior_var)
        eye = torch.eye(Phi.shape[1]).to(Phi)
        self.precision = Phi.mT @ Phi / self.noise_var + eye / self.prior_var
        self._factor = torch.linalg.cholesky(self.precision)
        self.cov = torch.cholesky_inverse(self._factor)
        self.mean = self.cov @ (Phi.mT @ y) / self.noise_var

    def log_evidence(self) -> Tensor:
        r""":math:`\log p(y \mid \Phi) = \log N(y;\, 0,\, \sigma^2 I_N + v \Phi\Phi^\top)`, in nats.

        Computed from K × K matrices (matrix determinant lemma), so N may be large.
        """
        N, K = self.Phi.shape
        log_det = N * self.noise_var.log() + K * self.prior_var.log()
        log_det = log_det + 2 * self._factor.diagonal().log().sum()
        residual = (self.y - self.Phi @ self.mean).square().sum() / self.noise_var
        shrinkage = self.mean.square().sum() / self.prior_var
        return -0.5 * (N * math.log(2 * math.pi) + log_det + residual + shrinkage)

    def data_term(self, mean_q: Tensor, cov_q: Tensor) -> Tensor:
        r""":math:`\mathbb{E}_q[\log p(y \mid \Phi, w)]` for :math:`q = N(\mu_q, \Sigma_q)`, nats.

        .. math:: -\tfrac{N}{2}\log 2\pi\sigma^2 - \tfrac{1}{2\sigma^2}
                  \big( \|y - \Phi\mu_q\|^2 + \mathrm{tr}(\Phi\Sigma_q\Phi^\top) \big)

        Raises ValueError if ``mean_q`` is not ``(K,)`` or ``cov_q`` not ``(K, K)``.
        """
        rule = "mean_q must be (K,) and cov_q (K, K) for Phi (N, K)"
        self._check(rule, mean_q=mean_q, cov_q=cov_q)
        squares = (self.y - self.Phi @ mean_q).square().sum()
        spread = ((self.Phi @ cov_q) * self.Phi).sum()
        normaliser = len(self.y) * (2 * math.pi * self.noise_var).log()
        return -0.5 * (normaliser + (squares + spread) / self.noise_var)

    def elbo(self, mean_q: Tensor, cov_q: Tensor) -> Tensor:
        """Evidence lower bound of ``N(mean_q, cov_q)``: data term minus KL to the prior, nats."""
        data_term = self.data_term(mean_q, cov_q)
        prior_cov = self.prior_var * torch.eye(len(mean_q)).to(mean_q)
        return data_term - gaussian_kl_full(mean_q, cov_q, torch.zeros_like(mean_q), prior_cov)

    def mean_field(self) -> tuple[Tensor, Tensor]:
        r"""The factorised Gaussian with the largest ELBO: means ``(K,)`` and variances ``(K,)``.

        Its mean is exact; its variances are :math:`1/\Lambda_{ii}`, the variance of each weight
        *given the others*, never more than the marginal :math:`(\Lambda^{-1})_{ii}`.
        """
        return self.mean, 1 / self.precision.diagonal()

    def predict(self, Phi_new: Tensor, cov: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """Mean ``(M,)`` and variance ``(M,)``, weights + noise in squared units, of a new ``y``.

        Args:
            Phi_new: ``(M, K)``, else ValueError.
            cov: ``(K, K)``, the covariance to integrate over; the posterior's by default, that of
                another q around the same mean, or zeros for the plug-in prediction of the MAP.
        """
        cov = self.cov if cov is None else cov
        rule = "Phi_new must be (M, K) and cov (K, K) for Phi (N, K)"
        self._check(rule, Phi_new=Phi_new, cov=cov)
        return Phi_new @ self.mean, ((Phi_new @ cov) * Phi_new).sum(-1) + self.noise_var

    def _check(self, rule: str, **values: Tensor) -> None:
        for name, value in values.items():
            validation.same_dtype(name, value, "Phi", self.Phi)
        validation.shapes(rule, *values.values(), self.Phi)

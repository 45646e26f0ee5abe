"""Bayesian logistic regression: a small model whose posterior has no closed form. Lesson 02."""

import math

import torch
from torch import Tensor
from torch.nn.functional import logsigmoid

from bdl_lessons.core import validation


class BayesLogistic:
    r"""Logistic regression with a Gaussian prior, given by its joint density.

    .. math:: p(y_n = 1 \mid x_n, w) = \frac{1}{1 + e^{-x_n^\top w}}, \quad w \sim N(0, v I_K)

    Args:
        X: ``(N, K)``, the features of each example.
        y: ``(N,)``, labels 0 or 1.
        prior_var: :math:`v`, variance of each weight before the data, > 0.

    Raises:
        TypeError, ValueError: for another dtype or shape, a NaN, or a value out of range.

    >>> X, y = torch.eye(2, dtype=torch.float64), torch.tensor([0.0, 1.0])
    >>> model = BayesLogistic(X, y, prior_var=1.0)
    >>> [round(w, 2) for w in model.map().tolist()]
    [-0.4, 0.4]
    """

    def __init__(self, X: Tensor, y: Tensor, prior_var: float):
        validation.floating("X", X)
        validation.instance("y", y, Tensor)
        validation.shapes("X must be (N, K) and y (N,)", X, y)
        if not ((y == 0) | (y == 1)).all():
            raise ValueError("y must hold labels 0 and 1 only")
        self.X = X
        self.y = y.to(X.dtype)
        self.prior_var = validation.positive("prior_var", prior_var)

    def log_likelihood(self, w: Tensor) -> Tensor:
        """``log p(y | X, w)`` in nats, ``(..., K)`` to ``(...)``."""
        self._check(w)
        return logsigmoid((2 * self.y - 1) * (w @ self.X.mT)).sum(-1)

    def log_prior(self, w: Tensor) -> Tensor:
        """``log N(w; 0, prior_var I)`` in nats, ``(..., K)`` to ``(...)``."""
        self._check(w)
        squares = w.square().sum(-1) / self.prior_var
        return -0.5 * (squares + w.shape[-1] * math.log(2 * math.pi * self.prior_var))

    def log_joint(self, w: Tensor) -> Tensor:
        """``log p(y, w | X)``, the unnormalised log posterior, ``(..., K)`` to ``(...)``."""
        return self.log_likelihood(w) + self.log_prior(w)

    def _check(self, w: Tensor) -> None:
        validation.same_dtype("w", w, "X", self.X)
        validation.shapes("w must be (..., K) for X (N, K)", w, self.X)

    def map(self, n_steps: int = 50) -> Tensor:
        """The most probable weights ``(K,)``, by Newton's method on the concave log joint.

        Raises RuntimeError if ``n_steps`` do not bring the gradient to 0.
        """
        w = torch.zeros(self.X.shape[1]).to(self.X)
        eye = torch.eye(len(w)).to(w)
        tol = max(1e-9, 16 * torch.finfo(w.dtype).eps) * (1 + self.X.norm())
        for _ in range(n_steps):
            prob = torch.sigmoid(self.X @ w)
            gradient = self.X.mT @ (self.y - prob) - w / self.prior_var
            if gradient.norm() < tol:
                return w
            curvature = (self.X.mT * (prob * (1 - prob))) @ self.X + eye / self.prior_var
            w = w + torch.linalg.solve(curvature, gradient)
        raise RuntimeError(f"Newton's method did not converge in {n_steps} steps")

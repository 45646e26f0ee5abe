"""Gaussian process regression: the algebra in ten lines, and a thin wrapper of GPyTorch."""

from __future__ import annotations

import math
from contextlib import ExitStack

import gpytorch
import torch
from gpytorch import settings
from torch import Tensor


def gp_posterior(
    k_train: Tensor, k_cross: Tensor, k_test: Tensor, y: Tensor, noise_var: float
) -> tuple[Tensor, Tensor]:
    """Posterior of ``f`` at the test inputs under ``y = f + noise``, ``f ~ GP(0, k)``.

    ``mean = K*' (K + noise_var I)^-1 y`` and ``cov = K** - K*' (K + noise_var I)^-1 K*``
    (Rasmussen & Williams 2006, eqs. 2.23 and 2.24), by one Cholesky factorisation.

    Args:
        k_train: ``K``, ``(N, N)``.
        k_cross: ``K*``, ``(N, M)``: training rows, test columns.
        k_test: ``K**``, ``(M, M)``.
        y: targets ``(N,)``, or ``(N, D)`` for D independent outputs under the same kernel.
        noise_var: ``1 / tau`` in squared units of ``y``, > 0.

    Returns:
        mean ``(M,)`` or ``(M, D)``, and the covariance ``(M, M)`` of ``f`` (without the noise),
        which is the same for every output.

    Raises:
        ValueError: if shapes do not match, ``noise_var`` is not positive or a value is not finite.
        torch.linalg.LinAlgError: if ``k_train + noise_var I`` is not positive definite.
    """
    n, m = k_cross.shape
    if k_train.shape != (n, n) or k_test.shape != (m, m):
        raise ValueError(
            f"k_cross {tuple(k_cross.shape)} needs k_train {(n, n)} and k_test {(m, m)}, "
            f"got {tuple(k_train.shape)} and {tuple(k_test.shape)}"
        )
    chol = _cholesky(k_train, y, noise_var)
    a = torch.linalg.solve_triangular(chol, k_cross, upper=False)
    b = torch.linalg.solve_triangular(chol, y.reshape(n, -1), upper=False)
    return (a.mT @ b).reshape(m, *y.shape[1:]), k_test - a.mT @ a


def gp_log_evidence(k_train: Tensor, y: Tensor, noise_var: float) -> Tensor:
    """``log N(y; 0, K + noise_var I)`` in nats, summed over the columns of ``y``, 0-dim.

    Rasmussen & Williams (2006), eq. 2.30. Arguments and errors as in :func:`gp_posterior`.
    """
    n = len(y)
    chol = _cholesky(k_train, y, noise_var)
    b = torch.linalg.solve_triangular(chol, y.reshape(n, -1), upper=False)
    log_det = 2 * chol.diagonal().log().sum()
    return -0.5 * (b.square().sum() + b.shape[1] * (log_det + n * math.log(2 * math.pi)))


class GaussianProcess(gpytorch.models.ExactGP):
    """GP regression with a GPyTorch kernel: exact, float64, predictions in the units of ``y``.

    Targets are standardised inside (constant prior mean = their average), so the kernel's and the
    likelihood's parameters refer to standardised targets; every public result is in the original
    units. Inputs are used as given: for a non-stationary kernel their origin and scale matter.
    Linear algebra is dense Cholesky at every size, never the stochastic solvers.

    Args:
        x: inputs ``(N, d)`` or ``(N,)``.
        y: targets ``(N,)``, not all equal.
        kernel: any GPyTorch kernel without batch dimensions; it is converted to float64 in place.
        noise_var: initial noise variance in squared units of ``y``.

    Raises:
        ValueError: if shapes do not match, data are not finite, ``y`` is constant or ``noise_var``
            is not above ``1e-6`` times the variance of ``y``.
    """

    _NOISE_FLOOR = 1e-6

    def __init__(self, x: Tensor, y: Tensor, kernel: gpytorch.kernels.Kernel, noise_var: float):
        x, y = _columns(x), y.double()
        if y.ndim != 1 or len(y) != len(x) or len(y) < 2:
            raise ValueError(f"y must be (N,) with N = {len(x)} >= 2, got {tuple(y.shape)}")
        if not y.isfinite().all():
            raise ValueError("y must be finite, got NaN or infinity")
        y_mean, y_std = y.mean(), y.std(correction=0)
        if y.min() == y.max():
            raise ValueError("y must not be constant: its standard deviation is the unit used")
        if not noise_var > self._NOISE_FLOOR * y_std**2:
            raise ValueError(
                f"noise_var must be > {self._NOISE_FLOOR * y_std**2:.3g}, got {noise_var}"
            )
        floor = gpytorch.constraints.GreaterThan(self._NOISE_FLOOR)
        likelihood = gpytorch.likelihoods.GaussianLikelihood(noise_constraint=floor)
        super().__init__(x, (y - y_mean) / y_std, likelihood.to(x))
        self.kernel = kernel.to(x)
        self.register_buffer("y_mean", y_mean)
        self.register_buffer("y_std", y_std)
        self.likelihood.noise = noise_var / y_std**2

    def forward(self, x: Tensor) -> gpytorch.distributions.MultivariateNormal:
        return gpytorch.distributions.MultivariateNormal(x.new_zeros(x.shape[:-1]), self.kernel(x))

    @property
    def noise_var(self) -> Tensor:
        """Noise variance ``1 / tau`` in squared units of ``y``, 0-dim."""
        return self.likelihood.noise.detach().squeeze() * self.y_std**2

    def log_evidence(self) -> Tensor:
        """Log marginal likelihood of the targets in nats, original units of ``y``, 0-dim."""
        return self._log_evidence().detach()

    def fit(self, n_steps: int = 50) -> GaussianProcess:
        """Maximise the log evidence over kernel and noise parameters by L-BFGS; returns ``self``.

        Deterministic: it finds the optimum near the initial parameters, so those should be sane.

        Raises:
            ValueError: if ``n_steps`` < 1.
            FloatingPointError: if the evidence stops being finite; the parameters then are not
                usable.
        """
        if n_steps < 1:
            raise ValueError(f"n_steps must be >= 1, got {n_steps}")
        optimizer = torch.optim.LBFGS(
            self.parameters(), max_iter=n_steps, line_search_fn="strong_wolfe"
        )

        def closure() -> Tensor:
            optimizer.zero_grad()
            loss = -self._log_evidence() / len(self.train_targets)
            if not loss.isfinite():
                raise FloatingPointError("log evidence is not finite: start from other parameters")
            loss.backward()
            return loss

        optimizer.step(closure)
        return self

    @torch.no_grad()
    def predict(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Posterior mean and variance of the noise-free ``f`` at ``x``, each ``(M,)``.

        Units of ``y`` and their square. Add :attr:`noise_var` for the variance of a new target.

        Raises:
            ValueError: if ``x`` is not finite or has another number of columns.
        """
        x = _columns(x)
        if x.shape[1] != self.train_inputs[0].shape[1]:
            raise ValueError(
                f"x must have {self.train_inputs[0].shape[1]} columns, got {x.shape[1]}"
            )
        self.train()  # drops what GPyTorch cached for earlier parameters
        self.eval()
        with _exact():
            posterior = self(x)
            variance = posterior.lazy_covariance_matrix.diagonal(dim1=-1, dim2=-2).clamp(min=0)
        return self.y_mean + self.y_std * posterior.mean, self.y_std**2 * variance

    def _log_evidence(self) -> Tensor:
        self.train()
        with _exact():
            prior = self.likelihood(self(*self.train_inputs))
            log_evidence = prior.log_prob(self.train_targets)
        return log_evidence - len(self.train_targets) * self.y_std.log()


def _cholesky(k_train: Tensor, y: Tensor, noise_var: float) -> Tensor:
    if k_train.ndim != 2 or k_train.shape != (len(y), len(y)):
        raise ValueError(f"k_train must be {(len(y),) * 2} for y, got {tuple(k_train.shape)}")
    if not noise_var > 0:
        raise ValueError(f"noise_var must be > 0, got {noise_var}")
    for name, values in (("k_train", k_train), ("y", y)):
        if not values.isfinite().all():
            raise ValueError(f"{name} must be finite, got NaN or infinity")
    return torch.linalg.cholesky(k_train + noise_var * torch.eye(len(y)).to(k_train))


def _columns(x: Tensor) -> Tensor:
    x = x.double().reshape(len(x), -1)
    if not x.isfinite().all():
        raise ValueError("x must be finite, got NaN or infinity")
    return x


def _exact() -> ExitStack:
    stack = ExitStack()
    stack.enter_context(settings.fast_computations(False, False, False))  # Cholesky at any size
    stack.enter_context(settings.debug(False))  # predicting at the training inputs is fine
    return stack

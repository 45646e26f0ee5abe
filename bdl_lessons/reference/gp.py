"""Gaussian process regression: the algebra in ten lines, and a wrapper of GPyTorch.

Lessons 03, 05, 09 and 12.
"""

import math
from functools import partial

import gpytorch
import torch
from gpytorch import settings
from torch import Tensor

from bdl_lessons.core import validation
from bdl_lessons.core.validation import typechecked

_CHOLESKY = partial(settings.fast_computations, False, False, False)  # at any size


@typechecked
def gp_posterior(
    k_train: Tensor, k_cross: Tensor, k_test: Tensor, y: Tensor, noise_var: float | Tensor
) -> tuple[Tensor, Tensor]:
    """Posterior of ``f`` at the test inputs under ``y = f + noise``, ``f ~ GP(0, k)``.

    ``mean = K*' (K + noise_var I)^-1 y`` and ``cov = K** - K*' (K + noise_var I)^-1 K*``
    (Rasmussen & Williams 2006, eqs. 2.23 and 2.24), by one Cholesky factorisation.

    Args:
        k_train: ``K``, ``(N, N)``.
        k_cross: ``K*``, ``(N, M)``: training examples by test inputs.
        k_test: ``K**``, ``(M, M)``.
        y: targets ``(N,)``, or ``(N, D)`` for D independent outputs under the same kernel.
        noise_var: ``1 / tau`` in squared units of ``y``, > 0.

    Returns:
        mean ``(M,)`` or ``(M, D)``, and the covariance ``(M, M)`` of ``f`` (without the noise),
        which is the same for every output.

    Raises:
        TypeError, ValueError: if dtypes or shapes do not match, ``k_train`` or ``k_test`` is not
            symmetric, ``noise_var`` is not positive or a value is not finite.
        torch.linalg.LinAlgError: if ``k_train + noise_var I`` is not positive definite.

    >>> one, y = torch.ones(1, 1), torch.tensor([2.0])
    >>> mean, cov = gp_posterior(one, one, one, y, noise_var=1.0)
    >>> round(mean.item(), 3), round(cov.item(), 3)
    (1.0, 0.5)
    """
    for name, matrix in (("k_train", k_train), ("k_cross", k_cross), ("k_test", k_test), ("y", y)):
        validation.floating(name, matrix)
        validation.same_dtype(name, matrix, "k_train", k_train)
    rule = "k_train must be (N, N), k_cross (N, M), k_test (M, M) and y (N, ...)"
    validation.shapes(rule, k_train, k_cross, k_test, y)
    for name, matrix in (("k_train", k_train), ("k_test", k_test)):
        if ((matrix - matrix.mT).abs() > 1e-4 * matrix.diagonal().abs().mean()).any():
            raise ValueError(f"{name} must be symmetric: it is a covariance")
    noise_var = validation.like(k_train[0, 0], "noise_var", noise_var)
    validation.variance("noise_var", noise_var)
    chol = torch.linalg.cholesky(k_train + noise_var * torch.eye(len(y)).to(k_train))
    a = torch.linalg.solve_triangular(chol, k_cross, upper=False)
    b = torch.linalg.solve_triangular(chol, y.reshape(len(y), -1), upper=False)
    return (a.mT @ b).reshape(-1, *y.shape[1:]), k_test - a.mT @ a


class GaussianProcess(gpytorch.models.ExactGP):
    """GP regression with a GPyTorch kernel: exact, float64, predictions in the units of ``y``.

    Targets are standardised inside (constant prior mean = their average), and the parameters of the
    kernel and the likelihood refer to these; every public result is in the original units. Inputs
    are used as given: for a non-stationary kernel their origin and scale matter. Linear algebra is
    dense Cholesky at every size.

    Args:
        x: inputs ``(N, d)`` or ``(N,)``.
        y: targets ``(N,)``, not all equal.
        kernel: any GPyTorch kernel without batch dimensions; it is converted to float64 in place.
        noise_var: initial noise variance in squared units of ``y``.

    Raises:
        TypeError, ValueError: if shapes do not match, data are not real and finite, ``y`` is
            constant or ``noise_var`` not above ``1e-6`` times the variance of ``y``.

    >>> x = torch.linspace(-2, 2, 20)
    >>> gp = GaussianProcess(x, x.sin(), gpytorch.kernels.RBFKernel(), noise_var=0.01)
    >>> mean, variance = gp.fit().predict(torch.tensor([0.0, 5.0]))
    >>> mean.shape, bool(variance[1] > variance[0])
    (torch.Size([2]), True)
    """

    _NOISE_FLOOR = 1e-6

    @typechecked
    def __init__(self, x: Tensor, y: Tensor, kernel: gpytorch.kernels.Kernel, noise_var: float):
        x, y = _columns(x), validation.finite("y", y.double())
        validation.shapes("x must be (N, d) and y (N,)", x, y)
        y_mean, y_std = y.mean(), y.std(correction=0)
        if y.min() == y.max():
            raise ValueError("y must not be constant: its standard deviation is the unit used")
        lowest = self._NOISE_FLOOR * y_std**2
        if not lowest < noise_var < math.inf:
            raise ValueError(f"noise_var must be finite and > {lowest:.3g}, got {noise_var}")
        floor = gpytorch.constraints.GreaterThan(self._NOISE_FLOOR)
        likelihood = gpytorch.likelihoods.GaussianLikelihood(noise_constraint=floor).to(x)
        super().__init__(x, (y - y_mean) / y_std, likelihood)
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
        self.train()
        with _CHOLESKY(), settings.debug(False):
            prior = self.likelihood(self(*self.train_inputs))
            log_evidence = prior.log_prob(self.train_targets)
        return log_evidence - len(self.train_targets) * self.y_std.log()

    def fit(self, n_steps: int = 50) -> "GaussianProcess":
        """Maximise the log evidence over kernel and noise parameters by L-BFGS; returns ``self``.

        Deterministic: it finds the optimum near the initial parameters, so those should be sane.
        Raises TypeError or ValueError if ``n_steps`` is no integer >= 1; FloatingPointError if the
        evidence stops being finite; the parameters then are not usable.
        """
        validation.integer("n_steps", n_steps, 1)
        how = {"max_iter": n_steps, "line_search_fn": "strong_wolfe"}
        optimizer = torch.optim.LBFGS(self.parameters(), **how)

        def closure() -> Tensor:
            optimizer.zero_grad()
            loss = -self.log_evidence() / len(self.train_targets)
            if not loss.isfinite():
                raise FloatingPointError("log evidence is not finite: start from other parameters")
            loss.backward()
            return loss

        optimizer.step(closure)
        return self

    @typechecked
    @torch.no_grad()
    def predict(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Posterior mean and variance of the noise-free ``f`` at ``x``, each ``(M,)``.

        Units of ``y`` and their square. Add :attr:`noise_var` for the variance of a new target.
        Raises TypeError or ValueError if ``x`` is not finite or has another number of columns.
        """
        x = _columns(x)
        rule = "x must be (M, d), with the d of the training inputs (N, d)"
        validation.shapes(rule, x, *self.train_inputs)
        self.train()  # drops what GPyTorch cached for earlier parameters
        self.eval()
        with _CHOLESKY(), settings.debug(False):
            posterior = self(x)
            var = posterior.lazy_covariance_matrix.diagonal(dim1=-1, dim2=-2).clamp(min=0)
        return self.y_mean + self.y_std * posterior.mean, self.y_std**2 * var


def _columns(x: Tensor) -> Tensor:
    validation.shapes("x must be (N, ...)", validation.finite("x", x))
    return x.double().reshape(len(x), -1)

"""Gaussian process regression, a wrapper of GPyTorch whose results are in the units of the data.

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
        x = _columns(x)
        y = validation.finite("y", y.double())
        validation.shapes("x must be (N, d) and y (N,)", x, y)
        y_mean = y.mean()
        y_std = y.std(correction=0)
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

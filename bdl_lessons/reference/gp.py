"""Gaussian process regression, a wrapper of GPyTorch whose results are in the units of the data.

Lessons 03, 05, 09 and 13.
"""

from functools import partial

import gpytorch
import torch
from gpytorch import settings
from torch import Tensor, nn

from bdl_lessons.core import validation

# Dense Cholesky at every size: above 800 points GPyTorch would turn to stochastic estimates.
_CHOLESKY = partial(
    settings.fast_computations,
    covar_root_decomposition=False,
    log_prob=False,
    solves=False,
)


class GaussianProcess(nn.Module):
    """GP regression with a GPyTorch kernel: exact, float64, predictions in the units of ``y``.

    Targets are standardised inside (constant prior mean = their average), and the parameters of the
    kernel and the likelihood refer to these; every public result is in the original units. Inputs
    are used as given: for a non-stationary kernel their origin and scale matter. Linear algebra is
    dense Cholesky at every size.

    ``state_dict()`` holds the parameters of the kernel and the likelihood, and neither the data nor
    their units: what was fitted to one data set may be loaded for another. For other data make
    another process, since GPyTorch's ``set_train_data`` does not convert units.

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

    def __init__(self, x: Tensor, y: Tensor, kernel: gpytorch.kernels.Kernel, noise_var: float):
        super().__init__()
        x = _columns(x)
        validation.instance("y", y, Tensor)
        validation.shapes("x must be (N, d) and y (N,)", x, y)
        y = validation.finite("y", y).double()
        validation.instance("kernel", kernel, gpytorch.kernels.Kernel)
        if y.min() == y.max():
            raise ValueError("y must not be constant: its standard deviation is the unit used")
        y_mean = y.mean()
        y_std = y.std(correction=0)
        lowest = self._NOISE_FLOOR * y_std**2
        if not lowest < validation.number("noise_var", noise_var):
            raise ValueError(f"noise_var must be finite and > {lowest:.3g}, got {noise_var}")
        floor = gpytorch.constraints.GreaterThan(self._NOISE_FLOOR)
        likelihood = gpytorch.likelihoods.GaussianLikelihood(noise_constraint=floor).to(x)
        likelihood.noise = noise_var / y_std**2
        self._standardised = _ZeroMeanProcess(
            x=x,
            y=(y - y_mean) / y_std,
            likelihood=likelihood,
            kernel=kernel.to(x),
        )
        # Units of these data: a state that is loaded from another process leaves them alone.
        self.register_buffer("y_mean", y_mean, persistent=False)
        self.register_buffer("y_std", y_std, persistent=False)

    @property
    def kernel(self) -> gpytorch.kernels.Kernel:
        """The kernel, of standardised targets."""
        return self._standardised.kernel

    @property
    def likelihood(self) -> gpytorch.likelihoods.GaussianLikelihood:
        """The likelihood, of standardised targets."""
        return self._standardised.likelihood

    @property
    def noise_var(self) -> Tensor:
        """Noise variance ``1 / tau`` in squared units of ``y``, 0-dim."""
        return self.likelihood.noise.detach().squeeze() * self.y_std**2

    def forward(self, *args: object, **kwargs: object) -> None:
        """Refused by a TypeError: there is no telling in which units a call should answer."""
        raise TypeError("a GaussianProcess is not called: predict(x) answers in the units of y")

    def log_evidence(self) -> Tensor:
        """Log marginal likelihood of the targets in nats, original units of ``y``, 0-dim."""
        process = self._standardised.train()
        with _CHOLESKY(), settings.debug(False):
            prior = self.likelihood(process(*process.train_inputs))
            log_evidence = prior.log_prob(process.train_targets)
        return log_evidence - len(process.train_targets) * self.y_std.log()

    def fit(self, n_steps: int = 50) -> "GaussianProcess":
        """Maximise the log evidence over kernel and noise parameters by L-BFGS; returns ``self``.

        Deterministic: it finds the optimum near the initial parameters, so those should be sane.
        Raises TypeError or ValueError if ``n_steps`` is no integer >= 1; FloatingPointError if the
        evidence stops being finite; the parameters then are not usable.
        """
        n_train = len(self._standardised.train_targets)
        optimizer = torch.optim.LBFGS(
            self.parameters(),
            max_iter=validation.integer("n_steps", n_steps, 1),
            line_search_fn="strong_wolfe",
        )

        def closure() -> Tensor:
            optimizer.zero_grad()
            loss = -self.log_evidence() / n_train
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
        Raises TypeError or ValueError if ``x`` is not finite or has another number of columns.
        """
        process = self._standardised
        x = _columns(x)
        rule = "x must be (M, d), with the d of the training inputs (N, d)"
        validation.shapes(rule, x, *process.train_inputs)
        process.train()  # drops what GPyTorch cached for earlier parameters
        process.eval()
        with _CHOLESKY(), settings.debug(False):
            posterior = process(x)
            var = posterior.lazy_covariance_matrix.diagonal(dim1=-1, dim2=-2).clamp(min=0)
        return self.y_mean + self.y_std * posterior.mean, self.y_std**2 * var


class _ZeroMeanProcess(gpytorch.models.ExactGP):
    """GPyTorch's exact model of standardised targets."""

    def __init__(
        self,
        x: Tensor,
        y: Tensor,
        likelihood: gpytorch.likelihoods.GaussianLikelihood,
        kernel: gpytorch.kernels.Kernel,
    ):
        super().__init__(x, y, likelihood)
        self.kernel = kernel

    def forward(self, x: Tensor) -> gpytorch.distributions.MultivariateNormal:
        mean = x.new_zeros(x.shape[:-1])
        return gpytorch.distributions.MultivariateNormal(mean, self.kernel(x))


def _columns(x: Tensor) -> Tensor:
    validation.shapes("x must be (N, ...)", validation.instance("x", x, Tensor))
    return validation.finite("x", x).double().reshape(len(x), -1)

r"""What all layers share: how they are called, and the two ways in which noise enters.

A layer has a distribution over the weights of ``inner``, an ``nn.Linear`` or ``nn.Conv2d``. A
method is a class of its own in a file of its own: its parameters, how its noise is drawn, and its
KL to the prior. It builds on one of two classes that are here:

- :class:`UnitNoise` multiplies each input unit by a random factor, :math:`W = \mathrm{diag}(\xi)
  \Theta`. A method says how ``xi`` is drawn. Lessons 01, 04, 05, 07, 11 and 12.
- :class:`WeightNoise` gives each weight its own Gaussian, :math:`w_{ij} \sim N(\mu_{ij},
  \sigma_{ij}^2)`. A method says what the variances are. Lessons 06, 07 and 08.
"""

import math
from collections.abc import Callable
from typing import Literal

import torch
from torch import Tensor, nn
from torch.nn import functional

from bdl_lessons.core.devices import single
from bdl_lessons.core.random import standard_normal
from bdl_lessons.core.validation import valid_p_drop

Sampling = Literal["per_example", "shared", "mean"]
"""Which weights act: a draw for every example, one draw for all of them, or the mean weights."""


class StochasticLayer(nn.Module):
    """A layer with a distribution over the weights of ``inner``, and a KL to their prior.

    ``layer(x, sampling, generator)`` takes ``(B, K)``, or ``(S, B, K)`` with a sample axis; for a
    convolution ``C, H, W`` stand in place of ``K``. ``sampling`` says which weights act:

    - ``"per_example"``: every example has a draw of its own, as in training. (Hierarchical dropout
      draws its scales once for all of them.)
    - ``"shared"``: all examples share a draw, which is a sample of the function; with a sample axis
      one draw for each of the ``S``.
    - ``"mean"``: nothing is drawn and the mean weights act, which is weight scaling.

    ``train()`` and ``eval()`` do not matter. A call raises TypeError if ``sampling`` or the
    generator is missing or ``x`` is no floating-point tensor; ValueError if ``sampling`` is unknown
    or ``x`` has another number of units, channels or axes.

    Args:
        inner: an ``nn.Linear`` or an ``nn.Conv2d`` with one group, else TypeError or ValueError.
            Its weights are used as they are, not copied.

    >>> from bdl_lessons.models import BinaryDropout
    >>> layer = BinaryDropout(nn.Linear(3, 2), p_drop=0.5)
    >>> layer(torch.ones(5, 3), "per_example", torch.Generator()).shape, layer.kl().shape
    (torch.Size([5, 2]), torch.Size([]))
    """

    batch_may_differ: tuple[str, ...] = ()
    """Names of numbers among the settings that may differ in batched networks."""

    def __init__(self, inner: nn.Linear | nn.Conv2d) -> None:
        super().__init__()
        if not isinstance(inner, nn.Linear | nn.Conv2d):
            wanted = "inner must be an nn.Linear or an nn.Conv2d, such as nn.Linear(784, 400)"
            raise TypeError(f"{wanted}, got {inner!r}")
        if getattr(inner, "groups", 1) != 1:
            raise ValueError(f"inner must have groups=1, got a convolution with {inner.groups}")
        self.inner = inner
        self.n_units = inner.weight.shape[1]
        """K: input units, or the input channels of a convolution."""
        self.unit_dims = 1 if isinstance(inner, nn.Linear) else 3
        """Axes of x from the units or channels on."""

    @property
    def weight(self) -> nn.Parameter:
        """The mean weights as PyTorch stores them, ``(L, K)`` or ``(L, C, k, k)``."""
        return self.inner.weight

    @property
    def bias(self) -> nn.Parameter | None:
        """``(L,)``; it has no noise."""
        return self.inner.bias

    @property
    def alpha(self) -> Tensor:
        """``exp(log_alpha)``: variance of the noise relative to the squared mean of a weight.

        AttributeError for layers without a ``log_alpha``, such as those of binary dropout.
        """
        return self.log_alpha.exp()

    def kl(self) -> Tensor:
        """KL from the distribution of the weights to the prior: a positive sum in nats, 0-dim."""
        raise NotImplementedError

    def reset_noise(self, generator: torch.Generator) -> None:
        """Draw the start of those parameters of the noise that start at random, if it has any."""

    def squared_norms(self) -> tuple[Tensor, Tensor | float]:
        """``||theta||**2`` and ``||b||**2``, which is 0 without a bias: sums, in float32 at least.

        A Gaussian prior with mean 0 penalises them, and each method says with which factors.
        """
        of_weight = single(self.inner.weight).square().sum()
        if self.inner.bias is None:
            return of_weight, 0.0
        return of_weight, single(self.inner.bias).square().sum()

    def apply_inner(self, x: Tensor) -> Tensor:
        """``inner`` on ``x``, whose images may have a sample axis before their batch."""
        if self.unit_dims == 3 and x.dim() > 4:
            return self.inner(x.flatten(0, -4)).unflatten(0, x.shape[:-3])
        return self.inner(x)

    def check_call(
        self, x: Tensor, sampling: str | None, generator: torch.Generator | None
    ) -> None:
        """Raise unless the layer can be called with these arguments."""
        if not isinstance(x, Tensor) or not x.is_floating_point():
            kind = getattr(x, "dtype", type(x).__name__)
            raise TypeError(f"x must be a floating-point tensor, got {kind}: x.float() is one")
        if not isinstance(sampling, str) or sampling not in ("per_example", "shared", "mean"):
            refuse_sampling(sampling)
        if sampling != "mean" and not isinstance(generator, torch.Generator):
            needed = f"sampling={sampling!r} draws random numbers: give generator=torch.Generator()"
            raise TypeError(f"{needed}, got {type(generator).__name__}")
        if x.dim() < self.unit_dims or x.shape[-self.unit_dims] != self.n_units:
            units = "channels" if self.unit_dims == 3 else "units"
            wanted = f"{self.n_units} input {units} on axis {-self.unit_dims}"
            raise ValueError(f"x must have {wanted}, got shape {tuple(x.shape)}")
        if sampling == "shared" and not 1 <= x.dim() - self.unit_dims <= 2:
            n_axes = self.unit_dims + 1
            wanted = f"{n_axes} axes, or {n_axes + 1} with a sample axis: flatten the leading ones"
            raise ValueError(f"x must have {wanted}, got shape {tuple(x.shape)}")


class UnitNoise(StochasticLayer):
    """``W = diag(xi) Theta``: one random factor with mean one for each input unit or channel.

    Multiplying row i of the weights by ``xi_i`` is the same as multiplying input i by it, so a draw
    takes K numbers instead of K * L. ``Theta`` is ``weight.T``. A channel of a convolution has one
    factor at all its pixels: noise that differs between pixels, as in ``nn.Dropout`` on a feature
    map, is no distribution over one filter.

    A method adds :meth:`draw_xi` and ``kl``.
    """

    def draw_xi(self, shape: tuple[int, ...], generator: torch.Generator) -> Tensor:
        """Factors ``(..., K)``, independent over all axes but the last."""
        raise NotImplementedError

    def forward(
        self, x: Tensor, sampling: Sampling | None = None, generator: torch.Generator | None = None
    ) -> Tensor:
        """``(..., B, L)``, or ``(..., B, L, H', W')``; see :class:`StochasticLayer`."""
        self.check_call(x, sampling, generator)
        if sampling == "mean":
            return self.apply_inner(x)
        leading = x.shape[: -self.unit_dims]
        if sampling == "shared":
            leading = (*leading[:-1], 1)  # one draw for the whole batch
        xi = self.draw_xi((*leading, self.n_units), generator)
        if self.unit_dims == 3:
            xi = xi[..., None, None]
        return self.apply_inner(x * xi)


class WeightNoise(StochasticLayer):
    r"""Every weight has an independent Gaussian: :math:`w_{ij} \sim N(\mu_{ij}, \sigma_{ij}^2)`.

    For an example ``a`` the activation ``b = a W`` is then Gaussian too, and its units are
    independent:

    .. math:: b_j \sim N(\gamma_j, \delta_j), \qquad \gamma_j = \sum_i a_i \mu_{ij}, \qquad
              \delta_j = \sum_i a_i^2 \sigma_{ij}^2

    ``"per_example"`` draws ``b`` instead of ``W``: the local reparameterization trick (Kingma,
    Salimans and Welling, NeurIPS 2015, section 2.3; lesson 06), a draw of its own for every example
    by two matrix products. In a convolution one filter slides over the image, so activations at
    different places share its noise; the trick draws each place on its own. Mean and variance of
    every activation are right there, covariances between places are set to 0. ``"shared"`` draws
    the weights, and has them.

    The means ``mu`` are ``weight``. A method adds :meth:`weight_var` and ``kl``.
    """

    @property
    def mu(self) -> nn.Parameter:
        """The mean of each weight, ``(L, K)`` or ``(L, C, k, k)``: ``weight`` by its letter."""
        return self.inner.weight

    def weight_mean(self) -> Tensor:
        """The mean of each weight: ``mu``, unless a method leaves some of them out."""
        return self.inner.weight

    def weight_var(self) -> Tensor:
        """The variance of each weight, in the shape of ``mu``."""
        raise NotImplementedError

    def product(self, x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        """What ``inner`` would make of ``x`` if these were its weights and its bias."""
        if self.unit_dims == 1:
            return functional.linear(x, weight, bias)
        if x.dim() == 4:
            return self.inner._conv_forward(x, weight, bias)
        y = self.inner._conv_forward(x.flatten(0, -4), weight, bias)
        return y.unflatten(0, x.shape[:-3])

    def activation_moments(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Mean gamma and variance delta of each activation, given the inputs: ``(..., B, L)``."""
        mean = self.product(x, self.weight_mean(), self.inner.bias)
        var = self.product(x.square(), self.weight_var(), None)
        return mean, var

    def draw_weights(self, n_samples: int, generator: torch.Generator) -> Tensor:
        """``n_samples`` draws of the weights: ``(S, L, K)`` or ``(S, L, C, k, k)``."""
        mean = self.weight_mean()
        eps = standard_normal((n_samples, *mean.shape), generator, mean)
        return add_noise(mean, self.weight_var(), eps)

    def forward(
        self, x: Tensor, sampling: Sampling | None = None, generator: torch.Generator | None = None
    ) -> Tensor:
        """``(..., B, L)``, or ``(..., B, L, H', W')``; see :class:`StochasticLayer`."""
        self.check_call(x, sampling, generator)
        if sampling == "mean":
            return self.product(x, self.weight_mean(), self.inner.bias)
        if sampling == "per_example":
            mean, var = self.activation_moments(x)
            return add_noise(mean, var, standard_normal(var.shape, generator, var))
        has_sample_axis = x.dim() == self.unit_dims + 2
        samples = x if has_sample_axis else x[None]
        weights = self.draw_weights(len(samples), generator)
        y = torch.vmap(self.product, in_dims=(0, 0, None))(samples, weights, self.inner.bias)
        return y if has_sample_axis else y[0]


def refuse_sampling(sampling: object) -> None:
    """Raise the error of a ``sampling`` that is missing or unknown."""
    if sampling is None:
        raise TypeError(
            'sampling is missing: write model(x, "per_example", generator) to draw the weights for '
            'every example, model(x, "shared", generator) for the batch, or model(x, "mean")'
        )
    known = ("per_example", "shared", "mean")
    raise ValueError(f"sampling must be one of {known}, got {sampling!r}")


def add_noise(mean: Tensor, var: Tensor, eps: Tensor) -> Tensor:
    """``mean + sqrt(var) * eps``, with slope 0 where ``var`` is 0 (an example of zeros).

    Some algorithms of convolution leave a ``var`` that should be 0 a little below.
    """
    return mean + var.clamp_min(torch.finfo(var.dtype).tiny).sqrt() * eps


def log_relative_variance(mu: Tensor, log_sigma2: Tensor) -> Tensor:
    """``log_alpha = log(sigma2 / mu**2)`` of each weight, any shape (lesson 08).

    ``mu**2`` would underflow long before ``mu`` does, so the logarithm is taken of ``|mu|``, held
    at the smallest normal number: a ``mu`` of 0 gives a large, finite value and gradient 0. Raises
    ValueError if the shapes differ.

    >>> log_relative_variance(torch.tensor([-1.0, 0.1]), torch.zeros(2)).round(decimals=3)
    tensor([0.0000, 4.6050])
    """
    if mu.shape != log_sigma2.shape:
        raise ValueError(f"mu has shape {tuple(mu.shape)}, log_sigma2 {tuple(log_sigma2.shape)}")
    log_size = mu.abs().clamp_min(torch.finfo(mu.dtype).tiny).log()
    return log_sigma2 - 2 * log_size


def matched_log_alpha(p_drop: float) -> float:
    """The log variance of inverted dropout, ``log(p_drop / (1 - p_drop))``.

    Raises TypeError or ValueError if ``p_drop`` is not a number in (0, 1).

    >>> round(math.exp(matched_log_alpha(0.2)), 6)
    0.25
    """
    if valid_p_drop(p_drop) == 0:
        raise ValueError("p_drop must lie in (0, 1), got 0: its alpha is 0 and has no logarithm")
    return math.log(p_drop) - math.log1p(-p_drop)


def clamp_with_grad(x: Tensor, low: float, high: float) -> Tensor:
    """``x.clamp(low, high)`` whose gradient passes wherever a step would lead back inside.

    A plain clamp has gradient 0 outside, and a parameter would stay there for good.
    """
    return _ClampWithGrad.apply(x, low, high)


class _ClampWithGrad(torch.autograd.Function):
    @staticmethod
    def forward(x: Tensor, low: float, high: float) -> Tensor:
        return x.clamp(low, high)

    @staticmethod
    def setup_context(ctx, inputs: tuple[Tensor, float, float], output: Tensor) -> None:
        x, *ctx.bounds = inputs
        ctx.save_for_backward(x)

    @staticmethod
    def backward(ctx, grad: Tensor) -> tuple[Tensor, None, None]:
        (x,) = ctx.saved_tensors
        leads_out = grad * (x - x.clamp(*ctx.bounds)) < 0
        return grad.masked_fill(leads_out, 0), None, None

    @staticmethod
    def vmap(info, in_dims: tuple, x: Tensor, low: float, high: float) -> tuple[Tensor, int]:
        return clamp_with_grad(x, low, high), in_dims[0]  # a generated rule takes ten times as long


Method = Callable[[nn.Module], StochasticLayer]
"""What makes a layer of an ``nn.Linear`` or ``nn.Conv2d``, as ``Deterministic`` does."""

"""What the layers of all methods share, linear and convolutional. Lessons 05 to 12 build on it.

A layer is put together from three parts, each written once: :class:`StochasticLayer`, the three
ways to sample; :class:`Linear` or :class:`Conv2d`, what a given matrix of weights makes of the
inputs; and a family, how noise enters between the two. :class:`UnitNoise` is here, one random
factor for each input unit; :mod:`weight_noise` has the other, one random number for each weight.

A method adds a noise, a module that is drawn from and that has a KL to the prior, and a
:class:`LayerFactory` with its settings.
"""

from collections.abc import Callable
from typing import Literal

import torch
from torch import Tensor, nn
from torch.nn import functional

from bdl_lessons.core.validation import floating_type, integer, one_of

Sampling = Literal["per_example", "shared", "mean"]


class StochasticLayer(nn.Module):
    """A layer with a distribution over its weights: it draws from it and has a KL to the prior.

    Inputs are ``(B, K)``, or ``(S, B, K)`` with a sample axis; ``"shared"`` then makes one draw
    for each of the ``S`` (for a convolution put ``C, H, W`` in place of ``K``). ``train()`` and
    ``eval()`` do not matter. A family says what ``_forward_mean(x)``,
    ``_forward_per_example(x, generator)`` and ``_forward_with(x, draw)`` are.

    >>> from bdl_lessons.models import BinaryDropout
    >>> layer, g = BinaryDropout(0.5).linear(3, 2), torch.Generator().manual_seed(0)
    >>> layer(torch.ones(5, 3), "per_example", g).shape, layer.kl().shape
    (torch.Size([5, 2]), torch.Size([]))
    """

    unit_dims: int
    """Axes of x from the units or channels on: 1 for linear layers, 3 for convolutions."""

    is_random = True
    """Whether two draws can differ."""

    @property
    def alpha(self) -> Tensor:
        """``exp(log_alpha)``: variance of the noise relative to the squared mean of a weight.

        AttributeError for layers without a ``log_alpha``, such as those of binary dropout.
        """
        return self.log_alpha.exp()

    def forward(
        self, x: Tensor, sampling: Sampling | None = None, generator: torch.Generator | None = None
    ) -> Tensor:
        """The layer's outputs, ``(..., B, L)`` or ``(..., B, L, H', W')``, under drawn weights.

        Args:
            x: ``(B, K)`` or ``(B, C, H, W)``, or with a sample axis before these.
            sampling: which weights. ``"per_example"``: every example of the batch has its own draw,
                as in training. (Hierarchical dropout draws its scales once for all of them.)
                ``"shared"``: all examples have one draw, a sample of the function. ``"mean"``:
                nothing is drawn, the mean weights act, which is weight scaling.
            generator: where draws come from; ``"mean"`` needs none.

        Raises:
            TypeError, ValueError: if x has another number of units, channels or axes or is no
                floating-point tensor, or ``sampling`` or generator is missing or unknown.
        """
        check_call(x, sampling, generator)
        self._check_units(x)
        if sampling == "mean" or not self.is_random:
            return self._forward_mean(x)
        if sampling == "per_example":
            return self._forward_per_example(x, generator)
        n_axes = self.unit_dims + 1
        if x.dim() == n_axes:
            return self._forward_with(x[None], self.sample_weights(1, generator))[0]
        if x.dim() != n_axes + 1:
            wanted = f"{n_axes} axes, or {n_axes + 1} with a sample axis: flatten the leading ones"
            raise ValueError(f"x must have {wanted}, got shape {tuple(x.shape)}")
        return self._forward_with(x, self.sample_weights(len(x), generator))

    def sample_weights(self, n_samples: int, generator: torch.Generator) -> Tensor:
        """``n_samples`` draws of the layer's noise, first axis S, for :meth:`forward_with`; a tuple
        of such tensors for a block of layers.
        """
        raise NotImplementedError

    def forward_with(self, x: Tensor, draw: Tensor) -> Tensor:
        """The layer under the draws ``(S, ...)`` of :meth:`sample_weights`, for x ``(S, B, ...)``.

        Raises ValueError if their sample axes differ or x has another number of units.
        """
        if x.dim() != self.unit_dims + 2 or len(x) != len(draw):
            wanted = f"{self.unit_dims + 2} axes, the first for the {len(draw)} draws"
            raise ValueError(f"x must have {wanted}, got shape {tuple(x.shape)}")
        self._check_units(x)
        return self._forward_with(x, draw)

    def kl(self) -> Tensor:
        """KL from the distribution of the weights to the prior: a positive sum in nats, 0-dim."""
        raise NotImplementedError

    def reset_noise(self, generator: torch.Generator) -> None:
        """Draw the start of those parameters of the noise that start at random, if it has any."""
        self.noise.reset_parameters(generator)

    def _check_units(self, x: Tensor) -> None:
        n_units = self.weight.shape[1]
        axis = -self.unit_dims
        if x.dim() < self.unit_dims or x.shape[axis] != n_units:
            units = "channels" if self.unit_dims == 3 else "units"
            got = f"got shape {tuple(x.shape)}"
            raise ValueError(f"x must have {n_units} input {units} on axis {axis}, {got}")


def check_call(x: Tensor, sampling: str | None, generator: torch.Generator | None) -> None:
    """Raise unless ``x`` and ``sampling`` are known and what is drawn has a generator."""
    floating_type("x", x)
    if sampling is None:
        raise TypeError(
            'sampling is missing: write model(x, "per_example", generator) to draw the weights for '
            'every example, model(x, "shared", generator) for the batch, or model(x, "mean")'
        )
    draws = one_of("sampling", sampling, Sampling) != "mean"
    if draws and not isinstance(generator, torch.Generator):
        needed = f"sampling={sampling!r} draws random numbers: give generator=torch.Generator()"
        raise TypeError(f"{needed}, got {type(generator).__name__}")


class Linear(nn.Linear):
    """The linear map of a layer, from ``(..., B, K)`` to ``(..., B, L)``.

    Args:
        noise: the distribution of the weights around those that ``nn.Linear`` stores.
    """

    unit_dims = 1

    def __init__(self, in_features: int, out_features: int, noise: nn.Module, bias: bool = True):
        super().__init__(in_features, out_features, bias)
        self.noise = noise

    def linear_map(self, x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        """``x W' + b`` with ``W`` ``(L, K)``, or ``(S, L, K)`` for an x of ``(S, B, K)``."""
        if weight.dim() == 2:
            return functional.linear(x, weight, bias)
        y = x @ weight.mT
        return y if bias is None else y + bias[..., None, :]


class Conv2d(nn.Conv2d):
    """The linear map of a convolution, from ``(..., B, C, H, W)`` to ``(..., B, L, H', W')``."""

    unit_dims = 3

    def __init__(self, sizes: tuple[int, int, int], noise: nn.Module, **options) -> None:
        super().__init__(*sizes, **options)
        self.noise = noise

    def linear_map(self, x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        """``weight`` is ``(L, C, k, k)``, or ``(S, L, C, k, k)`` for an x of ``(S, B, ...)``."""
        if weight.dim() == 5:
            bias_dim = None if bias is None or bias.dim() == 1 else 0
            return torch.vmap(self.linear_map, (0, 0, bias_dim))(x, weight, bias)
        return apply_batched(lambda images: self._conv_forward(images, weight, bias), x)


def apply_batched(module: Callable[[Tensor], Tensor], x: Tensor) -> Tensor:
    """A module without random weights on ``x``; images may have sample axes before their batch.

    >>> apply_batched(nn.MaxPool2d(2), torch.ones(7, 5, 3, 8, 8)).shape
    torch.Size([7, 5, 3, 4, 4])
    """
    if x.dim() <= 4:
        return module(x)
    return module(x.flatten(0, -4)).unflatten(0, x.shape[:-3])


class LayerFactory:
    """Makes the linear and convolutional layers of one method, e.g. ``BinaryDropout(0.5)``.

    A method has a pair of ``layers``, linear and convolutional, and :meth:`_noise` makes theirs.

    >>> from bdl_lessons.models import BinaryDropout
    >>> BinaryDropout(0.5).conv2d(3, 8, kernel_size=5).weight.shape
    torch.Size([8, 3, 5, 5])
    """

    layers: tuple[type[StochasticLayer], type[StochasticLayer]]

    def linear(self, in_features: int, out_features: int, bias: bool = True) -> StochasticLayer:
        """A layer from ``in_features`` to ``out_features`` units."""
        integer("in_features", in_features, 1)
        integer("out_features", out_features, 1)
        noise = self._noise((out_features, in_features), bias)
        return self.layers[0](in_features, out_features, noise, bias)

    def conv2d(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: int | tuple[int, int],
        bias: bool = True,
        stride: int = 1,
        padding: int = 0,
    ) -> StochasticLayer:
        """A convolution with filters of ``kernel_size``, square ones for one number."""
        integer("in_channels", in_channels, 1)
        integer("out_channels", out_channels, 1)
        kernel = kernel_size if isinstance(kernel_size, tuple | list) else (kernel_size,) * 2
        kernel = tuple(integer("kernel_size", size, 1) for size in kernel)
        noise = self._noise((out_channels, in_channels, *kernel), bias)
        options = {"bias": bias, "stride": stride, "padding": padding}
        return self.layers[1]((in_channels, out_channels, kernel), noise, **options)

    def _noise(self, weight_shape: tuple[int, ...], bias: bool) -> nn.Module:
        """The noise of a new layer with weights ``(L, K)`` or ``(L, C, k, k)``."""
        raise NotImplementedError


class UnitNoise(nn.Module):
    """The distribution of ``xi``: one factor for each input unit of a layer, with mean one.

    ``W = diag(xi) Theta``: multiplying row i of the weights by ``xi_i`` is the same as multiplying
    input i by it, so a draw takes K numbers instead of K * L. A method says how ``xi`` is drawn and
    what its KL is. Lessons 01, 04, 05, 07, 10 and 11.
    """

    is_random = True
    """False if ``xi = 1`` with certainty."""

    def sample(self, shape: torch.Size, generator: torch.Generator, like: Tensor) -> Tensor:
        """Draw ``xi`` ``(..., K)``, independent over all axes but the last, typed as ``like``."""
        raise NotImplementedError

    def kl(self, theta: Tensor, bias: Tensor | None) -> Tensor:
        """KL to the prior, a sum in nats, 0-dim; ``xi_i`` multiplies row i of ``theta (K, Q)``."""
        raise NotImplementedError

    def cov(self) -> Tensor:
        """``Cov[xi]``, ``(K, K)``; TypeError if the factors are independent."""
        diagonal = "independent factors have a diagonal one, with alpha or p_drop / keep on it"
        raise TypeError(f"noise_cov, the covariance, needs structured dropout: {diagonal}")

    def reset_parameters(self, generator: torch.Generator) -> None:
        """Draw the start of those parameters that start at random, if there are any."""


class UnitNoiseLayer(StochasticLayer):
    """``y = (x ∘ xi) Theta + b``; ``weight``, ``(L, K)`` as in PyTorch, is ``Theta.T``."""

    noise: UnitNoise

    @property
    def is_random(self) -> bool:
        return self.noise.is_random

    @property
    def log_alpha(self) -> Tensor:
        """Log variance of the factors: 0-dim or ``(K,)``.

        In structured dropout it is that before the reflections, in hierarchical without the scales.
        """
        return self.noise.log_alpha

    def noise_cov(self) -> Tensor:
        """``Cov[xi]``, ``(K, K)``; TypeError if the factors are independent: it is diagonal."""
        return self.noise.cov()

    def sample_weights(self, n_samples: int, generator: torch.Generator) -> Tensor:
        """Draws of ``xi`` alone: ``(S, 1, K)`` or ``(S, 1, C, 1, 1)``."""
        return self._xi((n_samples, 1), generator)

    def kl(self) -> Tensor:
        return self.noise.kl(self.weight.transpose(0, 1).flatten(1), self.bias)

    def _forward_mean(self, x: Tensor) -> Tensor:
        return self.linear_map(x, self.weight, self.bias)

    def _forward_per_example(self, x: Tensor, generator: torch.Generator) -> Tensor:
        return self._forward_with(x, self._xi(x.shape[: -self.unit_dims], generator))

    def _forward_with(self, x: Tensor, draw: Tensor) -> Tensor:
        return self.linear_map(x * draw, self.weight, self.bias)

    def _xi(self, leading: tuple[int, ...], generator: torch.Generator) -> Tensor:
        shape = torch.Size([*leading, self.weight.shape[1]])
        xi = self.noise.sample(shape, generator, self.weight)
        return xi.view(*shape, *[1] * (self.unit_dims - 1))


class UnitNoiseLinear(UnitNoiseLayer, Linear):
    """A linear layer with unit noise: ``x`` is ``(..., B, K)`` and ``y`` ``(..., B, L)``.

    >>> from bdl_lessons.models import BinaryDropout
    >>> type(BinaryDropout(0.5).linear(3, 2)).__name__
    'UnitNoiseLinear'
    """


class UnitNoiseConv2d(UnitNoiseLayer, Conv2d):
    """A convolution with one ``xi`` for each input *channel*, the same at all pixels.

    ``x`` is ``(..., B, C, H, W)``. The filter that slides over the image is ``xi_c Theta_c``
    everywhere. Noise that differs between pixels, as in ``nn.Dropout`` on a feature map, is no
    distribution over one filter.
    """


class UnitNoiseFactory(LayerFactory):
    """Layers with unit noise. A method adds its ``_noise``."""

    layers = (UnitNoiseLinear, UnitNoiseConv2d)


class GaussianNoise(nn.Module):
    """Noise with a ``log_alpha`` of any ``shape``, from ``init`` on between ``low`` and ``high``.

    The stored ``raw_log_alpha`` may leave them: see :func:`clamp_with_grad`.
    """

    def __init__(self, shape: tuple[int, ...], init: float, low: float, high: float) -> None:
        super().__init__()
        self.raw_log_alpha = nn.Parameter(torch.full(shape, float(init)))
        self.bounds = low, high

    @property
    def log_alpha(self) -> Tensor:
        return clamp_with_grad(self.raw_log_alpha, *self.bounds)

    def extra_repr(self) -> str:
        return f"{tuple(self.raw_log_alpha.shape)}, learned={self.raw_log_alpha.requires_grad}"


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

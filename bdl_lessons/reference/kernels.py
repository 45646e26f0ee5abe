"""Kernels of infinitely wide networks: Gaussian expectations of nonlinearities. Lessons 03 and 09.

A hidden layer turns a Gaussian pair of pre-activations ``(u, v)`` with variances ``kxx``, ``kyy``
and covariance ``kxy`` into the covariance ``E[phi(u) phi(v)]``. Three functions are that map for
three nonlinearities; the kernels apply it once per layer.
"""

import math
from collections.abc import Callable, Sequence

import gpytorch
import torch
from gpytorch.constraints import Positive
from torch import Tensor

from bdl_lessons.core.validation import integer, like, variance


def relu_expectation(kxx: Tensor, kyy: Tensor, kxy: Tensor) -> Tensor:
    r"""``E[relu(u) relu(v)]`` for a zero-mean Gaussian pair (Cho & Saul 2009, order 1).

    .. math:: \frac{1}{2\pi}\left(s + (\pi - \theta)\,k_{xy}\right), \qquad
              s = \sqrt{k_{xx}k_{yy} - k_{xy}^2}, \quad \theta = \operatorname{atan2}(s, k_{xy})

    This is *half* of Cho & Saul's ``k_1``, which carries a factor 2. Nothing is divided, so zero
    vectors and equal inputs are ordinary cases. The gradients are in closed form (Price's theorem):
    at equal inputs, differentiating the formula term by term gives ``inf - inf``.

    Args:
        kxx, kyy: variances >= 0 that broadcast to the shape of ``kxy``, else ValueError.
        kxy: covariances, ``kxy^2 <= kxx kyy``; the result has this shape.

    >>> relu_expectation(*torch.tensor([1.0, 1.0, 1.0]))
    tensor(0.5000)
    """
    return _ReLUExpectation.apply(*_gaussian_pair(kxx, kyy, kxy))


def erf_expectation(kxx: Tensor, kyy: Tensor, kxy: Tensor) -> Tensor:
    r"""``E[erf(u) erf(v)]`` for a zero-mean Gaussian pair (Rasmussen & Williams 2006, 4.29).

    .. math:: \frac{2}{\pi}\arcsin\frac{2k_{xy}}{\sqrt{(1 + 2k_{xx})(1 + 2k_{yy})}}

    written with ``atan2``, whose gradient stays finite when the fraction tends to 1 (saturated
    units). Arguments as in :func:`relu_expectation`.

    >>> erf_expectation(*torch.tensor([1.0, 1.0, 0.0]))
    tensor(0.)
    """
    kxx, kyy, kxy = _gaussian_pair(kxx, kyy, kxy)
    adjacent = (1 + 2 * (kxx + kyy) + 4 * (kxx * kyy - kxy.square())).clamp(min=1).sqrt()
    return 2 / math.pi * torch.atan2(2 * kxy, adjacent)


def cos_expectation(kxx: Tensor, kyy: Tensor, kxy: Tensor) -> Tensor:
    r"""``E[cos(u + c) cos(v + c)]`` with one phase ``c ~ U[0, 2 pi]`` (Rahimi & Recht 2007).

    .. math:: \tfrac12 \exp\left(k_{xy} - \tfrac12(k_{xx} + k_{yy})\right)

    For ``u = w'x`` with ``w ~ N(0, I / lengthscale^2)`` the exponent is
    ``-|x - x'|^2 / (2 lengthscale^2)``: half the squared-exponential kernel. Arguments as above.

    >>> cos_expectation(*torch.tensor([1.0, 1.0, 1.0]))
    tensor(0.5000)
    """
    kxx, kyy, kxy = _gaussian_pair(kxx, kyy, kxy)
    return 0.5 * torch.exp(kxy - 0.5 * (kxx + kyy))


class NNGPKernel(gpytorch.kernels.Kernel):
    r"""Covariance of an infinitely wide network with ``depth`` hidden layers (Lee et al. 2018).

    .. math::
        K^0(x, x') = \sigma_b^2 + \sigma_w^2\, \frac{x^\top x'}{d}, \qquad
        K^l(x, x') = \sigma_b^2 + \sigma_w^2\, F(K^{l-1}(x,x), K^{l-1}(x',x'), K^{l-1}(x,x'))

    ``F`` is the Gaussian expectation of the nonlinearity, which a subclass has, and ``K^depth`` the
    covariance of the network's output (their eqs. 4 and 5). Inputs are ``(..., N, d)`` and
    ``(..., M, d)``, the result is ``(..., N, M)``, or ``(..., N)`` with ``diag=True``. Call
    ``double()`` before a Cholesky factorisation, which a smooth kernel needs in float64.

    Args:
        depth: number of hidden layers, >= 1.
        weight_var: initial ``sigma_w^2`` > 0; shape broadcastable to ``(*batch_shape, 1)``.
        bias_var: initial ``sigma_b^2`` >= 0; exactly 0 stays 0 when fitted.
        batch_shape, active_dims: as in every GPyTorch kernel. There is no ARD.

    Raises:
        TypeError, ValueError: if ``depth`` is no integer >= 1, a variance is out of range or has
            another shape, or for an unknown option such as ``ard_num_dims``.
        RuntimeError: when called, if the inputs have different numbers of columns.

    >>> ErfKernel(depth=3, weight_var=2.0).depth
    3
    """

    expectation: Callable[[Tensor, Tensor, Tensor], Tensor]

    def __init__(
        self,
        depth: int = 1,
        *,
        weight_var: float | Tensor = 1.0,
        bias_var: float | Tensor = 1.0,
        batch_shape: torch.Size | None = None,
        active_dims: Sequence[int] | None = None,
    ):
        super().__init__(batch_shape=batch_shape, active_dims=active_dims)
        self.depth = integer("depth", depth, 1)
        for name in ("raw_weight_var", "raw_bias_var"):
            self.register_parameter(name, torch.nn.Parameter(torch.zeros(*self.batch_shape, 1)))
            self.register_constraint(name, Positive())
        self.weight_var = weight_var
        self.bias_var = bias_var

    @property
    def weight_var(self) -> Tensor:
        """``sigma_w^2``, ``(*batch_shape, 1)``, the same in all layers."""
        return self.raw_weight_var_constraint.transform(self.raw_weight_var)

    @weight_var.setter
    def weight_var(self, value: float | Tensor) -> None:
        value = variance("weight_var", like(self.raw_weight_var, "weight_var", value))
        self.initialize(raw_weight_var=self.raw_weight_var_constraint.inverse_transform(value))

    @property
    def bias_var(self) -> Tensor:
        """``sigma_b^2``, ``(*batch_shape, 1)``, the same in all layers."""
        return self.raw_bias_var_constraint.transform(self.raw_bias_var)

    @bias_var.setter
    def bias_var(self, value: float | Tensor) -> None:
        value = variance("bias_var", like(self.raw_bias_var, "bias_var", value), zero=True)
        self.initialize(raw_bias_var=self.raw_bias_var_constraint.inverse_transform(value))

    def forward(self, x1: Tensor, x2: Tensor, diag: bool = False, **params) -> Tensor:
        x1 = x1 / math.sqrt(x1.shape[-1])
        x2 = x2 / math.sqrt(x2.shape[-1])
        kxx = x1.square().sum(-1)
        kyy = x2.square().sum(-1)
        weight_var = self.weight_var
        bias_var = self.bias_var
        if diag:
            kxy = (x1 * x2).sum(-1)
        else:
            kxx = kxx.unsqueeze(-1)
            kyy = kyy.unsqueeze(-2)
            kxy = x1 @ x2.mT
            weight_var = weight_var.unsqueeze(-1)
            bias_var = bias_var.unsqueeze(-1)

        kxx = bias_var + weight_var * kxx
        kyy = bias_var + weight_var * kyy
        kxy = bias_var + weight_var * kxy
        for _ in range(self.depth):
            # kxy first, since it needs the variances of the layer below
            kxy = bias_var + weight_var * self.expectation(kxx, kyy, kxy)
            kxx = bias_var + weight_var * self.expectation(kxx, kxx, kxx)
            kyy = bias_var + weight_var * self.expectation(kyy, kyy, kyy)
        return kxy


class ReLUKernel(NNGPKernel):
    """ReLU network; ``weight_var=2, bias_var=0`` keeps the prior variance at every depth.

    >>> kernel = ReLUKernel(depth=100, weight_var=2.0, bias_var=0.0)
    >>> kernel(torch.ones(3, 4), torch.ones(5, 4)).shape
    torch.Size([3, 5])
    """

    expectation = staticmethod(relu_expectation)


class ErfKernel(NNGPKernel):
    """Network of error functions: saturating units, so the prior variance stays bounded.

    >>> ErfKernel(depth=2)(torch.ones(3, 4)).shape
    torch.Size([3, 3])
    """

    expectation = staticmethod(erf_expectation)


class CosKernel(NNGPKernel):
    """Network of cosines with uniform phases; at depth 1 a squared exponential plus a constant.

    >>> CosKernel()(torch.ones(3, 4), diag=True).shape
    torch.Size([3])
    """

    expectation = staticmethod(cos_expectation)


class _ReLUExpectation(torch.autograd.Function):
    @staticmethod
    def forward(ctx, kxx: Tensor, kyy: Tensor, kxy: Tensor) -> Tensor:
        ctx.save_for_backward(kxx, kyy, kxy)
        s, angle = _sine_and_angle(kxx, kyy, kxy)
        return 0.5 * kxy + (s - angle * kxy) / (2 * math.pi)

    @staticmethod
    def backward(ctx, grad: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        kxx, kyy, kxy = ctx.saved_tensors
        s, angle = _sine_and_angle(kxx, kyy, kxy)
        d_kxx = _zero_at_zero(s, kxx) / (4 * math.pi)
        d_kyy = _zero_at_zero(s, kyy) / (4 * math.pi)
        d_kxy = (math.pi - angle) / (2 * math.pi)
        return grad * d_kxx, grad * d_kyy, grad * d_kxy


def _zero_at_zero(s: Tensor, k: Tensor) -> Tensor:
    """``s / k``, and 0 where ``k`` is 0: there ``s`` is 0 too."""
    return torch.where(k > 0, s / torch.where(k > 0, k, 1), 0)


def _sine_and_angle(kxx: Tensor, kyy: Tensor, kxy: Tensor) -> tuple[Tensor, Tensor]:
    s = (kxx * kyy - kxy.square()).clamp(min=0).sqrt()
    return s, torch.atan2(s, kxy)


def _gaussian_pair(kxx: Tensor, kyy: Tensor, kxy: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    kxx = like(kxy, "kxx", kxx).expand_as(kxy)
    kyy = like(kxy, "kyy", kyy).expand_as(kxy)
    return kxx, kyy, kxy

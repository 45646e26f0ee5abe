r"""Chains of Householder reflections: rotations that cost O(K T), not O(K^2).

A vector v is mirrored in the plane perpendicular to it by

.. math:: H = I - 2 \frac{v v^\top}{\lVert v \rVert^2}, \qquad H = H^\top = H^{-1}, \quad
          \det H = -1,

and T reflections, ``v_1`` first, give the orthogonal :math:`U = H_T \cdots H_1` with determinant
:math:`(-1)^T`. Row t of ``vectors``, V, ``(T, K)``, is ``v_t``; no K x K matrix is formed. Let R be
the lower triangle of :math:`V V^\top` with half its diagonal. Then

.. math:: U = I - V^\top R^{-1} V.

To see it, write :math:`x_t = H_t x_{t-1} = x_{t-1} - c_t v_t` with
:math:`\tfrac12 \lVert v_t \rVert^2 c_t = v_t^\top x_{t-1}` and put in
:math:`x_{t-1} = x - \sum_{s<t} c_s v_s`: row t of ``R c = V x`` is left. This is the compact WY
form (Bischof and Van Loan 1987), with R as Joffrain et al. (2006) have it.

H depends on the direction of v alone, so the gradient for v is perpendicular to v: a small step of
gradient descent never shortens it. At ``v = 0`` there is no direction and H has no limit. A vector
whose squared length is below ``tiny / eps`` of its dtype (a length of 3e-16 in float32) counts as
zero, and its reflection as the identity. Adding a constant to ``|v|^2`` would not do: U would no
longer be orthogonal. Squared lengths must not overflow.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from bdl_lessons.core import validation
from bdl_lessons.core.autograd import inside_vmap
from bdl_lessons.probability.householder_fast import (
    RotatedNoise,
    RotatedVariance,
    compact,
    triangle,
)


def reflect(x: Tensor, vectors: Tensor) -> Tensor:
    """``U x`` for each row of ``x``, in O(K T) a row.

    Args:
        x: ``(..., K)``.
        vectors: ``(T, K)``; ``T = 0`` leaves x as it is, T may exceed K.

    Raises:
        TypeError: if an argument is not a floating-point tensor.
        ValueError: for a NaN, an infinity or shapes that do not fit.
    """
    _check("x", x, vectors)
    if len(vectors) == 0:
        return validation.finite("x", x)
    rows = x.reshape(-1, x.shape[-1])
    coefficients = torch.linalg.solve_triangular(
        triangle(vectors).mT, rows @ vectors.mT, upper=True, left=False
    )
    _check_finite(coefficients, x=x, vectors=vectors)
    return torch.addmm(rows, coefficients, vectors, alpha=-1).view(x.shape)


def rotated_noise(eps: Tensor, std: Tensor, vectors: Tensor, mean: float = 0.0) -> Tensor:
    """``mean + U (std * eps)``: rows of ``N(mean, U diag(std**2) U')`` from standard normal ones.

    As ``mean + reflect(std * eps, vectors)``, with the triangular system solved for the vectors and
    not for the rows. Differentiable once.

    Args:
        eps: ``(..., K)``.
        std: ``(K,)``.
        vectors: ``(T, K)``.

    Raises:
        TypeError, ValueError: as :func:`reflect`.
    """
    _check("eps", eps, vectors)
    _check_length("std", std, vectors)
    if len(vectors) == 0:
        _check_finite(std, std=std)
        return torch.addcmul(std.new_full((), mean), std, eps)
    rows = eps.reshape(-1, eps.shape[-1])
    noise, coefficients, *_ = RotatedNoise.apply(rows, std, vectors, mean)
    _check_finite(coefficients, std=std, vectors=vectors, eps=eps)
    return noise.view(eps.shape)


def compact_form(vectors: Tensor) -> tuple[Tensor, Tensor]:
    """``(left, right)``, both ``(T, K)``, with ``U = I - left.T @ right``.

    ``left`` is V and ``right`` is ``R^-1 V``: U differs from the identity by a matrix of rank T at
    most.

    Raises:
        TypeError, ValueError: if ``vectors`` is not a finite ``(T, K)`` floating-point tensor.
    """
    _check_vectors(vectors)
    _, right = compact(vectors)
    _check_finite(right, vectors=vectors)
    return vectors, right


def rotated_variance(alpha: Tensor, vectors: Tensor) -> Tensor:
    r"""``diag(U diag(alpha) U')``: the variances of ``U eta`` for ``eta ~ N(0, diag(alpha))``.

    .. math:: s_i = \sum_k \alpha_k U_{ik}^2
              = \alpha_i + \sum_t V_{ti} \big( M V - 2 A\,\mathrm{diag}(\alpha) \big)_{ti},
              \qquad A = R^{-1} V, \quad M = A\,\mathrm{diag}(\alpha) A^\top

    in O(K T^2) time and O(K T) memory; differentiable once in both arguments. Every s_i is a
    weighted mean of the alphas (the rows of U have length 1), so equal alphas stay as they are.

    Args:
        alpha: ``(K,)``, variances.
        vectors: ``(T, K)``.

    Returns:
        ``(K,)``, positive. Cancellation costs an s_i far below the largest alpha its relative
        precision.

    Raises:
        TypeError: if an argument is not a floating-point tensor.
        ValueError: for a NaN, an alpha that is not positive or shapes that do not fit.
    """
    _check("alpha", alpha, vectors)
    _check_length("alpha", alpha, vectors)
    if len(vectors) == 0:
        return validation.variance("alpha", alpha)
    s = RotatedVariance.apply(alpha, vectors)[0].clamp_min(torch.finfo(alpha.dtype).tiny)
    if not inside_vmap() and not torch.minimum(s.detach(), alpha.detach()).min() > 0:
        _check_finite(s, vectors=vectors, alpha=validation.variance("alpha", alpha))
    return s


def orthogonal_matrix(vectors: Tensor) -> Tensor:
    """U itself, ``(K, K)``, multiplied out one reflection after the other in O(T K^2).

    Raises:
        TypeError, ValueError: if ``vectors`` is not a finite ``(T, K)`` floating-point tensor.
    """
    _check_vectors(vectors)
    validation.finite("vectors", vectors)
    U = torch.eye(vectors.shape[1], dtype=vectors.dtype, device=vectors.device)
    half_squares = triangle(vectors).diagonal()
    for v, half_square in zip(vectors, half_squares, strict=True):
        U = U - torch.outer(v / half_square, v @ U)
    return U


def _check(name: str, value: Tensor, vectors: Tensor) -> None:
    _check_vectors(vectors)
    _check_type(name, value)
    if value.dim() == 0 or value.shape[-1] != vectors.shape[1]:
        raise ValueError(
            f"{name} must end in K = {vectors.shape[1]}, the length of the vectors, "
            f"got shape {tuple(value.shape)}"
        )


def _check_length(name: str, value: Tensor, vectors: Tensor) -> None:
    if value.shape != vectors.shape[1:]:
        raise ValueError(
            f"{name} must have shape ({vectors.shape[1]},), the length of the vectors, "
            f"got {tuple(value.shape)}"
        )


def _check_vectors(vectors: Tensor) -> None:
    _check_type("vectors", vectors)
    if vectors.dim() != 2:
        raise ValueError(f"vectors must have shape (T, K), got {tuple(vectors.shape)}")


def _check_type(name: str, value: Tensor) -> None:
    if not isinstance(value, Tensor) or not value.is_floating_point():
        validation.floating(name, value)


def _check_finite(result: Tensor, **arguments: Tensor) -> None:
    """Look at one small result; if it is not finite, find the argument to blame."""
    if inside_vmap() or math.isfinite(result.detach().sum()):
        return
    for name, value in arguments.items():
        validation.finite(name, value)
    raise ValueError(f"{', '.join(arguments)} are too large: a product overflows")

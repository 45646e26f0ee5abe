r"""Chains of Householder reflections: rotations that cost O(K T), not O(K^2).

A vector v is mirrored in the plane perpendicular to it by

.. math:: H = I - 2 \frac{v v^\top}{\lVert v \rVert^2}, \qquad H = H^\top = H^{-1}, \quad
          \det H = -1,

and T reflections, ``v_1`` first, give the orthogonal :math:`U = H_T \cdots H_1` with determinant
:math:`(-1)^T`. Here ``vectors`` is ``(T, K)``, row t is ``v_t``, and no K x K matrix is formed. Let
V be that matrix and L the lower triangle of :math:`V V^\top` with its diagonal halved. Then

.. math:: U = I - V^\top L^{-1} V.

To see it, let :math:`x_t = H_t x_{t-1} = x_{t-1} - c_t v_t` with :math:`c_t \lVert v_t \rVert^2 / 2
= v_t^\top x_{t-1}`, and put in :math:`x_{t-1} = x - \sum_{s<t} c_s v_s`. Row t of ``L c = V x`` is
left. This is the compact WY form (Bischof and Van Loan 1987, here as Joffrain et al. 2006 have it).

H depends on the direction of v alone, so the gradient for v is perpendicular to v: a small step of
gradient descent never shortens it. At ``v = 0`` there is no direction and H has no limit. A vector
whose squared length is below ``tiny / eps`` of its dtype (a length of 3e-16 in float32) counts as
zero, and its reflection as the identity. Adding a constant to ``|v|^2`` would not do: U would no
longer be orthogonal. Squared lengths must not overflow.
"""

from __future__ import annotations

import torch
from torch import Tensor

from bdl_lessons import require


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
        return x
    rows = x.reshape(-1, x.shape[-1])
    triangle = _triangle(vectors)
    products = rows @ vectors.mT
    if len(vectors) == 1:
        coefficients = products / triangle
    else:
        coefficients = torch.linalg.solve_triangular(triangle.mT, products, upper=True, left=False)
    return torch.addmm(rows, coefficients, vectors, alpha=-1).view(x.shape)


def compact_form(vectors: Tensor) -> tuple[Tensor, Tensor]:
    """``(left, right)``, both ``(T, K)``, with ``U = I - left.T @ right``.

    ``left`` is ``vectors``. So U differs from the identity by a matrix of rank T at most.

    Raises:
        TypeError, ValueError: if ``vectors`` is not a finite ``(T, K)`` floating-point tensor.
    """
    _check_vectors(vectors)
    if len(vectors) == 1:
        return vectors, vectors / _triangle(vectors)
    return vectors, torch.linalg.solve_triangular(_triangle(vectors), vectors, upper=False)


def rotated_variance(alpha: Tensor, vectors: Tensor) -> Tensor:
    r"""``diag(U diag(alpha) U')``: the variances of ``U eta`` for ``eta ~ N(0, diag(alpha))``.

    .. math:: s_i = \sum_k \alpha_k U_{ik}^2
              = \alpha_i - 2 \alpha_i \sum_t V_{ti} A_{ti} + (V^\top M V)_{ii},
              \qquad A = L^{-1} V, \quad M = A\,\mathrm{diag}(\alpha) A^\top

    in O(K T^2) time and O(K T) memory, with gradients for both arguments. Every s_i is a weighted
    mean of the alphas (the rows of U have length 1), so equal alphas stay as they are.

    Args:
        alpha: ``(K,)``, variances.
        vectors: ``(T, K)``.

    Returns:
        ``(K,)``. Cancellation costs an s_i far below the largest alpha its relative precision; it
        is kept above half the smallest alpha.

    Raises:
        TypeError: if an argument is not a floating-point tensor.
        ValueError: for a NaN, an alpha that is not positive, or shapes that do not fit.
    """
    _check("alpha", alpha, vectors)
    require.variance("alpha", alpha)
    if len(vectors) == 0:
        return alpha
    left, right = compact_form(vectors)
    between = (right * alpha) @ right.mT
    spread = (left * (between @ left)).sum(0)
    own = alpha * (1 - 2 * (left * right).sum(0))
    return torch.maximum(own + spread, alpha.detach().amin() / 2)


def orthogonal_matrix(vectors: Tensor) -> Tensor:
    """U itself, ``(K, K)``, multiplied out one reflection after the other in O(T K^2).

    Raises:
        TypeError, ValueError: if ``vectors`` is not a finite ``(T, K)`` floating-point tensor.
    """
    _check_vectors(vectors)
    U = torch.eye(vectors.shape[1], dtype=vectors.dtype, device=vectors.device)
    for v in vectors:
        squared = v @ v
        H_minus_I = -2 * torch.outer(v, v) / torch.where(_is_zero(squared), torch.inf, squared)
        U = U + H_minus_I @ U
    return U


def _triangle(vectors: Tensor) -> Tensor:
    """L of the module's docstring. Above the diagonal is what no triangular solve reads."""
    gram = vectors @ vectors.mT
    squared = gram.diagonal()
    return gram.diagonal_scatter(
        torch.where(_is_zero(squared), torch.ones_like(squared), squared / 2)
    )


def _is_zero(squared_length: Tensor) -> Tensor:
    limits = torch.finfo(squared_length.dtype)
    return squared_length < limits.tiny / limits.eps


def _check(name: str, value: Tensor, vectors: Tensor) -> None:
    _check_vectors(vectors)
    require.floating(name, value)
    if value.dim() == 0 or value.shape[-1] != vectors.shape[1]:
        raise ValueError(
            f"{name} must end in K = {vectors.shape[1]}, the length of the vectors, "
            f"got shape {tuple(value.shape)}"
        )


def _check_vectors(vectors: Tensor) -> None:
    require.floating("vectors", vectors)
    if vectors.dim() != 2:
        raise ValueError(f"vectors must have shape (T, K), got {tuple(vectors.shape)}")

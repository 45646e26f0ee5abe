r"""Chains of Householder reflections: rotations that take O(K T), not O(K^2). Lesson 10.

A vector v is mirrored in the plane perpendicular to it by

.. math:: H = I - 2 \frac{v v^\top}{\lVert v \rVert^2}, \qquad H = H^\top = H^{-1}, \quad
          \det H = -1,

and T reflections, ``v_1`` first, give the orthogonal :math:`U = H_T \cdots H_1` with determinant
:math:`(-1)^T`. Row t of ``vectors``, V, ``(T, K)``, is ``v_t``; no K x K matrix is formed.

H depends on the direction of v alone, so the gradient for v is perpendicular to v: a small step of
gradient descent never shortens it. At ``v = 0`` there is no direction and H has no limit. A vector
whose squared length is below ``tiny / eps`` of its dtype (a length of 3e-16 in float32) counts as
zero, and its reflection as the identity. Adding a constant to ``|v|^2`` would not do: U would no
longer be orthogonal. Squared lengths must not overflow. Shapes that do not fit raise ValueError.

The two functions that a layer trains with, :func:`rotated_noise` and :func:`rotated_variance`, have
a second form in :mod:`householder_fast`, with their gradients written out, which
``bdl_lessons.probability`` exports.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from bdl_lessons.core import validation


def reflect(x: Tensor, vectors: Tensor) -> Tensor:
    """``U x`` for each row of ``x``, in O(K T) a row.

    Args:
        x: ``(..., K)``.
        vectors: ``(T, K)``; ``T = 0`` leaves x as it is, T may exceed K.
    """
    check_chain("x", x, vectors)
    for v, half_square in zip(vectors, _half_squares(vectors), strict=True):
        x = x - (x @ v / half_square)[..., None] * v
    return x


def orthogonal_matrix(vectors: Tensor) -> Tensor:
    """U itself, ``(K, K)``, in O(T K^2): the images of the unit vectors are its columns."""
    check_chain("vectors", vectors, vectors)
    return reflect(torch.eye(vectors.shape[1]).to(vectors), vectors).mT


def compact_form(vectors: Tensor) -> tuple[Tensor, Tensor]:
    r"""``left`` and ``right``, both ``(T, K)``, with ``U = I - left.T @ right``.

    U differs from the identity by a matrix of rank T at most:

    .. math:: U = I - V^\top G^{-1} V,

    where G is the lower triangle of :math:`V V^\top` with half its diagonal. To see it, write
    :math:`x_t = H_t x_{t-1} = x_{t-1} - \mathrm{coef}_t v_t` with
    :math:`\tfrac12 \lVert v_t \rVert^2 \mathrm{coef}_t = v_t^\top x_{t-1}` and put in
    :math:`x_{t-1} = x - \sum_{t'<t} \mathrm{coef}_{t'} v_{t'}`: row t of ``G coef = V x`` is left.
    This is the compact WY form (Bischof and Van Loan 1987), with G as Joffrain et al. (2006) have
    it.
    """
    check_chain("vectors", vectors, vectors)
    G = (vectors @ vectors.mT).tril(-1) + _half_squares(vectors).diag()
    return vectors, torch.linalg.solve_triangular(G, vectors, upper=False)


def rotated_noise(eps: Tensor, std: Tensor, vectors: Tensor, mean: float = 0.0) -> Tensor:
    """``mean + U (std * eps)``: rows of ``N(mean, U diag(std**2) U')`` from standard normal ones.

    Args:
        eps: ``(..., K)``. std: ``(K,)``. vectors: ``(T, K)``.
    """
    validation.has_shape("std", std, vectors.shape[-1])
    return mean + reflect(std * eps, vectors)


def rotated_variance(alpha: Tensor, vectors: Tensor) -> Tensor:
    r"""``diag(U diag(alpha) U')``: the variances of ``U eta`` for ``eta ~ N(0, diag(alpha))``.

    .. math:: \tilde\alpha_i = \sum_k U_{ik}^2\, \alpha_k

    Each is a weighted mean of the alphas (the rows of U have length 1), so equal alphas stay as
    they are. The fast form takes O(K T^2) time and O(K T) memory instead of K^2; there a variance
    far below the largest alpha loses relative precision by cancellation.

    Args:
        alpha: ``(K,)``, variances. vectors: ``(T, K)``.

    Returns:
        ``(K,)``, positive.
    """
    validation.has_shape("alpha", alpha, vectors.shape[-1])
    return orthogonal_matrix(vectors).square() @ alpha


def check_chain(name: str, value: Tensor, vectors: Tensor) -> None:
    """Raise ValueError unless ``vectors`` is ``(T, K)`` and ``value`` ``(..., K)``."""
    if vectors.dim() != 2 or value.shape[-1:] != vectors.shape[1:]:
        raise ValueError(
            f"{name} must have shape (..., K) and vectors (T, K), "
            f"got {tuple(value.shape)} and {tuple(vectors.shape)}"
        )


def _half_squares(vectors: Tensor) -> Tensor:
    """``|v|^2 / 2``, and infinite for a vector that counts as zero."""
    limits, squares = torch.finfo(vectors.dtype), vectors.square().sum(1)
    return torch.where(squares > limits.tiny / limits.eps, squares / 2, math.inf)

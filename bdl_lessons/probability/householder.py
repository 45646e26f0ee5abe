r"""Chains of Householder reflections: rotations that take O(K T), not O(K^2). Lesson 11.

A vector v is mirrored in the plane perpendicular to it by

.. math:: H = I - 2 \frac{v v^\top}{\lVert v \rVert^2}, \qquad H = H^\top = H^{-1}, \quad
          \det H = -1,

and T reflections, ``v_1`` first, give the orthogonal :math:`U = H_T \cdots H_1` with determinant
:math:`(-1)^T`. Row t of ``vectors``, V, ``(T, K)``, is ``v_t``; no K x K matrix is formed. All
functions compute with the compact form :math:`U = I - V^\top A` of :func:`compact_form`: its three
products take less time than T reflections one after the other.

H depends on the direction of v alone, so the gradient for v is perpendicular to v: a small step of
gradient descent never shortens it. A vector whose squared length is below ``tiny / eps`` of its
dtype (a length of 3e-16 in float32) counts as zero, and its reflection as the identity; with a
constant added to ``|v|^2`` instead, U would no longer be orthogonal. Squared lengths must not
overflow. Shapes that do not fit raise ValueError.
"""

import math

import torch
from torch import Tensor

from bdl_lessons.core.validation import shapes


def compact_form(vectors: Tensor) -> tuple[Tensor, Tensor]:
    r"""``left`` and ``right``, both ``(T, K)``, with ``U = I - left.T @ right``.

    U differs from the identity by a matrix of rank T at most:

    .. math:: U = I - V^\top A, \qquad A = G^{-1} V,

    where G is the lower triangle of :math:`V V^\top` with half its diagonal. To see it, write
    :math:`x_t = H_t x_{t-1} = x_{t-1} - \mathrm{coef}_t v_t` with
    :math:`\tfrac12 \lVert v_t \rVert^2 \mathrm{coef}_t = v_t^\top x_{t-1}` and put in
    :math:`x_{t-1} = x - \sum_{t'<t} \mathrm{coef}_{t'} v_{t'}`: row t of ``G coef = V x`` is left.
    This is the compact WY form (Bischof and Van Loan 1987), with G as Joffrain et al. (2006) have
    it.

    >>> left, right = compact_form(torch.tensor([[3.0, 4.0]]))
    >>> torch.eye(2) - left.T @ right
    tensor([[ 0.2800, -0.9600],
            [-0.9600, -0.2800]])
    """
    shapes("vectors must be (T, K)", vectors)
    return _compact_form(vectors)


def _compact_form(vectors: Tensor) -> tuple[Tensor, Tensor]:
    """:func:`compact_form` of vectors whose shape was looked at."""
    vectors = vectors.to(torch.promote_types(vectors.dtype, torch.float32))  # no solver has half
    with torch.autocast(vectors.device.type, enabled=False):
        gram = vectors @ vectors.mT
        limits = torch.finfo(vectors.dtype)
        squares = gram.diagonal()
        half_squares = torch.where(squares > limits.tiny / limits.eps, squares / 2, math.inf)
        G = gram.tril(-1) + half_squares.diag()
        return vectors, torch.linalg.solve_triangular(G, vectors, upper=False)


def reflect(x: Tensor, vectors: Tensor) -> Tensor:
    """``U x`` for each row of ``x``, in O(K T) a row.

    ``x`` is ``(..., K)``; ``vectors`` ``(T, K)``: T = 0 leaves x as it is, T may exceed K.

    >>> reflect(torch.tensor([1.0, 2.0]), torch.tensor([[1.0, 0.0]]))
    tensor([-1.,  2.])
    """
    shapes("x must be (..., K) and vectors (T, K)", x, vectors)
    if len(vectors) == 0:
        return x
    left, right = _compact_form(vectors.to(x.dtype))
    with torch.autocast(x.device.type, enabled=False):
        units = x.to(left.dtype)
        return (units - (units @ right.mT) @ left).to(x.dtype)


def orthogonal_matrix(vectors: Tensor) -> Tensor:
    """U itself, ``(K, K)``, in O(T K^2): the images of the unit vectors are its columns.

    >>> orthogonal_matrix(torch.tensor([[1.0, -1.0]]))
    tensor([[0., 1.],
            [1., 0.]])
    """
    shapes("vectors must be (T, K)", vectors)
    return reflect(torch.eye(vectors.shape[1]).to(vectors), vectors).mT


def rotated_variance(alpha: Tensor, vectors: Tensor) -> Tensor:
    r"""``diag(U diag(alpha) U')``: the variances of ``U eta`` for ``eta ~ N(0, diag(alpha))``.

    .. math:: \tilde\alpha_i = \sum_k U_{ik}^2\, \alpha_k
              = \alpha_i + \big[ V^\top (A\, \mathrm{diag}(\alpha) A^\top V
              - 2 A\, \mathrm{diag}(\alpha)) \big]_{ii}

    Each is a weighted mean of the alphas (the rows of U have length 1), so equal alphas stay as
    they are. The compact form takes O(K T^2) time and O(K T) memory instead of K^2; a variance far
    below the largest alpha loses relative precision by cancellation.

    ``alpha`` is ``(K,)``, variances, ``vectors`` ``(T, K)``; the result ``(K,)`` is positive, or
    NaN where an alpha is negative: to raise, the processor would have to wait for the GPU.

    >>> rotated_variance(torch.tensor([0.25, 1.0]), torch.tensor([[1.0, -1.0]]))
    tensor([1.0000, 0.2500])
    """
    shapes("alpha must be (K,) and vectors (T, K)", alpha, vectors)
    dtype = torch.promote_types(alpha.dtype, torch.float32)
    alpha = alpha.to(dtype).masked_fill(alpha < 0, torch.nan)
    if len(vectors) == 0:
        return alpha
    left, right = _compact_form(vectors.to(alpha.dtype))
    with torch.autocast(alpha.device.type, enabled=False):
        scaled = right * alpha
        change = (left * (scaled @ right.mT @ left - 2 * scaled)).sum(0)
    return (alpha + change).clamp_min(torch.finfo(alpha.dtype).tiny)

r"""Chains of reflections in training: all of them at once, with the gradients written out.

The formulas are in :mod:`bdl_lessons.probability.householder`. Traced operation by operation, the
backward pass of a chain is some hundred operations on small matrices, and starting them takes
longer than doing them. Written out it is a dozen.

With G and A of :func:`bdl_lessons.probability.householder.compact_form`, what a loss sends back to
G reaches V by

.. math:: \bar V \leftarrow \bar V + (S + S^\top) V, \qquad S = \text{lower}(\bar G)
          \text{ with half its diagonal.}

A vector that counts as zero has an infinite entry in G: its row of A is 0, and so is its gradient.
No lesson shows this file; the layers of lesson 10 use it.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.linalg import solve_triangular

from bdl_lessons.core.autograd import without_autocast
from bdl_lessons.core.validation import has_shape
from bdl_lessons.probability.householder import check_chain


@without_autocast
def rotated_noise(eps: Tensor, std: Tensor, vectors: Tensor, mean: float = 0.0) -> Tensor:
    """As :func:`bdl_lessons.probability.householder.rotated_noise`; differentiable once."""
    check_chain("eps", eps, vectors)
    has_shape("std", std, vectors.shape[1])
    if len(vectors) == 0:
        return torch.addcmul(std.new_full((), mean), std, eps)
    rows = eps.reshape(-1, eps.shape[-1])
    return RotatedNoise.apply(rows, std, vectors.to(std.dtype), mean)[0].view(eps.shape)


@without_autocast
def rotated_variance(alpha: Tensor, vectors: Tensor) -> Tensor:
    """As :func:`bdl_lessons.probability.householder.rotated_variance`; differentiable once."""
    check_chain("alpha", alpha, vectors)
    has_shape("alpha", alpha, vectors.shape[1])
    if len(vectors) == 0:
        return alpha
    return RotatedVariance.apply(alpha, vectors.to(alpha.dtype))[0].clamp_min(
        torch.finfo(alpha.dtype).tiny
    )


def compact(vectors: Tensor) -> tuple[Tensor, Tensor]:
    """``G``, ``(T, T)``, of which only the lower triangle counts, and ``A = G^-1 V``, ``(T, K)``.

    The system is solved from the right, ``A^T G^T = V^T``: its solution comes in columns, so that A
    has its rows in one piece, and products with it are several times faster.
    """
    G = vectors @ vectors.mT
    limits = torch.finfo(G.dtype)
    half_squares = G.diagonal(dim1=-2, dim2=-1).div_(2)
    torch.threshold_(half_squares, limits.tiny / limits.eps / 2, math.inf)
    return G, solve_triangular(G.mT, vectors.mT, upper=True, left=False).mT


class RotatedNoise(torch.autograd.Function):
    r"""``X = mean + Y U^T`` for rows ``Y = eps diag(std)``; first of its results.

    .. math:: C = A Y^\top, \quad X = mean + Y - C^\top V, \qquad
              D = G^{-\top} V \bar X^\top, \quad \bar Y = \bar X - D^\top V, \quad
              \bar V = -C \bar X - D Y, \quad \bar G = D C^\top
    """

    generate_vmap_rule = True

    @staticmethod
    def forward(eps: Tensor, std: Tensor, vectors: Tensor, mean: float) -> tuple[Tensor, ...]:
        G, A = compact(vectors)
        C = (A * std) @ eps.mT
        unturned = torch.addcmul(std.new_full((), mean), std, eps)
        return torch.addmm(unturned, C.mT, vectors, alpha=-1), C, G

    @staticmethod
    def setup_context(ctx, inputs: tuple, output: tuple[Tensor, ...]) -> None:
        ctx.mark_non_differentiable(*output[1:])
        ctx.save_for_backward(*inputs[:3], *output[1:])

    @staticmethod
    @once_differentiable
    @without_autocast
    def backward(ctx, grad: Tensor, *_: Tensor) -> tuple[Tensor | None, ...]:
        eps, std, V, C, G = ctx.saved_tensors
        D = solve_triangular(G.mT, V @ grad.mT, upper=True)
        turned = D @ eps
        by_std = (grad * eps).sum(0) - (turned * V).sum(0)
        by_v = torch.addmm(turned * std, C, grad, beta=-1, alpha=-1)
        by_eps = torch.addmm(grad, D.mT, V, alpha=-1) * std if ctx.needs_input_grad[0] else None
        return by_eps, by_std, _through_triangle(by_v, D @ C.mT, V), None


class RotatedVariance(torch.autograd.Function):
    r"""``s = diag(U diag(alpha) U^T)``, first of its results.

    .. math:: M = A\,\mathrm{diag}(\alpha) A^\top, \qquad
              s = \alpha + \sum_t V_t \circ (M V - 2 A\,\mathrm{diag}(\alpha))_t

    Its gradient for alpha is the same formula for the inverse of U, with A and V in each other's
    place. With :math:`M' = V \mathrm{diag}(\bar s) V^\top`,

    .. math:: \bar V = 2 (M V - A\,\mathrm{diag}(\alpha))\,\mathrm{diag}(\bar s) + E, \quad
              E = 2 G^{-\top} (M' A - V\,\mathrm{diag}(\bar s))\,\mathrm{diag}(\alpha), \quad
              \bar G = -E A^\top.
    """

    generate_vmap_rule = True

    @staticmethod
    def forward(alpha: Tensor, vectors: Tensor) -> tuple[Tensor, ...]:
        G, A = compact(vectors)
        s, rest = _diagonal(vectors, A, alpha)
        return s, A, G, rest

    @staticmethod
    def setup_context(ctx, inputs: tuple[Tensor, Tensor], output: tuple[Tensor, ...]) -> None:
        ctx.mark_non_differentiable(*output[1:])
        ctx.save_for_backward(*inputs, *output[1:])

    @staticmethod
    @once_differentiable
    @without_autocast
    def backward(ctx, grad: Tensor, *_: Tensor) -> tuple[Tensor, Tensor]:
        alpha, V, A, G, rest = ctx.saved_tensors
        by_alpha, back = _diagonal(A, V, grad)
        E = solve_triangular(G.mT, back * (2 * alpha), upper=True)
        by_v = torch.addcmul(E, rest, grad, value=2)
        return by_alpha, _through_triangle(by_v, -E @ A.mT, V)


def _diagonal(left: Tensor, right: Tensor, scale: Tensor) -> tuple[Tensor, Tensor]:
    """``diag((I - left' right) diag(scale) (I - left' right)')`` and what it shares with slopes."""
    weighted = right * scale
    rest = torch.addmm(weighted, weighted @ right.mT, left, beta=-1)
    return scale + (left * (rest - weighted)).sum(0), rest


def _through_triangle(by_vectors: Tensor, by_triangle: Tensor, vectors: Tensor) -> Tensor:
    both = by_triangle.tril() + by_triangle.tril(-1).mT
    return torch.addmm(by_vectors, both, vectors)

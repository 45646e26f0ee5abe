r"""Induced regularization: the penalty that noise on a layer's inputs puts on what follows.

Lesson 12.

A layer's input ``h`` becomes ``h ∘ (1 + eta)`` with ``E[eta] = 0`` and ``Cov[eta] = C``; structured
dropout has ``C = U diag(alpha) U'``. Let ``l(h)`` be the loss of one example as a function of this
input. Its second-order Taylor expansion gives, up to higher order in C,

.. math:: \mathbb E[\ell(h + h \circ \eta)] - \ell(h) \approx
          R = \tfrac12 \operatorname{tr}(H Q), \qquad
          Q = \operatorname{diag}(h)\, C \operatorname{diag}(h), \quad H = \nabla^2 \ell(h).

Three ways to read R, all with the ½ that the talk of Nguyen et al. (Variational Structured Dropout,
NeurIPS 2021, contribution 3) leaves out:

- Gauss-Newton: ``H ≈ J' H_out J`` with the Jacobian J of the outputs;
- Tikhonov: :math:`\tfrac12 \lVert H^{1/2} \operatorname{diag}(h)\, A \rVert_F^2` if ``C = A A'``;
- spectral: :math:`\tfrac12 \sum_k \alpha_k\, U_{:k}^\top \Omega\, U_{:k}` with
  :math:`\Omega = \operatorname{diag}(h) H \operatorname{diag}(h)`, at most
  :math:`\tfrac12 \lambda_{\max}(\Omega) \sum_k \alpha_k`.

Everything takes leading axes: one value for each example. Units are those of the loss, nats here;
sums are in float32 at least.
Shapes that do not fit raise ValueError.
"""

from collections.abc import Callable

import torch
from torch import Tensor, func

from bdl_lessons.core.devices import single
from bdl_lessons.core.validation import integer, shapes
from bdl_lessons.evaluation.stochastic_gradients import Estimate


def loss_hessian(loss: Callable[..., Tensor], h: Tensor, *rows: Tensor) -> Tensor:
    """``H`` of each example, exactly: ``(B, K) -> (B, K, K)``.

    Args:
        loss: the loss of one example, ``loss(h, *rows)`` with ``h`` of shape ``(K,)``; 0-dim.
        rows: what else the loss takes, ``(B, ...)`` each: the labels, say.

    >>> loss_hessian(lambda h: h.square().sum(), torch.ones(3, 2)).shape
    torch.Size([3, 2, 2])
    """
    return func.vmap(func.jacrev(func.jacrev(loss)))(h, *rows)


def softmax_root(logits: Tensor) -> Tensor:
    """``S``, ``(..., L, L)``, with ``S' S = diag(p) - p p'``: H_out of the cross-entropy.

    ``S = diag(sqrt(p)) (I - 1 p')``. The labels do not enter: this Hessian is the same for all.

    >>> root = softmax_root(torch.zeros(2))
    >>> root.mT @ root
    tensor([[ 0.2500, -0.2500],
            [-0.2500,  0.2500]])
    """
    probs = logits.softmax(-1)
    eye = torch.eye(logits.shape[-1]).to(logits)
    return probs.sqrt()[..., None] * (eye - probs[..., None, :])


def gauss_newton(jacobian: Tensor, output_root: Tensor) -> Tensor:
    """``J' S' S J``, ``(..., K, K)``: positive semidefinite, and equal to H where the network
    behind ``h`` is linear, hence nearly everywhere for ReLU.

    >>> gauss_newton(torch.tensor([[1.0, 2.0]]), torch.ones(1, 1))
    tensor([[1., 2.],
            [2., 4.]])
    """
    shapes("jacobian must be (..., L, K) and output_root (..., R, L)", jacobian, output_root)
    root = output_root @ jacobian
    return root.mT @ root


def sensitivity(hessian: Tensor, h: Tensor) -> Tensor:
    """``Omega = diag(h) H diag(h)``: curvature of the loss along relative noise.

    >>> sensitivity(torch.eye(2), torch.tensor([1.0, 3.0]))
    tensor([[1., 0.],
            [0., 9.]])
    """
    shapes("hessian must be (..., K, K) and h (..., K)", hessian, h)
    return h[..., :, None] * hessian * h[..., None, :]


def penalty(hessian: Tensor, h: Tensor, noise_cov: Tensor) -> Tensor:
    """``½ tr(H Q)`` of each example.

    ``noise_cov`` is ``C``, ``(..., K, K)``: the covariance of the factors, not of ``h ∘ eta``.

    >>> penalty(torch.eye(2), torch.tensor([1.0, 3.0]), noise_cov=torch.eye(2))
    tensor(5.)
    """
    omega = sensitivity(single(hessian), single(h))
    shapes("hessian must be (..., K, K) and noise_cov (..., K, K)", omega, noise_cov)
    return 0.5 * (omega * single(noise_cov)).sum((-2, -1))


def penalty_from_roots(hessian_root: Tensor, h: Tensor, noise_root: Tensor) -> Tensor:
    """The Tikhonov form ``½ ||R diag(h) A||_F²`` for ``H = R' R`` and ``C = A A'``.

    No K x K Hessian is formed: with ``R = softmax_root(logits) @ jacobian``, ``(..., L, K)``, and
    ``A``, ``(..., K, R)``, an example takes ``L K²`` operations.

    >>> penalty_from_roots(torch.eye(2), torch.tensor([1.0, 3.0]), noise_root=torch.eye(2))
    tensor(5.)
    """
    rule = "hessian_root must be (..., L, K), h (..., K) and noise_root (..., K, R)"
    shapes(rule, hessian_root, h, noise_root)
    root = single(hessian_root) * single(h)[..., None, :]
    return 0.5 * (root @ single(noise_root)).square().sum((-2, -1))


def spectral_bound(omega: Tensor, noise_cov: Tensor) -> Tensor:
    """``½ lambda_max(Omega) tr(C)``: no noise of this total variance is penalised more.

    >>> spectral_bound(torch.diag(torch.tensor([1.0, 9.0])), noise_cov=torch.eye(2)).round()
    tensor(9.)
    """
    shapes("omega must be (..., K, K) and noise_cov (..., K, K)", omega, noise_cov)
    total_var = single(noise_cov).diagonal(dim1=-2, dim2=-1).sum(-1)
    largest = torch.linalg.eigvalsh(single(omega))[..., -1]
    return 0.5 * largest * total_var


def loss_increase(
    loss: Callable[..., Tensor],
    h: Tensor,
    noise_root: Tensor,
    *rows: Tensor,
    n_samples: int,
    generator: torch.Generator,
) -> Estimate:
    """Monte Carlo ``E[l(h + h ∘ eta)] - l(h)`` of each example, ``eta ~ N(0, A A')``.

    Every draw is used with both signs: the first-order term, which has mean zero and nearly all of
    the variance, cancels exactly.

    Args:
        loss, rows: of one example, as in :func:`loss_hessian`.
        h: ``(B, K)``. noise_root: ``A``, ``(K, R)``.
        n_samples: pairs of draws for each example, at least 2.

    >>> increase = loss_increase(
    ...     lambda h: h.sum(),
    ...     torch.ones(3, 2),
    ...     torch.eye(2),
    ...     n_samples=10,
    ...     generator=torch.Generator(),
    ... )
    >>> increase.value.shape
    torch.Size([3])
    """
    shapes("h must be (B, K) and noise_root (K, R)", h, noise_root)
    size = (integer("n_samples", n_samples, 2), len(h), noise_root.shape[1])
    eps = torch.randn(size, generator=generator, device=generator.device)
    eta = eps.to(noise_root) @ noise_root.mT
    loss_of_rows = func.vmap(loss)
    loss_with_noise = func.vmap(lambda one_eta: loss_of_rows(h * (1 + one_eta), *rows))
    both_signs = (loss_with_noise(eta) + loss_with_noise(-eta)) / 2
    increases = both_signs - loss_of_rows(h, *rows)
    return Estimate(increases.mean(0), increases.std(0) / n_samples**0.5)

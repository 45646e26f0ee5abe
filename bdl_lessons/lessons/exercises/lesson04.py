"""Exercises of lesson 04: masked weights, the KL penalty, weight decay, one mask or many."""

from __future__ import annotations

import torch
from torch import Tensor

from bdl_lessons.lessons.exercises.grader import Check, Exercise, KnownError, agrees, close, normals
from bdl_lessons.probability import all_masks, dropout_mixture, mask_probs, mixture_kl


def masked_weights(M: Tensor, z: Tensor) -> Tensor:
    """The weights that masks on the inputs stand for, equation (11).

    ``M`` is ``(L, K)``, ``z`` is ``(B, K)``, one mask for each of B examples.
    Returns ``(B, L, K)``: W_b = M diag(z_b).
    """
    return M * z[:, None, :]


def kl_penalty(M: Tensor, b: Tensor, p_drop: float, length_scale: float) -> Tensor:
    """The part of KL(q || p) of one layer that depends on ``M`` and ``b``, in nats.

    ``M`` is ``(L, K)``, stored without rescaling; its K inputs are dropped with probability
    ``p_drop``, the bias ``b`` ``(L,)`` never is. The prior of every entry is N(0, length_scale^-2).
    """
    keep = 1 - p_drop
    return 0.5 * length_scale**2 * (keep * (M**2).sum() + (b**2).sum())


def decay_for_mse(
    tau: float, length_scale: float, n_train: int, p_drop: float, y_std: float
) -> float:
    """``weight_decay`` for ``nn.MSELoss`` (one output), ``nn.Dropout`` and ``torch.optim.SGD``.

    ``tau`` is in original units of y; the loss sees y divided by ``y_std``.
    """
    keep = 1 - p_drop
    tau_standardised = tau * y_std**2
    return 2 * length_scale**2 / (keep * n_train * tau_standardised)


def mask_noise(losses: Tensor, probs: Tensor) -> Tensor:
    """Variance of the mean loss over the masks: one mask for all examples, one mask for each.

    ``losses`` is ``(S, N)``: the loss of each of N examples under each of S masks;
    ``probs`` is ``(S,)``. Returns both variances, ``(2,)``.
    """
    centred = losses - probs @ losses
    shared = probs @ centred.mean(1) ** 2
    fresh = (probs @ centred**2).sum() / losses.shape[1] ** 2
    return torch.stack([shared, fresh])


_normal = normals(4)
_M = _normal(3, 3)
_B = _normal(3)
_X = _normal(4, 3)
_Z = torch.tensor([[1, 0, 1], [0, 0, 1], [1, 1, 0], [1, 1, 1]], dtype=torch.float64)
_MASKS = all_masks(3)
_PROBS = mask_probs(_MASKS, 0.3)
_LOSSES = (_MASKS @ _M @ _X.mT - 1) ** 2
_PLAN = {"tau": 3e-4, "length_scale": 0.5, "n_train": 400, "p_drop": 0.2, "y_std": 70.0}


def _sgd_step_fits(answer) -> bool:
    """Whether one SGD step on the stored weights is a step down -ELBO, without the package."""
    keep, y = 1 - _PLAN["p_drop"], torch.arange(4, dtype=torch.float64)[:, None]
    start = _M[:1]
    stored, mean = start.clone().requires_grad_(), (start / keep).requires_grad_()
    loss = torch.nn.functional.mse_loss((_X * _Z / keep) @ stored.mT, y)
    decay = answer(**{**_PLAN, "n_train": 4})
    (step,) = torch.autograd.grad(loss, stored)
    tau = _PLAN["tau"] * _PLAN["y_std"] ** 2
    log_prior = -0.5 * _PLAN["length_scale"] ** 2 * keep * (mean**2).sum()
    elbo = -0.5 * tau * ((y - (_X * _Z) @ mean.mT) ** 2).sum() + log_prior
    (ascent,) = torch.autograd.grad(elbo, mean)
    return close(step + decay * start, -2 / (4 * tau) * ascent / keep)


def _brute_force(losses: Tensor, probs: Tensor) -> Tensor:
    """Variance over all choices of one mask for each of two examples."""
    total = (losses[:, None, 0] + losses[None, :, 1]) / 2
    joint = probs[:, None] * probs[None, :]
    return (joint * total**2).sum() - (joint * total).sum() ** 2


EXERCISES = (
    Exercise(
        number="04.1",
        title="the weights behind a mask",
        solution=masked_weights,
        probe=lambda answer: answer(_M, _Z),
        checks={
            "there is one weight matrix for each example": Check(
                lambda answer: answer(_M[:2], _Z).shape == (4, 2, 3),
                "for M of shape (L, K) and z of shape (B, K) the result is (B, L, K)",
            ),
            "W x gives what M gives on the masked input": agrees(
                lambda answer: torch.einsum("blk,bk->bl", answer(_M, _Z), _X),
                (_X * _Z) @ _M.mT,
                "W_b x_b must equal M (z_b ∘ x_b), for every example b with its own mask",
            ),
            "a dropped input takes its column along": Check(
                lambda answer: close(answer(_M, _Z)[0][:, 1], torch.zeros(3)),
                "the mask multiplies M from the right: column k of W is z_k times column k of M",
            ),
            "a kept input leaves its column as it is": Check(
                lambda answer: close(answer(_M, _Z)[3], _M),
                "with a mask of ones W is M; no rescaling is asked for",
            ),
        },
        known_errors=(
            KnownError(
                lambda M, z: M * z[:, :, None],
                "this is diag(z) M: it drops outputs, the rows of W. The slides print it so; with "
                "W acting from the left, masks on the inputs are M diag(z).",
            ),
            KnownError(
                lambda M, z: (M * z[0]).expand(len(z), -1, -1),
                "every example got the first mask. Dropout draws a fresh one for each example.",
            ),
            KnownError(
                lambda M, z: M * z[:, None, :] / z.mean(),
                "the kept columns are rescaled. The weights here are M, not those of inverted "
                "dropout.",
            ),
        ),
        hints=(
            "Write out M (z ∘ x) for one example, entry by entry. Which entries of M meet z_k?",
            "Column k of W_b is z_bk times column k of M: the mask runs along the last axis of M.",
            "M * z[:, None, :]",
        ),
    ),
    Exercise(
        number="04.2",
        title="the KL as a penalty",
        solution=kl_penalty,
        probe=lambda answer: answer(_M, _B, 0.2, 3.0),
        checks={
            "it is never negative, and zero for zero weights": Check(
                lambda answer: (
                    float(answer(_M, _B, 0.2, 3.0)) >= 0
                    and close(answer(0 * _M, 0 * _B, 0.2, 3.0), 0.0)
                ),
                "a KL is a cost: the signs are plus. Count it from its value at M = 0, b = 0",
            ),
            "it changes with M as the mixture KL of the package does": Check(
                lambda answer: close(
                    answer(_M + 2, _B, 0.2, 3.0) - answer(_M + 1, _B, 0.2, 3.0),
                    mixture_kl(*dropout_mixture(_M + 2, 0.2), 1e-4, 3.0**-2)
                    - mixture_kl(*dropout_mixture(_M + 1, 0.2), 1e-4, 3.0**-2),
                ),
                "equation (16): keep, a half, and the precision of the prior",
            ),
            "with p_drop = 0 weights and biases pay alike": agrees(
                lambda answer: answer(_M, 0 * _B, 0.0, 3.0),
                lambda answer: answer(0 * _M, _M.flatten(), 0.0, 3.0),
                "only the dropout on M tells them apart",
            ),
            "the bias pays the same at every p_drop": Check(
                lambda answer: close(answer(0 * _M, _B, 0.2, 3.0), answer(0 * _M, _B, 0.7, 3.0)),
                "a bias is never dropped, so no keep stands before it",
            ),
        },
        known_errors=(
            KnownError(
                lambda M, b, p_drop, length_scale: -kl_penalty(M, b, p_drop, length_scale),
                "the sign of the slides: minus. A KL is not negative, and large weights are far "
                "from the prior, so they must cost more.",
            ),
            KnownError(
                lambda M, b, p_drop, length_scale: kl_penalty(M, b, 1 - p_drop, length_scale),
                "p_drop stands where keep belongs: a column pays when it is kept. The papers' p "
                "is the probability to keep.",
            ),
            KnownError(
                lambda M, b, p_drop, length_scale: (1 - p_drop) * kl_penalty(M, b, 0, length_scale),
                "the bias got the factor keep as well, but a bias is never dropped.",
            ),
            KnownError(
                lambda M, b, p_drop, length_scale: 2 * kl_penalty(M, b, p_drop, length_scale),
                "the half of the Gaussian exponent is missing.",
            ),
            KnownError(
                lambda M, b, p_drop, length_scale: (
                    0.5 * length_scale**2 * ((1 - p_drop) * M.norm() + b.norm())
                ),
                "norms without the square, as the slides print them. The exponent of a Gaussian "
                "is quadratic.",
            ),
            KnownError(
                lambda M, b, p_drop, length_scale: kl_penalty(M, b, p_drop, 1 / length_scale),
                "divided by l² where it should be multiplied: the prior is N(0, l^-2), so l² is "
                "its precision.",
            ),
        ),
        hints=(
            "Only E_q[-log p(W)] depends on M. What is -log p of a kept column, of a dropped one?",
            "A kept column m costs l²/2 ||m||² more than a dropped one, and is kept with "
            "probability keep.",
            "0.5 * length_scale**2 * (keep * (M**2).sum() + (b**2).sum())",
        ),
    ),
    Exercise(
        number="04.3",
        title="a weight decay that means something",
        solution=decay_for_mse,
        probe=lambda answer: 1e6 * answer(**_PLAN),
        checks={
            "one SGD step is one step up the ELBO": Check(
                _sgd_step_fits,
                "compare the gradient of mean ||y - f||² + decay/2 ||W||² with that of -ELBO, "
                "times 2/(N tau) and with W = keep M",
            ),
            "twice the data, half the decay": agrees(
                lambda answer: 1e6 * answer(**_PLAN),
                lambda answer: 2e6 * answer(**{**_PLAN, "n_train": 800}),
                "the loss is a mean over examples, so the KL is divided by N",
            ),
            "y in other units, the same decay": agrees(
                lambda answer: 1e6 * answer(**_PLAN),
                lambda answer: 1e6 * answer(**{**_PLAN, "tau": 3.0, "y_std": 0.7}),
                "if y is 100 times smaller, tau is 100² times larger; the loss sees neither",
            ),
            "more dropout, more decay on the stored weights": Check(
                lambda answer: answer(**{**_PLAN, "p_drop": 0.5}) > answer(**_PLAN),
                "nn.Dropout stores W = keep M: keep ||M||² is ||W||² / keep",
            ),
        },
        known_errors=(
            KnownError(
                lambda **plan: decay_for_mse(**plan) / 2,
                "a factor 2: nn.MSELoss has no half, or you gave lambda instead of weight_decay.",
            ),
            KnownError(
                lambda **plan: decay_for_mse(**plan) / 4,
                "a factor 4: both twos are missing, that of nn.MSELoss (no half) and that of "
                "weight_decay = 2 lambda.",
            ),
            KnownError(
                lambda **plan: decay_for_mse(**plan) * (1 - plan["p_drop"]) ** 2,
                "keep stands above the line: right for masks of 0 and 1, but nn.Dropout stores "
                "W = keep M.",
            ),
            KnownError(
                lambda **plan: decay_for_mse(**{**plan, "y_std": 1.0}),
                "tau is in original units, but the loss sees standardised targets: there the "
                "precision is tau · y_std².",
            ),
            KnownError(
                lambda **plan: decay_for_mse(**plan) * plan["y_std"],
                "a standard deviation scales y; a precision scales with its square.",
            ),
            KnownError(
                lambda **plan: decay_for_mse(**plan) * plan["n_train"],
                "the KL was not divided by N, although the data term is a mean.",
            ),
        ),
        hints=(
            "Start from equation (18) and change one habit at a time: the half, the two of "
            "weight_decay, the stored weights, the units.",
            "No half: times 2. Inverted dropout: keep becomes 1/keep. Standardised y: tau becomes "
            "tau · y_std².",
            "2 * length_scale**2 / (keep * n_train * tau * y_std**2)",
        ),
    ),
    Exercise(
        number="04.4",
        title="one mask or many",
        solution=mask_noise,
        probe=lambda answer: answer(_LOSSES, _PROBS),
        checks={
            "with one example the two are the same": Check(
                lambda answer: close(*answer(_LOSSES[:, :1], _PROBS)),
                "with N = 1 there is one mask either way",
            ),
            "equal examples: sharing costs a factor N": agrees(
                lambda answer: answer(_LOSSES[:, :1].expand(-1, 5), _PROBS)[0],
                lambda answer: 5 * answer(_LOSSES[:, :1].expand(-1, 5), _PROBS)[1],
                "a mean of N independent equal terms has variance Var/N; of N copies, Var",
            ),
            "one mask each: as by trying all pairs of masks": agrees(
                lambda answer: answer(_LOSSES[:, :2], _PROBS)[1],
                _brute_force(_LOSSES[:, :2], _PROBS),
                "with fresh masks the examples are independent: variances add, over N²",
            ),
            "the masks count with their probabilities": agrees(
                lambda answer: answer(_LOSSES, torch.eye(8, dtype=torch.float64)[3]),
                torch.zeros(2),
                "if one mask has all the probability there is no variance",
            ),
        },
        known_errors=(
            KnownError(
                lambda losses, p: mask_noise(losses, p)[0] / torch.tensor([1, losses.shape[1]]),
                "dividing the shared variance by N is right for equal examples only: fresh masks "
                "keep the variances and lose the covariances.",
            ),
            KnownError(
                lambda losses, p: mask_noise(losses, p) * torch.tensor([1, losses.shape[1]]),
                "a mean of N independent terms has the sum of their variances over N², not N.",
            ),
            KnownError(
                lambda losses, probs: mask_noise(losses, torch.full_like(probs, 1 / len(probs))),
                "the masks were weighted equally; at p_drop other than 0.5 they are not equally "
                "likely.",
            ),
            KnownError(
                lambda losses, probs: mask_noise(losses, probs).flip(0),
                "the two are swapped: the first is one mask for all, the noisier one here.",
            ),
        ),
        hints=(
            "Var of a mean is the sum of all covariances over N². Which of them survive when "
            "every example has its own mask?",
            "Shared: the variance over masks of losses.mean(1). Fresh: sum the variance of each "
            "column, divide by N².",
            "Weighted by probs: centred = losses - probs @ losses; then probs @ "
            "centred.mean(1)**2 and (probs @ centred**2).sum() / N**2.",
        ),
    ),
)

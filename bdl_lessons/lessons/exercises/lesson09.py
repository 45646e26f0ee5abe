"""Exercises of lesson 09: KL through a partition, a quasi-KL, dropout's variance."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from bdl_lessons.lessons.exercises.grader import Check, Exercise, KnownError, agrees, close
from bdl_lessons.probability import all_masks, mask_probs


def partition_kl(q: Tensor, p: Tensor) -> Tensor:
    """``sum_A q(A) log(q(A) / p(A))`` in nats, equation (7), for cell masses ``q, p (M,)``.

    A cell that q does not visit counts nothing; every ``p`` is positive. Returns a 0-dim tensor.
    """
    visited = q > 0
    return (q[visited] * (q[visited] / p[visited]).log()).sum()


def line_qkl(u: Tensor, variance: float, cov: Tensor) -> Tensor:
    """The quasi-KL (12) from ``N(0, variance u u')`` to ``N(0, cov)``, in nats.

    ``u (K,)`` has length one, so q lies on the line through u, with density ``N(s; 0, variance)``
    in the position s along it. ``cov`` is ``(K, K)``, of full rank. Returns a 0-dim tensor.
    """
    precision = torch.linalg.inv(cov)
    minus_entropy = -0.5 * math.log(2 * math.pi * math.e * variance)
    cross = 0.5 * variance * u @ precision @ u + 0.5 * torch.logdet(2 * math.pi * cov)
    return minus_entropy + cross


def dropout_var(x: Tensor, W: Tensor, b: Tensor, v: Tensor, p_drop: float) -> Tensor:
    """Equation (14): variance over inverted dropout on the hidden units of a ReLU net.

    ``x (N, d)``, ``W (H, d)``, ``b (H,)``, output weights ``v (H,)``. Returns ``(N,)``.
    """
    hidden = torch.relu(x @ W.T + b)
    return p_drop / (1 - p_drop) * hidden**2 @ v**2


_generator = torch.Generator().manual_seed(9)
_Q = torch.rand(12, generator=_generator, dtype=torch.float64) * (torch.arange(12) % 3 > 0)
_Q = _Q / _Q.sum()
_P = torch.rand(12, generator=_generator, dtype=torch.float64) + 0.1
_P = _P / _P.sum()
_COV = torch.tensor([[3.0, 1.0], [1.0, 2.0]], dtype=torch.float64)
_U = torch.tensor([0.6, 0.8], dtype=torch.float64)
_BEST_VARIANCE = 1 / (_U @ torch.linalg.inv(_COV) @ _U).item()
_PRINCIPAL_ANGLE = math.atan2(*torch.linalg.eigh(_COV)[1][:, 1].abs().flip(0).tolist())
_X = torch.randn(6, 2, generator=_generator, dtype=torch.float64)
_NET = tuple(
    torch.randn(*shape, generator=_generator, dtype=torch.float64) for shape in ((7, 2), (7,), (7,))
)


def _entropy(variance: float) -> float:
    """The entropy of a Gaussian on a line, in nats."""
    return 0.5 * math.log(2 * math.pi * math.e * variance)


def _enumerated_var(p_drop: float) -> Tensor:
    W, b, v = _NET
    masks = all_masks(7)
    outputs = (torch.relu(_X @ W.T + b) * masks[:, None] / (1 - p_drop)) @ v
    probs = mask_probs(masks, p_drop)
    return probs @ (outputs - probs @ outputs) ** 2


def _best_angle(answer) -> float:
    """The angle whose line has the least quasi-KL to ``_COV``, each at its best variance."""
    angles = torch.linspace(0, math.pi, 721, dtype=torch.float64)
    scores = []
    for angle in angles:
        u = torch.stack([angle.cos(), angle.sin()])
        variance = 1 / (u @ torch.linalg.inv(_COV) @ u).item()
        scores.append(float(answer(u, variance, _COV)))
    return angles[torch.tensor(scores).argmin()].item()


EXERCISES = (
    Exercise(
        number="09.1",
        title="the KL through a partition",
        solution=partition_kl,
        probe=lambda answer: answer(_P.flip(0), _P),  # without empty cells: nan says nothing
        checks={
            "q on two of four equal cells: log 2": agrees(
                lambda answer: answer(
                    torch.tensor([0.5, 0.5, 0.0, 0.0], dtype=torch.float64),
                    torch.full((4,), 0.25, dtype=torch.float64),
                ),
                math.log(2),
                "sum over cells; where q is 0 the term is 0, although floating point says nan",
            ),
            "it is zero between equal masses": Check(
                lambda answer: close(answer(_P, _P), 0.0), "each term is q times the log of q/p"
            ),
            "it is never negative": Check(
                lambda answer: float(answer(_Q, _P)) > 0 and float(answer(_P[:2], _P[:2])) > -1e-9,
                "look at the sign: q/p, not p/q, under the log",
            ),
            "merging cells never raises it": Check(
                lambda answer: (
                    float(answer(_Q.view(6, 2).sum(1), _P.view(6, 2).sum(1)))
                    <= float(answer(_Q, _P)) - 1e-6
                ),
                "the terms are weighted by q and summed, not averaged",
            ),
        },
        known_errors=(
            KnownError(
                lambda q, p: torch.xlogy(p, p).sum() - torch.xlogy(p, q.clamp(min=1e-300)).sum(),
                "this is KL(p || q): the weights in front of the log must be q.",
            ),
            KnownError(
                lambda q, p: (q[q > 0] * (p[q > 0] / q[q > 0]).log()).sum(),
                "the sign is wrong: the ratio under the log is q over p.",
            ),
            KnownError(
                lambda q, p: (q[q > 0] * (q[q > 0] / p[q > 0]).log()).mean(),
                "this is a mean over cells. The masses q already are the weights: sum.",
            ),
        ),
        hints=(
            "Which cells can be left out?",
            "Select the cells with q > 0 in both lists first.",
            "Then q * log(q / p), summed.",
        ),
    ),
    Exercise(
        number="09.2",
        title="the quasi-KL of a line",
        solution=line_qkl,
        probe=lambda answer: answer(_U, 0.7, _COV),
        checks={
            "in one dimension it is the ordinary KL": agrees(
                lambda answer: answer(torch.ones(1).double(), 0.7, 2 * torch.eye(1).double()),
                0.5 * (0.35 - 1 - math.log(0.35)),
                "with K = 1 the line is the whole space",
            ),
            "the best variance is 1 / (u' cov⁻¹ u)": Check(
                lambda answer: (
                    min(
                        (0.5, 1.0, 1.5, 2.0),
                        key=lambda f: float(answer(_U, f * _BEST_VARIANCE, _COV)),
                    )
                    == 1.0
                ),
                "the cross term is variance/2 · u' cov⁻¹ u; the entropy is ½ log(2πe variance)",
            ),
            "the best line is the first principal axis": Check(
                lambda answer: abs(_best_angle(answer) - _PRINCIPAL_ANGLE) < 0.01,
                "the quadratic form has the inverse of cov",
            ),
            "turning u and cov together changes nothing": agrees(
                lambda answer: answer(_U.flip(0), 0.7, _COV.flip(0, 1)),
                lambda answer: answer(_U, 0.7, _COV),
                "coordinates play no role of their own",
            ),
        },
        known_errors=(
            KnownError(
                lambda u, variance, cov: line_qkl(u, variance, cov.inverse()) + torch.logdet(cov),
                "the quadratic form uses cov. The log density of N(0, cov) has its inverse.",
            ),
            KnownError(
                lambda u, variance, cov: line_qkl(u, variance, cov) + _entropy(variance),
                "the entropy along the line is missing. Without it the best q is a point.",
            ),
            KnownError(
                lambda u, variance, cov: line_qkl(u, variance, cov) + 2 * _entropy(variance),
                "the entropy has the wrong sign: E log q is MINUS the entropy.",
            ),
            KnownError(
                lambda u, *args: line_qkl(u, *args) - len(u) / 2 * math.log(2 * math.pi),
                "the log density of N(0, cov) has the constant (K/2) log 2π; only one of the K "
                "halves cancels against the entropy.",
            ),
        ),
        hints=(
            "Two terms: E log q along the line, and minus E log p in the plane.",
            "E log q = −½ log(2πe · variance). For the other, E[s² u' cov⁻¹ u] = variance · …",
            "−E log p = ½ variance u' cov⁻¹ u + ½ log det(2π cov); torch.logdet helps.",
        ),
    ),
    Exercise(
        number="09.3",
        title="dropout's variance in one hidden layer",
        solution=dropout_var,
        probe=lambda answer: answer(_X, *_NET, 0.2),
        checks={
            "it is the variance over all 128 masks": Check(
                lambda answer: close(answer(_X, *_NET, 0.2), _enumerated_var(0.2)),
                "Var[z/keep] = p_drop/keep; independent terms add their variances",
            ),
            "without dropout it is zero": Check(
                lambda answer: close(answer(_X, *_NET, 0.0), torch.zeros(6)),
                "at p_drop = 0 there is one network only",
            ),
            "doubling the output weights makes it four times as large": agrees(
                lambda answer: answer(_X, *_NET[:2], 2 * _NET[2], 0.2),
                lambda answer: 4 * answer(_X, *_NET, 0.2),
                "a factor leaves a variance squared",
            ),
            "between two inputs it is at most the larger of theirs": Check(
                lambda answer: bool(
                    (
                        answer((_X[:3] + _X[3:]) / 2, *_NET, 0.2)
                        <= torch.maximum(answer(_X[:3], *_NET, 0.2), answer(_X[3:], *_NET, 0.2))
                    ).all()
                ),
                "every term must be a convex function of x",
            ),
        },
        known_errors=(
            KnownError(
                lambda x, W, b, v, p_drop: dropout_var(x, W, b, v, p_drop) * (1 - p_drop) ** 2,
                "keep · p_drop is the variance of the mask z. Inverted dropout uses z/keep.",
            ),
            KnownError(
                lambda x, W, b, v, p_drop: p_drop / (1 - p_drop) * ((x @ W.T + b).relu() @ v) ** 2,
                "the square is outside the sum: that would be one mask for all units together.",
            ),
            KnownError(
                lambda *net_and_rate: dropout_var(*net_and_rate).sqrt(),
                "this is the standard deviation.",
            ),
            KnownError(
                lambda x, W, b, v, p_drop: p_drop / (1 - p_drop) * (x @ W.T + b) ** 2 @ v**2,
                "the ReLU is missing.",
            ),
        ),
        hints=(
            "The output is a sum of independent random numbers, one for each hidden unit.",
            "Var[z_i/keep · v_i h_i] = v_i² h_i² Var[z_i/keep].",
            "Var[z/keep] = p_drop / keep, so p_drop / keep · (h² @ v²).",
        ),
    ),
)

"""Exercises of lesson 09: KL through a partition, a quasi-KL, noisy inputs, the worst ratio."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable

import torch
from torch import Tensor
from torch.distributions import MultivariateNormal, kl_divergence

from bdl_lessons.exercises.grader import Criterion, Exercise, KnownError, agrees, close, normals


def partition_kl(q: Tensor, p: Tensor) -> Tensor:
    """``sum_A q(A) log(q(A) / p(A))`` in nats, equation (8), for cell masses ``q, p (M,)``.

    A cell that q does not visit counts nothing; every ``p`` is positive. Returns a 0-dim tensor.
    """
    visited = q > 0
    return (q[visited] * (q[visited] / p[visited]).log()).sum()


def line_qkl(u: Tensor, variance: float, cov: Tensor) -> Tensor:
    """The quasi-KL (10) from ``N(0, variance u u')`` to ``N(0, cov)``, in nats.

    ``u (D,)`` has length one, so q lies on the line through u, with density ``N(s; 0, variance)``
    in the position s along it. ``cov`` is ``(D, D)``, of full rank. Returns a 0-dim tensor.
    """
    precision = torch.linalg.inv(cov)
    minus_entropy = -0.5 * math.log(2 * math.pi * math.e * variance)
    cross = 0.5 * variance * u @ precision @ u + 0.5 * torch.logdet(2 * math.pi * cov)
    return minus_entropy + cross


def input_hat(p_drop: float) -> tuple[Tensor, Tensor]:
    """Biases and output weights ``(3,)`` of a hat of height 1 in standard deviations of f.

    The units see ``z x / keep``: a hat between 1 and 4 with its top at 2, where z is 1. There the
    variance is keep · p_drop times the squared height.
    """
    keep = 1 - p_drop
    b = -torch.tensor([1.0, 2.0, 4.0], dtype=torch.float64) / keep
    slopes = keep * torch.tensor([1.0, -1.5, 0.5], dtype=torch.float64)
    return b, slopes / (keep * p_drop) ** 0.5


def smallest_ratio(name: str) -> float:
    """The infimum of ``max(Var f(x_0), Var f(x_1)) / Var f(x_kappa)`` for a nonlinearity.

    1 if phi squared is convex; ½ if phi is monotone and odd, or monotone with one sign; 0 for the
    others that the lesson lists.
    """
    if name in ("relu", "abs", "softplus"):
        return 1.0
    return 0.5 if name in ("tanh", "sigmoid") else 0.0


PHI: dict[str, Callable[[Tensor], Tensor]] = {
    "relu": torch.relu,
    "abs": torch.abs,
    "softplus": torch.nn.functional.softplus,
    "tanh": torch.tanh,
    "sigmoid": torch.sigmoid,
    "sin": torch.sin,
    "bump": lambda u: torch.exp(-(u**2)),
}

_normal = normals(9)
_Q = torch.tensor([4.0, 0, 1, 9, 0, 2, 0.5, 0, 3, 0.5], dtype=torch.float64) / 20
_P = torch.tensor([1.0, 5, 4, 2, 1, 1, 2, 1, 1, 2], dtype=torch.float64) / 20
_ROOT = _normal(3, 3)
_COV = _ROOT @ _ROOT.T + 0.5 * torch.eye(3, dtype=torch.float64)
_U = torch.tensor([0.48, -0.6, 0.64], dtype=torch.float64)


def _with_noise(u: Tensor, variance: float, cov: Tensor, noise_var: float = 1e-9) -> float:
    """KL of the line plus noise in all directions, less its infinite part: tends to the QKL."""
    eye = torch.eye(len(u), dtype=u.dtype)
    zero = torch.zeros_like(u)
    q = MultivariateNormal(zero, variance * torch.outer(u, u) + noise_var * eye)
    infinite = -(len(u) - 1) / 2 * math.log(2 * math.pi * math.e * noise_var)
    return float(kl_divergence(q, MultivariateNormal(zero, cov))) - infinite


def _entropy(variance: float) -> float:
    """The entropy of a Gaussian on a line, in nats."""
    return 0.5 * math.log(2 * math.pi * math.e * variance)


def _hat_var(answer, at: list[float], p_drop: float, n_copies: float = math.inf) -> Tensor:
    """Variance of f under the input's noise, and that of dropped copies of each hidden unit."""
    b, w_out = (torch.as_tensor(part).double() for part in answer(p_drop))
    keep = 1 - p_drop
    x = torch.tensor(at, dtype=torch.float64)[:, None]
    h_0 = torch.relu(b)
    h_1 = torch.relu(x / keep + b)
    between = keep * p_drop * ((h_1 - h_0) @ w_out) ** 2
    within = p_drop / keep * (p_drop * h_0**2 + keep * h_1**2) @ w_out**2
    return between + within / n_copies


@functools.cache
def _search(name: str) -> float:
    """The smallest ratio found between -1 and 1, over pairs of units ``phi(w x + b)``."""
    x = torch.linspace(-1, 1, 41, dtype=torch.float64)
    w = torch.tensor([-8.0, -3.1416, -1.5708, -1, 1, 1.5708, 3.1416, 8], dtype=torch.float64)
    b = torch.linspace(-8, 8, 65, dtype=torch.float64)
    b = torch.cat([b, torch.tensor([-3.1416, -1.5708, 1.5708, 3.1416], dtype=torch.float64)])
    squares = PHI[name](torch.cartesian_prod(w, b) @ torch.stack([x, torch.ones_like(x)])) ** 2
    pairs = squares[:, None] + squares
    ends = torch.maximum(pairs[..., 0], pairs[..., -1])
    top = pairs.amax(-1)
    return float((ends / top)[top > 1e-6].min())


def _predicted(*names: str) -> Callable[[Callable], bool]:
    """Whether the predictions are met by the networks that a search finds."""

    def holds(answer) -> bool:
        for name in names:
            found = _search(name)
            ratio = float(answer(name))
            if not ratio - 1e-6 <= found <= ratio + 0.03:  # no network beats it, some come near
                return False
        return True

    return holds


EXERCISES = (
    Exercise(
        number="09.1",
        title="repair a KL through a partition",
        kind="debug",
        solution=partition_kl,
        probe=lambda answer: answer((_Q + 0.05) / 1.5, _P),  # without empty cells: nan says nothing
        criteria=(
            Criterion(
                "q on two of four equal cells: log 2",
                agrees(
                    lambda answer: answer(
                        torch.tensor([0.5, 0.5, 0.0, 0.0], dtype=torch.float64),
                        torch.full((4,), 0.25, dtype=torch.float64),
                    ),
                    math.log(2),
                ),
                advice="sum over all cells, in nats; a cell with q = 0 contributes 0",
            ),
            Criterion(
                "ten cells, three of them empty",
                agrees(
                    lambda answer: answer(_Q, _P),
                    lambda answer: float(torch.xlogy(_Q, _Q / _P).sum()),
                ),
                advice="each cell contributes q times the natural logarithm of q / p",
            ),
            Criterion(
                "it is zero between equal masses",
                lambda answer: close(answer(_P, _P), 0.0),
                advice="each term is q times the log of q/p",
            ),
            Criterion(
                "merging cells never raises it",
                lambda answer: (
                    float(answer(_Q.view(5, 2).sum(1), _P.view(5, 2).sum(1)))
                    <= float(answer(_Q, _P)) - 1e-6
                ),
                advice="the terms are weighted by q and summed, not averaged",
            ),
        ),
        known_errors=(
            KnownError(
                lambda q, p: partition_kl(q, p) / math.log(2),
                diagnosis=(
                    "the logarithm has base 2: that is in bits. Nats need the natural logarithm."
                ),
            ),
            KnownError(
                lambda q, p: partition_kl(q, p) / len(q),
                diagnosis="this is a mean over cells. The masses q already are the weights: sum.",
            ),
            KnownError(
                lambda q, p: partition_kl(q, p) / math.log(2) / len(q),
                diagnosis=(
                    "two things are left: the base of the logarithm (nats, not bits), and the mean "
                    "over cells, which must be a sum."
                ),
            ),
            KnownError(
                lambda q, p: (p * (q.clamp(min=1e-300) / p).log()).sum(),
                diagnosis=(
                    "the weights in front of the log must be q: the KL is an average under q."
                ),
            ),
            KnownError(
                lambda q, p: -partition_kl(q, p),
                diagnosis="the sign is wrong: the ratio under the log is q over p.",
            ),
        ),
        hints=(
            "Four things: the weights, the base of the log, sum or mean, and cells with q = 0.",
            "nanmean also leaves cells out of the count. Select the cells with q > 0 first.",
            "Then q * log(q / p), summed.",
        ),
    ),
    Exercise(
        number="09.2",
        title="derive the quasi-KL of a line",
        kind="derive",
        solution=line_qkl,
        probe=lambda answer: answer(_U, 0.7, _COV),
        criteria=(
            Criterion(
                "in one dimension it is the ordinary KL",
                agrees(
                    lambda answer: answer(torch.ones(1).double(), 0.7, 2 * torch.eye(1).double()),
                    0.5 * (0.35 - 1 - math.log(0.35)),
                ),
                advice="compare with KL(N(0, 0.7) || N(0, 2)), term by term",
            ),
            Criterion(
                "measured in three dimensions: the line plus a little noise",
                lambda answer: close(answer(_U, 0.7, _COV), _with_noise(_U, 0.7, _COV), 1e-5),
                advice=(
                    "E log q along the line minus E log p in all D dimensions, with all constants"
                ),
            ),
            Criterion(
                "measured again with a wider line and a narrower prior",
                lambda answer: close(
                    answer(_U, 5.0, 0.3 * _COV), _with_noise(_U, 5.0, 0.3 * _COV), 1e-5
                ),
                advice="how does each term depend on the variance and on cov?",
            ),
            Criterion(
                "in two dimensions",
                lambda answer: close(
                    answer(torch.tensor([0.6, 0.8]).double(), 0.2, _COV[:2, :2]),
                    _with_noise(torch.tensor([0.6, 0.8]).double(), 0.2, _COV[:2, :2]),
                    1e-5,
                ),
                advice="which terms depend on the number of weights D?",
            ),
        ),
        known_errors=(
            KnownError(
                lambda u, variance, cov: line_qkl(u, variance, cov.inverse()) + torch.logdet(cov),
                diagnosis=(
                    "the quadratic form uses cov. The log density of N(0, cov) has its inverse."
                ),
            ),
            KnownError(
                lambda u, variance, cov: line_qkl(u, variance, cov) + _entropy(variance),
                diagnosis=(
                    "the entropy along the line is missing. Without it the best q is a point."
                ),
            ),
            KnownError(
                lambda u, variance, cov: line_qkl(u, variance, cov) + 2 * _entropy(variance),
                diagnosis="the entropy has the wrong sign: E log q is MINUS the entropy.",
            ),
            KnownError(
                lambda u, *args: line_qkl(u, *args) - len(u) / 2 * math.log(2 * math.pi),
                diagnosis=(
                    "the log density of N(0, cov) has the constant (D/2) log 2π; only one of the D "
                    "halves cancels against the entropy."
                ),
            ),
            KnownError(
                lambda u, *args: line_qkl(u, *args) - (len(u) - 1) / 2 * math.log(2 * math.pi),
                diagnosis="the constant of log p is (D/2) log 2π, D times that of one dimension.",
            ),
            KnownError(
                lambda u, variance, cov: line_qkl(u, variance, cov) + 0.5,
                diagnosis=(
                    "½ is missing: the entropy of a Gaussian is ½ log(2πe · variance), with the e."
                ),
            ),
            KnownError(
                lambda u, variance, cov: line_qkl(u, variance, cov) - 0.5 * torch.logdet(cov),
                diagnosis="the log density of N(0, cov) also has −½ log det cov.",
            ),
            KnownError(
                lambda u, variance, cov: line_qkl(u, variance, cov) + 0.5 * torch.logdet(cov),
                diagnosis="log det cov needs the factor ½.",
            ),
            KnownError(
                lambda u, variance, cov: (
                    line_qkl(u, variance, cov) + 0.5 * (1 - variance) * u @ cov.inverse() @ u
                ),
                diagnosis="E s² is the variance: it multiplies the quadratic form.",
            ),
        ),
        hints=(
            "Two terms: E log q along the line, and minus E log p in D dimensions.",
            "E log q = −½ log(2πe · variance). For the other, E[s² u' cov⁻¹ u] = variance · …",
            "−E log p = ½ variance u' cov⁻¹ u + ½ log det(2π cov); torch.logdet helps.",
        ),
    ),
    Exercise(
        number="09.3",
        title="design in-between uncertainty from noise on the input",
        kind="design",
        solution=input_hat,
        probe=lambda answer: _hat_var(answer, [0.5, 1.4, 2.0, 3.0, 4.5, 6.0], 0.25),
        criteria=(
            Criterion(
                "p_drop = 0.1: the variance is 1 at x = 2",
                agrees(lambda answer: _hat_var(answer, [2.0], 0.1), torch.ones(1).double()),
                advice=(
                    "f takes two values there, one for z = 0 and one for z = 1: what is its "
                    "variance?"
                ),
            ),
            Criterion(
                "no variance outside",
                agrees(
                    lambda answer: _hat_var(answer, [-3.0, 0.3, 1.0, 4.0, 5.0, 9.0], 0.1),
                    torch.zeros(6).double(),
                ),
                advice=(
                    "from x = 4 on all slopes must add up to 0, and f must return to where it began"
                ),
            ),
            Criterion(
                "another rate, p_drop = 0.4",
                agrees(
                    lambda answer: _hat_var(answer, [0.0, 1.0, 2.0, 4.0, 8.0], 0.4),
                    torch.tensor([0.0, 0, 1, 0, 0], dtype=torch.float64),
                ),
                advice="how do the knots and the height of the hat change with keep and p_drop?",
            ),
            Criterion(
                "2000 copies of each unit share its w_out, each with a mask of its own: "
                "still a hill",
                lambda answer: bool(
                    (_hat_var(answer, [1.0, 2.0, 4.0], 0.1, 2000) - torch.eye(3)[1]).abs().max()
                    < 0.15
                ),
                advice=(
                    "once the checks above hold: a narrow hat needs steep units, so make it wide"
                ),
            ),
        ),
        known_errors=(
            KnownError(
                lambda p_drop: (input_hat(p_drop)[0] * (1 - p_drop), input_hat(p_drop)[1]),
                diagnosis=(
                    "the knots lie at 1, 2 and 4, but a kept input reaches the units as x / keep."
                ),
            ),
            KnownError(
                lambda p_drop: (input_hat(p_drop)[0], input_hat(p_drop)[1] * (1 - p_drop)),
                diagnosis=(
                    "the variance is that of a hat that is there or not, keep · p_drop times its "
                    "squared height. p_drop / keep would be right if the output were multiplied by "
                    "z / keep."
                ),
            ),
            KnownError(
                lambda p_drop: (
                    input_hat(p_drop)[0],
                    input_hat(p_drop)[1] * ((1 - p_drop) * p_drop) ** 0.5,
                ),
                diagnosis="the height of the hat is 1. The variance of f must be.",
            ),
            KnownError(
                lambda p_drop: (
                    torch.tensor([-1.0, -2, -4]) / (1 - p_drop),
                    torch.tensor([1.0, -2, 1]) * ((1 - p_drop) / p_drop) ** 0.5,
                ),
                diagnosis=(
                    "these are the slopes of (4), for knots at equal distances: this hat does not "
                    "return to 0 at x = 4."
                ),
            ),
        ),
        hints=(
            "With z = 0 all units see 0. With z = 1 they see x / keep. What must f be each time?",
            "A hat: the slope changes at its three knots, and the changes add up to 0.",
            "Knots at 1, 2 and 4, divided by keep. Height: Var f = keep · p_drop · height².",
        ),
    ),
    Exercise(
        number="09.4",
        title="predict the smallest ratio for other nonlinearities",
        kind="predict",
        solution=smallest_ratio,
        probe=lambda answer: [float(answer(name)) for name in PHI],
        criteria=(
            Criterion(
                "measured: relu, abs and softplus",
                _predicted("relu", "abs", "softplus"),
                advice="is phi squared convex?",
            ),
            Criterion(
                "measured: tanh",
                _predicted("tanh"),
                advice="on the segment, tanh² is at most the larger of its end values",
            ),
            Criterion(
                "measured: sigmoid",
                _predicted("sigmoid"),
                advice="one unit off at the left end, another at the right end",
            ),
            Criterion(
                "measured: sin and bump",
                _predicted("sin", "bump"),
                advice="can a unit be 0 at both ends and not in between?",
            ),
        ),
        known_errors=(
            KnownError(
                lambda name: 1.0,
                diagnosis="that is the answer for a convex square. The square of tanh levels off.",
            ),
            KnownError(
                lambda name: 1.0 if name == "relu" else 0.5 if name == "tanh" else 0.0,
                diagnosis="not only ReLU has a convex square, and not only tanh is monotone.",
            ),
            KnownError(
                lambda name: 0.0 if smallest_ratio(name) < 1 else 1.0,
                diagnosis=(
                    "tanh and sigmoid are monotone: a unit that is small at both ends is small in "
                    "between. So the variance is at most the sum of the two at the ends."
                ),
            ),
            KnownError(
                lambda name: 0.5 if smallest_ratio(name) < 1 else 1.0,
                diagnosis="sin and the bump can vanish at both ends and be large in between.",
            ),
            KnownError(
                lambda name: math.sqrt(smallest_ratio(name)),
                diagnosis=(
                    "that is the ratio of standard deviations. The question is about variances."
                ),
            ),
        ),
        hints=(
            "(2) holds for every phi. Which property of relu² did the proof use?",
            "A monotone unit that is small at both ends is small in between. And two units?",
            "Convex squares: 1. Monotone and odd, or monotone with one sign: ½. The others: 0.",
        ),
    ),
)

"""Exercises of lesson 10: KL through a partition, a quasi-KL, dimensions, improper priors."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable

import torch
from torch import Tensor
from torch.distributions import MultivariateNormal, kl_divergence

from bdl_lessons.exercises.grader import Criterion, Exercise, KnownError, agrees, close, normals


def partition_kl(q: Tensor, p: Tensor) -> Tensor:
    """``sum_A q(A) log(q(A) / p(A))`` in nats, equation (3), for cell masses ``q, p (M,)``.

    A cell that q does not visit counts nothing; every ``p`` is positive. Returns a 0-dim tensor.
    """
    visited = q > 0
    return (q[visited] * (q[visited] / p[visited]).log()).sum()


def line_qkl(u: Tensor, variance: float, cov: Tensor) -> Tensor:
    """The quasi-KL (5) from ``N(0, variance u u')`` to ``N(0, cov)``, in nats.

    ``u (D,)`` has length one, so q lies on the line through u, with density ``N(s; 0, variance)``
    in the position s along it. ``cov`` is ``(D, D)``, of full rank. Returns a 0-dim tensor.
    """
    precision = torch.linalg.inv(cov)
    minus_entropy = -0.5 * math.log(2 * math.pi * math.e * variance)
    cross = 0.5 * variance * u @ precision @ u + 0.5 * torch.logdet(2 * math.pi * cov)
    return minus_entropy + cross


def nats_per_halving(noise: str, n_in: int, n_out: int, kernel: int = 1) -> float:
    """What one halving of a fine grid adds to (3), in nats: log 2 for each missing dimension.

    There are ``n_in * n_out * kernel**2`` weights. Noise on inputs, also reflected, has ``n_in``
    dimensions, that on weights one for each, a factor of the whole layer one, and masks none.
    """
    n_weights = n_in * n_out * kernel**2
    dimensions = {
        "binary": 0,
        "one factor": 1,
        "type A": n_in,
        "type A, reflected": n_in,
        "type B": n_weights,
    }
    return (n_weights - dimensions[noise]) * math.log(2)


def is_proper(exponent: float, likelihood: str) -> bool:
    """Whether the prior ``|w|**-exponent`` and the likelihood have a proper posterior.

    Near 0 the integral is finite for an exponent below 1, or below 3 where the likelihood vanishes
    like w²; at infinity the likelihood has to fall, or the exponent to exceed 1.
    """
    if likelihood in ("no data", "one label"):
        return False
    if likelihood == "vanishes at 0":
        return exponent < 3
    return exponent < 1


_normal = normals(9)
_Q = torch.tensor([4.0, 0, 1, 9, 0, 2, 0.5, 0, 3, 0.5], dtype=torch.float64) / 20
_P = torch.tensor([1.0, 5, 4, 2, 1, 1, 2, 1, 1, 2], dtype=torch.float64) / 20
_Q_WITHOUT_EMPTY_CELLS = (_Q + 0.05) / 1.5
_ROOT = _normal(3, 3)
_COV = _ROOT @ _ROOT.T + 0.5 * torch.eye(3, dtype=torch.float64)
_U = torch.tensor([0.48, -0.6, 0.64], dtype=torch.float64)
_U_OF_TWO = torch.tensor([0.6, 0.8], dtype=torch.float64)


def _falls_by_merging(answer) -> bool:
    """Whether the KL falls if two neighbouring cells each become one."""
    merged = answer(_Q.view(5, 2).sum(1), _P.view(5, 2).sum(1))
    return float(merged) <= float(answer(_Q, _P)) - 1e-6


def _with_noise(u: Tensor, variance: float, cov: Tensor, noise_var: float = 1e-9) -> float:
    """KL of the line plus noise in all directions, less its infinite part: tends to the QKL."""
    eye = torch.eye(len(u), dtype=u.dtype)
    zero = torch.zeros_like(u)
    q = MultivariateNormal(zero, variance * torch.outer(u, u) + noise_var * eye)
    p = MultivariateNormal(zero, cov)
    infinite = -(len(u) - 1) * _entropy(noise_var)
    return float(kl_divergence(q, p)) - infinite


def _entropy(variance: float) -> float:
    """The entropy of a Gaussian on a line, in nats."""
    return 0.5 * math.log(2 * math.pi * math.e * variance)


def _kl_on_a_line(variance: float, prior_variance: Tensor) -> Tensor:
    """KL between two centred Gaussians on a line, in nats."""
    ratio = variance / prior_variance
    return 0.5 * (ratio - 1 - ratio.log())


NOISES = ("binary", "one factor", "type A", "type A, reflected", "type B")
LAYERS = ((3, 4, 1), (5, 1, 1), (2, 3, 3))
"""Two linear layers and one convolution: inputs, outputs, side of the kernel."""


def _weights(noise: str, factors: Tensor, theta: Tensor) -> Tensor:
    """Weights of a layer ``(n_in, n_out * kernel**2)`` from its random factors."""
    if noise == "type B":
        return factors.view_as(theta) * theta
    if noise == "type A, reflected":
        v = torch.ones_like(factors) / len(factors) ** 0.5
        factors = factors - 2 * v * (v @ factors)
    return factors[:, None] * theta


@functools.cache
def _measured_growth(noise: str, n_in: int, n_out: int, kernel: int) -> float:
    """log 2 times the dimensions that the weights leave out, by the rank of a Jacobian."""
    draw = normals(6)
    theta = draw(n_in, n_out * kernel**2)
    if noise == "binary":  # finitely many points: no small change of a factor is possible
        return theta.numel() * math.log(2)
    n_factors = {"one factor": 1, "type B": theta.numel()}.get(noise, n_in)
    factors = draw(n_factors)
    jacobian = torch.autograd.functional.jacobian(
        lambda xi: _weights(noise, xi, theta).flatten(), factors
    )
    rank = int(torch.linalg.matrix_rank(jacobian))
    return (theta.numel() - rank) * math.log(2)


def _counts(*noises: str) -> Callable[[Callable], bool]:
    """Whether the answer has the measured growth for these kinds of noise."""

    def holds(answer) -> bool:
        return all(
            close(answer(noise, *layer), _measured_growth(noise, *layer), 1e-6)
            for noise in noises
            for layer in LAYERS
        )

    return holds


LIKELIHOODS: dict[str, Callable[[Tensor], Tensor]] = {
    "Gaussian": lambda w: torch.exp(-((w - 1) ** 2) / 2),
    "one label": torch.sigmoid,
    "both labels": lambda w: torch.sigmoid(w) * torch.sigmoid(-w),
    "vanishes at 0": lambda w: w**2 * torch.exp(-(w**2) / 2),
    "no data": torch.ones_like,
}
EXPONENTS = (0.0, 0.5, 1.0, 1.5, 2.0, 3.0)


def _decade(exponent: float, likelihood: str, log10_w: float) -> float:
    """Unnormalised posterior mass of both signs in the decade that begins at ``10**log10_w``."""
    log_w = torch.linspace(log10_w, log10_w + 1, 2001, dtype=torch.float64) * math.log(10)
    w = log_w.exp()
    likelihood_of = LIKELIHOODS[likelihood]
    both_signs = likelihood_of(w) + likelihood_of(-w)
    mass_per_log_w = both_signs * w**-exponent * w
    return float(torch.trapezoid(mass_per_log_w, log_w))


@functools.cache
def _measured_proper(exponent: float, likelihood: str) -> bool:
    """Whether the masses of further decades shrink, towards 0 and towards infinity."""
    to_zero = _decade(exponent, likelihood, -13) / _decade(exponent, likelihood, -12)
    far = _decade(exponent, likelihood, 13)
    farther = _decade(exponent, likelihood, 14)
    return to_zero < 1 - 1e-6 and farther <= far * (1 - 1e-6)


def _is_measured(*likelihoods: str) -> Callable[[Callable], bool]:
    """Whether the predictions are met by the masses of the decades."""

    def holds(answer) -> bool:
        return all(
            bool(answer(exponent, likelihood)) == _measured_proper(exponent, likelihood)
            for exponent in EXPONENTS
            for likelihood in likelihoods
        )

    return holds


def _type_a_on_outputs(noise: str, n_in: int, n_out: int, kernel: int = 1) -> float:
    """With a factor of type A for each output in place of each input."""
    nats = nats_per_halving(noise, n_in, n_out, kernel)
    if noise in ("type A", "type A, reflected"):
        nats += (n_in - n_out) * math.log(2)
    return nats


EXERCISES = (
    Exercise(
        number="10.1",
        title="repair a KL through a partition",
        kind="debug",
        solution=partition_kl,
        probe=lambda answer: answer(_Q_WITHOUT_EMPTY_CELLS, _P),  # nan would say nothing
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
                _falls_by_merging,
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
        number="10.2",
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
                agrees(
                    lambda answer: answer(_U, 0.7, _COV),
                    lambda _: _with_noise(_U, 0.7, _COV),
                    atol=1e-5,
                ),
                advice=(
                    "E log q along the line minus E log p in all D dimensions, with all constants"
                ),
            ),
            Criterion(
                "measured again with a wider line and a narrower prior",
                agrees(
                    lambda answer: answer(_U, 5.0, 0.3 * _COV),
                    lambda _: _with_noise(_U, 5.0, 0.3 * _COV),
                    atol=1e-5,
                ),
                advice="how does each term depend on the variance and on cov?",
            ),
            Criterion(
                "in two dimensions",
                agrees(
                    lambda answer: answer(_U_OF_TWO, 0.2, _COV[:2, :2]),
                    lambda _: _with_noise(_U_OF_TWO, 0.2, _COV[:2, :2]),
                    atol=1e-5,
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
                lambda u, variance, cov: (
                    line_qkl(u, variance, cov) - len(u) / 2 * math.log(2 * math.pi)
                ),
                diagnosis=(
                    "the log density of N(0, cov) has the constant (D/2) log 2π; only one of the D "
                    "halves cancels against the entropy."
                ),
            ),
            KnownError(
                lambda u, variance, cov: (
                    line_qkl(u, variance, cov) - (len(u) - 1) / 2 * math.log(2 * math.pi)
                ),
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
            KnownError(
                lambda u, variance, cov: _kl_on_a_line(variance, 1 / (u @ cov.inverse() @ u)),
                diagnosis=(
                    "that is the KL to the prior *conditioned on the line*. The prior of the QKL "
                    "keeps its density in all D dimensions."
                ),
            ),
            KnownError(
                lambda u, variance, cov: _kl_on_a_line(variance, u @ cov @ u),
                diagnosis=(
                    "that is the KL to the prior *projected on the line*. The prior of the QKL "
                    "keeps its density in all D dimensions."
                ),
            ),
            KnownError(
                lambda u, variance, cov: (
                    line_qkl(u, variance, cov) + 0.5 * variance * u @ cov.inverse() @ u
                ),
                diagnosis="the quadratic form in the log density of N(0, cov) has the factor ½.",
            ),
            KnownError(
                lambda u, variance, cov: (
                    line_qkl(u, variance, cov)
                    + 0.5 * (variance**2 - variance) * u @ cov.inverse() @ u
                ),
                diagnosis="`variance` is E s² already: it is not squared once more.",
            ),
            KnownError(
                lambda u, variance, cov: line_qkl(u, variance, cov) - 0.5 * math.log(variance),
                diagnosis=(
                    "the entropy of N(0, variance) has ½ log variance: log of the standard "
                    "deviation."
                ),
            ),
        ),
        hints=(
            "Two terms: E log q along the line, and minus E log p in D dimensions.",
            "E log q = −½ log(2πe · variance). For the other, E[s² u' cov⁻¹ u] = variance · …",
            "−E log p = ½ variance u' cov⁻¹ u + ½ log det(2π cov); torch.logdet helps.",
        ),
    ),
    Exercise(
        number="10.3",
        title="count the dimensions that noise leaves out",
        kind="derive",
        solution=nats_per_halving,
        probe=lambda answer: [float(answer(noise, *layer)) for noise in NOISES for layer in LAYERS],
        criteria=(
            Criterion(
                "measured by the rank of the draws: type B and type A",
                _counts("type B", "type A"),
                advice="how many weights are there, and how many random numbers move them?",
            ),
            Criterion(
                "masks",
                _counts("binary"),
                advice="finitely many points have dimension 0",
            ),
            Criterion(
                "one factor for the whole layer",
                _counts("one factor"),
                advice="one random number draws a line through the origin",
            ),
            Criterion(
                "type A, mixed by reflections",
                _counts("type A, reflected"),
                advice="a reflection is a rotation of the factors: does it add random numbers?",
            ),
        ),
        known_errors=(
            KnownError(
                lambda noise, n_in, n_out, kernel=1: (
                    nats_per_halving(noise, n_in, n_out, kernel) / math.log(2)
                ),
                diagnosis="these are dimensions, or bits. In nats each one adds log 2.",
            ),
            KnownError(
                lambda noise, n_in, n_out, kernel=1: nats_per_halving(noise, n_in, n_out),
                diagnosis="a convolution has kernel² weights for each pair of channels.",
            ),
            KnownError(
                lambda noise, n_in, n_out, kernel=1: (
                    nats_per_halving(noise, n_in, n_out, kernel)
                    - kernel * (kernel - 1) * n_in * n_out * math.log(2)
                ),
                diagnosis="a kernel of side 3 has 9 weights, not 3.",
            ),
            KnownError(
                lambda noise, n_in, n_out, kernel=1: nats_per_halving(
                    "type B" if noise == "type A, reflected" else noise, n_in, n_out, kernel
                ),
                diagnosis=(
                    "a reflection makes the factors correlated. It adds no random numbers, so the "
                    "draws still fill n_in dimensions."
                ),
            ),
            KnownError(
                lambda noise, n_in, n_out, kernel=1: (
                    nats_per_halving("binary", n_in, n_out, kernel)
                    - nats_per_halving(noise, n_in, n_out, kernel)
                ),
                diagnosis="these are the dimensions that the draws fill. Missing are the others.",
            ),
            KnownError(
                lambda noise, n_in, n_out, kernel=1: nats_per_halving(
                    "one factor" if noise == "binary" else noise, n_in, n_out, kernel
                ),
                diagnosis="masks are points, not lines: they fill no dimension.",
            ),
            KnownError(
                _type_a_on_outputs,
                diagnosis="type A has one factor for each *input* of the layer, not for an output.",
            ),
        ),
        hints=(
            "(4): log 2 for each of the D weights' dimensions that the draws do not fill.",
            "Count the random numbers that move a draw continuously: type A has n_in of them.",
            "D = n_in · n_out · kernel². Filled: 0, 1, n_in, n_in and D.",
        ),
    ),
    Exercise(
        number="10.4",
        title="predict when an improper prior does no harm",
        kind="predict",
        solution=is_proper,
        probe=lambda answer: [
            float(answer(exponent, likelihood))
            for exponent in EXPONENTS
            for likelihood in LIKELIHOODS
        ],
        criteria=(
            Criterion(
                "measured, decade by decade: a Gaussian likelihood",
                _is_measured("Gaussian"),
                advice="the mass of a decade near 0 goes with 10^(exponent − 1)",
            ),
            Criterion(
                "measured: one label, and no data",
                _is_measured("one label", "no data"),
                advice="look at both ends: what happens for w → ∞?",
            ),
            Criterion(
                "measured: both labels were seen",
                _is_measured("both labels"),
                advice="the likelihood falls at both ends. What is left to ask?",
            ),
            Criterion(
                "measured: a likelihood that vanishes like w² at 0",
                _is_measured("vanishes at 0"),
                advice="how does w² |w|^(−exponent) behave near 0?",
            ),
        ),
        known_errors=(
            KnownError(
                lambda exponent, likelihood: exponent < 1,
                diagnosis=(
                    "near 0 this is right where the likelihood is positive. There is another end: "
                    "for w → ∞ one label keeps the likelihood near 1."
                ),
            ),
            KnownError(
                lambda exponent, likelihood: (
                    is_proper(exponent, likelihood)
                    if likelihood == "vanishes at 0"
                    else exponent < 1
                ),
                diagnosis="with one label the likelihood stays near 1 for w → ∞.",
            ),
            KnownError(
                lambda exponent, likelihood: exponent < 1 and is_proper(0.0, likelihood),
                diagnosis="a likelihood that vanishes like w² leaves w² |w|^(−exponent) near 0.",
            ),
            KnownError(
                lambda exponent, likelihood: likelihood != "no data",
                diagnosis="data alone are no remedy: (1) diverges if they leave w = 0 possible.",
            ),
            KnownError(
                lambda exponent, likelihood: likelihood == "vanishes at 0",
                diagnosis=(
                    "a prior with an exponent below 1 has a finite integral near 0; what it lacks "
                    "is one at infinity, which the likelihood can supply."
                ),
            ),
            KnownError(
                lambda exponent, likelihood: (
                    exponent <= (3 if likelihood == "vanishes at 0" else 1)
                    and is_proper(0.0, likelihood)
                ),
                diagnosis="at the border itself each decade has the same mass: it diverges.",
            ),
            KnownError(
                lambda exponent, likelihood: (
                    exponent == 0 and likelihood in ("Gaussian", "both labels", "vanishes at 0")
                ),
                diagnosis="also an exponent like ½ has a finite integral near 0.",
            ),
        ),
        hints=(
            "Two ends, 0 and infinity: the posterior is proper if its mass is finite at both.",
            "Near 0 the mass of a decade goes with 10^(exponent − 1), or 10^(exponent − 3).",
            "At infinity the likelihood falls fast, or it stays near 1: compare with exponent > 1.",
        ),
    ),
)

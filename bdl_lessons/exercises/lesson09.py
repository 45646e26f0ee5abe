"""Exercises of lesson 09: noisy inputs, the worst ratio, other networks, a factor from the ends."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable

import torch
from torch import Tensor

from bdl_lessons.exercises.grader import Criterion, Exercise, KnownError, agrees, normals
from bdl_lessons.probability import all_masks, mask_probs


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


def obeys(name: str) -> bool:
    """Whether every network of this kind has the bound (3).

    A leaky and a squared ReLU have convex squares, and a path without noise adds no variance. One
    mask for all units adds before it squares; the second of two layers is no convex function of x;
    and the ELU is small and flat on its left side, as tanh is.
    """
    return name in ("leaky ReLU", "squared ReLU", "skip connection")


def least_factor(posterior_std: float, std_0: float, std_1: float, kappa: float) -> float:
    """The least factor by which dropout is overconfident at ``x_kappa``, from both ends.

    The standard deviation is the length of a vector whose entries are not negative and convex in
    x, so it is convex itself: it stays below the straight line between the standard deviations.
    """
    line = (1 - kappa) * std_0 + kappa * std_1
    return posterior_std / line


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


def _hat_var(answer, points: list[float], p_drop: float, n_copies: float = math.inf) -> Tensor:
    """Variance of f under the input's noise, and that of dropped copies of each hidden unit."""
    b, w_out = (torch.as_tensor(part).double() for part in answer(p_drop))
    keep = 1 - p_drop
    x = torch.tensor(points, dtype=torch.float64)[:, None]
    h_dropped = torch.relu(b)
    h_kept = torch.relu(x / keep + b)
    height = (h_kept - h_dropped) @ w_out
    of_input = keep * p_drop * height**2
    mean_square = p_drop * h_dropped**2 + keep * h_kept**2
    of_units = p_drop / keep * mean_square @ w_out**2
    return of_input + of_units / n_copies


def _is_still_a_hill(answer) -> bool:
    """Whether the variance at 1, 2 and 4 is nearly 0, 1 and 0 with 2000 copies of each unit."""
    variance = _hat_var(answer, [1.0, 2.0, 4.0], p_drop=0.1, n_copies=2000)
    wanted = torch.tensor([0.0, 1.0, 0.0])
    return bool((variance - wanted).abs().max() < 0.15)


def _changed_hat(p_drop: float, b_factor: float = 1.0, w_out_factor: float = 1.0):
    """The right hat with its biases, or its output weights, multiplied by a wrong factor."""
    b, w_out = input_hat(p_drop)
    return b_factor * b, w_out_factor * w_out


@functools.cache
def _search(name: str) -> float:
    """The smallest ratio between -1 and 1, over pairs of units ``phi(w x + b)``."""
    x = torch.linspace(-1, 1, 41, dtype=torch.float64)
    periods = torch.tensor([-3.1416, -1.5708, 1.5708, 3.1416], dtype=torch.float64)
    slopes = torch.tensor([-8.0, -1.0, 1.0, 8.0], dtype=torch.float64)
    biases = torch.linspace(-8, 8, 65, dtype=torch.float64)
    units = torch.cartesian_prod(torch.cat([slopes, periods]), torch.cat([biases, periods]))
    w, b = units.unsqueeze(-1).unbind(1)
    squares = PHI[name](w * x + b) ** 2
    variances = squares[:, None] + squares
    larger_end = torch.maximum(variances[..., 0], variances[..., -1])
    largest = variances.amax(-1)
    ratios = larger_end / largest
    return float(ratios[largest > 1e-6].min())


def _predicted(*names: str) -> Callable[[Callable], bool]:
    """Whether the predictions are met by the networks that a search finds."""

    def holds(answer) -> bool:
        for name in names:
            smallest = _search(name)
            ratio = float(answer(name))
            if not ratio - 1e-6 <= smallest <= ratio + 0.03:  # no network beats it, some come near
                return False
        return True

    return holds


LEAKY = functools.partial(torch.nn.functional.leaky_relu, negative_slope=0.1)
UNITS: dict[str, Callable[[Tensor], Tensor]] = {
    "leaky ReLU": LEAKY,
    "squared ReLU": lambda u: torch.relu(u) ** 2,
    "skip connection": torch.relu,
    "one mask for all units": torch.relu,
    "second of two layers": torch.relu,
    "ELU": torch.nn.functional.elu,
}
"""The kinds of networks of 09.3, and their hidden units."""

_TWO_SIDES = torch.tensor([[-8.0, 8.0, 0.0], [-8.0, -8.0, 0.0], [1.0, 1.0, 0.0]])  # w, b, w_out
_HAT = torch.tensor([[1.0, 1.0, 1.0], [1.0, 0.0, -1.0], [1.0, -2.0, 1.0]])


def _output_var(name: str, network: Tensor, mixing: Tensor, x: Tensor) -> Tensor:
    """Variance of f ``(L,)`` over all masks of three units, p_drop = 1/2.

    ``network (3, 3)`` holds the weights, biases and output weights of the units. ``mixing (3, 3)``
    leads to a second layer, whose units have the noise, for "second of two layers".
    """
    w, b, w_out = network.double()
    h = UNITS[name](x[:, None] * w + b)
    if name == "second of two layers":
        h = torch.relu(h @ mixing.double())
    independent = all_masks(1 if name == "one mask for all units" else 3).double()
    probs = mask_probs(independent, 0.5).double()
    masks = independent.expand(-1, 3)
    f = (masks[:, None] * h / 0.5) @ w_out
    if name == "skip connection":
        f = f + 3 * x
    mean = probs @ f
    return probs @ (f - mean) ** 2


@functools.cache
def _worst(name: str) -> float:
    """The largest Var f at a point over the larger one of both ends, of many networks."""
    x = torch.linspace(-1, 1, 41, dtype=torch.float64)
    draw = normals(3)
    unmixed = torch.eye(3)
    to_hat = torch.tensor([[1.0, 0, 0], [-2.0, 0, 0], [1.0, 0, 0]])
    networks = [(_TWO_SIDES, unmixed), (_HAT, unmixed), (_HAT, to_hat)]
    networks += [(draw(3, 3), draw(3, 3)) for _ in range(50)]
    worst = 0.0
    for network, mixing in networks:
        variance = _output_var(name, network, mixing, x)
        largest = float(variance.max())
        larger_end = max(float(variance[0]), float(variance[-1]))
        if largest > 1e-6:
            worst = max(worst, largest / max(larger_end, 1e-9))
    return worst


def _is_measured(*names: str) -> Callable[[Callable], bool]:
    """Whether the predictions are met by the networks that were tried."""

    def holds(answer) -> bool:
        return all(bool(answer(name)) == (_worst(name) <= 1 + 1e-6) for name in names)

    return holds


def _wrong_for_one(wrong: str) -> Callable[[str], bool]:
    """The right predictions, but for one network."""
    return lambda name: obeys(name) != (name == wrong)


def _stds_of_networks() -> list[Tensor]:
    """Standard deviations ``(5,)`` of f at five points of the segment, of 100 networks."""
    x = torch.linspace(0, 1, 5, dtype=torch.float64)
    draw = normals(4)
    networks = [draw(3, 3) for _ in range(100)]
    variances = [_output_var("skip connection", network, network, x) for network in networks]
    return [variance.sqrt() for variance in variances if float(variance.min()) > 1e-6]


def _is_a_bound(answer) -> bool:
    """Whether no network is overconfident by less than the answer says."""
    for stds in _stds_of_networks():
        first, *inner, last = stds.tolist()
        for index, std in enumerate(inner, start=1):
            if float(answer(1.0, first, last, index / 4)) > 1 / std + 1e-9:
                return False
    return True


EXERCISES = (
    Exercise(
        number="09.1",
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
                _is_still_a_hill,
                advice=(
                    "once the checks above hold: a narrow hat needs steep units, so make it wide"
                ),
            ),
        ),
        known_errors=(
            KnownError(
                lambda p_drop: _changed_hat(p_drop, b_factor=1 - p_drop),
                diagnosis=(
                    "the knots lie at 1, 2 and 4, but a kept input reaches the units as x / keep."
                ),
            ),
            KnownError(
                lambda p_drop: _changed_hat(p_drop, w_out_factor=1 - p_drop),
                diagnosis=(
                    "the variance is that of a hat that is there or not, keep · p_drop times its "
                    "squared height. p_drop / keep would be right if the output were multiplied by "
                    "z / keep."
                ),
            ),
            KnownError(
                lambda p_drop: _changed_hat(p_drop, w_out_factor=((1 - p_drop) * p_drop) ** 0.5),
                diagnosis="the height of the hat is 1. The variance of f must be.",
            ),
            KnownError(
                lambda p_drop: (
                    torch.tensor([-1.0, -2, -4]),
                    torch.tensor([1.0, -1.5, 0.5]) / ((1 - p_drop) * p_drop) ** 0.5,
                ),
                diagnosis=(
                    "this is the hat of a network that sees z x. Here it sees z x / keep: the "
                    "knots move, and so do the slopes between them."
                ),
            ),
            KnownError(
                lambda p_drop: _changed_hat(p_drop, b_factor=-1.0),
                diagnosis="relu(x / keep + b) has its knot where x / keep is -b: the sign of b.",
            ),
            KnownError(
                lambda p_drop: _changed_hat(p_drop, b_factor=(1 - p_drop) ** 2),
                diagnosis="the knots were multiplied by keep. An input x arrives as x / keep.",
            ),
            KnownError(
                lambda p_drop: _changed_hat(p_drop, w_out_factor=((1 - p_drop) * p_drop) ** -0.5),
                diagnosis=(
                    "the variance goes with the square of the height: the height is one over the "
                    "root of keep · p_drop."
                ),
            ),
            KnownError(
                lambda p_drop: _changed_hat(p_drop, w_out_factor=1 / (1 - p_drop)),
                diagnosis=(
                    "the slopes are those of a hat over x. The units see x / keep, over which the "
                    "hat is wider, so its slopes are smaller by keep."
                ),
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
        number="09.2",
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
    Exercise(
        number="09.3",
        title="predict which networks obey the theorem",
        kind="predict",
        solution=obeys,
        probe=lambda answer: [float(answer(name)) for name in UNITS],
        criteria=(
            Criterion(
                "measured: leaky and squared ReLU",
                _is_measured("leaky ReLU", "squared ReLU"),
                advice="draw the square of one unit: does its slope ever fall?",
            ),
            Criterion(
                "measured: a linear path without noise beside the units",
                _is_measured("skip connection"),
                advice="what does a part that is the same under all masks add to the variance?",
            ),
            Criterion(
                "measured: one mask for all units",
                _is_measured("one mask for all units"),
                advice="the variance is then that of one coin: what is multiplied by it?",
            ),
            Criterion(
                "measured: noise on the second of two layers alone, and ELU",
                _is_measured("second of two layers", "ELU"),
                advice="is each unit's square a convex function of the input x?",
            ),
        ),
        known_errors=(
            KnownError(
                lambda name: True,
                diagnosis="the proof uses two things: masks that are independent, and convexity.",
            ),
            KnownError(
                lambda name: False,
                diagnosis="the proof uses of the ReLU only that its square is convex.",
            ),
            KnownError(
                _wrong_for_one("leaky ReLU"),
                diagnosis="u² for u > 0 and 0.01 u² for u < 0: the slope of that never falls.",
            ),
            KnownError(
                _wrong_for_one("squared ReLU"),
                diagnosis="its square is relu(u)⁴, which is as convex as relu(u)².",
            ),
            KnownError(
                _wrong_for_one("skip connection"),
                diagnosis="a path without noise moves the mean. It adds nothing to the variance.",
            ),
            KnownError(
                _wrong_for_one("one mask for all units"),
                diagnosis=(
                    "with one mask for all, the units add before they are squared: the variance is "
                    "p_drop/keep times (f − b_out)², and f itself may be a hat."
                ),
            ),
            KnownError(
                _wrong_for_one("second of two layers"),
                diagnosis=(
                    "(2) holds for the units of the second layer. But these are no affine "
                    "functions of x inside a ReLU: one of them can be a hat."
                ),
            ),
            KnownError(
                _wrong_for_one("ELU"),
                diagnosis=(
                    "on its left side the ELU tends to −1: its square is 0 at a hinge and 1 to the "
                    "left of it, with a part that bends downwards."
                ),
            ),
        ),
        hints=(
            "Two questions for each: do the variances of the units add? Is each part convex in x?",
            "Plot the square of a single unit over x, for the second layer that of a hat.",
            "Three of the six obey (3).",
        ),
    ),
    Exercise(
        number="09.4",
        title="derive the least factor of overconfidence from both ends",
        kind="derive",
        solution=least_factor,
        probe=lambda answer: [
            float(answer(0.98, 0.05, 0.08, 0.5)),
            float(answer(0.7, 0.3, 0.04, 0.2)),
            float(answer(0.7, 0.3, 0.04, 0.9)),
        ],
        criteria=(
            Criterion(
                "no network of 100 is overconfident by less",
                _is_a_bound,
                advice="which straight line does dropout stay below?",
            ),
            Criterion(
                "one unit that is active on the whole segment: its factor",
                agrees(lambda answer: answer(1.0, 2.0, 4.0, 0.25), 1 / 2.5),
                advice=(
                    "the standard deviation of such a unit is a straight line over x. What is its "
                    "factor at kappa = 0.25?"
                ),
            ),
            Criterion(
                "another place, another posterior",
                agrees(lambda answer: answer(0.5, 0.1, 0.02, 0.75), 0.5 / 0.04),
                advice="kappa = 0 is the end with std_0; the posterior stands above the line",
            ),
        ),
        known_errors=(
            KnownError(
                lambda posterior_std, std_0, std_1, kappa: (
                    posterior_std / math.sqrt((1 - kappa) * std_0**2 + kappa * std_1**2)
                ),
                diagnosis=(
                    "that is the first line of (3), and it is true. But it is not the best that "
                    "the two ends say: the standard deviation is convex as well, and its straight "
                    "line lies lower."
                ),
            ),
            KnownError(
                lambda posterior_std, std_0, std_1, kappa: posterior_std / max(std_0, std_1),
                diagnosis="that is the second line of (3). The first one, with kappa, says more.",
            ),
            KnownError(
                lambda posterior_std, std_0, std_1, kappa: least_factor(
                    posterior_std, std_1, std_0, kappa
                ),
                diagnosis="kappa = 0 is the end with std_0.",
            ),
            KnownError(
                lambda posterior_std, std_0, std_1, kappa: (
                    1 / least_factor(posterior_std, std_0, std_1, kappa)
                ),
                diagnosis="the factor has the posterior above and dropout below.",
            ),
            KnownError(
                lambda posterior_std, std_0, std_1, kappa: (
                    posterior_std**2 / ((1 - kappa) * std_0**2 + kappa * std_1**2)
                ),
                diagnosis="that is a ratio of variances. Asked is one of standard deviations.",
            ),
        ),
        hints=(
            "(2) says that the std is the length of a vector with one entry for each unit.",
            "Entries c |w_i| relu(u_i) are convex and not negative, and a length grows with them.",
            "So the std is convex: below (1 − kappa) std_0 + kappa std_1.",
        ),
    ),
)

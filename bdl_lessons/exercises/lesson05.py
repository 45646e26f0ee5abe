"""Exercises of lesson 05: more data, two variances, one loud draw, MC dropout for any model."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable

import torch
from torch import Tensor, nn

from bdl_lessons.exercises.grader import Criterion, Exercise, KnownError, agrees, close, normals

RANDOM = (
    nn.Dropout, nn.Dropout1d, nn.Dropout2d, nn.Dropout3d, nn.AlphaDropout, nn.FeatureAlphaDropout,
)  # fmt: skip


def limiting_std(slope: float, x: float, p_drop: float) -> float:
    """Epistemic standard deviation of ``f(x) = w x`` with dropped input, after endless data.

    Training minimises ``(slope - w)**2 + w**2 p_drop / keep``, so that ``w = keep * slope``.
    """
    keep = 1 - p_drop
    w = keep * slope
    return abs(w * x) * math.sqrt(p_drop / keep)


def split_variance(means: Tensor, variances: Tensor, probs: Tensor) -> tuple[Tensor, Tensor]:
    """Epistemic and aleatoric variance, ``(B,)`` each, of a mixture of S distributions.

    ``means`` and ``variances`` are ``(S, B)``, ``probs`` is ``(S,)`` and sums to 1.
    """
    mean = probs @ means
    return probs @ (means - mean) ** 2, probs @ variances


def outvote(n_draws: int, quiet: float, target: float) -> tuple[float, float]:
    """The logit with which one draw outvotes all others, if logits are averaged; two classes.

    All draws but one have the logits ``(quiet, 0)``, one has ``(0, loud)``. Returns ``loud``, for
    which the averaged logits give class 1 the probability ``target``, and the probability that
    class 1 then has by averaged probabilities.
    """
    n_quiet = n_draws - 1
    loud = n_quiet * quiet + n_draws * math.log(target / (1 - target))
    probs = n_quiet / (1 + math.exp(quiet)) + 1 / (1 + math.exp(-loud))
    return loud, probs / n_draws


def mc_passes(model: nn.Module, x: Tensor, n_samples: int) -> Tensor:
    """Passes in which only the dropout modules are random: ``(n_samples, *output shape)``.

    Every module has its own mode again afterwards.
    """
    usual = (nn.Dropout, nn.Dropout1d, nn.Dropout2d, nn.Dropout3d)
    alpha = (nn.AlphaDropout, nn.FeatureAlphaDropout)
    modes = {module: module.training for module in model.modules()}
    for module in modes:
        module.training = isinstance(module, usual + alpha)
    with torch.no_grad():
        passes = torch.stack([model(x) for _ in range(n_samples)])
    for module, mode in modes.items():
        module.training = mode
    return passes


@functools.cache
def _trained_std(slope: float, x: float, p_drop: float) -> float:
    """Least squares on 200,000 examples with a mask each, then 200,000 masks at ``x``."""
    generator = torch.Generator().manual_seed(5)
    keep = 1 - p_drop
    inputs = torch.randn(200_000, generator=generator, dtype=torch.float64)
    train, test = torch.rand(2, 200_000, generator=generator) < keep
    dropped = inputs * train / keep
    w = (dropped * slope * inputs).sum() / (dropped**2).sum()
    return (w * x * test / keep).std().item()


def _near_measured(answer, *args: float) -> bool:
    """Whether an answer agrees with the measurement to 3 %, many standard errors."""
    measured = _trained_std(*args)
    return close(answer(*args), measured, 0.03 * measured)


_normal = normals(5)
_MEANS = _normal(3, 4)
_VARIANCES = 0.1 + _normal(3, 4) ** 2
_PROBS = torch.tensor([0.5, 0.3, 0.2], dtype=torch.float64)
_HAND = torch.tensor([[0.0], [2.0], [4.0]], dtype=torch.float64)
_NOISE = torch.full((3, 1), 0.25, dtype=torch.float64)


def _by_quadrature() -> Tensor:
    y = torch.linspace(-30, 30, 60_001, dtype=torch.float64)[:, None, None]
    density = torch.distributions.Normal(_MEANS, _VARIANCES.sqrt()).log_prob(y).exp()
    density = (_PROBS[:, None] * density).sum(1)  # (y, B)
    mean = torch.trapezoid(y[:, 0] * density, y[:, 0], dim=0)
    return torch.trapezoid((y[:, 0] - mean) ** 2 * density, y[:, 0], dim=0)


def _service(n_draws: int, quiet: float, loud: float) -> float:
    """The probability of class 1 by the mean of the logits."""
    difference = (loud - (n_draws - 1) * quiet) / n_draws
    return 1 / (1 + math.exp(-difference))


def _with_logit(n: int, quiet: float, target: float, n_target: int, n_quiet: int) -> tuple:
    """Both results, if ``loud`` were this often the logit of the target and this often quiet."""
    loud = n_target * math.log(target / (1 - target)) + n_quiet * quiet
    return loud, ((n - 1) / (1 + math.exp(quiet)) + 1 / (1 + math.exp(-loud))) / n


def _with_forward(module: nn.Module, forward: Callable[[nn.Module, Tensor], Tensor]) -> nn.Module:
    """The module with another pass: of its own class, not of a subclass, for ``type(module)``."""
    module.forward = functools.partial(forward, module)
    return module


def _flag(kind: type[nn.Module], value: float) -> nn.Module:
    """A module of a kind that adds ``value`` in training mode and nothing in evaluation mode."""
    return _with_forward(kind(), lambda module, h: h + value * module.training)


def _counter() -> nn.Module:
    """Adds 0, 1, 2, 0, 1, 2, … in training mode: three passes are three different ones."""

    def forward(module: nn.Module, h: Tensor) -> Tensor:
        module.calls = getattr(module, "calls", -1) + 1
        return h + module.calls % 3 * module.training

    return _with_forward(nn.Dropout(), forward)


def _model() -> nn.Module:
    """Batch normalisation; inside, a module of each random kind and two others; mixed modes."""
    flags = [_flag(kind, 2.0**k) for k, kind in enumerate((*RANDOM, nn.Identity, nn.Flatten))]
    model = nn.Sequential(nn.BatchNorm1d(3), nn.Sequential(*flags), nn.Linear(3, 2)).double()
    with torch.no_grad():
        model[-1].weight.copy_(torch.tensor([[1.0, 0, 0], [0, 1, 1]]))
        model[-1].bias.zero_()
    model.eval()
    model[1][1].train()
    model[1][6].train()
    return model


_X = 2 + _normal(5, 3)


def _modes(model: nn.Module) -> list[bool]:
    return [m.training for m in model.modules()] + [p.requires_grad for p in model.parameters()]


def _restores(answer) -> bool:
    model = _model()
    before = _modes(model), [value.clone() for value in model.state_dict().values()]
    answer(model, _X, 2)
    same = map(close, before[1], model.state_dict().values())
    return before[0] == _modes(model) and all(same)


def _outputs_and_modes(answer) -> Tensor:
    model = _model()
    outputs = answer(model, _X, 2)
    return torch.cat([outputs.detach().flatten(), torch.tensor(_modes(model)).double()])


def _passes_with(model: nn.Module, x: Tensor, n_samples: int, *kinds: type[nn.Module]) -> Tensor:
    model.eval()
    for module in model.modules():
        module.training = isinstance(module, kinds)
    return torch.stack([model(x) for _ in range(n_samples)])


def _passes_with_modes_back(
    model: nn.Module, x: Tensor, n_samples: int, *kinds: type[nn.Module]
) -> Tensor:
    modes = {module: module.training for module in model.modules()}
    passes = _passes_with(model, x, n_samples, *kinds)
    for module, mode in modes.items():
        module.training = mode
    return passes


EXERCISES = (
    Exercise(
        number="05.1",
        title="endless data",
        kind="predict",
        solution=limiting_std,
        probe=lambda answer: [answer(1.5, -2.0, 0.2), answer(0.4, 3.0, 0.6)],
        criteria=(
            Criterion(
                "p_drop = 0.2: it is what was measured",
                lambda answer: _near_measured(answer, 1.5, 2.0, 0.2),
                advice=(
                    "first find the w that training ends at: expand the mean over masks of the "
                    "error"
                ),
            ),
            Criterion(
                "p_drop = 0.7: it is what was measured",
                lambda answer: _near_measured(answer, 0.5, 3.0, 0.7),
                advice=(
                    "training with dropout shrinks w below the slope, the more so the larger p_drop"
                ),
            ),
            Criterion(
                "at x = -4 it is twice what it is at x = 2",
                lambda answer: close(answer(1.5, -4.0, 0.4), 2 * answer(1.5, 2.0, 0.4), 0.1),
                advice=(
                    "the standard deviation of w * x * mask / keep is positive on both sides of 0, "
                    "and proportional to |x|"
                ),
            ),
            Criterion(
                "without dropout it is 0",
                lambda answer: close(answer(1.5, 2.0, 0.0), 0.0),
                advice="with p_drop = 0 all passes are the same",
            ),
        ),
        known_errors=(
            KnownError(
                lambda slope, x, p_drop: 0.0,
                diagnosis=(
                    "this is what a posterior would do. But p_drop stays the same, however many "
                    "examples there are, and so do the masks at prediction."
                ),
            ),
            KnownError(
                lambda slope, x, p_drop: abs(slope * x) * math.sqrt(p_drop / (1 - p_drop)),
                diagnosis="this takes w = slope. Training with dropout ends at a smaller w.",
            ),
            KnownError(
                lambda slope, x, p_drop: limiting_std(slope, x, p_drop) ** 2,
                diagnosis="this is the variance; its root was asked for.",
            ),
            KnownError(
                lambda slope, x, p_drop: (1 - p_drop) * limiting_std(slope, x, p_drop),
                diagnosis=(
                    "inverted dropout divides by keep, at prediction as well: masks are 0 and 1 / "
                    "keep."
                ),
            ),
            KnownError(
                lambda slope, x, p_drop: abs(slope * x) * p_drop * (1 - p_drop),
                diagnosis="p_drop * keep is the variance of a mask. Take its root.",
            ),
            KnownError(
                lambda slope, x, p_drop: slope * x * math.sqrt(p_drop * (1 - p_drop)),
                diagnosis=(
                    "the size is right, but a standard deviation is never negative: take |x|."
                ),
            ),
        ),
        hints=(
            "Two questions: at which w does training end, and what do masks do to w * x?",
            "The mean over masks of (slope - w z / keep)² is (slope - w)² + w² p_drop / keep.",
            "It is smallest at w = keep * slope. Var[w x z / keep] is w² x² p_drop / keep.",
        ),
    ),
    Exercise(
        number="05.2",
        title="networks that predict their noise",
        kind="derive",
        solution=split_variance,
        probe=lambda answer: torch.stack(answer(_MEANS, _VARIANCES, _PROBS)),
        criteria=(
            Criterion(
                "the network by hand: 2 and ¼",
                agrees(
                    lambda answer: torch.stack(
                        answer(_HAND, _NOISE, _PROBS.new_tensor([1, 2, 1]) / 4)
                    ),
                    [[2.0], [0.25]],
                ),
                advice=(
                    "outputs 0, 2 and 4 with probabilities ¼, ½ and ¼ and noise ¼: epistemic first"
                ),
            ),
            Criterion(
                "both together are the variance of the mixture",
                agrees(
                    lambda answer: sum(answer(_MEANS, _VARIANCES, _PROBS)),
                    _by_quadrature(),
                    atol=1e-6,
                ),
                advice="compare with the integral of (y - mean)² over the density of the mixture",
            ),
            Criterion(
                "draws with one mean have no epistemic variance",
                lambda answer: close(
                    answer(_MEANS[:1].expand(3, 4), _VARIANCES, _PROBS)[0], [0] * 4
                ),
                advice="the epistemic part is the variance of the means",
            ),
            Criterion(
                "a draw of probability 0 does not count",
                agrees(
                    lambda answer: torch.stack(
                        answer(_MEANS, _VARIANCES, _PROBS.new_tensor([0.4, 0.6, 0]))
                    ),
                    lambda answer: torch.stack(
                        answer(_MEANS[:2], _VARIANCES[:2], _PROBS.new_tensor([0.4, 0.6]))
                    ),
                ),
                advice="weight every draw by its probability, in the mean as well",
            ),
        ),
        known_errors=(
            KnownError(
                lambda means, variances, probs: split_variance(means, variances, probs)[::-1],
                diagnosis="the two parts are swapped: first the epistemic variance.",
            ),
            KnownError(
                lambda means, variances, probs: (means.var(0, correction=0), variances.mean(0)),
                diagnosis="all draws count the same here. Use their probabilities.",
            ),
            KnownError(
                lambda means, variances, probs: (means.var(0), variances.mean(0)),
                diagnosis="all draws count the same here. Use their probabilities.",
            ),
            KnownError(
                lambda means, variances, probs: (
                    probs @ (means - means.mean(0)) ** 2,
                    probs @ variances,
                ),
                diagnosis="the mean inside the square must be weighted as well: probs @ means.",
            ),
            KnownError(
                lambda means, variances, probs: (probs @ means**2, probs @ variances),
                diagnosis="this is the mean of the squares. Subtract the square of the mean.",
            ),
            KnownError(
                lambda means, variances, probs: (
                    split_variance(means, variances, probs)[0],
                    (probs @ variances.sqrt()) ** 2,
                ),
                diagnosis="variances are averaged, not standard deviations.",
            ),
            KnownError(
                lambda means, variances, probs: tuple(
                    part.sqrt() for part in split_variance(means, variances, probs)
                ),
                diagnosis="these are standard deviations. Variances were asked for: only they add.",
            ),
            KnownError(
                lambda means, variances, probs: (
                    split_variance(means, variances, probs)[0],
                    sum(split_variance(means, variances, probs)),
                ),
                diagnosis=(
                    "your second result is the total variance. The aleatoric part is the mean of "
                    "the variances alone."
                ),
            ),
        ),
        hints=(
            "Var[y] = E[Var[y | s]] + Var[E[y | s]]. Which is which?",
            "All means and variances over s are weighted: the mean over draws of a is probs @ a.",
            "The epistemic part is the weighted mean of (means - mean)², mean = probs @ means.",
        ),
    ),
    Exercise(
        number="05.3",
        title="one loud draw",
        kind="debug",
        solution=outvote,
        probe=lambda answer: [*answer(10, 2.0, 0.99), *answer(4, 0.5, 0.3)],
        criteria=(
            Criterion(
                "with this logit the service reports the target",
                lambda answer: all(
                    close(_service(n, quiet, float(answer(n, quiet, target)[0])), target, 1e-6)
                    for n, quiet, target in [(10, 2.0, 0.99), (4, 0.5, 0.7), (2, -1.0, 0.3)]
                ),
                advice=(
                    "average the logits of each class over all draws first; then set the softmax "
                    "of the two averages equal to the target and solve for loud"
                ),
            ),
            Criterion(
                "two draws, target ½: as loud as the other one",
                agrees(lambda answer: answer(2, 3.0, 0.5), [3.0, 0.5]),
                advice="logits (3, 0) and (0, 3) average to a tie, and so do their probabilities",
            ),
            Criterion(
                "quiet draws without an opinion have probability ½ each",
                agrees(lambda answer: answer(4, 0.0, 0.9)[1], (3 / 2 + 1 / (1 + 9.0**-4)) / 4),
                advice=(
                    "for the second result take the softmax of each draw, then the mean over draws"
                ),
            ),
            Criterion(
                "ten draws: class 1 has 0.99 by the service, and hardly 0.2 in truth",
                agrees(
                    lambda answer: answer(10, 2.0, 0.99)[1],
                    (9 / (1 + math.exp(2.0)) + 1 / (1 + math.exp(-18.0) / 99.0**10)) / 10,
                ),
                advice="the loud draw is one of ten votes: its probability counts a tenth",
            ),
        ),
        known_errors=(
            KnownError(
                lambda n, quiet, target: _with_logit(n, quiet, target, 1, n - 1),
                diagnosis=(
                    "the loud logit, too, is divided by the number of draws in the average: it "
                    "must exceed the others by n_draws times the logit of the target."
                ),
            ),
            KnownError(
                lambda n, quiet, target: (outvote(n, quiet, target)[0], target),
                diagnosis=(
                    "the second result is the service's own number. By (5) each draw has one vote."
                ),
            ),
            KnownError(
                lambda n, quiet, target: _with_logit(n, quiet, target, n, 1),
                diagnosis=(
                    "there are n_draws − 1 quiet draws; all of their logits have to be made up for."
                ),
            ),
            KnownError(
                lambda n, quiet, target: _with_logit(n, quiet, target, n, n),
                diagnosis="there are n_draws − 1 quiet draws, not n_draws.",
            ),
            KnownError(
                lambda n, quiet, target: outvote(n, quiet, target)[::-1],
                diagnosis="the two results are swapped: first the logit.",
            ),
        ),
        hints=(
            "The average logits are ((n_draws − 1) quiet / n_draws, loud / n_draws).",
            "Class 1 has probability target if its average logit is larger by log(t / (1 − t)).",
            "By (5): the mean of n_draws − 1 times 1 / (1 + e^quiet) and once 1 / (1 + e^−loud).",
        ),
    ),
    Exercise(
        number="05.4",
        title="MC dropout for any model",
        kind="extend",
        solution=mc_passes,
        probe=_outputs_and_modes,
        criteria=(
            Criterion(
                "every kind of dropout is on, and nothing else",
                agrees(
                    lambda answer: answer(_model(), _X, 2)[0] - _model().eval()(_X),
                    torch.tensor([63.0, 126.0]).double().expand(5, 2),
                ),
                advice=(
                    "six kinds of modules must be in training mode, also inside of others, and no "
                    "other kinds: Dropout1d is no subclass of Dropout"
                ),
            ),
            Criterion(
                "batch normalisation predicts from what it has stored",
                agrees(
                    lambda answer: answer(_model()[:1].train(), _X, 2),
                    _model()[:1](_X).detach().expand(2, 5, 3),
                ),
                advice=(
                    "in training mode it uses the statistics of the batch, and overwrites the "
                    "stored ones"
                ),
            ),
            Criterion(
                "afterwards model and modes are as before",
                _restores,
                advice=(
                    "remember module.training of every module, and give each its own back (train() "
                    "or eval() of the model gives all the same); leave the parameters as they are"
                ),
            ),
            Criterion(
                "each pass is a pass of its own",
                agrees(
                    lambda answer: answer(nn.Sequential(_counter()), torch.zeros(2, 1), 3),
                    torch.arange(3.0)[:, None, None].expand(3, 2, 1),
                ),
                advice="call the model n_samples times, and stack the outputs",
            ),
            Criterion(
                "no gradients",
                lambda answer: (
                    not answer(nn.Sequential(nn.Linear(3, 2)), torch.ones(1, 3), 2).requires_grad
                ),
                advice="call the model under torch.no_grad()",
            ),
        ),
        known_errors=(
            KnownError(
                lambda model, x, n: _passes_with(model, x, n, nn.Module),
                diagnosis=(
                    "this is model.train(): batch normalisation uses, and overwrites, its "
                    "statistics."
                ),
            ),
            KnownError(
                lambda model, x, n: _passes_with(model, x, n, nn.Dropout),
                diagnosis=(
                    "only nn.Dropout itself is on: the other kinds are classes of their own. And "
                    "the modes are not given back."
                ),
            ),
            KnownError(
                lambda model, x, n: _passes_with_modes_back(model, x, n, nn.Dropout),
                diagnosis=(
                    "modes are given back, but only nn.Dropout itself is on: the other kinds are "
                    "classes of their own."
                ),
            ),
            KnownError(
                lambda model, x, n: _passes_with(model, x, n),
                diagnosis="this is model.eval(): no module is random, and all passes are the same.",
            ),
            KnownError(
                lambda model, x, n: _passes_with(model, x, n, *RANDOM),
                diagnosis=(
                    "the right modules are on, but afterwards their modes are not what they were."
                ),
            ),
        ),
        hints=(
            "Which modules are random? isinstance takes a tuple of classes.",
            "Before you change anything: {module: module.training for module in model.modules()}.",
            "Set module.training of each, stack the passes under no_grad, give each mode back.",
        ),
    ),
)

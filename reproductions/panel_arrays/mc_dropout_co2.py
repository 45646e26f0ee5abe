"""Lesson 05: MC dropout and its rivals on six windows of six years of CO2.

In each window two months of every year are held out, and the 42 months after it are predicted.
Networks of both nonlinearities are trained at each drop rate from fifteen starts (three at rates
that the panel alone shows).
"""

from dataclasses import dataclass
from functools import partial

import numpy as np
import torch
from torch import Tensor, nn

from bdl_lessons.inference import BatchedNetworks, adam, fit_batched, predict, predict_batched
from bdl_lessons.models import Network
from bdl_lessons.panels import mc_dropout_co2 as panel
from bdl_lessons.probability import gaussian_nll

N_STARTS = 15
FEW_STARTS = 3
GROUPS = (panel.STARTS[:3], panel.STARTS[3:])
"""Windows whose networks are trained in one batch."""
N_TESTED = 12  # held-out months of a window, two of each year
N_DRAWS = 400
TAU = 25.0  # of the standardised target
LEVELS = torch.tensor([0.025, 0.975])
KINDS = ("MC dropout", "dropout off", "no dropout", "ensemble of five")


@dataclass(frozen=True)
class Tested:
    """Inputs and standardised targets of the windows, held-out months first, then the later ones.

    ``x`` and ``y`` are ``(windows, months, 1)``, ``scale`` is ppm in one standardised unit.
    """

    x: Tensor
    y: Tensor
    scale: Tensor


def make_arrays(n_steps: int = 2000) -> dict[str, np.ndarray]:
    """What the panel and the lesson show, keyed by its name.

    ``draws``: 50 functions of the network of median coverage, ``(phi, window, rate, S, month)``.
    ``covered``: per cent of later months in the 95 % interval, ``(phi, window, rate, tau, start)``.
    ``scores``: for the kinds of ``KINDS``, ``(phi, window, kind, part, measure, start)``; the parts
    are held-out and later months, the measures RMSE in ppm, months covered in per cent and NLL in
    nats. Where there are fewer starts or ensembles the rest is NaN. ``ReLU`` and ``Tanh``: weights
    of the networks of median coverage in the window of the lesson, at its rate.
    """
    parts = [
        [make_part(activation, starts, n_steps) for starts in GROUPS]
        for activation in panel.ACTIVATIONS.values()
    ]
    return joined(parts)


def joined(parts: list[list[dict[str, Tensor]]]) -> dict[str, np.ndarray]:
    """The arrays of all nonlinearities and groups of windows as one."""
    stored = {}
    for name in ("draws", "covered", "scores"):
        values = torch.stack([torch.cat([group[name] for group in of_phi]) for of_phi in parts])
        stored[name] = values.half().numpy()
    for activation, of_phi in zip(panel.ACTIVATIONS.values(), parts, strict=True):
        (vector,) = (group["weights"] for group in of_phi if "weights" in group)
        stored[activation.__name__] = vector.half().numpy()
    return stored


def make_part(
    activation: type[nn.Module], starts: tuple[float, ...], n_steps: int
) -> dict[str, Tensor]:
    """The arrays of one nonlinearity and of these windows, without the axis ``phi``."""
    windows = [panel.window(start) for start in starts]
    tested = Tested(
        x=torch.stack([torch.cat([w.x[w.is_held_out], w.x_later]) for w in windows]).float(),
        y=torch.stack([torch.cat([w.y[w.is_held_out], w.y_later]) for w in windows]).float(),
        scale=torch.tensor([w.data.residual_std for w in windows]),
    )
    plain = draws_of(train(activation, 0.0, starts, N_STARTS, n_steps), tested, "mean", N_STARTS)
    draws = []
    covered = []
    part = {}
    for rate in panel.RATES:
        n_starts = N_STARTS if rate == panel.LESSON_RATE else FEW_STARTS
        networks = train(activation, rate, starts, n_starts, n_steps)
        f = draws_of(networks, tested, "per_example", n_starts)
        share = torch.stack([coverage_at(f, tested, tau) for tau in panel.TAUS], dim=1)
        typical = share[:, panel.TAUS.index(panel.LESSON_TAU)].argsort(dim=-1)[:, n_starts // 2]
        chosen = [
            networks.network(place * n_starts + number)
            for place, number in enumerate(typical.tolist())
        ]
        draws.append(torch.stack([functions(*pair) for pair in zip(chosen, windows, strict=True)]))
        covered.append(padded(share))
        if rate == panel.LESSON_RATE:
            mean = draws_of(networks, tested, "mean", n_starts)
            part["scores"] = rivals(f, mean, plain, tested)
            if panel.START in starts:
                parameters = chosen[starts.index(panel.START)].parameters()
                part["weights"] = nn.utils.parameters_to_vector(parameters).detach()
    part["draws"] = torch.stack(draws, dim=1)
    part["covered"] = torch.stack(covered, dim=1)
    return part


def train(
    activation: type[nn.Module],
    p_drop: float,
    starts: tuple[float, ...],
    n_starts: int,
    n_steps: int,
) -> BatchedNetworks:
    """Networks of one rate: ``n_starts`` for each window, trained as the lesson trains its own."""
    networks = []
    inputs = []
    targets = []
    for start in starts:
        months = panel.window(start)
        for seed in range(n_starts):
            with torch.random.fork_rng():
                torch.manual_seed(seed)
                networks.append(panel.network(p_drop, activation))
            inputs.append(months.x[~months.is_held_out].float())
            targets.append(months.y[~months.is_held_out].float())
    batched = BatchedNetworks(networks)
    fit_batched(
        batched,
        torch.stack(inputs),
        torch.stack(targets),
        partial(gaussian_nll, tau=TAU),
        n_steps=n_steps,
        optimizer=adam(5e-3),
        schedule=lambda step: 1 - step / n_steps,
        generator=torch.Generator().manual_seed(0),
        progress=False,
    )
    return batched


@torch.no_grad()
def draws_of(networks: BatchedNetworks, tested: Tested, sampling: str, n_starts: int) -> Tensor:
    """Draws at the tested months, ``(S, window, start, month, 1)``; one of the mean weights."""
    x = tested.x.repeat_interleave(n_starts, dim=0)
    if sampling == "mean":
        f = networks(x, "mean")[None]
    else:
        f = predict_batched(networks, x, N_DRAWS, generator=torch.Generator().manual_seed(1))
    return f.unflatten(1, (len(tested.x), n_starts))


def interval_share(f: Tensor, y: Tensor, tau: float | Tensor) -> Tensor:
    """Per cent of months whose y lies between the 2.5 % and 97.5 % quantiles of the mixture.

    ``f`` is ``(S, window, start, month, 1)``, ``y`` is ``(window, month, 1)``; the result is
    ``(window, start)``.
    """
    below = torch.special.ndtr((y[:, None] - f) * torch.as_tensor(tau).sqrt()).mean(0)[..., 0]
    is_inside = (below >= LEVELS[0]) & (below <= LEVELS[1])
    return 100 * is_inside.float().mean(-1)


def coverage_at(f: Tensor, tested: Tested, tau_ppm: float) -> Tensor:
    """Per cent of later months covered with this noise precision in 1/ppm², ``(window, start)``."""
    tau = (tau_ppm * tested.scale**2)[:, None, None, None]
    return interval_share(f[..., N_TESTED:, :], tested.y[:, N_TESTED:], tau)


def rivals(f: Tensor, mean: Tensor, plain: Tensor, tested: Tested) -> Tensor:
    """The scores of all kinds, ``(window, kind, part, measure, start)``."""
    fives = plain[0].unflatten(1, (-1, 5)).movedim(2, 0)
    kinds: list[Tensor] = []
    for draws in (f, mean, plain, fives):
        parts = [
            measures(draws[..., months, :], tested.y[:, months], tested.scale)
            for months in (slice(None, N_TESTED), slice(N_TESTED, None))
        ]
        kinds.append(padded(torch.stack(parts, dim=1)))
    return torch.stack(kinds, dim=1)


def measures(f: Tensor, y: Tensor, scale: Tensor) -> Tensor:
    """RMSE in ppm, per cent covered and NLL of y in ppm, ``(window, measure, start)``."""
    rmse = scale[:, None] * (f.mean(0) - y[:, None]).square().mean((-2, -1)).sqrt()
    squares = -TAU / 2 * (y[:, None] - f).square()
    log_p = squares.logsumexp(0) - np.log(len(f)) + 0.5 * np.log(TAU / (2 * np.pi))
    nll = scale.log()[:, None] - log_p.mean((-2, -1))
    return torch.stack([rmse, interval_share(f, y, TAU), nll], dim=1)


def functions(network: Network, months: "panel.Window") -> Tensor:
    """50 functions at the months of the window and at the later ones, ``(S, month)``."""
    x = torch.cat([months.x, months.x_later]).float()
    generator = torch.Generator().manual_seed(3)
    return predict(network, x, panel.N_FUNCTIONS, "shared", generator=generator)[..., 0]


def padded(values: Tensor) -> Tensor:
    """With NaN for the starts, on the last axis, that are not there."""
    missing = N_STARTS - values.shape[-1]
    return nn.functional.pad(values, (0, missing), value=torch.nan)

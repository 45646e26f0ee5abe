"""Hamiltonian Monte Carlo, many chains in one tensor. Lesson 09."""

from collections.abc import Callable, Iterator

import torch
from torch import Tensor

from bdl_lessons.core import validation
from bdl_lessons.core.random import standard_normal


def hmc(
    potential: Callable[[Tensor], tuple[Tensor, Tensor]],
    start: Tensor,
    n_warmup: int,
    n_draws: int,
    *,
    generator: torch.Generator,
    n_leapfrog: int = 100,
    step_size: float = 0.01,
    acceptance: float = 0.8,
) -> tuple[Tensor, Tensor]:
    """Independent chains from the density ``exp(-potential)``, with unit masses (Neal 2011).

    Each step draws a momentum, follows the Hamiltonian by leapfrog with a step size jittered by
    20 %, and accepts or rejects the end. During the warm-up each chain adapts its step size, by
    ever smaller amounts, to an average probability of acceptance; afterwards it is frozen.

    Returns draws ``(n_draws, C, ...)`` and each chain's mean probability of acceptance ``(C,)``.
    Raises TypeError or ValueError if an argument is out of range, or ``potential`` returns
    something else or is not finite at ``start``.

    Args:
        potential: from points ``(C, ...)`` to ``-log density (C,)`` in nats, up to a constant,
            and its gradient ``(C, ...)``.
        start: one point per chain, ``(C, ...)``, drawn from a wider density than this one.
        n_warmup, n_draws: steps that are thrown away, and that are kept.
        n_leapfrog: leapfrog steps, and so gradients, per draw.
        step_size, acceptance: the first step size; the probability to adapt it to.

    >>> def normal(w):
    ...     return w.square().sum(1) / 2, w
    >>> start = torch.zeros(4, 2)
    >>> draws, acceptance = hmc(normal, start, 50, 100, generator=torch.Generator(), n_leapfrog=10)
    >>> draws.shape, acceptance.shape
    (torch.Size([100, 4, 2]), torch.Size([4]))
    """
    validation.instance("potential", potential, Callable)
    validation.instance("generator", generator, torch.Generator)
    point = validation.floating("start", start).detach()
    shape = (-1, *[1] * (start.dim() - 1))
    validation.shapes("start must be (C, ...)", start)
    n_warmup = validation.integer("n_warmup", n_warmup, 0)
    n_draws = validation.integer("n_draws", n_draws, 1)
    validation.integer("n_leapfrog", n_leapfrog, 1)
    if not 0 < validation.positive("acceptance", acceptance) < 1:
        raise ValueError(f"acceptance must be in (0, 1), got {acceptance}")
    draw = {"generator": generator, "device": generator.device, "dtype": start.dtype}

    def evaluated(point: Tensor) -> Iterator[Tensor]:
        answer = potential(point)
        is_pair = isinstance(answer, tuple | list) and len(answer) == 2
        if not is_pair or not all(isinstance(part, Tensor) for part in answer):
            raise TypeError("potential must return two tensors, energies and their gradient")
        return (part.detach().to(start) for part in answer)

    def uniform() -> Tensor:
        return torch.rand(len(start), **draw).to(start.device)

    def kinetic(momentum: Tensor) -> Tensor:
        return momentum.square().reshape(len(start), -1).sum(1) / 2

    log_step = start.new_full((len(start),), validation.positive("step_size", step_size)).log()
    energy, gradient = evaluated(point)
    validation.shapes("potential must give energies (C,) for chains (C, ...)", energy, start)
    validation.same_shape("the gradient of potential", gradient, "start", start)
    at_start = torch.cat([energy, gradient.flatten()])
    validation.finite("the energy and gradient of potential at start", at_start)
    draws = []
    accepted = torch.zeros_like(log_step)
    for step in range(n_warmup + n_draws):
        size = (log_step.exp() * (0.8 + 0.4 * uniform())).view(shape)
        momentum = standard_normal(start.shape, generator, start)
        before = energy + kinetic(momentum)
        new = point
        new_gradient = gradient
        for _ in range(n_leapfrog):
            momentum = momentum - size / 2 * new_gradient
            new = new + size * momentum
            new_energy, new_gradient = evaluated(new)
            momentum = momentum - size / 2 * new_gradient
        after = new_energy + kinetic(momentum)
        prob = (before - after).clamp(max=0).exp().nan_to_num(0)  # a diverged path is rejected
        accept = uniform() < prob
        energy = torch.where(accept, new_energy, energy)
        point = torch.where(accept.view(shape), new, point)
        gradient = torch.where(accept.view(shape), new_gradient, gradient)
        if step < n_warmup:
            log_step = log_step + (prob - acceptance) / (1 + step) ** 0.5
        else:
            draws.append(point)
            accepted = accepted + prob / n_draws
    return torch.stack(draws), accepted

"""Lesson 02: stochastic gradient ascent on the ELBO, one step at a time, with two gradients.

Both gradients are unbiased and use the same draws. The reparameterised one follows the slope of the
log-likelihood, the score function weighs its values. q is a Gaussian of full covariance over the
two weights of one of the posteriors of ``evidence_bar``, in its coordinates: distances from the
posterior mean in posterior standard deviations.
"""

import math
from functools import lru_cache
from typing import NamedTuple

import numpy as np
import torch
from matplotlib.collections import LineCollection
from matplotlib.figure import Figure
from torch import Tensor
from torch.distributions import MultivariateNormal, Normal

from bdl_lessons.core import BLUE, GREY, INK, RED
from bdl_lessons.datasets import bioassay
from bdl_lessons.panels.engine import Choice, Panel, Slider, Update
from bdl_lessons.panels.evidence_bar import (
    BIOASSAY,
    CIRCLE,
    LINE,
    MASS,
    Target,
    bioassay_target,
    line_target,
)
from bdl_lessons.probability import gaussian_kl_full
from bdl_lessons.reference import BayesLogistic

STEPS = tuple(range(61))
N_DRAWS = (1, 8, 64)
REPARAMETERISED = "reparameterised, (12)"
SCORE = "score function"
LEARNING_RATE = 0.1  # of Adam
START = ((-2.0, 2.0), 0.5)  # mean and standard deviation of both weights
DEEPEST = 12.0  # nats below the log evidence that the picture shows
SEED = 1


class Path(NamedTuple):
    """q at each step of one ascent.

    Attributes:
        means: ``(steps, 2)`` in posterior standard deviations from the posterior mean.
        roots: lower triangular factors of the covariances, ``(steps, 2, 2)``.
        gaps: KL(q || posterior), log evidence less the exact ELBO, in nats, ``(steps,)``.
    """

    means: np.ndarray
    roots: np.ndarray
    gaps: np.ndarray


def panel() -> Panel:
    """A panel of lesson 02: the steps, the gradient, the draws in a step, and the posterior."""
    return Panel(
        build_figure,
        Slider(
            name="step",
            label="step",
            values=STEPS,
            value=20,
            show="{:d}".format,
            web=(0, 1, 2, 3, 5, 8, 12, 20, 30, 40, 50, 60),
        ),
        Choice(
            name="gradient",
            label="gradient",
            values=(REPARAMETERISED, SCORE),
            value=REPARAMETERISED,
        ),
        Slider(
            name="n_samples",
            label="draws a step",
            values=N_DRAWS,
            value=8,
            show="{:d}".format,
        ),
        Choice(
            name="posterior",
            label="posterior",
            values=(LINE, BIOASSAY),
            value=LINE,
        ),
        size=(9.4, 3.6),
    )


def build_figure(figure: Figure) -> Update:
    """Left: contours of the posterior of two weights, ellipses of q, and the way that its mean has
    come. Right: nats between the ELBO and the log evidence, step by step, for the chosen gradient
    and for the other one.
    """
    plane, climb = figure.subplots(1, 2, width_ratios=(1, 1.25))
    figure.subplots_adjust(left=0.075, bottom=0.145, right=0.985, top=0.89, wspace=0.22)

    plane.set(xlim=(-4, 4), xlabel="w₁ [posterior std from its mean]")
    plane.set(ylim=(-4, 4), ylabel="w₂ [posterior std from its mean]")
    plane.set_title("Weights")
    contours = LineCollection([], colors=GREY, lw=1.6, ls="-", animated=True)
    plane.add_collection(contours)
    ellipses = [plane.plot([], [], color=BLUE, ls="-", lw=1.8, animated=True)[0] for _ in MASS]
    (way,) = plane.plot([], [], color=INK, ls=":", marker=".", ms=5, lw=1, animated=True)
    plane.legend(
        [contours, ellipses[0], way],
        ["posterior", "q", "its mean"],
        loc="lower right",
        bbox_to_anchor=(1.04, 0.99),
        ncols=3,
        handlelength=1.2,
        columnspacing=1.0,
    )

    climb.set_title("ELBO")
    climb.set(xlim=(0, STEPS[-1]), xlabel="step")
    climb.set(ylim=(-DEEPEST, 0.8), ylabel="nats above the log evidence")
    climb.axhline(0, color=INK, ls="-", lw=1.2)
    (other_line,) = climb.plot([], [], color=GREY, ls="--", animated=True)
    (this_line,) = climb.plot([], [], color=BLUE, ls="-", animated=True)
    (here,) = climb.plot([], [], "o", color=RED, ms=8, animated=True)
    climb.legend(
        [this_line, other_line],
        ["this gradient", "the other"],
        loc="lower right",
        bbox_to_anchor=(1.02, 0.99),
        ncols=2,
    )

    def update(step: int, gradient: str, n_samples: int, posterior: str) -> str:
        path = ascend(posterior, gradient, n_samples)
        other = ascend(posterior, SCORE if gradient != SCORE else REPARAMETERISED, n_samples)
        contours.set_segments(target_of(posterior).contours)
        for curve, mass in zip(ellipses, MASS, strict=True):
            radius = math.sqrt(-2 * math.log(1 - mass))
            x, y = path.means[step][:, None] + radius * path.roots[step] @ CIRCLE
            curve.set_data(x, y)
        way.set_data(*path.means[: step + 1].T)
        this_line.set_data(STEPS[: step + 1], -path.gaps[: step + 1])
        other_line.set_data(STEPS[: step + 1], -other.gaps[: step + 1])
        here.set_data([step], [max(-path.gaps[step], -DEEPEST)])
        return (
            f"After {step} steps the ELBO is <b>{path.gaps[step]:.2f}</b> nats below the log "
            f"evidence; with the other gradient and the same draws <b>{other.gaps[step]:.2f}</b>."
        )

    return update


@lru_cache
def target_of(posterior: str) -> Target:
    """The posterior with this name, on its grid."""
    return line_target() if posterior == LINE else bioassay_target()


@lru_cache
def ascend(posterior: str, gradient: str, n_samples: int) -> Path:
    """The way of q from ``START``, by Adam on gradients from ``n_samples`` draws a step."""
    target = target_of(posterior)
    log_likelihood = log_likelihood_of(posterior)
    rng = torch.Generator().manual_seed(SEED)
    mean = torch.tensor(START[0], dtype=torch.float64, requires_grad=True)
    raw = (math.log(START[1]) * torch.eye(2, dtype=torch.float64)).requires_grad_()
    optimizer = torch.optim.Adam([mean, raw], lr=LEARNING_RATE)
    means = []
    roots = []
    gaps = []
    for _ in STEPS:
        root = raw.tril(-1) + raw.diagonal().exp().diag()
        means.append(mean.detach().numpy().copy())
        roots.append(root.detach().numpy().copy())
        data_term, kl = target.bound(*in_weights(target, mean.detach(), root.detach()))
        gaps.append(target.log_evidence - (data_term - kl))
        eps = torch.randn(n_samples, 2, generator=rng, dtype=torch.float64)
        loss = -objective(target, log_likelihood, gradient, mean, root, eps)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return Path(np.stack(means), np.stack(roots), np.array(gaps))


def objective(
    target: Target, log_likelihood, gradient: str, mean: Tensor, root: Tensor, eps: Tensor
) -> Tensor:
    """A number whose gradient by ``mean`` and ``root`` estimates that of the ELBO, 0-dim.

    ``eps`` is ``(S, 2)``. By reparameterisation it is the sampled ELBO itself, (10) and (11); for
    the score function each draw is held fixed, and its log-likelihood weighs ``log q``.
    """
    draws = mean + eps @ root.mT
    if gradient == SCORE:
        fixed = draws.detach()
        log_q = MultivariateNormal(mean, scale_tril=root).log_prob(fixed)
        data_term = (log_likelihood(target.mean + target.std * fixed) * log_q).mean()
    else:
        data_term = log_likelihood(target.mean + target.std * draws).mean()
    prior_cov = target.prior_var * torch.eye(2, dtype=torch.float64)
    q_mean, q_cov = in_weights(target, mean, root)
    return data_term - gaussian_kl_full(q_mean, q_cov, torch.zeros_like(q_mean), prior_cov)


def in_weights(target: Target, mean: Tensor, root: Tensor) -> tuple[Tensor, Tensor]:
    """Mean and covariance of the weights, from those in posterior standard deviations."""
    scaled = target.std[:, None] * root
    return target.mean + target.std * mean, scaled @ scaled.mT


def log_likelihood_of(posterior: str):
    """Weights ``(S, 2)`` to log-likelihoods ``(S,)`` of the model behind the posterior."""
    if posterior == BIOASSAY:
        doses, deaths = bioassay.load()
        return BayesLogistic(doses, deaths, prior_var=100.0).log_likelihood
    features = torch.tensor([[1.0, 1.0], [1.0, 2.0], [1.0, 3.0]], dtype=torch.float64)
    y = torch.tensor([2.0, 3.0, 5.0], dtype=torch.float64)

    def log_likelihood(w: Tensor) -> Tensor:  # unit noise
        return Normal(w @ features.T, 1.0).log_prob(y).sum(-1)

    return log_likelihood

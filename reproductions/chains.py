"""Two checks of the draws of Markov chains: do the chains agree, and how much do they know.

Lesson 09 shows both for the chains that `panel_arrays/in_between_uncertainty.py` draws.
"""

import torch
from torch import Tensor

from bdl_lessons.core import validation


def split_r_hat(draws: Tensor) -> Tensor:
    """The potential scale reduction ``(...)`` of ``draws (N, C, ...)``; 1 where chains agree.

    Each chain is cut into halves, so that a trend counts as disagreement too (Gelman et al.,
    Bayesian Data Analysis, 3rd ed., sec. 11.4; Vehtari et al. 2021 ask for at most 1.01). Raises
    ValueError if there are fewer than 4 draws.

    >>> split_r_hat(torch.tensor([[0.0], [2.0], [2.0], [4.0]]))  # the square root of 1.5
    tensor(1.2247)
    """
    validation.shapes("draws must be (N, C, ...)", validation.floating("draws", draws))
    n_draws = validation.integer("the number of draws", len(draws), least=4)
    half = n_draws // 2
    halves = torch.cat([draws[:half], draws[-half:]], dim=1)
    var_within = halves.var(0).mean(0)
    var_between = halves.mean(0).var(0)
    return ((half - 1) / half + var_between / var_within).sqrt()


def effective_sample_size(draws: Tensor) -> Tensor:
    """Independent draws ``(...)`` that would give the chains' means their scatter.

    For ``draws (N, C, ...)``: the variance of the draws over the variance of the chains' means,
    times ``C``. With few chains it is rough: with 8, its relative error is about one half. Raises
    ValueError if there are fewer than 2 chains.

    >>> draws = torch.randn(500, 100, generator=torch.Generator())
    >>> bool((effective_sample_size(draws) / draws.numel() - 1).abs() < 0.5)
    True
    """
    validation.shapes("draws must be (N, C, ...)", validation.floating("draws", draws))
    n_chains = validation.integer("the number of chains of draws", draws.shape[1], least=2)
    var_of_draws = draws.flatten(0, 1).var(0)
    var_of_means = draws.mean(0).var(0)
    return n_chains * var_of_draws / var_of_means

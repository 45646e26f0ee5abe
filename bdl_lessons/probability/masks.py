r"""Every mask of a small layer, with its probability. Lesson 01.

A layer of N units under dropout with drop probability ``p_drop`` hides $2^N$ sub-networks, one
for each mask $z \in \{0, 1\}^N$. For N up to about 16 they can all be visited, and every
expectation over dropout becomes a finite sum (Srivastava et al. 2014, section 1; Baldi and
Sadowski 2013):

$$\mathbb E[f(z)] = \sum_z P(z)\, f(z), \qquad
  P(z) = \text{keep}^{|z|}\, \text{p\_drop}^{\,N - |z|}, \qquad \text{keep} = 1 - \text{p\_drop}.$$

A ``p_drop`` outside [0, 1) and other masks raise ValueError.
"""

import torch
from torch import Tensor

from bdl_lessons.core.validation import integer, valid_p_drop


def all_masks(n_units: int) -> Tensor:
    """All masks of ``n_units`` units, one per row, ``(2**n_units, n_units)`` of 0.0 and 1.0.

    Row ``r`` spells ``r`` in binary, the first unit being the most significant digit. Raises
    ValueError if ``n_units`` is not between 1 and 20.

    >>> all_masks(2).tolist()
    [[0.0, 0.0], [0.0, 1.0], [1.0, 0.0], [1.0, 1.0]]
    """
    if integer("n_units", n_units, 1) > 20:
        raise ValueError(f"n_units must be between 1 and 20, got {n_units}: draw masks instead")
    rows = torch.arange(2**n_units)
    digits = torch.arange(n_units - 1, -1, -1)
    return (rows[:, None] >> digits & 1).double()


def mask_probs(masks: Tensor, p_drop: float) -> Tensor:
    """The probability of each mask.

    ``masks`` are ``(..., N)`` zeros and ones; one means the unit is kept. The ``(...)``
    probabilities sum to one over all masks of a layer.

    >>> mask_probs(torch.tensor([1.0, 0.0, 0.0]), p_drop=0.5)
    tensor(0.1250)
    """
    p_drop = valid_p_drop(p_drop)
    if not ((masks == 0) | (masks == 1)).all():
        raise ValueError("masks must hold 0 and 1")
    kept = masks.sum(-1)
    return (1 - p_drop) ** kept * p_drop ** (masks.shape[-1] - kept)

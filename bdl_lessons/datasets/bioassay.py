"""Twenty animals at four doses: a small real data set with a skewed posterior. Lesson 02.

Racine, Grieve, Flühler and Smith, "Bayesian methods in practice: experiences in the pharmaceutical
industry", Applied Statistics 35, 1986; as tabulated in Gelman et al., Bayesian Data Analysis,
3rd edition, table 3.1.
"""

import torch
from torch import Tensor

LOG_DOSE = (-0.86, -0.30, -0.05, 0.73)  # log g/ml
ANIMALS = (5, 5, 5, 5)
DEATHS = (0, 1, 3, 5)


def load() -> tuple[Tensor, Tensor]:
    """One example per animal: features ``(20, 2)`` = (1, log dose) and labels ``(20,)``, 1 = died.

    Both float64; log dose in log g/ml.

    >>> features, died = load()
    >>> len(features), int(died.sum())
    (20, 9)
    """
    rows = []
    labels = []
    for dose, animals, deaths in zip(LOG_DOSE, ANIMALS, DEATHS, strict=True):
        rows += [(1.0, dose)] * animals
        labels += [1.0] * deaths + [0.0] * (animals - deaths)
    return torch.tensor(rows, dtype=torch.float64), torch.tensor(labels, dtype=torch.float64)

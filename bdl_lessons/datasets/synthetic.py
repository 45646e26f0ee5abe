"""A simulated regression set. Lesson 09."""

from __future__ import annotations

import numpy as np
import torch

from bdl_lessons.core.validation import integer, non_negative
from bdl_lessons.datasets.containers import Regression


def origin_clusters(
    n_train: int = 100, spread_std: float = 0.1, noise_std: float = 0.1, seed: int = 0
) -> Regression:
    """Two inputs, one cluster around (1, 1) and one around (-1, -1), the origin left empty.

    x ``(N, 2)``, half of the points in each cluster, ``spread_std`` per coordinate. The target is
    a random function plus noise of ``noise_std``: one draw of a ReLU network with 50 hidden units
    from its prior, weight std 4/sqrt(fan_in), bias std 1. Inputs, noise and prior are those of the
    "origin" set of Foong et al. (2020, section 4); the points are not theirs. One seed gives the
    same set on every machine.

    Raises:
        ValueError, TypeError: if ``n_train`` is no integer of at least 2, or a std is negative or
            not finite.
    """
    integer("n_train", n_train, 2)
    non_negative("spread_std", spread_std)
    non_negative("noise_std", noise_std)
    generator = np.random.default_rng(seed)
    n_first = n_train // 2
    centres = np.repeat([[1.0, 1.0], [-1.0, -1.0]], [n_first, n_train - n_first], axis=0)
    x = centres + spread_std * generator.standard_normal((n_train, 2))
    width, weight_std = 50, 4.0
    w1 = generator.standard_normal((2, width)) * weight_std / np.sqrt(2)
    w2 = generator.standard_normal(width) * weight_std / np.sqrt(width)
    b1, b2 = generator.standard_normal(width), generator.standard_normal()
    y = np.maximum(x @ w1 + b1, 0) @ w2 + b2 + noise_std * generator.standard_normal(n_train)
    return Regression(
        "origin-clusters", torch.from_numpy(x), torch.from_numpy(y), ("x1", "x2"), "y", "1"
    )

"""Small made-up sets. Each takes a ``seed`` and is the same on every machine for one seed."""

from __future__ import annotations

import numpy as np
import torch

from bdl_lessons.datasets.containers import Classification, Regression


def two_moons(
    n_train: int = 200, n_test: int = 1000, noise_std: float = 0.15, seed: int = 0
) -> Classification:
    """Two interleaved half circles of radius 1 in the plane, x ``(N, 2)``, two classes.

    Class 0: ``(cos t, sin t)``; class 1: ``(1 - cos t, 1/2 - sin t)``; t uniform on [0, pi]. Normal
    noise is added to both coordinates. Classes are balanced (to one point if N is odd), rows
    shuffled.
    """
    _positive(n_train=n_train, n_test=n_test)
    _not_negative(noise_std=noise_std)
    generator = np.random.default_rng(seed)
    train = _moons(n_train, noise_std, generator)
    return Classification(
        "two-moons", *train, *_moons(n_test, noise_std, generator), ("upper moon", "lower moon")
    )


def gap(n_train: int = 100, noise_std: float = 0.1, seed: int = 0) -> Regression:
    """One input, two clusters, nothing in between: x ``(N, 1)`` on [-1, -0.7] and [0.5, 1].

    ``y = cos(4x + 0.8) + N(0, noise_std²)``, half of the points in each cluster. The set on which
    Foong et al. (2019, "In-between" uncertainty) look at the error bars inside the gap.
    """
    _positive(n_train=n_train)
    _not_negative(noise_std=noise_std)
    generator = np.random.default_rng(seed)
    n_left = n_train // 2
    left = generator.uniform(-1.0, -0.7, n_left)
    x = np.concatenate([left, generator.uniform(0.5, 1.0, n_train - n_left)])[:, None]
    y = gap_mean(x[:, 0]) + noise_std * generator.standard_normal(n_train)
    return _regression("gap", x, y)


def gap_mean(x):
    """The noise-free target of ``gap``, ``cos(4x + 0.8)``; array or tensor of any shape."""
    return (torch.cos if isinstance(x, torch.Tensor) else np.cos)(4 * x + 0.8)


def cubic(n_train: int = 20, noise_std: float = 3.0, seed: int = 0) -> Regression:
    """``y = x³ + N(0, 9)`` with x uniform on [-4, 4]: x ``(N, 1)``.

    Hernández-Lobato and Adams (ICML 2015), section 5.1: 20 points; noise *variance* 9, std 3.
    """
    _positive(n_train=n_train)
    _not_negative(noise_std=noise_std)
    generator = np.random.default_rng(seed)
    x = generator.uniform(-4.0, 4.0, (n_train, 1))
    return _regression("cubic", x, x[:, 0] ** 3 + noise_std * generator.standard_normal(n_train))


def origin_clusters(
    n_train: int = 100, spread_std: float = 0.1, noise_std: float = 0.1, seed: int = 0
) -> Regression:
    """Two inputs, one cluster around (1, 1) and one around (-1, -1), the origin left empty.

    x ``(N, 2)``, half of the points in each cluster, ``spread_std`` per coordinate. The target is
    a random function plus noise of ``noise_std``: one draw of a ReLU network with 50 hidden units
    from its prior, weight std 4/sqrt(fan_in), bias std 1. Inputs, noise and prior are those of the
    "origin" set of Foong et al. (2020, section 4); the points are not theirs.
    """
    _positive(n_train=n_train)
    _not_negative(spread_std=spread_std, noise_std=noise_std)
    generator = np.random.default_rng(seed)
    n_first = n_train // 2
    centres = np.repeat([[1.0, 1.0], [-1.0, -1.0]], [n_first, n_train - n_first], axis=0)
    x = centres + spread_std * generator.standard_normal((n_train, 2))
    width, weight_std = 50, 4.0
    w1 = generator.standard_normal((2, width)) * weight_std / np.sqrt(2)
    w2 = generator.standard_normal(width) * weight_std / np.sqrt(width)
    b1, b2 = generator.standard_normal(width), generator.standard_normal()
    y = np.maximum(x @ w1 + b1, 0) @ w2 + b2
    return _regression("origin-clusters", x, y + noise_std * generator.standard_normal(n_train))


def _moons(
    n: int, noise_std: float, generator: np.random.Generator
) -> tuple[torch.Tensor, torch.Tensor]:
    y = generator.permutation(np.arange(n) % 2)
    t = generator.uniform(0, np.pi, n)
    upper = np.stack([np.cos(t), np.sin(t)], axis=1)
    lower = np.stack([1 - np.cos(t), 0.5 - np.sin(t)], axis=1)
    x = np.where(y[:, None] == 0, upper, lower) + noise_std * generator.standard_normal((n, 2))
    return torch.from_numpy(x).to(torch.float32), torch.from_numpy(y)


def _regression(name: str, x: np.ndarray, y: np.ndarray) -> Regression:
    names = ("x",) if x.shape[1] == 1 else tuple(f"x{i + 1}" for i in range(x.shape[1]))
    return Regression(name, torch.from_numpy(x), torch.from_numpy(y), names, "y", "1")


def _positive(**counts: int) -> None:
    for name, n in counts.items():
        if isinstance(n, bool) or not isinstance(n, int | np.integer):
            raise TypeError(f"{name} must be an integer, got {n!r}")
        if n < 2:
            raise ValueError(f"{name} must be at least 2 (one point per cluster), got {n}")


def _not_negative(**stds: float) -> None:
    for name, std in stds.items():
        if not 0 <= std < np.inf:
            raise ValueError(f"{name} must be finite and >= 0, got {std}")

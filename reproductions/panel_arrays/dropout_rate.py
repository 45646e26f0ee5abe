"""Lesson 01: a classifier with ten hidden units, trained on two moons at each dropout rate."""

from functools import partial

import numpy as np
import torch
import torch.nn.functional as F
from sklearn.datasets import make_moons

from bdl_lessons.inference.train import Run, optimize
from bdl_lessons.panels.dropout_rate import N_HIDDEN, RATES


def make_arrays(n_steps: int = 4000) -> dict[str, np.ndarray]:
    """Train one classifier for each rate, all in one batch, and return data and weights.

    Masks are fresh for every example and step; nothing is rescaled (classic dropout), so weight
    scaling at prediction multiplies the hidden units by keep.
    """
    x, y = make_moons(80, noise=0.22, random_state=3)
    generator = torch.Generator().manual_seed(0)
    inputs, labels = torch.from_numpy(x), torch.from_numpy(y).double()
    keep = 1 - torch.tensor(RATES, dtype=torch.float64)[:, None, None]

    def start(*shape: int, scale: float) -> torch.Tensor:
        draw = torch.randn(*shape, generator=generator, dtype=torch.float64) * scale
        return draw.expand(len(RATES), *shape).clone().requires_grad_()

    w1, b1 = start(2, N_HIDDEN, scale=1.5), start(1, N_HIDDEN, scale=0.5)
    w2, b2 = start(N_HIDDEN, 1, scale=0.5), start(1, 1, scale=0.0)

    def loss_at(_: int) -> torch.Tensor:
        uniforms = torch.rand(1, len(x), N_HIDDEN, generator=generator, dtype=torch.float64)
        hidden = torch.tanh(inputs @ w1 + b1) * (uniforms < keep)
        logits = (hidden @ w2 + b2).squeeze(-1)
        loss = F.binary_cross_entropy_with_logits(logits, labels.expand_as(logits))
        return len(RATES) * loss

    adam = partial(torch.optim.Adam, lr=0.02, weight_decay=1e-4)
    run = Run(n_steps, epoch=1, kl_weight=0.0, nll=F.binary_cross_entropy_with_logits)
    optimize([w1, b1, w2, b2], loss_at, run, adam, schedule=None, progress=True)
    weights = {"w1": w1, "b1": b1, "w2": w2, "b2": b2}
    uniforms = torch.rand(N_HIDDEN, generator=generator.manual_seed(12), dtype=torch.float64)
    made = {name: weight.detach().numpy() for name, weight in weights.items()}
    return {"x": x, "y": y, "uniforms": uniforms.numpy()} | made

"""Lesson 00: twenty networks, trained on the same points from different initial weights."""

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

from bdl_lessons.panels.many_networks import AXIS


def make_arrays(n_networks: int = 20, n_steps: int = 500) -> dict[str, np.ndarray]:
    """The points, their classes, and the logits of each network on a square grid (column, row)."""
    torch.manual_seed(0)
    corners = torch.tensor([[-2.0, 2.0], [2.0, -2.0], [2.0, 2.0], [-2.0, -2.0]])
    x = (corners[:, None] + 0.35 * torch.randn(4, 10, 2)).flatten(0, 1)
    y = torch.arange(40).ge(20).float()
    plane, logits = torch.cartesian_prod(*2 * [torch.tensor(AXIS).float()]), []
    for seed in range(n_networks):
        torch.manual_seed(seed)
        net = nn.Sequential(
            *(nn.Linear(2, 16), nn.Tanh(), nn.Linear(16, 16), nn.Tanh(), nn.Linear(16, 1))
        )
        optimizer = torch.optim.Adam(net.parameters(), lr=0.02)
        for _ in range(n_steps):
            loss = F.binary_cross_entropy_with_logits(net(x)[:, 0], y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        logits.append(net(plane).detach().reshape(len(AXIS), len(AXIS)).half().numpy())
    return {"x": x.numpy(), "y": y.numpy(), "logits": np.stack(logits)}

"""Lesson 08: three networks 64-50-10 with one noise variance for each weight, on digits.

Two priors on the true labels, one of them again on random labels, and an ordinary network.
"""

import numpy as np
import torch
from torch import Tensor

from bdl_lessons.datasets import digits
from bdl_lessons.inference import layer_log_alpha
from bdl_lessons.models import ARD, BinaryDropout, LayerFactory, Network, SparseVD, initialise, mlp
from bdl_lessons.panels.pruning_threshold import NETWORKS, WIDTH
from bdl_lessons.probability import kl_warmup
from reproductions.measure import train_by

N_STEPS, TRAINING = 3000, {"learning_rate": 1e-2, "batch_size": 100}


def train(
    factory: LayerFactory, x: Tensor, y: Tensor, generator: torch.Generator, n_steps: int = N_STEPS
) -> Network:
    """A classifier 64-50-10; the KL's weight rises to 1 over the first quarter of the steps."""
    net = initialise(mlp((64, WIDTH, 10), factory), generator).to(x.device)
    how = {"schedule": lambda step: min(1, 2 - 2 * step / n_steps)}
    train_by(TRAINING, net, x, y, generator, n_steps, kl_weight=kl_warmup(n_steps / 4), **how)
    return net


def make_arrays(n_steps: int = N_STEPS) -> dict[str, np.ndarray]:
    """Train the three networks, and an ordinary one for the first figure of the lesson."""
    data, generator = digits(seed=0), torch.Generator()
    labels = data.y_train
    random = torch.randint(10, labels.shape, generator=generator.manual_seed(5))
    sparse_vd, ard = SparseVD(init_log_sigma2=-6.0), ARD(init_log_sigma2=-6.0)
    tasks = {"sparse VD": (sparse_vd, labels), "ARD": (ard, labels)}
    tasks |= {"sparse VD, random labels": (sparse_vd, random)}
    *nets, ordinary = (
        train(factory, data.x_train, y, generator.manual_seed(0), n_steps)
        for factory, y in (
            *(tasks[name] for name in NETWORKS),
            (BinaryDropout(0.0, length_scale=0.1), labels),
        )
    )
    made = {}
    for layer, position in ((1, 0), (2, 2)):
        made[f"mu_{layer}"] = torch.stack([net[position].weight for net in nets])
        made[f"bias_{layer}"] = torch.stack([net[position].bias for net in nets])
        made[f"log_alpha_{layer}"] = torch.stack([layer_log_alpha(net[position]) for net in nets])
        made[f"ordinary_mu_{layer}"] = ordinary[position].weight
        made[f"ordinary_bias_{layer}"] = ordinary[position].bias
    return {name: values.detach().numpy() for name, values in made.items()}

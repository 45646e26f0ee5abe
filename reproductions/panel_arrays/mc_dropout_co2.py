"""Lesson 05: networks with dropout on six years of CO2, one for each rate, and their functions."""

from functools import partial

import numpy as np
import torch
from torch import nn

from bdl_lessons.inference import predict
from bdl_lessons.models import initialise
from bdl_lessons.panels.mc_dropout_co2 import HORIZON, LESSON_RATE, RATES, WIDTH, network, six_years
from bdl_lessons.probability import gaussian_nll
from reproductions.co2_mc_dropout import switch_inside_the_data
from reproductions.measure import train_by

N_DRAWS, TRAIN_TAU, TRAINING = 100, 25.0, {"learning_rate": 3e-3, "batch_size": None}


def make_arrays(n_steps: int = 6000) -> dict[str, np.ndarray]:
    """Train a ReLU network for each rate and return 100 functions of each on a grid of times.

    With them come the weights of the two networks that the lesson itself evaluates: the ReLU
    network at ``LESSON_RATE`` and one with tanh.
    """
    data = six_years()
    x = torch.linspace(data.x.min(), data.to_x(torch.tensor(HORIZON)), 180)
    draws, weights = [], {}
    for p_drop, activation in [*((rate, nn.ReLU) for rate in RATES), (LESSON_RATE, nn.Tanh)]:
        generator = torch.Generator().manual_seed(3)
        net = network(p_drop, activation)
        initialise(net, generator, weight_var=2.0 if activation is nn.ReLU else 1.0)
        place, steepness, sign = torch.rand(3, WIDTH, generator=generator)
        switch_inside_the_data(net[0], 2.0, steepness, sign, place)
        how = {"loss": partial(gaussian_nll, tau=TRAIN_TAU)}
        how |= {"schedule": lambda step: 1 - step / n_steps}
        rows = data.x.float(), data.y.float()[:, None]
        train_by(TRAINING, net, *rows, generator, n_steps, **how)
        if p_drop == LESSON_RATE:
            flat = nn.utils.parameters_to_vector(net.parameters())
            weights[activation.__name__] = flat.detach().half().numpy()
        if activation is nn.ReLU:
            functions = predict(net, x[:, None], N_DRAWS, "shared", generator=generator)
            draws.append(functions[..., 0])
    return {"x": x.double().numpy(), "draws": torch.stack(draws).half().numpy(), **weights}

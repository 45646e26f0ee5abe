"""Lesson 05: digit classifiers with dropout, one for each rate, and what they say of a turned 1."""

import numpy as np
import torch
from torch import nn

from bdl_lessons.datasets import digits, rotated
from bdl_lessons.evaluation import mutual_information, predictive_entropy
from bdl_lessons.inference import predict
from bdl_lessons.models import initialise
from bdl_lessons.panels.rotated_digit import (
    ANGLES,
    LESSON_RATE,
    MANY_SAMPLES,
    N_SAMPLES,
    RATES,
    classifier,
    the_one,
)
from reproductions.measure import train_by

TRAINING = {"learning_rate": 2e-3, "batch_size": 100}


def make_arrays(n_steps: int = 1500) -> dict[str, np.ndarray]:
    """Train one classifier for each rate; logits of 100 draws at every angle.

    With them come the predictive entropy and the mutual information of 5000 draws, ``(rates,
    angles)`` each, and the weights of the network that the lesson itself evaluates.
    """
    data = digits(seed=0)
    turned = rotated(the_one().expand(len(ANGLES), 8, 8), torch.tensor(ANGLES)).flatten(1)
    logits, entropies, informations, stored = [], [], [], {}
    for p_drop in RATES:
        generator = torch.Generator().manual_seed(2)
        net = initialise(classifier(p_drop), generator)
        train_by(TRAINING, net, data.x_train, data.y_train, generator, n_steps)
        draws = predict(net, turned, MANY_SAMPLES, "per_example", generator=generator)
        logits.append(draws[:N_SAMPLES].transpose(0, 1))
        entropies.append(predictive_entropy(draws))
        informations.append(mutual_information(draws))
        if p_drop == LESSON_RATE:
            stored["weights"] = nn.utils.parameters_to_vector(net.parameters()).detach().half()
    stored |= {"entropy": torch.stack(entropies), "information": torch.stack(informations)}
    stored |= {"logits": torch.stack(logits).half()}
    return {name: values.numpy() for name, values in stored.items()}

import re

import numpy as np
import torch

from bdl_lessons.panels import dropout_rate
from bdl_lessons.probability import all_masks, mask_probs


def test_the_readout_states_the_exact_mean(panel, stored):
    weights = dropout_rate.trained_at(0.3, stored)
    masks = all_masks(10).numpy()
    point = np.array([dropout_rate.POINTS["far away"]])
    answers = dropout_rate.predict(weights, point, masks[:, None])[:, 0]
    exact = mask_probs(torch.from_numpy(masks), 0.3).numpy() @ answers
    assert f"exact mean <b>{exact:.3f}</b>" in panel.render(p_drop=0.3, point="far away").readout


def test_without_dropout_in_training_weight_scaling_is_the_network_itself(panel, stored):
    weights = dropout_rate.trained_at(0.0, stored)
    point = np.array([dropout_rate.POINTS["far away"]])
    plain = float(dropout_rate.predict(weights, point, 1.0)[0])
    readout = panel.render(p_drop=0.3, point="far away", trained="without dropout").readout
    assert f"weight scaling <b>{plain:.3f}</b>" in readout


def test_training_with_dropout_makes_the_sub_networks_vote_together(panel):
    def other_class(trained):
        readout = panel.render(p_drop=0.3, point="inside a class", trained=trained).readout
        return float(re.search(r"with <b>([\d.]+) %</b> of the probability vote", readout)[1])

    assert other_class("at this p_drop") == 1.4
    assert other_class("without dropout") == 20.3


def test_prediction_is_the_network_it_claims_to_be(stored):
    weights = dropout_rate.trained_at(0.5, stored)
    x, z = np.random.default_rng(0).normal(size=(7, 2)), np.array([1.0, 0, 1, 1, 0, 0, 1, 0, 1, 1])
    logits = (np.tanh(x @ weights["w1"] + weights["b1"]) * z) @ weights["w2"] + weights["b2"]
    expected = 1 / (1 + np.exp(-logits[:, 0]))
    assert np.allclose(dropout_rate.predict(weights, x, z), expected, atol=1e-12)

import re

import pytest
import torch

from bdl_lessons.evaluation import mutual_information, predictive_entropy
from bdl_lessons.inference import predict
from bdl_lessons.panels import rotated_digit
from bdl_lessons.panels.rotated_digit import ANGLES, RATES, rotated, the_one


def test_the_readout_is_about_the_stored_draws_and_upright_it_is_a_one_at_every_rate(panel, stored):
    logits = torch.from_numpy(stored["logits"]).double()
    probs = logits[RATES.index(0.25), ANGLES.index(60)].softmax(-1).mean(0)
    readout = re.sub("<.*?>", "", panel.render(angle=60, p_drop=0.25).readout)
    assert f"Most probable: {probs.argmax()} (mean {probs.max():.2f}" in readout
    assert (logits[:, 0].softmax(-1).mean(1).argmax(-1) == 1).all()


def test_the_readout_states_the_entropies_of_the_stored_network(panel):
    """Ours from 5000 other draws: each is off by about 0.01 nats."""
    turned = rotated(the_one(), 30).view(1, 64)
    generator = torch.Generator().manual_seed(2)
    logits = predict(rotated_digit.trained(), turned, 5000, "shared", generator=generator)
    fresh = predictive_entropy(logits).item(), mutual_information(logits).item()
    readout = re.sub("<.*?>", "", panel.render(angle=30).readout)
    stated = re.search(r"entropy ([\d.]+) nats, of which ([\d.]+)", readout).groups()
    assert [float(number) for number in stated] == pytest.approx(fresh, abs=0.06)

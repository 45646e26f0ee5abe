import re

import pytest
import torch

from bdl_lessons.lessons.panels import arrays, rotated_digit
from bdl_lessons.lessons.panels.rotated_digit import ANGLES, RATES, rotated, the_one


@pytest.fixture(scope="module")
def panel():
    return rotated_digit.panel()


def test_quarter_turns_move_pixels():
    image = torch.rand(64, generator=torch.Generator().manual_seed(0))
    turned = rotated(image, torch.tensor([0, 90, 180, 270]))
    for quarters in range(4):
        expected = image.view(8, 8).rot90(quarters)
        torch.testing.assert_close(turned[quarters], expected, atol=1e-5, rtol=0)


def test_one_angle_is_a_batch_of_one():
    torch.testing.assert_close(rotated(the_one(), 30.0), rotated(the_one(), torch.tensor([30.0])))


def test_every_angle_and_rate_gives_its_own_picture(panel):
    pictures = {panel.render(angle=angle).png for angle in ANGLES}
    pictures |= {panel.render(p_drop=rate).png for rate in RATES}
    assert len(pictures) == len(ANGLES) + len(RATES) - 1


def test_the_readout_is_about_the_stored_draws(panel):
    logits = torch.from_numpy(arrays.load("rotated_digit")["logits"]).double()
    probs = logits[RATES.index(0.25), ANGLES.index(60)].softmax(-1).mean(0)
    readout = re.sub("<.*?>", "", panel.render(angle=60, p_drop=0.25).readout)
    assert f"Most probable: {probs.argmax()} (mean {probs.max():.2f}" in readout


def test_upright_it_is_a_one_at_every_rate():
    logits = torch.from_numpy(arrays.load("rotated_digit")["logits"]).double()
    assert (logits[:, 0].softmax(-1).mean(1).argmax(-1) == 1).all()


def test_the_stored_network_gives_the_stored_law():
    net = rotated_digit.trained()
    turned = rotated(the_one(), torch.tensor(ANGLES)).flatten(1)
    stored = torch.from_numpy(arrays.load("rotated_digit")["logits"]).float()
    at_rate = stored[RATES.index(rotated_digit.LESSON_RATE)].mean(1)
    generator = torch.Generator().manual_seed(1)
    fresh = rotated_digit.predict(net, turned, 2000, "shared", generator=generator).mean(0)
    assert (fresh - at_rate).abs().max() < 5


def test_arrays_have_the_layout_that_is_stored(monkeypatch):
    monkeypatch.setattr(rotated_digit, "RATES", (0.5,))
    made, stored = rotated_digit.make_arrays(n_steps=2), arrays.load("rotated_digit")
    assert made["weights"].shape == stored["weights"].shape
    assert made["logits"].shape[1:] == stored["logits"].shape[1:]

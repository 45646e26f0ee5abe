import re

import numpy as np
import pytest

from bdl_lessons.panels import many_networks


@pytest.mark.parametrize("n_networks", [1, 2, 20])
def test_the_readout_is_the_mean_answer_and_its_range(panel, stored, n_networks):
    readout = panel.render(n_networks=n_networks).readout
    logits = stored["logits"][:n_networks].astype(float)
    for text, place in zip(readout.split(";"), many_networks.PLACES.values(), strict=True):
        p = 1 / (1 + np.exp(-logits[:, *place]))
        told = [float(number) for number in re.findall(r"\d\.\d\d", text)]
        assert told == pytest.approx([p.mean(), p.min(), p.max()], abs=0.006)


def test_five_networks_agree_at_the_star_and_twenty_do_not(stored):
    at_star = stored["logits"][:, *many_networks.PLACES["at the star"]]
    assert (at_star[:5] < 0).all()
    assert 7 <= (at_star > 0).sum() <= 13

import math

import pytest

from bdl_lessons.probability import mass_near_zero


def test_the_readout_states_the_mass(panel):
    mass = mass_near_zero(1.5, -10 * math.log(10)).item()
    assert f"posterior mass <b>{mass:.3f}</b>" in panel.render(decades=10, z_score=1.5).readout
    assert 0.5 < mass < 1


def test_at_the_stated_half_the_mass_is_half(panel):
    assert "one half after <b>3.97</b> decades" in panel.render(decades=4, z_score=2.0).readout
    assert mass_near_zero(2.0, -4 * math.log(10)).item() == pytest.approx(0.5, abs=0.01)

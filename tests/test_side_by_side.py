import pytest
import torch

from bdl_lessons import require
from bdl_lessons.side_by_side import inside_vmap, vmap


def test_the_flag_is_up_inside_and_down_outside():
    seen = []

    def function(x):
        seen.append(inside_vmap())
        return x

    vmap(function)(torch.zeros(3))
    assert seen == [True]
    assert not inside_vmap()


def test_the_flag_is_down_after_an_error():
    def broken(x):
        raise RuntimeError("broken")

    with pytest.raises(RuntimeError, match="broken"):
        vmap(broken)(torch.zeros(3))
    assert not inside_vmap()


def test_every_member_draws_its_own_numbers():
    generator = torch.Generator().manual_seed(0)
    draws = vmap(lambda x: torch.randn(2, generator=generator) + x)(torch.zeros(4))
    assert draws.unique().numel() == 8


def test_values_are_checked_outside_only():
    bad = torch.tensor([[float("nan")], [1.0]])
    assert vmap(lambda row: require.floating("row", row))(bad).shape == (2, 1)
    with pytest.raises(ValueError, match="row must be finite"):
        require.floating("row", bad)

import pytest
import torch

from bdl_lessons.core.autograd import inside_vmap, vmap


def test_every_member_draws_its_own_numbers():
    generator = torch.Generator().manual_seed(0)
    draws = vmap(lambda x: torch.randn(2, generator=generator) + x)(torch.zeros(4))
    assert torch.pdist(draws.reshape(8, 1)).min() > 1e-6


def test_the_flag_is_up_inside_and_down_outside_even_after_an_error():
    seen = []

    def broken(x):
        seen.append(inside_vmap())
        raise RuntimeError("broken")

    with pytest.raises(RuntimeError, match="broken"):
        vmap(broken)(torch.zeros(3))
    assert [*seen, inside_vmap()] == [True, False]

import torch

from bdl_lessons.core.autograd import vmap


def test_every_member_draws_its_own_numbers():
    generator = torch.Generator().manual_seed(0)
    draws = vmap(lambda x: torch.randn(2, generator=generator) + x)(torch.zeros(4))
    assert torch.pdist(draws.reshape(8, 1)).min() > 1e-6

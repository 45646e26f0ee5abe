import torch
from torch import nn

from bdl_lessons.experiments.posteriors.batch_norm import has_batch_norm, refresh_batch_norm
from bdl_lessons.inference import BatchedNetworks
from bdl_lessons.models import Deterministic, Network, initialise, mlp

PLAIN = Deterministic()


def gen(seed=0):
    return torch.Generator().manual_seed(seed)


def network_with_batch_norm():
    model = Network(PLAIN.linear(2, 3), nn.BatchNorm1d(3), nn.ReLU(), PLAIN.linear(3, 1))
    return initialise(model, gen())


def test_statistics_are_those_of_all_rows_whatever_the_chunks():
    model, x = network_with_batch_norm().eval(), torch.randn(70, 2, generator=gen(1))
    refresh_batch_norm(model, x, chunk_rows=40)
    torch.testing.assert_close(model[1].running_mean, model[0](x, "mean").mean(0).detach())
    assert not model[1].training
    assert model[1].momentum == 0.1
    refresh_batch_norm(model, x)
    torch.testing.assert_close(model[1].running_var, model[0](x, "mean").var(0).detach())


def test_it_is_seen_whether_there_is_any():
    assert has_batch_norm(network_with_batch_norm())
    plain = mlp((2, 1), PLAIN)
    assert not has_batch_norm(plain)
    assert not has_batch_norm(BatchedNetworks([plain]))

"""How often a training step makes the processor wait for the GPU, and copies: a budget."""

from collections import Counter
from functools import partial

import pytest
import torch
from torch.nn.functional import cross_entropy

from bdl_lessons.core import device
from bdl_lessons.inference import BatchedNetworks, adam, fit, fit_batched, predict
from bdl_lessons.models import Deterministic
from reproductions.posteriors.slang import fit_slang
from tests.device.calculations import METHODS, labels, network, uniform
from tests.device.simulated_gpu import SimulatedGPU

N_LAYERS, N_TRAIN = 2, 20
DRAWS_A_LAYER = {"ELRG": 2, "VMG": 3, "VMG, m = 0": 3, "MNF, narrow flows": 10, "MAP": 0}
DRAWS_A_LAYER |= dict.fromkeys(("hierarchical VSD", "hierarchical VD, Gamma"), 2)


def waits(train, n_steps, where):
    """Of ``n_steps`` steps: all waits, and the copies to the GPU among them."""
    with SimulatedGPU() as gpu:
        generator = torch.Generator(where).manual_seed(0)
        run = train(device())
        gpu.reset()
        run(n_steps=n_steps, generator=generator)
        return Counter(gpu.waits)


def in_a_step(train, where):
    """Waits of a step that looks at no losses and begins no epoch, by their kind."""
    few, more = (waits(train, n, where) for n in (2, 6))
    return {kind: (more[kind] - few[kind]) / 4 for kind in more if more[kind] != few[kind]}


def one(method, on):
    x, y = uniform((N_TRAIN, 6), on), labels(N_TRAIN, on)
    return partial(fit, network(METHODS[method], on), x, y, cross_entropy, optimizer=adam(1e-2))


def many(on):
    networks = BatchedNetworks([network(METHODS["VSD, T = 2"], on) for _ in range(2)])
    x, y = uniform((2, N_TRAIN, 6), on), labels(N_TRAIN, on).expand(2, N_TRAIN)
    return partial(fit_batched, networks, x, y, cross_entropy, optimizer=adam(1e-2))


def slang(on):
    x, y = uniform((N_TRAIN, 6), on), labels(N_TRAIN, on)
    return partial(fit_slang, network(Deterministic(), on), x, y, cross_entropy)


@pytest.mark.parametrize("method", METHODS)
def test_a_step_with_a_generator_on_the_gpu_never_waits(method):
    assert in_a_step(partial(one, method), "cuda") == {}


@pytest.mark.parametrize("method", METHODS)
def test_a_step_with_a_cpu_generator_copies_what_each_layer_draws(method):
    found = in_a_step(partial(one, method), "cpu")
    assert set(found) <= {"to the GPU"}
    assert found.get("to the GPU", 0) <= N_LAYERS * DRAWS_A_LAYER.get(method, 1)


def test_batched_networks_never_wait():
    assert in_a_step(many, "cuda") == {}


def test_slang_waits_for_nothing_but_its_eigenvectors():
    """Which no mode of dispatch sees: it is counted by ``make test-gpu``."""
    assert in_a_step(slang, "cuda") == {}


def test_the_losses_are_looked_at_every_hundred_steps():
    found = waits(partial(one, "MAP"), 200, "cuda")
    assert sum(found.values()) == 2, found


@pytest.mark.parametrize("mode", ["per_example", "shared"])
@pytest.mark.parametrize("method", METHODS)
def test_predicting_waits_once_to_look_at_x(method, mode):
    with SimulatedGPU() as gpu:
        net, x = network(METHODS[method], device()), uniform((5, 6), device())
        generator = torch.Generator("cuda").manual_seed(0)
        gpu.reset()
        predict(net, x, 3, mode, generator=generator)
        assert sum(gpu.waits.values()) <= 1, gpu.waits

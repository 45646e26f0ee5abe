"""How often a training step makes the processor wait for the GPU, and copies: a budget."""

from collections import Counter

import pytest
import torch

from bdl_lessons.core import device
from bdl_lessons.inference import predict
from tests.device.calculations import METHODS, TRAINED, network, steps, uniform
from tests.device.simulated_gpu import SimulatedGPU

N_LAYERS = 2
DRAWS_A_LAYER = {"ELRG": 2, "VMG": 3, "MNF, narrow flows": 10, "MAP": 0}
DRAWS_A_LAYER |= dict.fromkeys(("hierarchical VSD", "hierarchical VD, Gamma"), 2)


def waits(name, n_steps, where):
    """Of ``n_steps`` steps: all waits, and the copies to the GPU among them."""
    with SimulatedGPU() as gpu:
        generator = torch.Generator(where).manual_seed(0)
        run = steps(name, device())
        gpu.reset()
        run(n_steps=n_steps, generator=generator)
        return Counter(gpu.waits)


def in_a_step(name, where):
    """Waits of a step that looks at no losses and begins no epoch, by their kind."""
    few, more = (waits(name, n, where) for n in (2, 6))
    return {kind: (more[kind] - few[kind]) / 4 for kind in more if more[kind] != few[kind]}


@pytest.mark.parametrize("name", TRAINED)
def test_a_step_with_a_generator_on_the_gpu_never_waits(name):
    """SLANG does for its eigenvectors, which no mode of dispatch sees: ``make test-gpu`` does."""
    assert in_a_step(name, "cuda") == {}


@pytest.mark.parametrize("method", METHODS)
def test_a_step_with_a_cpu_generator_copies_what_each_layer_draws(method):
    counts = in_a_step(method, "cpu")
    assert set(counts) <= {"to the GPU"}
    n_draws = DRAWS_A_LAYER.get(method, 1)
    assert counts.get("to the GPU", 0) <= N_LAYERS * n_draws, (
        f"a layer of {method} draws more than {n_draws} times: its number belongs in DRAWS_A_LAYER"
    )


def test_the_losses_are_looked_at_every_hundred_steps():
    counts = waits("MAP", 200, "cuda")
    assert sum(counts.values()) == 2, counts


@pytest.mark.parametrize("mode", ["per_example", "shared"])
@pytest.mark.parametrize("method", METHODS)
def test_predicting_waits_once_to_look_at_x(method, mode):
    with SimulatedGPU() as gpu:
        net = network(METHODS[method], device())
        x = uniform((5, 6), device())
        generator = torch.Generator("cuda").manual_seed(0)
        gpu.reset()
        predict(net, x, 3, mode, generator=generator)
        assert sum(gpu.waits.values()) <= 1, gpu.waits

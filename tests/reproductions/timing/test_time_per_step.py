import pytest
import torch

from reproductions.experiment import Trial
from reproductions.timing import time_per_step


def record(architecture="lenet5", device="cpu", **ratios):
    metrics = {"ms/MAP": 2.0, "ratio/MAP": 1.0}
    metrics |= {f"ratio/{method}": ratios.get(method, 1.5) for method in time_per_step.FACTORIES}
    config = {"architecture": architecture, "device": device, "batch_size": 8, "rounds": 3}
    return {"config": config, "seed": 0, "metrics": metrics, "device": device}


def test_a_ratio_is_that_of_neighbours(monkeypatch):
    """The machine gets slower from round to round; the ratio does not care."""
    slow = {method: 1 + i for i, method in enumerate(time_per_step.FACTORIES)}
    load = iter(sorted([*range(1, 9)] * len(slow)))
    methods, now = iter(slow), [0.0]

    def stepper(*args):
        method = next(methods)

        def step():
            now[0] += slow[method] * next(load)

        return step

    monkeypatch.setattr(time_per_step, "clock", lambda on: now[0])
    monkeypatch.setattr(time_per_step, "_stepper", stepper)
    config = {"architecture": "lenet5", "device": "cpu", "batch_size": 1, "rounds": 3}
    metrics = time_per_step.run(Trial(config, 0)).metrics
    assert metrics["ratio/MAP"] == 1
    assert metrics["ratio/VSD T=2, fc"] == len(slow)


def test_a_step_changes_every_parameter_of_every_method():
    generator = torch.Generator().manual_seed(0)
    x, y = torch.randn(4, 3, 32, 32, generator=generator), torch.arange(4)
    for layers in time_per_step.FACTORIES.values():
        network = time_per_step.NETWORKS["lenet5"](layers)
        step = time_per_step._stepper(network, x, y, generator)
        before = [p.detach().clone() for p in network.parameters()]
        step()
        unchanged = [*map(torch.equal, before, network.parameters())]  # bits: copies
        assert sum(unchanged) <= 0.2 * len(unchanged)


def test_the_table_has_published_values_beside_both_kinds_of_vectors():
    text = time_per_step.table([record(), record("resnet18")])
    row = next(line for line in text.splitlines() if line.startswith("| VSD T=2, fc"))
    assert row == "| VSD T=2, fc | 1.50 | 1.35 | 1.50 | 2.90 |"
    assert "| MCD | 1.50 |  | 1.50 |  |" in text
    assert "not measured here: nothing" in text


def test_trials_of_an_absent_device_name_it():
    if torch.cuda.is_available():
        pytest.skip("this machine has one")
    trial = next(u for u in time_per_step.trials("paper") if u.config["device"] == "cuda")
    with pytest.raises(ValueError, match="device 'cuda' is not available"):
        time_per_step.run(trial)

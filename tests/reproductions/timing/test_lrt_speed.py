import copy

import torch

from bdl_lessons.inference import sgd
from bdl_lessons.models import BayesByBackprop, initialise, mlp
from reproductions.timing import lrt_speed


def test_pieces_add_up_to_the_step_of_the_whole_minibatch():
    generator = torch.Generator().manual_seed(0)
    x, y = torch.rand(20, 784, generator=generator), torch.arange(20) % 10
    whole = initialise(mlp((784, 6, 10), BayesByBackprop(init_log_sigma2=-40.0)), generator)
    pieces = copy.deepcopy(whole)
    for net, rows_at_once in ((whole, 20), (pieces, 5)):
        config = {"rows_at_once": rows_at_once, "estimator": "per example", "n_train": 100}
        stepper = sgd(0.1)(net.parameters())
        lrt_speed._step(net, x, y, stepper, config, generator)
    for one, other in zip(whole.parameters(), pieces.parameters(), strict=True):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-5)


def test_all_estimators_train_the_same_network():
    for scale in ("quick", "paper"):
        shared = [
            {k: u.config[k] for k in ("width", "batch_size", "n_train")}
            for u in lrt_speed.trials(scale)
        ]
        assert all(config == shared[0] for config in shared)


def test_memory_is_counted_in_bytes():
    assert 2**26 < lrt_speed._peak_bytes(torch.device("cpu")) < 2**38


def test_ratios_are_to_the_local_estimator():
    records = []
    for trial, seconds in zip(lrt_speed.trials("paper"), (50.0, 2.0, 3.0), strict=True):
        metrics = {"seconds_per_epoch": seconds, "peak_mib": 7.0}
        records.append({"config": dict(trial.config), "metrics": metrics})
    text = lrt_speed.table(records)
    assert "| weight sample per data point | 50.0 | 25 | 1635 | 221 | 7 | 25 | 5 |" in text
    assert "| local reparameterization | 2.0 | 1 | 7.4 | 1 |" in text
    assert "| weight sample per minibatch | 3.0 | 1.5 | - | - |" in text

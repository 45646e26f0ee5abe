import numpy as np
import pytest
from matplotlib.figure import Figure

from bdl_lessons.panels import structure_and_nll as module
from reproductions.panel_arrays import structure_and_nll as experiment


def test_the_arrays_have_one_entry_for_each_run(stored):
    runs = len(module.METHODS), len(module.KL_WEIGHTS), experiment.N_SEEDS
    for task, n_scores in (("digits", 3), ("diabetes", 2)):
        assert stored[task].shape == (*runs, 2, n_scores)
        assert stored[f"{task}_validation"].shape == runs
        assert stored[f"{task}_alpha"].shape == (*runs, 2)
        assert np.isfinite(stored[task]).all()
        learned = np.isfinite(stored[f"{task}_alpha"]).all((1, 2, 3))
        assert learned.tolist() == [name not in module.FIXED for name in module.METHODS]


def test_the_readout_is_the_paired_difference(panel, stored):
    readout = panel.render(kl_weight=1.0).readout
    shown = module.shown(stored, "digits", 0, 1.0, module.READINGS[0])
    nll = {depth: shown[1 + i] for i, depth in enumerate(module.DEPTHS)}
    assert f"digits: NLL <b>{(nll[2] - nll[0]).mean():+.3f}</b>" in readout


def test_the_error_counts_the_examples_trained_on():
    for task in experiment.TASKS.values():
        split = task.split(0)
        n_train, n_test = len(split.train[1]), len(split.test[1])
        assert pytest.approx(n_test / (n_train + n_test), abs=2e-3) == module.TEST_FRACTION


def test_no_bar_is_cut_off():
    figure = Figure(figsize=(9.6, 3.6))
    update = module.build_figure(figure)
    for kl_weight in module.KL_WEIGHTS:
        for reading in module.READINGS:
            update(kl_weight, reading)
            for axis in figure.axes[:3]:
                low, high = axis.get_ylim()
                ends = np.concatenate(axis.collections[0].get_segments())[:, 1]
                assert low < ends.min() < ends.max() < high

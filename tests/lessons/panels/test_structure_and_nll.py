import numpy as np
import pytest

from bdl_lessons.lessons.panels import arrays
from bdl_lessons.lessons.panels import structure_and_nll as module


@pytest.fixture(scope="module")
def stored():
    return arrays.load("structure_and_nll")


@pytest.fixture(scope="module")
def panel():
    return module.panel()


def test_every_setting_gives_a_picture(panel):
    pictures = {
        panel.render(kl_weight=kl_weight, reading=reading).png
        for kl_weight in module.LAMBDAS
        for reading in module.READINGS
    }
    assert len(pictures) == len(module.LAMBDAS) * len(module.READINGS)


def test_the_arrays_have_one_entry_for_each_run(stored):
    runs = len(module.METHODS), len(module.LAMBDAS), module.N_SEEDS
    for task, scores in module.SCORES.items():
        assert stored[task].shape == (*runs, 2, len(scores))
        assert stored[f"{task}_validation"].shape == stored[f"{task}_alpha"].shape == runs
        assert np.isfinite(stored[task]).all()
        learned = np.isfinite(stored[f"{task}_alpha"]).all((1, 2))
        assert learned.tolist() == [name not in module.FIXED for name in module.METHODS]


def test_fixed_methods_keep_the_setting_that_validation_chose(stored):
    for task in module.TASKS:
        low, high = (module.shown(stored, task, w, module.READINGS[0]) for w in (0.003, 1.0))
        best = module.best_settings(stored, task)
        for row, name in enumerate(module.METHODS):
            assert (low[row] == high[row]).all() == (name in module.FIXED)
            if name in module.FIXED:
                assert (low[row] == stored[task][row, best[row], :, 0]).all()


def test_alpha_grows_with_the_weight_of_the_kl(stored):
    for task in module.TASKS:
        for row, name in enumerate(module.METHODS):
            if name not in module.FIXED:
                means = stored[f"{task}_alpha"][row].mean(1)
                assert means[-1] > 1.5 * means[0], (task, name)
                assert (stored[f"{task}_alpha"][row] <= 1 + 1e-6).all()

import numpy as np
import pytest
import torch
from torch import nn

from bdl_lessons.panels import arrays
from reproductions.panel_arrays import small
from tests.draws import seeded

NOISY = [case for case in small.CASES if case[0] not in ("none", "prior")]


@pytest.fixture(scope="module")
def stored():
    return arrays.load("dropout_by_width")


def test_the_arrays_have_one_entry_for_each_run(stored):
    cases = list(zip(stored["methods"].tolist(), stored["numbers"].tolist(), strict=True))
    assert cases == small.CASES
    shape = (len(small.NOISE_SETTINGS), len(cases), len(small.STEPS))
    assert stored["error"].shape == (*shape, 2, small.SEEDS)
    has_alpha = np.isfinite(stored["alpha"]).all((0, 2, 3, 4))
    assert has_alpha.tolist() == [method in small.LEARNED for method, _ in cases]


def test_the_two_other_corners_have_the_cases_of_type_a():
    others = arrays.load("width_and_labels")
    assert others["settings"].tolist() == list(small.OTHER_CORNERS)
    corners = {**small.NOISE_SETTINGS, **small.OTHER_CORNERS}
    assert len(set(corners.values())) == 4
    cases = list(zip(others["methods"].tolist(), others["numbers"].tolist(), strict=True))
    assert cases == small.CASES_OF_A
    computed = small.train_noise(*cases[0], "96 units", steps=(1, 2, 3))
    for key, values in computed.items():
        assert values.shape == others[key].shape[2:], key


@pytest.mark.parametrize(("name", "p_drop"), NOISY)
def test_every_noise_starts_with_the_matched_variance(name, p_drop):
    make_layer = small.METHODS[name](p_drop)
    layer = make_layer(nn.Linear(1, 1, bias=False)).double()
    x = torch.ones(40_000, 1, dtype=torch.float64)
    factors = layer(x, "per_example", seeded()) / layer.weight
    tolerance = 0.15 if name == "concrete" else 0.04  # a relaxed mask has less variance
    assert factors.var().item() == pytest.approx(p_drop / (1 - p_drop), rel=tolerance)


def test_label_noise_leaves_the_test_labels_alone():
    clean = small.noisy_splits(0.0)
    noisy = small.noisy_splits(0.3)
    changed = (clean.y != noisy.y).double().mean(1)
    assert ((changed > 0.2) & (changed < 0.34)).all()  # a tenth of the new labels are the old ones
    torch.testing.assert_close(clean.x, noisy.x)
    torch.testing.assert_close(clean.x_held_out, noisy.x_held_out)
    torch.testing.assert_close(clean.y_held_out, noisy.y_held_out)


@pytest.mark.slow
def test_learned_noise_memorises_wrong_labels_in_the_narrow_network_too():
    others = arrays.load("width_and_labels")
    case = ("variational A", 0.1)
    row = small.CASES_OF_A.index(case)
    results = small.train_noise(*case, "16 units, noisy labels", steps=(1000,))
    committed = others["error"][0, row, 0, 1]
    standard_error = committed.std(ddof=1) / small.SEEDS**0.5
    assert abs(results["error"][0, 1].mean() - committed.mean()) < 4 * standard_error


@pytest.mark.slow
@pytest.mark.parametrize("case", [("none", 0.0), ("prior", 1.0), ("variational A", 0.1)])
def test_the_committed_arrays_are_what_training_gives(stored, case):
    method, number = case
    row = small.CASES.index(case)
    results = small.train_noise(method, number, "16 units", steps=(1000,))
    test_errors = results["error"][0, 1]
    committed = stored["error"][0, row, 0, 1]
    standard_error = committed.std(ddof=1) / small.SEEDS**0.5
    assert abs(test_errors.mean() - committed.mean()) < 4 * standard_error

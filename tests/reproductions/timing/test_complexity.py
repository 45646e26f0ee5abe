import pytest
import torch

from reproductions.timing import complexity
from reproductions.timing.complexity import evaluate, slope

SIZES = {"K": 8, "L": 4, "B": 2, "s": 3, "r": 5, "m": 2}


@pytest.mark.parametrize(
    ("formula", "value"),
    [
        ("K L B", 64),
        ("s K L + L B", 3 * 32 + 8),
        ("r^3 + (r+2) K L B", 125 + 7 * 64),
        ("2 K L B", 128),
        ("K^2 + K B", 64 + 16),
    ],
)
def test_printed_formulas_are_evaluated(formula, value):
    assert evaluate(formula, SIZES) == value


def test_the_slope_of_a_power_is_its_exponent():
    sizes = [1, 2, 4, 8]
    assert slope(sizes, [3 * n**1.7 for n in sizes]) == pytest.approx(1.7)


def held(method, **sizes):
    return complexity._bytes_held(complexity._Pass(method, {**SIZES, **sizes}, seed=0))


def test_what_a_plain_layer_holds_is_its_output():
    assert held("MAP", s=1) == 4 * SIZES["L"] * SIZES["B"] + 4  # and its KL, one number


def test_a_draw_of_the_weights_is_held_for_each_sample():
    weights = 4 * SIZES["K"] * SIZES["L"]
    more = held("BBB", s=7) - held("BBB", s=3)
    assert more >= 4 * weights
    assert more % 4 == 0


def test_fully_connected_chains_hold_a_square_and_free_vectors_do_not():
    for method, power in (("VSD", 2), ("VSD, free vectors", 1)):
        small, large = held(method, K=400), held(method, K=1600)
        assert 0.85 * 4**power < large / small < 1.1 * 4**power


def test_every_method_runs_forward_and_backward_at_every_size():
    for trial in complexity.trials("quick"):
        measured = complexity.run(trial)
        assert set(trial.config["sweeps"]) == {name.split("/")[0] for name in measured.metrics}
        assert all(
            s > 0 for name in trial.config["sweeps"] for s in measured.arrays[f"{name}/seconds"]
        )


def test_a_pass_leaves_no_gradient_behind():
    one_pass = complexity._Pass("VD", SIZES, seed=0)
    complexity._seconds(one_pass)
    assert one_pass.x.grad is None
    assert all(p.grad is None for p in one_pass.layer.parameters())
    assert torch.isfinite(one_pass())

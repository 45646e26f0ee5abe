import numpy as np
import pytest
import torch

from bdl_lessons.core import CheckFailed, check, check_between


def test_prints_the_reference_and_never_the_measured_value(capsys):
    check("mean", 0.2503, expect=0.25, atol=1e-3)
    assert capsys.readouterr().out == "ok   mean: 0.25 ± 0.001\n"


def test_prints_the_shape_of_a_reference_array(capsys):
    check("table", torch.zeros(2, 3), expect=np.zeros((2, 3)), atol=0)
    assert capsys.readouterr().out == "ok   table: reference of shape 2×3 ± 0\n"


def test_failure_carries_the_worst_measured_value():
    with pytest.raises(CheckFailed, match=r"mean: measured 0\.5, expected 0\.25 ± 0\.001"):
        check("mean", [0.25, 0.5, 0.3], expect=0.25, atol=1e-3)


@pytest.mark.parametrize("value", [float("nan"), float("inf"), [0.25, float("nan")]])
def test_what_is_not_finite_fails(value):
    with pytest.raises(CheckFailed):
        check("mean", value, expect=0.25, atol=10)


def test_the_tolerance_is_inclusive_and_binding():
    check("edge", 1.5, expect=1.0, atol=0.5)
    with pytest.raises(CheckFailed):
        check("edge", 1.5000001, expect=1.0, atol=0.5)


def test_shapes_do_not_broadcast_silently():
    with pytest.raises(ValueError, match=r"value has shape \(2, 1\), expect has \(2,\)"):
        check("mean", np.zeros((2, 1)), expect=np.zeros(2), atol=1)


@pytest.mark.parametrize(
    ("expect", "atol", "message"),
    [
        (0.0, -1, "atol"),
        (0.0, np.nan, "atol"),
        (0.0, np.inf, "atol"),
        (np.nan, 1, "expect must be finite"),
    ],
)
def test_a_meaningless_reference_is_refused(expect, atol, message):
    with pytest.raises(ValueError, match=message):
        check("mean", 0.0, expect=expect, atol=atol)


def test_gradients_and_devices_do_not_matter():
    check("grad", torch.ones(2, requires_grad=True), expect=[1, 1], atol=0)


def test_between_prints_its_bounds(capsys):
    check_between("ratio", torch.tensor([1.2, 1.9]), low=1, high=2)
    check_between("ratio", 3.0, low=1)
    check_between("ratio", 3.0, high=4.5)
    assert capsys.readouterr().out.splitlines() == [
        "ok   ratio: >= 1 and <= 2",
        "ok   ratio: >= 1",
        "ok   ratio: <= 4.5",
    ]


@pytest.mark.parametrize("value", [0.99, 2.01, float("nan"), [1.5, 3.0]])
def test_between_fails_outside(value):
    with pytest.raises(CheckFailed, match="ratio: measured"):
        check_between("ratio", value, low=1, high=2)


@pytest.mark.parametrize("bounds", [{}, {"low": 2, "high": 1}, {"low": float("nan")}])
def test_between_needs_sensible_bounds(bounds):
    with pytest.raises(ValueError, match="ratio"):
        check_between("ratio", 1.0, **bounds)


@pytest.mark.parametrize("empty", [[], torch.empty(0), np.zeros((3, 0))])
def test_nothing_is_not_compared(empty):
    with pytest.raises(ValueError, match="'mean': value is empty"):
        check("mean", empty, expect=1.0, atol=1e-6)
    with pytest.raises(ValueError, match="'mean': expect is empty"):
        check("mean", 1.0, expect=empty, atol=1e-6)
    with pytest.raises(ValueError, match="'mean': value is empty"):
        check_between("mean", empty, low=0)


@pytest.mark.parametrize("value", [1 + 5j, [1 + 5j], np.array([1 + 5j]), torch.tensor([1 + 5j])])
def test_an_imaginary_part_is_not_dropped(value):
    with pytest.raises(TypeError, match="'mean': value is complex; check its real part"):
        check("mean", value, expect=1.0, atol=1e-6)
    with pytest.raises(TypeError, match="'mean': expect is complex"):
        check("mean", 1.0, expect=value, atol=1e-6)
    with pytest.raises(TypeError, match="'mean': value is complex"):
        check_between("mean", value, low=0)

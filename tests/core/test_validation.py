import math
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import pytest
import torch

from bdl_lessons.core import validation

ONES, EYE, INT = torch.ones(2, 2), torch.eye(3), torch.ones(2, dtype=torch.int)
ELSEWHERE = torch.ones(2, device="meta")


@pytest.mark.parametrize(
    ("function", "value", "others"),
    [
        ("floating", ONES, ()),
        ("finite", ONES, ()),
        ("variance", ONES, ()),
        ("floating_type", ONES * math.nan, ()),
        ("positive", 2, ()),
        ("positive", np.float32(0.5), ()),
        ("non_negative", 0.0, ()),
        ("integer", 1, (1,)),
        ("one_of", "a", (Literal["a", "b"],)),
    ],
)
def test_what_is_right_comes_back(function, value, others):
    assert getattr(validation, function)("x", value, *others) is value


def test_a_covariance_gives_its_factor_and_a_rate_itself():
    torch.testing.assert_close(validation.cholesky("x", 4 * EYE, 3), 2 * EYE)
    assert validation.valid_p_drop(np.float64(0.25)) == 0.25
    assert type(validation.integer("x", np.int64(3), 1)) is int


@pytest.mark.parametrize(
    ("function", "arguments", "error", "message"),
    [
        ("floating", (1.0,), TypeError, "x must be a floating-point tensor, got float"),
        ("floating", ([1.0],), TypeError, "x must be a floating-point tensor"),
        ("floating", (INT,), TypeError, "x must be a floating-point tensor, got torch.int32"),
        *(
            (function, (torch.tensor([1.0, bad]),), ValueError, "x .*finite")
            for function in ("floating", "finite", "variance")
            for bad in (math.nan, math.inf, -math.inf)
        ),
        ("variance", (torch.tensor([1.0, 0.0]),), ValueError, "x is a variance.* got 0.0"),
        ("variance", (torch.tensor([1.0, -1.0]),), ValueError, "x is a variance.* got -1.0"),
        ("cholesky", (torch.eye(2), 3), ValueError, r"x must be \(K, K\) with K = 3"),
        ("cholesky", (EYE * math.nan, 3), ValueError, "x .*finite"),
        ("cholesky", (EYE + torch.ones(3, 3).triu(1), 3), ValueError, "x .*symmetric"),
        ("cholesky", (torch.ones(3, 3), 3), ValueError, "x .*positive definite"),
        ("positive", (0,), ValueError, "x must be positive and finite"),
        ("positive", (math.inf,), ValueError, "x must be positive"),
        ("positive", (math.nan,), ValueError, "x must be positive"),
        ("positive", ("1",), TypeError, "x must be a number, got '1'"),
        ("positive", (True,), TypeError, "x must be a number, got True"),
        ("non_negative", (-1e-9,), ValueError, "x must be finite"),
        ("integer", (2.0, 1), TypeError, "x must be an int, got 2.0"),
        ("integer", (np.float64(3), 1), TypeError, "x must be an int"),
        ("integer", (True, 1), TypeError, "x must be an int, got True"),
        ("integer", (0, 1), ValueError, "x must be >= 1, got 0"),
        ("one_of", ("c", Literal["a", "b"]), ValueError, "got 'c'"),
        ("same_shape", (ONES, "w", ONES[:, :1]), ValueError, r"x has shape \(2, 2\), w has"),
        ("same_dtype", (ONES, "w", EYE.double()), TypeError, "x must have the dtype .* of w"),
        ("same_dtype", (ONES, "w", ELSEWHERE), TypeError, "float32 on meta, got .* on cpu"),
    ],
)
def test_what_is_wrong_is_refused_by_name(function, arguments, error, message):
    with pytest.raises(error, match=message):
        getattr(validation, function)("x", *arguments)


@pytest.mark.parametrize("rate", [-0.1, 1.0, math.nan, "0.5", None, True])
def test_what_is_no_rate_is_refused(rate):
    with pytest.raises((TypeError, ValueError), match="p_drop"):
        validation.valid_p_drop(rate)


def test_like_takes_dtype_and_shape_from_the_reference():
    reference = torch.zeros(2, 3, dtype=torch.float64)
    assert validation.like(reference, "x", 1).dtype == torch.float64
    for shape in [(), (3,), (2, 1), (2, 3)]:
        validation.like(reference, "x", torch.ones(shape))
    for shape in [(2,), (3, 2), (1, 2, 3), (4, 1)]:
        with pytest.raises(ValueError, match="x has shape"):
            validation.like(reference, "x", torch.ones(shape))


@validation.typechecked
def typed(
    n: int = 1,
    rate: float = 0.5,
    kind: Literal["a", "b"] = "a",
    names: Sequence | None = None,
    bounds: tuple[float, float] = (0, 1),
    counts: tuple[int, ...] = (),
    function: Callable[[int], float] = float,
    exact: bool = True,
    *others,
    **options,
):
    return n


@validation.typechecked
@dataclass
class Typed:
    rate: float


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"n": 1.5}, "n must be int, got 1.5"),
        ({"n": True}, "n must be int, got True"),
        ({"rate": "1"}, "rate must be float, got '1'"),
        ({"rate": 1j}, "rate must be float"),
        ({"kind": "c"}, "kind must be 'a' or 'b', got 'c'"),
        ({"kind": np.ones(2)}, "kind must be 'a' or 'b'"),
        ({"bounds": (0.5,)}, r"bounds must be a sequence \(float, float\), got \(0.5,\)"),
        ({"bounds": (0, None)}, "bounds must be"),
        ({"counts": (1, 2.5)}, r"counts must be a sequence \(int, \.\.\.\)"),
        ({"names": "ab"}, "names must be"),
        ({"names": 3}, "names must be a sequence or None, got 3"),
        ({"function": 3}, "function must be a function, got 3"),
        ({"exact": 1}, "exact must be bool, got 1"),
    ],
)
def test_an_argument_of_another_type_is_refused_by_name(arguments, message):
    with pytest.raises(TypeError, match=message):
        typed(**arguments)
    with pytest.raises(TypeError, match="rate must be float, got None"):
        Typed(None)


@pytest.mark.parametrize(
    "arguments",
    [
        {"n": np.int64(3), "rate": np.float32(0.5), "exact": np.bool_(True)},
        {"rate": 1, "names": torch.Size([2]), "kind": np.str_("b")},
        {
            "names": [1, 2],
            "bounds": [0, 1.5],
            "counts": [1],
            "function": lambda n: n / 2,
            "other": 1,
        },
    ],
)
def test_what_numpy_and_torch_call_a_number_or_a_sequence_is_taken(arguments):
    assert typed(**arguments) == arguments.get("n", 1)
    assert typed(1, 0.5, "a", (), (0, 1), (1, 2), float, True, "more", option=2) == 1
    assert Typed(np.float32(0.5)).rate == 0.5


def test_types_are_checked_when_python_optimises():
    program = """
from bdl_lessons.models import BinaryDropout, StructuredDropout, VariationalDropout

for factory, options in [
    (BinaryDropout, {"p_drop": "0.5"}),
    (VariationalDropout, {"alpha_per": "bogus"}),
    (StructuredDropout, {"prior": "bogus"}),
]:
    try:
        factory(**options)
    except TypeError as error:
        print(*options, str(error).startswith(*options))
"""
    run = subprocess.run([sys.executable, "-O", "-c", program], capture_output=True, text=True)
    assert run.stdout.split() == ["p_drop", "True", "alpha_per", "True", "prior", "True"]


@pytest.mark.parametrize(
    ("rule", "sizes", "named"),
    [
        ("x (N, K) and y (N,)", [(3, 2), (3,)], {}),
        ("x (N, K) and y (N,)", [(0, 2), (0,)], {"K": 2}),
        ("tau ()", [()], {}),
        ("x (..., K) and U (K, K)", [(5, 4, 3), (3, 3)], {}),
        ("x (..., K) and U (..., K, K)", [(5, 4, 3), (3, 3)], {}),
        ("x (..., K) and U (..., K, K)", [(3,), (5, 3, 3)], {}),
        ("x (M, N, ...) and y (M, N)", [(2, 3, 28, 28), (2, 3)], {"M": 2}),
    ],
)
def test_shapes_that_a_rule_allows(rule, sizes, named):
    validation.shapes(rule, *map(torch.ones, sizes), **named)


@pytest.mark.parametrize(
    ("rule", "sizes", "named"),
    [
        ("x (N, K) and y (N,)", [(3, 2), (2,)], {}),
        ("x (N, K) and y (N,)", [(3, 2), (3, 1)], {}),
        ("x (N, K) and y (N,)", [(3, 2), (3,)], {"K": 3}),
        ("tau ()", [(1,)], {}),
        ("x (..., K) and U (K, K)", [(), (3, 3)], {}),
        ("x (..., K) and U (..., K, K)", [(5, 3), (4, 3, 3)], {}),
        ("x (..., K) and U (..., K, K)", [(5, 3), (3,)], {}),
        ("x (M, N, ...) and y (M, N)", [(2,), (2, 3)], {}),
    ],
)
def test_other_shapes_are_refused_by_the_rule(rule, sizes, named):
    with pytest.raises(ValueError) as caught:  # noqa: PT011
        validation.shapes(rule, *map(torch.ones, sizes), **named)
    assert str(caught.value) == f"{rule}, got {sizes[0]}" + f" and {sizes[-1]}" * (len(sizes) - 1)

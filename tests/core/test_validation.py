import ast
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np
import pytest
import torch

import bdl_lessons
from bdl_lessons.core import validation

ONES, EYE, ELSEWHERE = torch.ones(2, 2), torch.eye(3), torch.ones(2, device="meta")


@pytest.mark.parametrize(
    ("function", "arguments", "error", "message"),
    [
        ("variance", (torch.tensor([1.0, 0.0]),), ValueError, "x is a variance.* got 0.0"),
        ("cholesky", (EYE + torch.ones(3, 3).triu(1), 3), ValueError, "x .*symmetric"),
        ("cholesky", (torch.ones(3, 3), 3), ValueError, "x .*positive definite"),
        ("integer", (True, 1), TypeError, "x must be an int, got True"),
        ("same_shape", (ONES, "w", ONES[:, :1]), ValueError, r"x has shape \(2, 2\), w has"),
        ("same_dtype", (ONES, "w", ELSEWHERE), TypeError, "float32 on meta, got .* on cpu"),
    ],
)
def test_what_is_wrong_is_refused_by_name(function, arguments, error, message):
    """Beside what the borders try."""
    with pytest.raises(error, match=message):
        getattr(validation, function)("x", *arguments)


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
        ({"kind": "c"}, "kind must be 'a' or 'b', got 'c'"),
        ({"bounds": (0.5,)}, r"bounds must be a sequence \(float, float\), got \(0.5,\)"),
        ({"counts": (1, 2.5)}, r"counts must be a sequence \(int, \.\.\.\)"),
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


def test_what_numpy_and_torch_call_a_number_or_a_sequence_is_taken():
    assert typed(n=np.int64(3), rate=np.float32(0.5), exact=np.bool_(True), kind=np.str_("b")) == 3
    assert typed(rate=1, names=torch.Size([2]), bounds=[0, 1.5], counts=[1], other=1) == 1
    assert typed(1, 0.5, "a", (), (0, 1), (1, 2), float, True, "more", option=2) == 1
    assert Typed(np.float32(0.5)).rate == 0.5


def test_no_check_is_an_assertion_which_python_would_leave_out_when_it_optimises():
    for path in Path(bdl_lessons.__file__).parent.rglob("*.py"):
        nodes = ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        assert not any(isinstance(node, ast.Assert) for node in nodes), path


PAIR, ROWS = "x (..., K) and U (..., K, K)", "x (M, N, ...) and y (M, N)"
ALLOWED = {"tau ()": [()], PAIR: [(3,), (5, 3, 3)], ROWS: [(2, 3, 28, 28), (2, 3)]}
REFUSED = {"tau ()": [(1,)], PAIR: [(5, 3), (4, 3, 3)], ROWS: [(2,), (2, 3)], "x (N, K)": [(3,)]}


def test_shapes_follow_a_rule():
    for rule, sizes in ALLOWED.items():
        validation.shapes(rule, *map(torch.ones, sizes))
    for rule, sizes in REFUSED.items():
        with pytest.raises(ValueError, match=re.escape(f"{rule}, got {sizes[0]}")):
            validation.shapes(rule, *map(torch.ones, sizes))
    with pytest.raises(ValueError, match=r"x \(N, K\), got"):
        validation.shapes("x (N, K)", torch.ones(3, 2), K=3)

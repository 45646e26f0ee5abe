import ast
import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch

import bdl_lessons
from bdl_lessons.core import validation
from tests.tables import refused

ONES = torch.ones(2, 2)
EYE = torch.eye(3)
ELSEWHERE = torch.ones(2, device="meta")


@pytest.mark.parametrize(
    ("function", "arguments", "error", "message"),
    [
        ("variance", (torch.tensor([1.0, 0.0]),), ValueError, "x is a variance.* got 0.0"),
        ("cholesky", (EYE + torch.ones(3, 3).triu(1), 3), ValueError, "x .*symmetric"),
        ("cholesky", (torch.ones(3, 3), 3), ValueError, "x .*positive definite"),
        ("integer", (True, 1), TypeError, "x must be an int, got True"),
        ("like", ("1",), TypeError, "x must be a number or a real tensor, got '1'"),
        ("like", (EYE.to(torch.complex64),), TypeError, "x must be a number or a real tensor"),
        ("instance", (3, str), TypeError, "x must be a str, got 3"),
        ("flag", (1,), TypeError, "x must be True or False, got 1"),
        ("same_shape", (ONES, "w", ONES[:, :1]), ValueError, r"x has shape \(2, 2\), w has"),
        ("same_dtype", (ONES, "w", ELSEWHERE), TypeError, "float32 on meta, got .* on cpu"),
    ],
)
def test_what_is_wrong_is_refused_by_name(function, arguments, error, message):
    """Beside what the borders try."""
    before = (EYE,) if function == "like" else ()
    with pytest.raises(error, match=message):
        getattr(validation, function)(*before, "x", *arguments)


def test_like_takes_dtype_and_shape_from_the_reference():
    reference = torch.zeros(2, 3, dtype=torch.float64)
    assert validation.like(reference, "x", 1).dtype == torch.float64
    for shape in [(), (3,), (2, 1), (2, 3)]:
        validation.like(reference, "x", torch.ones(shape))
    for shape in [(2,), (3, 2), (1, 2, 3), (4, 1)]:
        with pytest.raises(ValueError, match="x has shape"):
            validation.like(reference, "x", torch.ones(shape))


@validation.typechecked
def typed(n: int = 1, bounds: tuple[float, float] = (0, 1), exact: bool = True, *, x: float = 1):
    return n


test_an_argument_of_another_type_is_refused_by_name = refused(
    (lambda: typed(n=True), "n must be int, got True"),
    (lambda: typed(1, (0.5,)), r"bounds must be a sequence \(float, float\), got \(0.5,\)"),
    (lambda: typed(exact=1), "exact must be bool, got 1"),
    (lambda: typed(x="1"), "x must be float, got '1'"),
)


@validation.typechecked
def doubled(x: torch.Tensor) -> torch.Tensor:
    return 2 * x


COLUMN = torch.ones(3, 1)

test_a_table_in_place_of_a_tensor_and_a_lost_axis_are_named_with_the_call_that_helps = refused(
    (lambda: doubled(np.ones(2)), r"x must be a tensor .* NumPy array: torch\.from_numpy\(x\)"),
    (lambda: doubled(pd.Series([1])), r"x .* a Series: torch\.tensor\(x\.to_numpy\(\)\)"),
    (
        lambda: validation.instance("labels y", np.ones(2), torch.Tensor),
        r"labels y must be a Tensor, .* torch\.from_numpy\(y\)",
    ),
    (
        lambda: validation.same_shape("output", COLUMN, "y", COLUMN[:, 0]),
        r"y\[:, None\] has that of output",
    ),
    (
        lambda: validation.same_shape("mean", COLUMN[:, 0], "y", COLUMN),
        r"mean\[:, None\] has that of y",
    ),
    (lambda: validation.same_shape("mean", COLUMN, "y", COLUMN.mT), "must have one shape$"),
)


def test_no_check_is_an_assertion_which_python_would_leave_out_when_it_optimises():
    for path in Path(bdl_lessons.__file__).parent.rglob("*.py"):
        nodes = ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        assert not any(isinstance(node, ast.Assert) for node in nodes), path


@pytest.mark.parametrize(
    ("rule", "shapes"),
    [
        ("tau ()", [()]),
        ("x (..., K) and U (..., K, K)", [(3,), (5, 3, 3)]),
        ("x (M, N, ...) and y (M, N)", [(2, 3, 28, 28), (2, 3)]),
    ],
)
def test_shapes_that_follow_the_rule_pass(rule, shapes):
    validation.shapes(rule, *[torch.ones(shape) for shape in shapes])


@pytest.mark.parametrize(
    ("rule", "shapes"),
    [
        ("tau ()", [(1,)]),
        ("x (..., K) and U (..., K, K)", [(5, 3), (4, 3, 3)]),
        ("x (M, N, ...) and y (M, N)", [(2,), (2, 3)]),
        ("x (N, K)", [(3,)]),
    ],
)
def test_shapes_that_break_the_rule_are_named(rule, shapes):
    with pytest.raises(ValueError, match=re.escape(f"{rule}, got {shapes[0]}")):
        validation.shapes(rule, *[torch.ones(shape) for shape in shapes])


def test_a_size_that_is_given_is_part_of_the_rule():
    with pytest.raises(ValueError, match=r"x \(N, K\), got"):
        validation.shapes("x (N, K)", torch.ones(3, 2), K=3)

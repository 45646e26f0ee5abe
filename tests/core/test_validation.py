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


def test_what_is_right_comes_back():
    x = torch.ones(2, 2)
    assert validation.floating("x", x) is x
    assert validation.finite("x", x) is x
    assert validation.variance("x", x) is x
    assert validation.has_shape("x", x, 2, 2) is x
    assert validation.floating_type("x", x * math.nan).isnan().all()
    eye = torch.eye(3)
    torch.testing.assert_close(validation.cholesky("x", 4 * eye, 3), 2 * eye)


def test_like_takes_dtype_and_shape_from_the_reference():
    reference = torch.zeros(2, 3, dtype=torch.float64)
    assert validation.like(reference, "x", 1).dtype == torch.float64
    for shape in [(), (3,), (2, 1), (2, 3)]:
        validation.like(reference, "x", torch.ones(shape))
    for shape in [(2,), (3, 2), (1, 2, 3), (4, 1)]:
        with pytest.raises(ValueError, match="x has shape"):
            validation.like(reference, "x", torch.ones(shape))


@pytest.mark.parametrize("value", [1.0, [1.0], torch.ones(2, dtype=torch.int)])
def test_floating_refuses_other_types_by_name(value):
    with pytest.raises(TypeError, match="weight must be a floating-point tensor"):
        validation.floating("weight", value)


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_not_finite_is_refused_by_name(bad):
    value = torch.tensor([1.0, bad])
    for function in (validation.floating, validation.finite, validation.variance):
        with pytest.raises(ValueError, match="weight"):
            function("weight", value)


@pytest.mark.parametrize("bad", [0.0, -1.0])
def test_a_variance_is_positive(bad):
    with pytest.raises(ValueError, match=f"got {bad}"):
        validation.variance("weight_var", torch.tensor([1.0, bad]))


def test_a_covariance_is_square_symmetric_and_positive_definite():
    cases = [
        (torch.eye(2), "shape"),
        (torch.eye(3) * math.nan, "finite"),
        (torch.eye(3) + torch.ones(3, 3).triu(1), "symmetric"),
        (torch.ones(3, 3), "positive definite"),
    ]
    for cov, message in cases:
        with pytest.raises(ValueError, match=f"S .*{message}"):
            validation.cholesky("S", cov, 3)


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: validation.positive("tau", 0), ValueError, "tau must be positive and finite"),
        (lambda: validation.positive("tau", math.inf), ValueError, "tau must be positive"),
        (lambda: validation.positive("tau", math.nan), ValueError, "tau must be positive"),
        (lambda: validation.positive("tau", "1"), TypeError, "tau must be a number, got '1'"),
        (lambda: validation.non_negative("scale", -1e-9), ValueError, "scale must be finite"),
        (lambda: validation.integer("n", 2.0, 1), TypeError, "n must be an int, got 2.0"),
        (lambda: validation.integer("n", True, 1), TypeError, "n must be an int, got True"),
        (lambda: validation.integer("n", 0, 1), ValueError, "n must be >= 1, got 0"),
        (lambda: validation.one_of("kind", "c", Literal["a", "b"]), ValueError, "got 'c'"),
        (
            lambda: validation.has_shape("v", torch.ones(3, 1), 3),
            ValueError,
            r"v must have shape \(3,\), got \(3, 1\)",
        ),
        (
            lambda: validation.same_shape("v", torch.ones(2), "w", torch.ones(2, 1)),
            ValueError,
            r"v has shape \(2,\), w has \(2, 1\)",
        ),
    ],
)
def test_a_number_a_choice_and_a_shape_are_refused_by_name(call, error, message):
    with pytest.raises(error, match=message):
        call()


def test_what_is_allowed_is_handed_back():
    assert validation.positive("tau", 2) == 2
    assert validation.non_negative("scale", 0.0) == 0
    assert validation.integer("n", 1, 1) == 1
    assert validation.one_of("kind", "a", Literal["a", "b"]) == "a"


def test_numbers_of_numpy_are_numbers():
    assert validation.integer("n", np.int64(3), 1) == 3
    assert validation.positive("tau", np.float32(0.5)) == 0.5
    assert validation.valid_p_drop(np.float64(0.25)) == 0.25
    with pytest.raises(TypeError, match="n must be an int"):
        validation.integer("n", np.float64(3), 1)


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
import torch
from bdl_lessons import inference, models, probability

networks = models.mlp([1, 2, 1], models.Deterministic())
draw = torch.Generator().manual_seed(0)
wrong = [
    ("noise", lambda: models.GaussianDropout(noise="a")),
    ("alpha_per", lambda: models.VariationalDropout(alpha_per="bogus")),
    ("kl_per", lambda: models.StructuredDropout(kl_per="bogus")),
    ("prior", lambda: models.StructuredDropout(prior="bogus")),
    ("p_drop", lambda: models.BinaryDropout("0.5")),
    ("n_samples", lambda: inference.predict(
        networks, torch.ones(2, 1), "3", sampling="shared", generator=draw)),
    ("sampling", lambda: inference.predict(
        networks, torch.ones(2, 1), 3, sampling="bogus", generator=draw)),
]
for name, call in wrong:
    try:
        call()
    except (TypeError, ValueError) as error:
        print(name in str(error))
    else:
        print(name, "was taken")
"""
    run = subprocess.run([sys.executable, "-O", "-c", program], capture_output=True, text=True)
    assert run.stdout.split() == ["True"] * 7, run.stdout + run.stderr

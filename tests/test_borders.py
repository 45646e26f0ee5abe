"""Bad arguments at every public border: refused by name, or the result is finite all the same.

Each border of the table in ``borders.py`` is called with one argument that something else has taken
the place of: another type, NaN, an infinity, a negative number, a tensor of another shape or kind.
The call must raise ``TypeError`` or ``ValueError`` with the name of an argument, or the exception
the border documents; or return, and then without NaN.
"""

import importlib
import inspect
import re
from dataclasses import fields, is_dataclass

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

from bdl_lessons import models
from tests.borders import BORDERS, PLAIN, Border, name_of
from tests.tables import refused

BY_NAME = {name_of(border): border for border in BORDERS}
ALIKE = {
    bool: [np.bool_],
    int: [np.int64, np.uint8],
    float: [np.float64, np.float32],
    tuple: [list],
    list: [tuple],
}
SCALARS = st.one_of(
    st.integers(-100, 100).map(lambda tenths: tenths / 10),
    st.sampled_from([float("nan"), float("inf"), -float("inf")]),
    st.integers(-3, 3),
    st.booleans(),
)
FOREIGN = st.sampled_from([None, "3", "", 1j, [], [1.0], (), object(), torch.ones(3), np.ones(2)])


@pytest.mark.parametrize("name", BY_NAME)
def test_the_valid_call_gives_finite_numbers(name):
    border = BY_NAME[name]
    assert border.may_be_nan or is_finite(border.use(border.function(**border.valid())))


@pytest.mark.parametrize("name", BY_NAME)
def test_a_number_of_numpy_or_another_sequence_will_do(name):
    border = BY_NAME[name]
    for argument, value in border.valid().items():
        for kind in ALIKE.get(type(value), ()):
            border.use(border.function(**{**border.valid(), argument: kind(value)}))


@pytest.mark.parametrize("name", BY_NAME)
@settings(max_examples=60)
@given(data=st.data())
def test_a_bad_argument_is_refused_by_name_or_harmless(name, data):
    border = BY_NAME[name]
    arguments = border.valid()
    wrong = data.draw(st.sampled_from([n for n in arguments if n not in border.fixed]), "argument")
    arguments[wrong] = data.draw(st.one_of(FOREIGN, others(arguments[wrong])), "its value")
    fault = fault_of(border, arguments)
    assert fault is None, f"{name} with another {wrong}: {fault}"


@pytest.mark.parametrize("name", BY_NAME)
def test_what_is_no_tensor_of_real_numbers_and_what_fails_late_is_refused_by_name(name):
    """Complex numbers among them: of these one part would be dropped."""
    border = BY_NAME[name]
    for argument, value in border.valid().items():
        wrong = [*border.refused.get(argument, ())]
        if isinstance(value, Tensor):
            wrong += [value.tolist(), value.to(torch.complex64), value.flatten()[0]]
        for bad in wrong:
            with pytest.raises((TypeError, ValueError), match=rf"\b{argument}\b"):
                border.use(border.function(**{**border.valid(), argument: bad}))


@pytest.mark.parametrize("subpackage", PLAIN)
def test_every_public_callable_is_in_the_table_or_plain(subpackage):
    above = subpackage == "reproductions"
    face = importlib.import_module(subpackage if above else f"bdl_lessons.{subpackage}")
    public = {
        name
        for name, value in vars(face).items()
        if callable(value)
        and not name.startswith("_")
        and (inspect.isclass(value) or inspect.isfunction(value))  # no alias of a type
        and value.__module__.startswith(("bdl_lessons", "reproductions"))
    }
    known = {name.split(".")[1] for name in BY_NAME if name.startswith(f"{subpackage}.")}
    assert public - known == PLAIN[subpackage]


test_a_slip_with_a_method_is_refused_by_name = refused(
    (lambda: models.BinaryDropout(0.5), "p_drop"),
    (lambda: models.BinaryDropout(0.5, p_drop=0.5), "inner must be an nn.Linear or an nn.Conv2d"),
    (lambda: models.BinaryDropout(nn.Linear(4, 3)), "p_drop"),
    (lambda: models.mlp((4, 3), models.BinaryDropout), "p_drop"),
    (lambda: models.mlp((4, 3), models.Deterministic(nn.Linear(4, 3))), "method must make layers"),
    (lambda: models.lognormal_scale_kl(torch.zeros(2), std=0.0), "std must be positive"),
    (lambda: models.gamma_scale_kl(torch.zeros(2), shape=-1.0), "shape must be positive"),
)


def others(value):
    """What may stand in the place of ``value``: of its kind, but out of range or shape."""
    if isinstance(value, Tensor | np.ndarray):
        wrong_tensors = tensors(torch.as_tensor(value))
        if isinstance(value, np.ndarray):
            return wrong_tensors.map(lambda tensor: tensor.numpy())
        return wrong_tensors
    if isinstance(value, str):
        return st.sampled_from(["nonsense", "a", value.upper() + "x"])
    if isinstance(value, tuple | list):
        return st.sampled_from([value[:1], value[:0], value * 2, (float("nan"),) * len(value)])
    return SCALARS


def tensors(value: Tensor):
    shapes = [value[:0], value[..., None], value[None], value[1:], value[0], value.reshape(-1)]
    shapes += [value.mT, value[..., :1]] if value.dim() > 1 else []
    if value.dtype == torch.bool:
        return st.sampled_from([*shapes, value.float(), value.int()])
    if not value.is_floating_point():
        return st.sampled_from([*shapes, value.float(), value - 5, value + 50])
    spoiled = [value.clone() for _ in range(3)]
    for tensor, number in zip(spoiled, (float("nan"), float("inf"), -float("inf")), strict=True):
        tensor.view(-1)[-1] = number
    kinds = [value.int(), value.bool(), value.to(torch.complex64), -value]
    return st.sampled_from([*shapes, *spoiled, *kinds])


def fault_of(border: Border, arguments: dict) -> str | None:
    """What is wrong with the answer to ``arguments``, or None."""
    try:
        result = border.use(border.function(**arguments))
    except border.raises:
        return None
    except (TypeError, ValueError) as error:
        named = "|".join(f"(init_)?{name.removeprefix('init_')}" for name in arguments)
        return None if re.search(rf"\b({named})\b", str(error)) else f"unnamed: {error!r}"
    except Exception as error:
        return f"from deep inside: {error!r}"
    return None if border.may_be_nan or is_finite(result) else f"not finite: {result!r}"


def is_finite(result) -> bool:
    if isinstance(result, Tensor):
        return bool(result.isfinite().all())
    if isinstance(result, float | np.ndarray):
        return bool(np.isfinite(result).all())
    if isinstance(result, dict):
        return all(map(is_finite, result.values()))
    if is_dataclass(result):
        return all(is_finite(getattr(result, field.name)) for field in fields(result))
    return all(map(is_finite, result)) if isinstance(result, list | tuple) else True

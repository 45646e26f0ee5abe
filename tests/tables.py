"""Tables of cases, and a comparison, that many tests have."""

from collections.abc import Callable

import pytest
import torch


def refused(
    *rows: tuple[Callable, str], errors: tuple[type[Exception], ...] = (TypeError, ValueError)
) -> Callable:
    """A test of bad arguments: each call raises one of the errors, whose text has the pattern."""

    @pytest.mark.parametrize(("call", "message"), rows)
    def test(call, message):
        with pytest.raises(errors, match=message):
            call()

    return test


def close(actual: torch.Tensor, expected: object, atol: float = 1e-9) -> None:
    """Assert that float64 numbers are what is expected, up to ``atol``."""
    expected = torch.as_tensor(expected, dtype=torch.float64)
    torch.testing.assert_close(actual, expected, rtol=0, atol=atol)

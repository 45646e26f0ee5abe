"""Tables of cases that many tests have."""

from collections.abc import Callable

import pytest


def refused(
    *rows: tuple[Callable, str], errors: tuple[type[Exception], ...] = (TypeError, ValueError)
) -> Callable:
    """A test of bad arguments: each call raises one of the errors, whose text has the pattern."""

    @pytest.mark.parametrize(("call", "message"), rows)
    def test(call, message):
        with pytest.raises(errors, match=message):
            call()

    return test

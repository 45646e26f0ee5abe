"""The trials of an experiment on a Dask cluster that already runs."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import Executor
from contextlib import contextmanager


@contextmanager
def on_cluster(address: str, timeout: float = 30.0) -> Iterator[Executor]:
    """An executor whose workers are those of the scheduler at ``address``.

    The package and, where an experiment needs it, ``BDL_DATA_DIR`` must be there for every worker;
    workers of one thread each do not disturb one another. A trial whose worker dies is given to
    another one. Leaving the context, also by Ctrl-C, takes back what has not been finished.

    Args:
        address: such as ``tcp://10.0.0.1:8786``.
        timeout: seconds to wait for the scheduler.

    Raises:
        ValueError: if Dask is not installed or no scheduler answers; the message says what to do.
    """
    try:
        from distributed import Client
    except ImportError as error:
        raise ValueError(
            "scheduler needs Dask, here and on the workers: pip install -e '.[cluster]'"
        ) from error
    try:
        client = Client(address, timeout=timeout, set_as_default=False)
    except (OSError, ValueError) as error:
        raise ValueError(f"no Dask scheduler answers at {address!r}: {error}") from error
    with client:
        yield client.get_executor(pure=False)

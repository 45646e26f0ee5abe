"""Download a file within limits: time to answer, size, and lowest average speed.

pooch writes to a temporary name and renames it when the hash is right. Its own downloader would
wait for a server that sends one byte now and then, and would fill the disk from one that never
stops.
"""

from __future__ import annotations

import functools
import time
from pathlib import Path

from bdl_lessons.datasets.registry import RemoteFile

ROUNDS = 3
"""How often the addresses of a file are tried; between rounds we wait 1 s, then 2 s."""
CONNECT_S, READ_S = 10, 20
"""The longest wait for a connection, and for the next bytes, in seconds."""
GRACE_S, LEAST_BYTES_PER_S = 30, 20_000
"""After the grace period the average speed must not be lower. With the limit of size this bounds
the total time."""


class OverLimit(Exception):
    """A server sends too much, or too slowly."""


def download(file: RemoteFile, folder: Path, max_bytes: int) -> tuple[Path | None, list[str]]:
    """Try the addresses in turn until one of them gives the file with the right hash.

    An address is tried again in the next round only after a broken connection or a status of 500
    or above: a server that is silent, answers 404 or sends something else will do so again.

    Returns:
        The path of the file, or ``None`` and one line for each address: what went wrong there.
    """
    import pooch
    import requests
    import urllib3

    troubles: dict[str, str] = {}
    urls = list(file.urls)
    save = functools.partial(_save, max_bytes=max_bytes)
    for attempt in range(ROUNDS):
        time.sleep(attempt)
        for url in tuple(urls):
            again = False
            try:
                return Path(pooch.retrieve(url, file.hash, file.name, folder, downloader=save)), []
            except requests.HTTPError as error:
                status = error.response.status_code
                troubles[url], again = f"the server says {status}", status >= 500
            except (requests.Timeout, urllib3.exceptions.TimeoutError):
                troubles[url] = "the server does not answer"
            except (requests.RequestException, urllib3.exceptions.HTTPError) as error:
                troubles[url] = f"the connection failed ({type(error).__name__})"
                again = True
            except OverLimit as error:
                troubles[url] = str(error)
            except ValueError:  # of pooch
                troubles[url] = f"sent a file with a wrong hash (expected {file.hash})"
            if not again:
                urls.remove(url)
    return None, [f"{url}: {trouble}" for url, trouble in troubles.items()]


def _save(url: str, output_file: str, pooch: object, *, max_bytes: int) -> None:
    """A downloader for pooch. ``read1`` returns what has arrived; ``read`` would wait for more."""
    import requests
    from tqdm import tqdm

    began, received = time.monotonic(), 0
    with (
        requests.get(url, stream=True, timeout=(CONNECT_S, READ_S)) as response,
        open(output_file, "wb") as output,
        tqdm(unit="B", unit_scale=True, disable=None) as bar,  # None: shown on a terminal only
    ):
        response.raise_for_status()
        bar.total = int(response.headers.get("content-length", 0)) or None
        while piece := response.raw.read1(2**16, decode_content=True):
            bar.update(output.write(piece))
            received += len(piece)
            if received > max_bytes:
                raise OverLimit(f"sends more than {max_bytes / 1e6:.0f} MB, the limit for this set")
            if received < LEAST_BYTES_PER_S * (time.monotonic() - began - GRACE_S):
                raise OverLimit(f"sends less than {LEAST_BYTES_PER_S / 1e3:.0f} kB/s")

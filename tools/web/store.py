"""Recordings of all panels, kept in a folder under the hash of the sources they come from."""

from __future__ import annotations

import base64
import hashlib
import importlib
import json
import pkgutil
from contextlib import suppress
from dataclasses import asdict, dataclass
from functools import cache
from importlib.metadata import version
from pathlib import Path

from bdl_lessons import panels
from bdl_lessons.core.devices import cpu_threads
from bdl_lessons.core.files import DATA, ROOT
from bdl_lessons.panels.engine import Panel
from reproductions.files import read_checked, write_checked
from tools.web.recording import record

FOLDER = ROOT / "build" / "panels"
_DRAWN_BY = ("matplotlib", "numpy", "scipy", "torch", "gpytorch")


@dataclass(frozen=True)
class WebPanel:
    """What a page needs of a panel: its script, and the picture for readers without scripts."""

    name: str
    script: str
    png: bytes
    alt: str
    size: tuple[float, float]


def names() -> list[str]:
    """Names of the panels, with dashes, in the order of their modules."""
    modules = (module.name for module in pkgutil.iter_modules(panels.__path__))
    return [name.replace("_", "-") for name in modules if name not in ("arrays", "engine")]


@cache
def load(name: str, folder: Path = FOLDER) -> WebPanel:
    """The recorded panel; recorded again if its sources have changed, or what was kept is damaged.

    Raises:
        ValueError: if there is no such panel, or its grid or file is too large.
    """
    if name not in names():
        raise ValueError(f"no panel {name!r}; there are {', '.join(names())}")
    module = name.replace("-", "_")
    path = folder / f"{name}.{_source_hash(module)}.recording"
    with suppress(OSError, ValueError, TypeError, KeyError):
        return _unpacked(read_checked(path))
    with cpu_threads(1):  # the arrays are small: a second thread only waits for the first
        panel: Panel = importlib.import_module(f"{panels.__name__}.{module}").panel()
        png = panel.render().png  # a recording takes the figure over
        script = record(panel).script()
    recorded = WebPanel(name=name, script=script, png=png, alt=panel.alt, size=panel.size)
    folder.mkdir(parents=True, exist_ok=True)
    for outdated in folder.glob(f"{name}.*.recording"):
        outdated.unlink()
    write_checked(path, _packed(recorded))
    return recorded


def _packed(panel: WebPanel) -> bytes:
    """A recording as JSON: unlike a pickle, it runs nothing when it is read."""
    fields = asdict(panel)
    fields["png"] = base64.b64encode(panel.png).decode()
    return json.dumps(fields).encode()


def _unpacked(content: memoryview) -> WebPanel:
    fields = json.loads(bytes(content))
    fields["size"] = tuple(fields["size"])
    fields["png"] = base64.b64decode(fields["png"])
    return WebPanel(**fields)


def _source_hash(module: str) -> str:
    """A hash of what decides what a panel shows: its module, the package below it, and data."""
    package = ROOT / "bdl_lessons"
    sources = {package / "panels" / f"{name}.py" for name in ("engine", "arrays", module)}
    for path in package.rglob("*.py"):
        if path.parent.name not in ("panels", "exercises"):
            sources.add(path)
    sources.update(Path(__file__).parent.glob("*.py"))
    for part in ("panels", "published", "results"):
        sources.update((DATA / part).glob("*.*"))
    versions = "".join(version(library) for library in _DRAWN_BY)
    digest = hashlib.sha256(versions.encode())
    for path in sorted(sources):
        digest.update(path.name.encode() + path.read_bytes())
    return digest.hexdigest()[:16]

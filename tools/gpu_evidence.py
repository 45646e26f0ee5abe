"""What ``make test-gpu`` found on a real GPU, and whether the package is still the one it ran.

``tests/gpu`` writes the file; README.md and docs/reproductions.md show :func:`summary`.
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

from bdl_lessons.core.files import ROOT
from bdl_lessons.datasets.records import RESULTS_FOLDER

PATH = RESULTS_FOLDER / "gpu_evidence.json"
COMPUTING = ("core", "probability", "reference", "models", "inference", "evaluation")


def package_hash() -> str:
    """16 hex digits for the subpackages that compute: every byte of their files counts."""
    digest = hashlib.sha256()
    folders = [ROOT / "bdl_lessons" / name for name in COMPUTING]
    for folder in [*folders, ROOT / "reproductions"]:
        for path in sorted(folder.rglob("*.py")):
            digest.update(path.relative_to(ROOT).as_posix().encode() + path.read_bytes())
    return digest.hexdigest()[:16]


def summary(path: Path = PATH) -> str:
    """One sentence or two for a reader: what was run, where, when, and what came out."""
    if not path.exists():
        return (
            "No part of this course has been seen on a real GPU; one was last looked for in "
            "November 2026. A simulated one (`make test`, `make test-device`) shows mixed devices "
            "and needless waits, but neither numbers nor speed."
        )
    found = json.loads(path.read_text(encoding="utf-8"))
    items = found["items"]
    failed = [name for name, item in items.items() if not item["passed"]]
    state = f"all {len(items)} parts passed"
    if failed:
        state = f"{len(items) - len(failed)} of {len(items)} parts passed, not {', '.join(failed)}"
    stale = "" if found["package_hash"] == package_hash() else " The package has changed since."
    return (
        f"`make test-gpu` was last run on {found['date']} on one {found['gpu']} with PyTorch "
        f"{found['torch']} (driver {found['driver']}, CUDA {found['cuda']}): {state}.{stale}"
    )

"""Where the repository keeps its files."""

from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
IS_INSTALLED = not (ROOT / "pyproject.toml").exists()
"""Whether this is a wheel somewhere, which holds the small data files and no notebooks."""
DATA = ROOT / "bdl_lessons" / "data" if IS_INSTALLED else ROOT / "data"
NOTEBOOKS = ROOT / "notebooks"

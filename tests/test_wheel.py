"""A wheel that is installed somewhere else has the data that panels and tables need."""

import os
import shutil
import subprocess
import sys
from pathlib import Path
from zipfile import ZipFile

import pytest

ROOT = Path(__file__).resolve().parents[1]
SCRIPT = """
from pathlib import Path
import bdl_lessons
from bdl_lessons.datasets import co2
from bdl_lessons.panels import arrays

assert Path(bdl_lessons.__file__).parents[1] == Path("wheel").resolve(), bdl_lessons.__file__
assert len(co2().ppm) > 500
for name in {names}:
    assert arrays.load(name)
print("all there")
"""


@pytest.fixture(scope="module")
def wheel(tmp_path_factory) -> Path:
    """A folder with the unpacked wheel in ``wheel/``."""
    folder = tmp_path_factory.mktemp("elsewhere")
    source = folder / "source"
    for name in ("bdl_lessons", "data"):
        shutil.copytree(ROOT / name, source / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("pyproject.toml", "setup.py", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, source)
    build = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation"]
    subprocess.run([*build, "--wheel-dir", str(folder), str(source)], check=True)
    with ZipFile(*folder.glob("*.whl")) as archive:
        archive.extractall(folder / "wheel")
    return folder


def test_a_wheel_has_the_data_of_panels_and_tables(wheel):
    names = sorted(path.stem for path in (ROOT / "data" / "panels").glob("*.npz"))
    environment = os.environ | {"PYTHONPATH": str(wheel / "wheel")}
    run = subprocess.run(
        [sys.executable, "-c", SCRIPT.replace("{names}", repr(names))],
        cwd=wheel,
        env=environment,
        capture_output=True,
        text=True,
    )
    assert run.stdout == "all there\n", run.stderr

"""Install the packages of a lock, and the course beside them, into an environment of its own.

``make`` calls this file before anything is installed, with the Python that it was given: it needs
the standard library alone, and an old Python must be able to read it to be told that it is old.

A lock may begin with ``-r other.lock`` and then holds that one too. What was installed where
stands in the environment, in ``installed.json``, which is written last and whole: an install that
was interrupted is repeated, and the packages that it brought are there already. An environment that
came with a copied folder belongs to the old place and is made again; one that somebody made by hand
is kept, with what is in it.
"""

from __future__ import annotations

import hashlib
import json
import shutil
import subprocess
import sys
import threading
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PROJECT = ("pyproject.toml", "setup.py")
OLDEST = (3, 11)
NEWEST = (3, 13)
EVERY_S = 10


def chain(lock: Path) -> list[Path]:
    """A lock behind those that it includes."""
    first_line = lock.read_text(encoding="utf-8").partition("\n")[0]
    if not first_line.startswith("-r "):
        return [lock]
    return [*chain(lock.parent / first_line[len("-r ") :].strip()), lock]


def digest(lock: Path, root: Path) -> str:
    """Names the pins of a lock together with what the course says about itself."""
    files = [*chain(lock), *(root / name for name in PROJECT)]
    return hashlib.sha256(b"".join(path.read_bytes() for path in files)).hexdigest()


def installed(venv: Path) -> dict:
    """What an environment says about itself: its place, and the digests of its locks by name."""
    try:
        return json.loads((venv / "installed.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {"place": None, "locks": {}}


def has_python(venv: Path) -> bool:
    """Whether the environment has an interpreter that starts and that the course supports."""
    code = f"import sys; sys.exit(not {OLDEST} <= sys.version_info[:2] <= {NEWEST})"
    return succeeds(venv, "-c", code)


def has_pip(venv: Path) -> bool:
    """Whether pip is there; an environment whose making was interrupted may lack it."""
    return succeeds(venv, "-m", "pip", "--version")


def succeeds(venv: Path, *arguments: str) -> bool:
    """Whether the interpreter of the environment, if there is one, ends without an error."""
    command = [str(venv / "bin" / "python"), *arguments]
    try:
        done = subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    except OSError:
        return False
    return done.returncode == 0


def is_current(venv: Path, lock: Path, root: Path) -> bool:
    """Whether the lock, or one that includes it, is what was installed here last."""
    state = installed(venv)
    same_pins = state["locks"].get(lock.name) == digest(lock, root)
    return state["place"] == str(root) and same_pins and has_python(venv)


def belongs_elsewhere(venv: Path, root: Path) -> bool:
    """Whether the environment was installed in another folder, or by an older edition."""
    return installed(venv)["place"] not in (None, str(root)) or (venv / "installed").exists()


def install(venv: Path, lock: Path, root: Path = ROOT) -> None:
    """Bring the environment to what the lock says, and tell how far it is.

    Raises:
        SystemExit: if this Python is too old or too new, or pip fails; the message says more.
    """
    if is_current(venv, lock, root):
        return
    if not OLDEST <= sys.version_info[:2] <= NEWEST:
        sys.exit(
            f"Python 3.11, 3.12 or 3.13 is needed, found: {sys.version.split()[0]}.\n"
            "Install one and name it: make PYTHON=python3.12 ..."
        )
    start = time.monotonic()
    locks = chain(lock)
    n_pins = sum("==" in line for path in locks for line in path.read_text().splitlines())
    print(f"Installing {n_pins} packages into {venv}. This takes some minutes, once.", flush=True)
    if venv.exists() and (belongs_elsewhere(venv, root) or not has_python(venv)):
        print("  The environment there belongs to another place or Python: made again.", flush=True)
        shutil.rmtree(venv)
    if not venv.exists():
        make_environment(venv)
    elif not has_pip(venv):
        add_pip(venv)
    (venv / "installed.json").unlink(missing_ok=True)
    pip(venv, "-r", str(lock))
    pip(venv, "--no-deps", "--no-build-isolation", "-e", str(root))
    state = {"place": str(root), "locks": {path.name: digest(path, root) for path in locks}}
    write_whole(venv / "installed.json", json.dumps(state, indent=1) + "\n")
    print(f"Installed in {time.monotonic() - start:.0f} s.", flush=True)


def make_environment(venv: Path) -> None:
    """An environment with pip alone, of the Python that runs this."""
    subprocess.run([sys.executable, "-m", "venv", str(venv)], check=True)


def add_pip(venv: Path) -> None:
    """Give an environment the pip that comes with its Python."""
    subprocess.run([str(venv / "bin" / "python"), "-m", "ensurepip"], check=True)


def write_whole(path: Path, text: str) -> None:
    """Write a file that is there with all its text, or not at all."""
    unfinished = path.with_suffix(".unfinished")
    unfinished.write_text(text, encoding="utf-8")
    unfinished.replace(path)


def pip(venv: Path, *arguments: str) -> None:
    """Run ``pip install`` and say every ten seconds what it does; all it said if it fails."""
    command = [str(venv / "bin" / "python"), "-m", "pip", "install", "--progress-bar", "off"]
    command += ["--disable-pip-version-check", "--no-input", *arguments]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    lines = []
    reader = threading.Thread(target=lambda: lines.extend(process.stdout), daemon=True)
    reader.start()
    while reader.is_alive():
        reader.join(EVERY_S)
        if reader.is_alive():
            print(f"  {doing(lines)}", flush=True)
    if process.wait() != 0:
        sys.exit("".join(lines[-30:]) + "The packages could not be installed; pip says why above.")


def doing(lines: list[str]) -> str:
    """What pip does now, from the lines that it has printed so far."""
    if any(line.startswith("Installing collected packages") for line in lines):
        return "unpacking them"
    starts = ("Collecting ", "Processing ")  # the second is a file that is there already
    names = [line.split()[1].rpartition("/")[2] for line in lines if line.startswith(starts)]
    if not names:
        return "looking at what is there"
    return f"fetching package {len(names)}, {names[-1]}"


if __name__ == "__main__":
    install(Path(sys.argv[1]), Path(sys.argv[2]).resolve())

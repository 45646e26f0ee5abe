"""Open the course in JupyterLab, on copies of the lessons that are the reader's to write into.

``make lab`` calls it; so does whoever has another environment: ``python -m tools.lab``. The copies
stand in ``my_lessons``, which git ignores, under the names of the lessons, so that links between
them lead from copy to copy. Beside them lies what each copy was made from.

Jupyter, IPython and matplotlib keep files in the home of the reader. Where it cannot be written, as
on some shared servers and in containers, they keep them in ``build/home``.
"""

import json
import os
import shutil
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
LESSONS = ROOT / "notebooks"
COPIES = ROOT / "my_lessons"
SETTINGS = ROOT / "tools" / "lab_settings"
INSTEAD_OF_HOME = ROOT / "build" / "home"

FLAGS = (
    f"--ServerApp.root_dir={ROOT}",
    f"--LabApp.app_settings_dir={SETTINGS}",
    "--LabApp.check_for_updates_class=jupyterlab.NeverCheckForUpdate",
    "--LabApp.news_url=",
)
"""Links out of the lessons work; nobody is asked about news; panels are there after reopening."""


def copy_lessons(lessons: Path = LESSONS, copies: Path = COPIES) -> list[str]:
    """Copy each lesson that has no copy yet, and renew the copies that were not written into.

    Whoever only ran a copy has not written into it: what counts is the text of its cells.

    Returns:
        The names of copies that are kept although the course has a newer version of the lesson.
    """
    originals = copies / ".originals"
    originals.mkdir(parents=True, exist_ok=True)
    outdated = []
    for lesson in sorted(lessons.glob("[0-9][0-9]_*.ipynb")):
        copy, original = copies / lesson.name, originals / lesson.name
        is_newer = not original.exists() or lesson.read_bytes() != original.read_bytes()
        if copy.exists() and is_written_into(copy, original):
            if is_newer and cell_texts(copy) != cell_texts(lesson):
                outdated.append(lesson.name)
        elif is_newer or not copy.exists():
            shutil.copyfile(lesson, original)
            shutil.copyfile(lesson, copy)
    return outdated


def is_written_into(copy: Path, original: Path) -> bool:
    """Whether the copy says something else than what it was made from; in doubt it does."""
    texts = cell_texts(copy)
    return texts is None or texts != cell_texts(original)


def cell_texts(notebook: Path) -> list | None:
    """Kind and text of every cell; None where there is no notebook, or none that can be read."""
    try:
        cells = json.loads(notebook.read_text(encoding="utf-8"))["cells"]
        return [(cell["cell_type"], "".join(cell["source"])) for cell in cells]
    except (OSError, ValueError, KeyError, TypeError):
        return None


def with_flags(arguments: list[str]) -> list[str]:
    """The arguments, and those of the course that they do not replace: each may be given once."""
    replaced = {argument.partition("=")[0] for argument in arguments}
    return [flag for flag in FLAGS if flag.partition("=")[0] not in replaced] + arguments


def folders_of_the_user() -> list[tuple[str, Path]]:
    """The folders that JupyterLab, its kernels and matplotlib write to, with what moves each.

    Returns:
        Pairs of the name of an environment variable and a folder, which need not exist.
    """
    from jupyter_core import paths

    home = Path(os.path.expanduser("~"))
    ipython = os.environ.get("IPYTHONDIR") or home / ".ipython"
    folders = [
        ("JUPYTER_CONFIG_DIR", Path(paths.jupyter_config_dir())),
        ("JUPYTER_DATA_DIR", Path(paths.jupyter_data_dir())),
        ("JUPYTER_RUNTIME_DIR", Path(paths.jupyter_runtime_dir())),
        ("IPYTHONDIR", Path(ipython)),
    ]
    if "MPLCONFIGDIR" in os.environ:
        folders.append(("MPLCONFIGDIR", Path(os.environ["MPLCONFIGDIR"])))
    elif sys.platform.startswith(("linux", "freebsd")):
        config = Path(os.environ.get("XDG_CONFIG_HOME") or home / ".config")
        cache = Path(os.environ.get("XDG_CACHE_HOME") or home / ".cache")
        folders.append(("MPLCONFIGDIR", config / "matplotlib"))
        folders.append(("MPLCONFIGDIR", cache / "matplotlib"))
    else:
        folders.append(("MPLCONFIGDIR", home / ".matplotlib"))
    return folders


def can_be_written(folder: Path) -> bool:
    """Whether the folder takes files, or can be made; nothing is made to find out."""
    while not os.path.exists(folder):
        folder = folder.parent
    return folder.is_dir() and os.access(folder, os.W_OK | os.X_OK)


def leave_home(instead: Path = INSTEAD_OF_HOME) -> list[str]:
    """Set the variables of those folders of the user that cannot be written to folders that can.

    Returns:
        The names of these variables, each once.
    """
    unwritable = {
        variable: instead / variable.lower()
        for variable, folder in folders_of_the_user()
        if not can_be_written(folder)
    }
    for variable, folder in unwritable.items():
        folder.mkdir(parents=True, exist_ok=True)
        os.environ[variable] = str(folder)
    return list(unwritable)


def main() -> None:
    """Make the copies and become JupyterLab; further arguments are JupyterLab's."""
    for name in copy_lessons():
        print(f"my_lessons/{name} is yours and was kept; the course has a newer version of it.")
        print("    Give yours another name, and the next start puts the new one beside it.")
    if leave_home():
        place = INSTEAD_OF_HOME.relative_to(ROOT)
        print(f"Your home cannot be written: Jupyter and matplotlib keep their files in {place}.")
    command = [sys.executable, "-m", "jupyterlab", *with_flags(sys.argv[1:])]
    command.append(f"{COPIES.name}/00_start_here.ipynb")
    sys.stdout.flush()
    os.chdir(ROOT)
    os.execv(sys.executable, command)


if __name__ == "__main__":
    main()

"""Open the course in JupyterLab, on copies of the lessons that are the reader's to write into.

``make lab`` calls it; so does whoever has another environment: ``python -m tools.lab``. The copies
stand in ``my_lessons``, which git ignores, under the names of the lessons, so that links between
them lead from copy to copy. Beside them lies what each copy was made from.
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


def main() -> None:
    """Make the copies and become JupyterLab; further arguments are JupyterLab's."""
    for name in copy_lessons():
        print(f"my_lessons/{name} is yours and was kept; the course has a newer version of it.")
        print("    Give yours another name, and the next start puts the new one beside it.")
    command = [sys.executable, "-m", "jupyterlab", *with_flags(sys.argv[1:])]
    command.append(f"{COPIES.name}/00_start_here.ipynb")
    sys.stdout.flush()
    os.chdir(ROOT)
    os.execv(sys.executable, command)


if __name__ == "__main__":
    main()

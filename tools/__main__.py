"""The command line: ``python -m tools --help``."""

from __future__ import annotations

import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Any

import typer
from tqdm import tqdm
from typer.core import TyperGroup

from tools import notebook


class Commands(TyperGroup):
    """Commands in which a ValueError is one line under the usage instead of a traceback."""

    def invoke(self, context: typer.Context) -> Any:
        try:
            return super().invoke(context)
        except ValueError as error:
            raise typer.BadParameter(str(error), ctx=context) from error


app = typer.Typer(
    cls=Commands, help="Build and check the lessons.", no_args_is_help=True, add_completion=False
)

Numbers = Annotated[list[str] | None, typer.Argument(help="Two-digit numbers; default: all")]


def _a_folder(folder: Path) -> Path:
    """The folder, made if it is not there."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        tempfile.TemporaryFile(dir=folder).close()
    except OSError as error:
        raise typer.BadParameter(f"cannot write to the folder {folder}: {error}") from error
    return folder


Folder = Annotated[Path, typer.Option(help="Where to", callback=_a_folder)]


def _report(problems: list[str]) -> None:
    """Say what is wrong, and leave with 1 if anything is."""
    for problem in problems:
        typer.echo(problem)
    raise typer.Exit(1 if problems else 0)


def _with_bar(work: Iterable, total: int | None = None) -> Iterable:
    """Work with a bar of its progress and the time that remains, in a terminal."""
    return tqdm(work, total=total, leave=False, disable=None)


@app.command()
def rebuild(lessons: Numbers = None) -> None:
    """Execute lessons in order, clean and guard them; running it twice changes nothing."""
    from tools.rebuild import rebuild_lesson

    failed = False
    for path in _with_bar(notebook.paths(lessons)):
        problems, seconds = rebuild_lesson(path)
        outcome = "ok   "
        if problems:
            outcome = "WRONG"
            failed = True
        typer.echo(f"{outcome} {path.name} ({seconds:.1f} s)")
        for problem in problems:
            typer.echo(f"    {problem}")
    raise typer.Exit(1 if failed else 0)


@app.command()
def render(lessons: Numbers = None) -> None:
    """Write what lessons take from their records and from each other; nothing is executed."""
    from tools.rebuild import render_lesson

    problems = []
    for path in _with_bar(notebook.paths(lessons)):
        problems += render_lesson(path)
    _report(problems)


@app.command()
def guards(lessons: Numbers = None) -> None:
    """Say what is wrong with lessons as they are stored; nothing is executed."""
    from tools import guards as tool

    problems = []
    for path in _with_bar(notebook.paths(lessons)):
        problems += tool.problems(notebook.read(path), path)
    _report(problems)


@app.command()
def plan(lesson: str, minutes: Annotated[int, typer.Argument(min=0)] = 0) -> None:
    """Print what to teach of a lesson in so many minutes; without them, all its plans."""
    from tools import instructor, metadata

    (path,) = notebook.paths([lesson])
    typer.echo(instructor.plans_of(metadata.Lesson(path), minutes))


@app.command()
def seeds(
    lessons: Numbers = None,
    offsets: Annotated[int, typer.Option(help="How many other seeds", min=1)] = 5,
) -> None:
    """Repeat the claims of lessons with other seeds; list the checks that leave their bounds."""
    from tools import replay

    problems = []
    for path in notebook.paths(lessons):
        runs = [replay.with_seeds(path, 1000 * (1 + k)) for k in _with_bar(range(offsets))]
        for checks in zip(*runs, strict=True):
            values = [check.value for check in checks]
            n_failed = sum(check.failure != "" for check in checks)
            if n_failed:
                problems.append(
                    f"{checks[0].cell}: {checks[0].claim}: {n_failed} of {offsets} leave the "
                    f"bounds, {min(values):.4g} to {max(values):.4g}"
                )
        typer.echo(f"{path.name}: {len(runs[0])} checks, {offsets} offsets")
    _report(problems)


@app.command()
def breaks(lessons: Numbers = None) -> None:
    """Break the method cells of lessons, one change at a time; list what no check notices."""
    from tools import replay

    unnoticed = []
    for path in notebook.paths(lessons):
        n_breaks = 0
        for cell in notebook.read(path).cells:
            n_breaks += len(list(replay.breaks(cell)))
        for cell_id, change, is_noticed in _with_bar(replay.planted(path), total=n_breaks):
            if not is_noticed:
                unnoticed.append(f"{cell_id}: {change}")
        typer.echo(f"{path.name}: {n_breaks} breaks planted")
    _report(unnoticed)


@app.command()
def readme() -> None:
    """Bring the tables of README.md and docs/, and the picture, up to date."""
    from tools import readme as tool

    tool.update()
    names = [page.name for page in tool.TABLES]
    names.append(tool.PICTURE.name)
    typer.echo(f"{', '.join(names)}: up to date")


@app.command()
def slides(lessons: Numbers = None, folder: Folder = Path("slides")) -> None:
    """Write lessons as slides that need neither a network nor a kernel."""
    from tools import slides as tool

    for path in _with_bar(notebook.paths(lessons)):
        typer.echo(tool.write(path, folder))


@app.command()
def web(
    names: Annotated[
        list[str] | None, typer.Argument(help="Panels, e.g. many-networks; default: all")
    ] = None,
    folder: Folder = Path("build/web"),
) -> None:
    """Write panels as pages that move without a kernel and a network, one file for each."""
    from tools.web import page, store

    panels = [store.load(name) for name in names or store.names()]
    for panel in _with_bar(panels):
        path = folder / f"{panel.name}.html"
        path.write_text(page.page(panel), encoding="utf-8")
        typer.echo(f"{path}: {len(panel.script) / 1e3:.0f} kB of recording")


@app.command()
def site(lessons: Numbers = None, folder: Folder = Path("site")) -> None:
    """Write the course as pages with live panels; they open from the disk."""
    from tools.web import site as tool

    typer.echo(tool.build(folder, lessons))


@app.command()
def pdf(
    lessons: Numbers = None,
    site: Annotated[Path, typer.Option(help="What make site wrote", file_okay=False)] = Path(
        "site"
    ),
    folder: Folder = Path("site/pdf"),
) -> None:
    """Print pages of the site, one PDF for each lesson and one for the whole course."""
    from tools.web import pdf as tool

    for path in tool.write(site, folder, lessons):
        typer.echo(path)


@app.command()
def assignments(lessons: Numbers = None, folder: Folder = Path("classroom")) -> None:
    """Write the exercises of lessons as assignments for nbgrader."""
    from tools import assignments as tool
    from tools import metadata

    for path in _with_bar(notebook.paths(lessons)):
        if not metadata.Lesson(path).is_index:
            typer.echo(tool.write(path, folder))


@app.command()
def grade(
    folder: Annotated[Path, typer.Argument(help="With submitted notebooks", file_okay=False)],
    to: Annotated[Path, typer.Option(help="The table", dir_okay=False)] = Path("grades.csv"),
) -> None:
    """Run submitted notebooks and write which checks of the exercises they pass."""
    from tools import grading as tool

    _a_folder(to.parent)
    for trouble in tool.table(folder, to):
        typer.echo(trouble)
    typer.echo(f"{to}: written")


if __name__ == "__main__":
    app()

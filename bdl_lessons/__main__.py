"""The command line: ``python -m bdl_lessons --help``."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Annotated

import typer

app = typer.Typer(
    help="Build, check and measure the lessons.", no_args_is_help=True, add_completion=False
)


Folder = Annotated[Path | None, typer.Option(help="Where the records are; default: data/results")]


@app.callback()
def _main() -> None:
    pass


@contextmanager
def _bad_input_named() -> Iterator[None]:
    """A ValueError becomes one line under the usage instead of a traceback."""
    try:
        yield
    except ValueError as error:
        raise typer.BadParameter(str(error)) from error


@app.command()
def rebuild(
    lessons: Annotated[
        list[str] | None, typer.Argument(help="Two-digit numbers; default: all")
    ] = None,
    check: Annotated[
        bool, typer.Option("--check", help="Change nothing; fail if a lesson would change")
    ] = False,
) -> None:
    """Execute lessons in order, clean and guard them; running it twice changes nothing."""
    from bdl_lessons.lessons.course import notebook
    from bdl_lessons.lessons.course.rebuild import rebuild as rebuild_one

    with _bad_input_named():
        chosen = notebook.paths(lessons)
    failed = False
    for path in chosen:
        wrong, seconds = rebuild_one(path, check=check)
        failed = failed or bool(wrong)
        typer.echo(f"{'WRONG' if wrong else 'ok   '} {path.name} ({seconds:.1f} s)")
        for line in wrong:
            typer.echo(f"    {line}")
    raise typer.Exit(int(failed))


@app.command("panel-data")
def panel_data(
    names: Annotated[list[str] | None, typer.Argument(help="Names of arrays; default: all")] = None,
) -> None:
    """Train what panels show and write the arrays to data/panels."""
    from bdl_lessons.lessons.panels import arrays

    for name in names or arrays.makers():
        with _bad_input_named():
            path = arrays.make(name)
        typer.echo(f"{path.name}: {path.stat().st_size / 1e3:.0f} kB")


@app.command()
def readme() -> None:
    """Bring the tables and the picture of README.md up to date."""
    from bdl_lessons.lessons.course import readme as tool

    tool.update()
    typer.echo(f"{tool.README.name} and {tool.PICTURE.name} are up to date")


@app.command()
def slides(
    lessons: Annotated[
        list[str] | None, typer.Argument(help="Two-digit numbers; default: all")
    ] = None,
    folder: Annotated[Path, typer.Option(help="Where to")] = Path("slides"),
) -> None:
    """Write lessons as slides that need neither a network nor a kernel."""
    from bdl_lessons.lessons.course import notebook
    from bdl_lessons.lessons.course import slides as tool

    with _bad_input_named():
        chosen = notebook.paths(lessons)
    for path in chosen:
        typer.echo(tool.write(path, folder))


@app.command()
def web(
    names: Annotated[
        list[str] | None, typer.Argument(help="Panels, e.g. dropout-noise; default: all")
    ] = None,
    folder: Annotated[Path, typer.Option(help="Where to")] = Path("build/web"),
) -> None:
    """Write panels as pages that move without a kernel and a network, one file for each."""
    from bdl_lessons.lessons.web import page, store

    with _bad_input_named():
        chosen = [store.load(name) for name in names] if names else store.load_all()
    folder.mkdir(parents=True, exist_ok=True)
    for panel in chosen:
        path = folder / f"{panel.name}.html"
        path.write_text(page.page(panel), encoding="utf-8")
        typer.echo(f"{path}: {len(panel.script) / 1e3:.0f} kB of recording")


@app.command()
def site(
    lessons: Annotated[
        list[str] | None, typer.Argument(help="Two-digit numbers; default: all")
    ] = None,
    folder: Annotated[Path, typer.Option(help="Where to")] = Path("site"),
) -> None:
    """Write the course as pages with live panels; they open from the disk."""
    from bdl_lessons.lessons.web import site as tool

    with _bad_input_named():
        typer.echo(tool.build(folder, lessons))


@app.command()
def bench(
    names: Annotated[
        list[str] | None, typer.Argument(help="Benchmarks; default: all of them")
    ] = None,
) -> None:
    """Measure speed as ratios within one run, on a machine that does nothing else."""
    from bdl_lessons.lessons import benchmarks

    for name in names or benchmarks.names():
        with _bad_input_named():
            rows = benchmarks.run(name)
        typer.echo(f"\n{name}\n{benchmarks.table(rows)}")


@app.command()
def reproduce(
    name: Annotated[str, typer.Argument(help="An experiment, e.g. co2_mc_dropout")],
    scale: Annotated[
        str, typer.Option(help="quick: seconds. paper: the published architecture, hours")
    ] = "paper",
    jobs: Annotated[int, typer.Option(help="Local processes of one thread each")] = 1,
    scheduler: Annotated[
        str | None, typer.Option(help="Address of a Dask scheduler whose workers run the trials")
    ] = None,
    folder: Folder = None,
) -> None:
    """Measure a published table or figure again: run the trials that are not recorded yet."""
    from bdl_lessons import experiments
    from bdl_lessons.experiments import runner
    from bdl_lessons.experiments.records import RESULTS_FOLDER

    with _bad_input_named():
        experiment = experiments.load(name)
        with runner.on_cluster(scheduler) if scheduler else nullcontext() as executor:
            outcome = runner.reproduce(experiment, scale, jobs, folder or RESULTS_FOLDER, executor)
    typer.echo(
        f"{name}: {outcome.recorded} trials recorded, {outcome.skipped} were there before, "
        f"{len(outcome.failed)} failed"
    )
    for reason in outcome.reasons():
        typer.echo(f"    {reason}", err=True)
    raise typer.Exit(int(bool(outcome.failed)))


@app.command()
def report(
    scale: Annotated[str, typer.Option(help="quick or paper")] = "paper", folder: Folder = None
) -> None:
    """Write the tables and figures of the recorded experiments to data/results."""
    from bdl_lessons.experiments import report as tool
    from bdl_lessons.experiments.records import RESULTS_FOLDER

    with _bad_input_named():
        written = tool.write(scale, folder or RESULTS_FOLDER)
    for path in written:
        typer.echo(path.name)


if __name__ == "__main__":
    app()

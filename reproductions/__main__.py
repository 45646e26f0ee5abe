"""The command line: ``python -m reproductions --help``."""

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Annotated

import typer

app = typer.Typer(
    help="Measure published tables and figures again, and train what the panels show.",
    no_args_is_help=True,
    add_completion=False,
)

Scale = Annotated[str, typer.Option(help="quick: seconds. paper: the published size, hours")]
Folder = Annotated[Path | None, typer.Option(help="Where the records are; default: data/results")]


@contextmanager
def _bad_input_named() -> Iterator[None]:
    """An error of values or files becomes one line under the usage instead of a traceback."""
    try:
        yield
    except (OSError, ValueError) as error:
        raise typer.BadParameter(str(error)) from error


@app.command("arrays")
def arrays_(
    names: Annotated[list[str] | None, typer.Argument(help="Names of arrays; default: all")] = None,
) -> None:
    """Train what panels show and write the arrays to data/panels."""
    from reproductions import panel_arrays

    for name in names or panel_arrays.MAKERS:
        with _bad_input_named():
            path = panel_arrays.make(name)
        typer.echo(f"{path.name}: {path.stat().st_size / 1e3:.0f} kB")


@app.command()
def bench() -> None:
    """Measure the layers as ratios within one run, on a machine that does nothing else."""
    from reproductions import timing

    typer.echo(timing.bench())


@app.command()
def run(
    name: Annotated[str, typer.Argument(help="An experiment, e.g. co2_mc_dropout")],
    scale: Scale = "paper",
    jobs: Annotated[int, typer.Option(help="Local processes of one thread each")] = 1,
    scheduler: Annotated[
        str | None, typer.Option(help="Address of a Dask scheduler whose workers run the trials")
    ] = None,
    folder: Folder = None,
) -> None:
    """Measure a published table or figure again: run the trials that are not recorded yet."""
    import reproductions
    from bdl_lessons.datasets.records import RESULTS_FOLDER
    from reproductions import runner

    with _bad_input_named():
        experiment = reproductions.load(name)
        with runner.on_cluster(scheduler) if scheduler else nullcontext() as executor:
            outcome = runner.reproduce(experiment, scale, jobs, folder or RESULTS_FOLDER, executor)
    n_failed = sum(len(trials) for trials in outcome.failed.values())
    typer.echo(
        f"{name}: {outcome.recorded} trials recorded, {outcome.skipped} were there before, "
        f"{n_failed} failed"
    )
    for reason, trials in outcome.failed.items():
        typer.echo(f"    {len(trials)}, the first with {trials[0]}: {reason}", err=True)
    raise typer.Exit(1 if n_failed else 0)


@app.command()
def report(scale: Scale = "paper", folder: Folder = None) -> None:
    """Write the tables and figures of the recorded experiments to data/results."""
    from bdl_lessons.datasets.records import RESULTS_FOLDER
    from reproductions.report import write

    with _bad_input_named():
        paths = write(scale, folder or RESULTS_FOLDER)
    for path in paths:
        typer.echo(path.name)


if __name__ == "__main__":
    app()

"""`lopa-bench export`: a stored run for other programs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from lopa_bench.cli.show import Reference, RunsDir

Format = Annotated[str, typer.Option("--format", "-f", metavar="lm-eval|evalplus|csv", help="Which form.")]
Out = Annotated[Path | None, typer.Option(help="Folder or file to write; by default a folder `exports` in the run's.")]
DataDir = Annotated[
    Path | None, typer.Option(help="Folder with the task's files, where they moved.", envvar="LOPA_BENCH_DATA")
]


def export(
    run: Reference = "last",
    format: Format = "csv",
    out: Out = None,
    data_dir: DataDir = None,
    runs_dir: RunsDir = Path("runs"),
) -> None:
    """Write a stored run as lm-eval's result files, as samples for evalplus, or as a table of its samples.

    Example: lopa-bench export last --format evalplus --out programs
    """
    from lopa_bench.harness.export import export
    from lopa_bench.results.store import load_run

    written = export(load_run(run, runs_dir), format, out, data_dir)
    for path in written.files:
        typer.echo(str(path))
    for note in written.notes:
        typer.echo(note, err=True)

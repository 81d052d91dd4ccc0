"""`lopa-bench data`: the files that tasks need."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from lopa_bench.cli import options as shared

if TYPE_CHECKING:
    from lopa_bench.harness.data_check import SplitCheck
    from lopa_bench.results.tables import Table

BAD = 2

data = typer.Typer(no_args_is_help=True, help="The files that tasks need: are they there, and whole?")

Tasks = Annotated[list[str] | None, typer.Argument(metavar="[TASK]...", help="Tasks; all unless some are named.")]
DataDir = Annotated[
    Path | None, typer.Option("--data-dir", help="Folder with the tasks' files.", envvar="LOPA_BENCH_DATA")
]


@data.callback()
def _group() -> None:
    """Tell about the files that tasks need."""


@data.command()
def check(
    tasks: Tasks = None,
    data_dir: DataDir = None,
    json: shared.Json = False,
    csv: shared.Csv = False,
    markdown: shared.Markdown = False,
    latex: shared.Latex = False,
) -> int:
    """Read every file that tasks need and compare it with the known releases; exit code 2 when one is damaged.

    Example: lopa-bench data check gsm8k humaneval+ --data-dir DATA
    """
    from lopa_bench.errors import PrerequisiteError
    from lopa_bench.harness.data_check import check_data

    format = shared.chosen_format(json=json, csv=csv, markdown=markdown, latex=latex)
    if data_dir is None:
        raise PrerequisiteError("no folder to check: give --data-dir or set LOPA_BENCH_DATA")
    checks = check_data(tasks or (), data_dir.expanduser())
    shared.print_table(checks_table(checks, data_dir), format)
    bad = [one for one in checks if one.status == "damaged" or (tasks and one.status == "not there")]
    nothing = all(one.status == "not there" for one in checks)
    if format == "table":
        for one in bad:
            typer.echo(f"lopa-bench: {one.problem or f'no {one.split} split of {one.data} in {data_dir}'}", err=True)
    if nothing and not bad:
        raise PrerequisiteError(f"{data_dir} holds no file of any task, so nothing was checked")
    return BAD if bad else 0


def checks_table(checks: list[SplitCheck], data_dir: Path) -> Table:
    """Return one row per split of a data set."""
    from lopa_bench.results.tables import Column, Row, Table

    rows: list[Row] = [
        {
            "data": one.data,
            "split": one.split,
            "tasks": ", ".join(one.tasks),
            "file": shorter(one.file, data_dir) or "-",
            "rows": one.rows,
            "sha256": one.sha256[:12] if one.sha256 else "-",
            "release": one.release or "-",
            "status": one.status,
            "problem": one.problem or None,
        }
        for one in checks
    ]
    keys = ("data", "split", "tasks", "file", "rows", "sha256", "release", "status")
    return Table([Column(key, key) for key in keys], rows, title=f"data in {data_dir}")


def shorter(file: str, folder: Path) -> str:
    """Return a path as it stands below a folder."""
    path = Path(file)
    return str(path.relative_to(folder)) if file and path.is_relative_to(folder) else file

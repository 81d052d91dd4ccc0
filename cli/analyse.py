"""`lopa-bench analyse`: in what order answers were filled, and what LoPA's branches were worth."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from lopa_bench.cli import options as shared

References = Annotated[list[str], typer.Argument(metavar="RUN...", help="Numbers, names or folders of runs.")]
RunsDir = Annotated[Path, typer.Option(help="Where runs are stored.", envvar="LOPA_BENCH_RUNS")]
Which = Annotated[str | None, typer.Option("--table", help="Only this one: order, bursts, rounds, branches or tenths.")]


def analyse(
    runs: References,
    runs_dir: RunsDir = Path("runs"),
    table: Which = None,
    json: shared.Json = False,
    csv: shared.Csv = False,
    markdown: shared.Markdown = False,
    latex: shared.Latex = False,
) -> None:
    """Analyse the traces of runs made with --trace: order of filling, bursts, rounds, LoPA's branches.

    Example: lopa-bench analyse last --table branches
    """
    from lopa_bench.results.fillings import analysis
    from lopa_bench.results.store import load_run

    format = shared.chosen_format(json=json, csv=csv, markdown=markdown, latex=latex)
    if table is not None:
        shared.one_of("table", table, analysis.TABLES)
    found = [analysis.analyse(load_run(reference, runs_dir)) for reference in runs]
    if format == "json":
        shared.print_json([one.document() for one in found])
        return
    if table is not None or format != "table":
        shared.print_table(analysis.table(table or "order", found), format)
        return
    shared.print_tables(analysis.overview(found), format)
    if len(found) > 1:
        typer.echo("--table bursts, rounds or tenths shows all of each run", err=True)

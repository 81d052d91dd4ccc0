"""`lopa-bench analyse`: speed by length, in what order answers were filled, and what LoPA's branches were worth."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from lopa_bench.cli import options as shared

References = Annotated[list[str], typer.Argument(metavar="RUN...", help="Numbers, names or folders of runs.")]
RunsDir = Annotated[Path, typer.Option(help="Where runs are stored.", envvar="LOPA_BENCH_RUNS")]
Which = Annotated[
    str | None,
    typer.Option(
        "--table",
        help="Only this one: lengths or prompts; of a run made with --trace also order, bursts, rounds, places, "
        "branches, ranks or tenths.",
    ),
]


def analyse(
    runs: References,
    runs_dir: RunsDir = Path("runs"),
    table: Which = None,
    json: shared.Json = False,
    csv: shared.Csv = False,
    markdown: shared.Markdown = False,
    latex: shared.Latex = False,
) -> None:
    """Analyse runs: TPF and speed by length; of those made with --trace order of filling, bursts and LoPA's branches.

    Example: lopa-bench analyse last --table branches
    """
    from lopa_bench.results.fillings import overview
    from lopa_bench.results.store import load_run

    format = shared.chosen_format(json=json, csv=csv, markdown=markdown, latex=latex)
    if table is not None:
        shared.one_of("table", table, overview.TABLES)
    found = [overview.overview_of(load_run(reference, runs_dir)) for reference in runs]
    if format == "json":
        shared.print_json([one.document() for one in found])
        return
    for one in found if table is None else ():
        for note in () if one.filling else one.notes:
            shared.say(note, err=True)
    if table is not None or format != "table":
        shared.print_table(overview.table(table or overview.default_table(found), found), format)
        return
    shared.print_tables(overview.all_tables(found), format)
    if len(found) > 1 and any(one.filling for one in found):
        typer.echo("--table bursts, rounds, places, ranks or tenths shows all of each run", err=True)

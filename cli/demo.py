"""`lopa-bench demo`: five decoders side by side on the bundled models, without a GPU or a network."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from lopa_bench.cli import options as shared
from lopa_bench.cli.stopping import Course
from lopa_bench.errors import ConfigError

if TYPE_CHECKING:
    from lopa_bench.harness.demo import Demo

Quick = Annotated[bool, typer.Option("--quick", help="A few problems of each task: some seconds.")]
Limit = Annotated[int | None, typer.Option("--limit", "-n", min=1, help="Problems of each task.")]
RunsDir = Annotated[Path, typer.Option(help="Where runs and plot are stored.", envvar="LOPA_BENCH_RUNS")]
Threads = Annotated[int | None, typer.Option(min=1, help="CPU threads.")]


def demo(
    quick: Quick = False,
    limit: Limit = None,
    runs_dir: RunsDir = Path("runs"),
    threads: Threads = None,
    json: shared.Json = False,
    csv: shared.Csv = False,
    markdown: shared.Markdown = False,
    latex: shared.Latex = False,
) -> None:
    """Run AR, vanilla, Fast-dLLM, D2F and LoPA on the bundled models: one table, one plot.

    Example: lopa-bench demo --quick
    """
    from lopa_bench.cli.execute import Terminal
    from lopa_bench.cli.fitting import fitting
    from lopa_bench.harness.demo import DECODERS, TASKS, run_demo

    format = shared.chosen_format(json=json, csv=csv, markdown=markdown, latex=latex)
    if quick and limit is not None:
        raise ConfigError("--quick says how many problems there are; leave it or --limit out")
    course = Course(runs_dir)
    with course.told():
        result = run_demo(
            quick=quick,
            limit=limit,
            runs_dir=runs_dir,
            threads=threads,
            reporter_for=lambda label: course.begins(Terminal(verbose=False, label=label), len(TASKS) * len(DECODERS)),
        )
    if format == "json":
        _print_json(result)
        return
    shared.print_table(fitting(result.table) if format == "table" else result.table, format)
    typer.echo(f"plot: {result.plot}\nruns: {runs_dir}, one folder each; `lopa-bench show NUMBER` prints one", err=True)


def _print_json(result: Demo) -> None:
    import json

    document = {
        "rows": [dict(row) for row in result.table.rows],
        "runs": [str(cell.run.path) for cell in result.cells],
        "plot": str(result.plot),
    }
    typer.echo(json.dumps(document, indent=2, ensure_ascii=False))

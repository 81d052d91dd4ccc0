"""`lopa-bench rescore`: judge a run's stored answers again, without the model."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from lopa_bench.cli import options as shared
from lopa_bench.cli.run import AllowCode, Cleanup, Isolation, Scorer
from lopa_bench.cli.show import Reference, RunsDir

if TYPE_CHECKING:
    from lopa_bench.harness.rescore import Rescored

DataDir = Annotated[
    Path | None, typer.Option(help="Folder with the task's files, where they moved.", envvar="LOPA_BENCH_DATA")
]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Show what would change and store nothing.")]


def rescore(
    run: Reference = "last",
    runs_dir: RunsDir = Path("runs"),
    scorer: Scorer = None,
    cleanup: Cleanup = None,
    isolation: Isolation = None,
    allow_code_execution: AllowCode = None,
    data_dir: DataDir = None,
    dry_run: DryRun = False,
    json: shared.Json = False,
    csv: shared.Csv = False,
    markdown: shared.Markdown = False,
    latex: shared.Latex = False,
) -> None:
    """Judge a run's stored answers again, without the model; verdicts that change are printed, the old ones kept.

    Exit 1 when the scorer failed on any of them.

    Example: lopa-bench rescore last --scorer evalplus --allow-code-execution
    """
    from lopa_bench.harness.rescore import check_has_answers, chosen, rescore
    from lopa_bench.results.store import load_run

    format = shared.chosen_format(json=json, csv=csv, markdown=markdown, latex=latex)
    stored = load_run(run, runs_dir)
    check_has_answers(stored)
    asked = chosen(
        stored.record,
        allow_code_execution=allow_code_execution,
        scorer=scorer,
        cleanup=cleanup,
        isolation=isolation,
        data_dir=data_dir,
    )
    with _progress() as show:
        result = rescore(stored, asked, dry_run=dry_run, on_progress=show)
    _print(result, format, dry_run)
    raise typer.Exit(1 if result.after.blocked else 0)


@contextmanager
def _progress() -> Iterator[Any]:
    """Give what shows how many answers are judged; the bar comes with the first word of it, not with a refusal."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn("judging"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    progress = Progress(*columns, console=Console(stderr=True), transient=True)
    bar = progress.add_task("judging", total=None)

    def show(done: int, total: int) -> None:
        progress.start()
        progress.update(bar, completed=done, total=total)

    try:
        yield show
    finally:
        progress.stop()


def _print(result: Rescored, format: str, dry_run: bool) -> None:
    from lopa_bench.cli.views import percent, scoring_line
    from lopa_bench.harness.rescore import changes_table

    if result.changed or format != "table":
        shared.print_table(changes_table(result), format)
    if format != "table":
        return
    before, after = (percent(one.metrics["accuracy"].value) for one in (result.before, result.after))
    typer.echo(f"{len(result.changed)} of {len(result.run.samples)} verdicts changed; accuracy {before} -> {after}")
    typer.echo(f"judged by {scoring_line(result.scoring)}")
    for warning in (result.scoring.get("warning"), result.after.blocked):
        if warning:
            typer.echo(f"note: {warning}")
    typer.echo("dry run: nothing was stored" if dry_run else f"stored in {result.run.path}", err=True)

"""`lopa-bench compare`: stored runs against the first of them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from lopa_bench.cli import options as shared

if TYPE_CHECKING:
    from lopa_bench.results.comparison.compare_tables import Outcome
    from lopa_bench.results.store import StoredRun
    from lopa_bench.results.tables import Table

Runs = Annotated[list[str] | None, typer.Argument(metavar="RUN", help="Numbers, names or folders of runs, or `last`.")]
Sweep = Annotated[str | None, typer.Option("--sweep", metavar="NAME", help="The runs of a sweep, too.")]
Task = Annotated[str | None, typer.Option("--task", help="Only the runs of this task.")]
RunsDir = Annotated[Path, typer.Option(help="Where runs are stored.", envvar="LOPA_BENCH_RUNS")]
ShowFlips = Annotated[bool, typer.Option("--show-flips", help="List the problems whose score changed.")]
Force = Annotated[bool, typer.Option("--force", help="Show the differences of confounded pairs too.")]


def compare(
    runs: Runs = None,
    sweep: Sweep = None,
    task: Task = None,
    runs_dir: RunsDir = Path("runs"),
    show_flips: ShowFlips = False,
    force: Force = False,
    count_as: shared.CountAs = None,
    json: shared.Json = False,
    csv: shared.Csv = False,
    markdown: shared.Markdown = False,
    latex: shared.Latex = False,
) -> None:
    """Compare runs with the first one: flips, tests, tokens per round, work, speed, settings; exit 3 if one cannot be.

    Example: lopa-bench compare 1 2 --show-flips
    """
    from lopa_bench.errors import ConfigError
    from lopa_bench.results.comparison.compare_runs import compare_stored
    from lopa_bench.results.comparison.compare_tables import Refusal
    from lopa_bench.results.sweeps import named_runs

    format = shared.chosen_format(json=json, csv=csv, markdown=markdown, latex=latex)
    stored = named_runs(runs or [], runs_dir, sweep=sweep, task=task)
    if len(stored) < 2:
        found = f"found one ('{stored[0].record.id}')" if stored else "found none"
        raise ConfigError(f"compare needs two runs or more, {found}; the first is the baseline")
    outcomes = compare_stored(stored, runs_dir, force=force)
    counted = _counted(stored, outcomes, count_as)
    _print(outcomes, format, show_flips, counted)
    raise typer.Exit(3 if any(isinstance(one, Refusal) for one in outcomes) else 0)


def _counted(stored: Sequence[StoredRun], outcomes: Sequence[Outcome], count_as: str | None) -> Table | None:
    """Return the comparable runs as other programs would have counted them; None when that was not asked for."""
    from lopa_bench.results.comparison.compare_tables import Refusal
    from lopa_bench.results.comparison.recounted import recounted_table

    if count_as is None:
        return None
    refused = [isinstance(one, Refusal) for one in outcomes]
    others = [run for run, is_refused in zip(stored[1:], refused, strict=True) if not is_refused]
    return recounted_table([stored[0], *others], count_as)


def _print(outcomes: Sequence[Outcome], format: str, show_flips: bool, counted: Table | None) -> None:
    from lopa_bench.results.comparison import compare_tables as tables

    if format == "json":
        document = tables.document(outcomes, with_flips=show_flips)
        if counted is not None:
            document["counted_as"] = [dict(row) for row in counted.rows]
        shared.print_json(document)
        return
    if format == "csv" and counted is not None:
        shown = [counted]
    elif format == "csv":
        shown = [tables.flipped_table(outcomes) if show_flips else tables.flat_table(outcomes)]
    else:
        shown = [tables.figures_table(outcomes), tables.flips_table(outcomes), tables.settings_table(outcomes)]
        shown += [tables.flipped_table(outcomes)] if show_flips else []
        shown += [] if counted is None else [counted]
    shared.print_tables([table for table in shown if table.rows], format)
    for outcome in outcomes:
        _print_words(outcome, tables.short_name(outcome, outcomes), to_stderr=format != "table")


def _print_words(outcome: Outcome, name: str, *, to_stderr: bool) -> None:
    """Print a pair's warnings under the tables, or beside them where stdout is one document."""
    from lopa_bench.results.comparison.compare_tables import Refusal

    if isinstance(outcome, Refusal):
        shared.say(f"{name}: not comparable: {outcome.reason}", err=True)
        return
    for line in outcome.warnings:
        shared.say(f"{name}: {line}", err=to_stderr)

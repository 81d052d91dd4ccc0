"""`lopa-bench report`: stored runs as one folder of pages, tables and figures."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from lopa_bench.cli import options as shared
from lopa_bench.errors import ConfigError

STYLES = ("screen", "paper")

References = Annotated[list[str] | None, typer.Argument(metavar="[RUN]...", help="Numbers, names or folders of runs.")]
Sweep = Annotated[str | None, typer.Option("--sweep", metavar="NAME", help="The runs of a sweep, too.")]
Task = Annotated[str | None, typer.Option("--task", help="Only the runs of this task.")]
Out = Annotated[Path, typer.Option("--out", "-o", help="The report's folder; an earlier report in it is replaced.")]
Title = Annotated[str, typer.Option(help="The report's title.")]
StyleName = Annotated[
    str, typer.Option("--style", help="Figures for a screen, or for the columns of a paper: screen, paper.")
]
Published = Annotated[bool, typer.Option("--published", help="Set published figures beside, marked as quoted.")]
RunsDir = Annotated[Path, typer.Option(help="Where runs are stored.", envvar="LOPA_BENCH_RUNS")]


def report(
    runs: References = None,
    out: Out = Path("report"),
    sweep: Sweep = None,
    task: Task = None,
    title: Title = "",
    style: StyleName = "screen",
    published: Published = False,
    count_as: shared.CountAs = None,
    runs_dir: RunsDir = Path("runs"),
) -> None:
    """Write a report of stored runs: plain answers, tables and figures, every number with its run and definition.

    Example: lopa-bench report --sweep branches --out report --published
    """
    from lopa_bench.results.reports.report import make_report, write_report
    from lopa_bench.results.sweeps import named_runs

    shared.one_of("style", style, STYLES)
    if not runs and sweep is None:
        raise ConfigError("no runs named: give their numbers, or --sweep NAME")
    stored = named_runs(runs or [], runs_dir, sweep=sweep, task=task)
    quotes = []
    if published:
        from lopa_bench.harness.reproduction.quotes import quotes_for

        quotes = quotes_for(stored)
    made = make_report(
        stored, title=title, runs_dir=runs_dir, quotes=quotes, with_published=published, count_as=count_as
    )
    written = write_report(made, out, style=style)
    for answer in made.answers:
        shared.say("\n".join([answer.question, *(f"  {sentence.text}" for sentence in answer.sentences)]))
    for entry in (entry for group in made.groups for entry in group.aside):
        shared.say(f"set aside: {entry.ref} ({entry.words}): {entry.aside}", err=True)
    for one in made.skipped:
        shared.say(f"left out: {one.title}: {one.reason}", err=True)
    typer.echo(f"wrote {len(written)} files; open {out / 'report.html'}", err=True)

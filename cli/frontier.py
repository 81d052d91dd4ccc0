"""`lopa-bench frontier`: which settings are worth having."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from lopa_bench.cli import options as shared
from lopa_bench.errors import ConfigError

References = Annotated[list[str] | None, typer.Argument(metavar="RUN", help="Numbers, names or folders of runs.")]
Sweep = Annotated[str | None, typer.Option("--sweep", metavar="NAME", help="The runs of a sweep, too.")]
Task = Annotated[str | None, typer.Option("--task", help="Only the runs of this task.")]
RunsDir = Annotated[Path, typer.Option(help="Where runs are stored.", envvar="LOPA_BENCH_RUNS")]
Speed = Annotated[
    str, typer.Option(help="Figure on the speed axis: tpf, tpf_committed, tpf_branch, tpf_call, tps_decode or tps_e2e.")
]
Within = Annotated[float, typer.Option(help="Points of accuracy that the chosen setting may lose.", min=0.0)]
Against = Annotated[
    str | None, typer.Option(help="Run to lose them against; by default the most accurate one.", metavar="RUN")
]
YMax = Annotated[float | None, typer.Option("--y-max", help="AUP: best accuracy known for this task, in percent.")]
YMaxName = Annotated[str | None, typer.Option("--y-max-name", help="Whose accuracy that is; needed with --y-max.")]
Part = Annotated[str, typer.Option(help="With --csv, --markdown, --latex: settings or aup.")]


def frontier(
    runs: References = None,
    sweep: Sweep = None,
    task: Task = None,
    runs_dir: RunsDir = Path("runs"),
    speed: Speed = "tpf",
    within: Within = 1.0,
    against: Against = None,
    y_max: YMax = None,
    y_max_name: YMaxName = None,
    part: Part = "settings",
    json: shared.Json = False,
    csv: shared.Csv = False,
    markdown: shared.Markdown = False,
    latex: shared.Latex = False,
) -> None:
    """Set runs of one task side by side: the Pareto front, AUP per decoder, the fastest setting within a budget.

    The setting is chosen on one half of the problems and reported on the other.

    Example: lopa-bench frontier 3 4 5 6 --within 0.5
    """
    from lopa_bench.results.frontiers import frontier_tables as tables
    from lopa_bench.results.frontiers.aup import Yardstick
    from lopa_bench.results.frontiers.frontier import frontier as place
    from lopa_bench.results.store import load_run
    from lopa_bench.results.sweeps import named_runs

    format = shared.chosen_format(json=json, csv=csv, markdown=markdown, latex=latex)
    shared.one_of("part", part, ("settings", "aup"))
    shared.go_together({"--y-max": y_max, "--y-max-name": y_max_name})
    if y_max is not None and 0 < y_max <= 1:
        raise ConfigError(f"--y-max {y_max:g} is a share of 1; give it in percent, as {100 * y_max:g}")
    yardstick = None if y_max is None or y_max_name is None else Yardstick(y_max, y_max_name)
    if not runs and sweep is None:
        raise ConfigError("no runs named: give their numbers, or --sweep NAME")
    stored = named_runs(runs or [], runs_dir, sweep=sweep, task=task)
    reference = None if against is None else load_run(against, runs_dir).record.id
    found = place(stored, speed=speed, within=within, against=reference, yardstick=yardstick)
    if format == "json":
        shared.print_json(tables.document(found))
        return
    if format != "table":
        shared.print_table(tables.aup_table(found) if part == "aup" else tables.settings_table(found), format)
        return
    shared.print_table(tables.settings_table(found, short=True))
    shared.print_table(tables.aup_table(found))
    for line in tables.choice_lines(found, within):
        shared.say(line)

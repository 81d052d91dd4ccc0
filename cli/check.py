"""`lopa-bench check`: runs against a baseline, for continuous integration."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NoReturn

import typer

from lopa_bench.cli import options as shared

if TYPE_CHECKING:
    from lopa_bench.results.comparison.baseline import Baseline
    from lopa_bench.results.comparison.check import Remeasure as Again
    from lopa_bench.results.comparison.check import Verdict
    from lopa_bench.results.store import StoredRun

BOUNDS = "Bounds"

Runs = Annotated[
    list[str] | None,
    typer.Argument(metavar="[RUN...]", help="Numbers, names or folders of runs, or `last`; all of --runs-dir without."),
]
BaselineFile = Annotated[Path, typer.Option("--baseline", "-b", help="The baseline file, see `baseline accept`.")]
RunsDir = Annotated[Path, typer.Option(help="Where runs are stored.", envvar="LOPA_BENCH_RUNS")]
MaxDrop = Annotated[str | None, typer.Option(help="Points accuracy may drop: acc=1.0pt.", rich_help_panel=BOUNDS)]
Tpf = Annotated[str | None, typer.Option(help="TPF may drop by: exact, 2%, 0.1.", rich_help_panel=BOUNDS)]
Forwards = Annotated[
    str | None,
    typer.Option(help="Rounds, calls, branch forwards, positions may grow by: exact, 0%.", rich_help_panel=BOUNDS),
]
Tps = Annotated[str | None, typer.Option(help="Tokens/s may drop by: 15%.", rich_help_panel=BOUNDS)]
Stage = Annotated[str | None, typer.Option(help="Bounds of this stage of the baseline.", rich_help_panel=BOUNDS)]
AllCells = Annotated[
    bool, typer.Option("--all-cells", help="Fail when a cell of the baseline has no run.", rich_help_panel=BOUNDS)
]
Remeasure = Annotated[
    int, typer.Option(min=0, help="Run a slow cell this often anew before its speed fails.", rich_help_panel=BOUNDS)
]
JUnit = Annotated[Path | None, typer.Option("--junit", help="Write a JUnit XML report.", rich_help_panel=shared.OUTPUT)]
GitHub = Annotated[
    bool,
    typer.Option(
        "--github", help="Print annotations for GitHub, as under GITHUB_ACTIONS.", rich_help_panel=shared.OUTPUT
    ),
]

EveryGate = Annotated[
    bool, typer.Option("--every-gate", help="A row for every gate, the passed too.", rich_help_panel=shared.OUTPUT)
]


def check(
    baseline: BaselineFile,
    runs: Runs = None,
    runs_dir: RunsDir = Path("runs"),
    max_drop: MaxDrop = None,
    tpf: Tpf = None,
    forwards: Forwards = None,
    tps: Tps = None,
    stage: Stage = None,
    all_cells: AllCells = False,
    remeasure: Remeasure = 0,
    junit: JUnit = None,
    github: GitHub = False,
    every_gate: EveryGate = False,
    json: shared.Json = False,
    csv: shared.Csv = False,
    markdown: shared.Markdown = False,
    latex: shared.Latex = False,
) -> None:
    """Hold runs to a baseline; exit 0 ok, 1 regressed, 3 not comparable, 2 a mistake in what was asked.

    Example: lopa-bench check --baseline baseline.json last --max-drop acc=1.0pt --tpf exact --forwards 0% --tps 15%
    """
    from lopa_bench.results.comparison import check as checking
    from lopa_bench.results.comparison.bounds import bounds_from
    from lopa_bench.results.comparison.noise import find_noise

    format = shared.chosen_format(json=json, csv=csv, markdown=markdown, latex=latex)
    bounds = bounds_from(max_drop, tpf, forwards, tps)
    is_on_github = github or os.environ.get("GITHUB_ACTIONS") == "true"
    if not baseline.exists():
        _report_missing(baseline, format, junit, is_on_github, every_gate)
    accepted = _read(baseline, stage)
    options = checking.CheckOptions(
        bounds,
        stage,
        all_cells,
        lambda record: find_noise(runs_dir, record),
        _again(remeasure, runs_dir),
        "was named" if runs else f"is in {runs_dir}",
    )
    found, unreadable = _runs(runs, runs_dir)
    verdict = checking.check(accepted, found, options, unreadable)
    _report(verdict, str(baseline), format, junit, is_on_github, every_gate)
    raise typer.Exit(verdict.exit_code)


def _report_missing(path: Path, format: str, junit: Path | None, github: bool, every_gate: bool) -> NoReturn:
    """Tell people in a sentence, and programs in every form asked for, that there is no baseline yet; end with 3."""
    from lopa_bench.errors import NotComparable
    from lopa_bench.results.comparison.check import not_compared

    reason = (
        f"there is no baseline {path} yet, so nothing was checked; make one from good runs with "
        f'`lopa-bench baseline accept RUN... --why "first baseline" --out {path}` and commit it'
    )
    _report(not_compared("baseline", reason), str(path), format, junit, github, every_gate, is_table_shown=False)
    raise NotComparable(reason)


def _read(path: Path, stage: str | None) -> Baseline:
    """Read the baseline, which is there."""
    from lopa_bench.errors import ConfigError, nearest
    from lopa_bench.results.comparison.baseline_file import read_baseline

    if not path.is_file():
        raise ConfigError(f"{path} is no file; --baseline takes what `lopa-bench baseline accept` wrote")
    found = read_baseline(path)
    if stage is not None and stage not in found.stages:
        raise ConfigError(f"baseline {path} has no stage '{stage}'{nearest(stage, found.stages)}")
    return found


def _runs(references: list[str] | None, runs_dir: Path) -> tuple[list[StoredRun], dict[str, str]]:
    """Return the runs that are named, or all; and of those that cannot be read why not, by name."""
    from lopa_bench.errors import ResultsError
    from lopa_bench.results.store import load_run, readable_runs

    if references:
        return [load_run(reference, runs_dir) for reference in references], {}
    found, unreadable = readable_runs(runs_dir)
    if not found and not unreadable:
        raise ResultsError(f"there are no runs in '{runs_dir}' to check; make one with `lopa-bench run`")
    return found, unreadable


def _again(times: int, runs_dir: Path) -> Again | None:
    """Return what runs a cell anew, some times; None for not at all."""
    if times < 1:
        return None

    def again(run: StoredRun) -> list[StoredRun]:
        from lopa_bench.harness.repeating import run_again, spec_of

        spec = spec_of(run.record)
        typer.echo(f"{run.record.id} is slow: running it {times} times anew before judging", err=True)
        return [run_again(spec, runs_dir / "again") for _ in range(times)]

    return again


def _report(
    verdict: Verdict,
    baseline: str,
    format: str,
    junit: Path | None,
    github: bool,
    every_gate: bool,
    is_table_shown: bool = True,
) -> None:
    """Print and write a verdict in the forms asked for; without `is_table_shown` no table for people is printed."""
    from lopa_bench.results.comparison import gate_output
    from lopa_bench.results.jsonl import replace_file, sentence_on_os_error

    if format == "json":
        shared.print_json(gate_output.document(verdict, baseline))
    elif format == "csv":
        shared.print_table(gate_output.flat_table(verdict), format)
    elif format == "table" and not is_table_shown:
        pass  # the sentence is enough
    elif every_gate:
        shared.print_table(gate_output.gates_table(verdict), format)
    else:
        failed = gate_output.gates_table(verdict, failed=True)
        shared.print_tables([gate_output.cells_table(verdict), *([failed] if failed.rows else [])], format)
    if junit is not None:
        with sentence_on_os_error("make", junit.parent):
            junit.parent.mkdir(parents=True, exist_ok=True)
        replace_file(junit, gate_output.junit(verdict))
    if github:
        for line in gate_output.github_lines(verdict):
            shared.say(line, err=format != "table")
        summary = os.environ.get("GITHUB_STEP_SUMMARY")
        if summary:
            _add_to_summary(Path(summary), verdict)


def _add_to_summary(path: Path, verdict: Verdict) -> None:
    """Add the table to a job's summary; a summary that cannot be written changes neither verdict nor exit code."""
    from lopa_bench.results.comparison.gate_output import gates_table
    from lopa_bench.results.tables import render

    try:
        with path.open("a", encoding="utf-8") as file:
            file.write(render(gates_table(verdict), "markdown") + "\n")
    except OSError as error:
        typer.echo(f"the job's summary {path} cannot be written: {error.strerror}", err=True)

"""`lopa-bench baseline accept`: what later runs are held to, with who decided so and why."""

from __future__ import annotations

import getpass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from lopa_bench.cli import options as shared

if TYPE_CHECKING:
    from lopa_bench.results.comparison.baseline import Acceptance, Baseline
    from lopa_bench.results.tables import Table

app = typer.Typer(no_args_is_help=True, context_settings={"help_option_names": ["-h", "--help"]})

Runs = Annotated[list[str], typer.Argument(metavar="RUN...", help="Numbers, names or folders of runs, or `last`.")]
Why = Annotated[str, typer.Option(help="The reason, kept in the file's history.")]
Out = Annotated[Path, typer.Option("--out", "-o", help="The baseline file; cells that are in it already are replaced.")]
Who = Annotated[str | None, typer.Option(help="Who accepts; git's user or the login name by default.")]
RunsDir = Annotated[Path, typer.Option(help="Where runs are stored.", envvar="LOPA_BENCH_RUNS")]
Stage = Annotated[str | None, typer.Option(help="Store the bounds given here under this name, as smoke or full.")]
MinSamples = Annotated[int, typer.Option(min=0, help="The stage's bounds hold from this number of problems on.")]
MaxDrop = Annotated[str | None, typer.Option(help="The stage's points that accuracy may drop: acc=2pt.")]
Tpf = Annotated[str | None, typer.Option(help="The stage's bound on TPF: exact, 2%, 0.1.")]
Forwards = Annotated[str | None, typer.Option(help="The stage's bound on rounds, calls and positions: exact, 0%.")]
Tps = Annotated[str | None, typer.Option(help="The stage's bound on tokens/s: 15%.")]


@app.callback()
def baseline() -> None:
    """What later runs are held to by `lopa-bench check`."""


@app.command()
def accept(
    runs: Runs,
    why: Why,
    out: Out = Path("baseline.json"),
    who: Who = None,
    runs_dir: RunsDir = Path("runs"),
    stage: Stage = None,
    min_samples: MinSamples = 0,
    max_drop: MaxDrop = None,
    tpf: Tpf = None,
    forwards: Forwards = None,
    tps: Tps = None,
    json: shared.Json = False,
    csv: shared.Csv = False,
    markdown: shared.Markdown = False,
    latex: shared.Latex = False,
) -> None:
    """Write runs into a baseline file; several runs of one cell are its repeats. Unfinished or failed ones are refused.

    Example: lopa-bench baseline accept 1 2 --why "first baseline" --out baseline.json
    """
    from lopa_bench.errors import ConfigError
    from lopa_bench.results.comparison import baseline as baselines
    from lopa_bench.results.comparison.baseline_file import read_baseline, write_baseline
    from lopa_bench.results.comparison.bounds import Bounds, bounds_from
    from lopa_bench.results.store import load_run

    format = shared.chosen_format(json=json, csv=csv, markdown=markdown, latex=latex)
    if not why.strip():
        raise ConfigError("--why is empty; say in a few words why these runs are what later ones are held to")
    if out.exists() and not out.is_file():
        raise ConfigError(f"--out {out} is no file; give the baseline a file's name")
    bounds = bounds_from(max_drop, tpf, forwards, tps)
    if stage is None and (bounds != Bounds() or min_samples):
        stage = "default"
    stages = {} if stage is None else {stage: baselines.Stage(min_samples=min_samples, bounds=bounds)}
    old = read_baseline(out) if out.exists() else None
    new = baselines.accept(old, [load_run(run, runs_dir) for run in runs], _acceptance(who, why), stages)
    write_baseline(out, new)
    shared.print_table(_changes(old, new), format)
    typer.echo(f"written to {out}; commit it together with the change that it accepts", err=True)


def _acceptance(who: str | None, why: str) -> Acceptance:
    from lopa_bench.harness.environment import git_state
    from lopa_bench.results.comparison.baseline import Acceptance
    from lopa_bench.results.schema import utc_now

    return Acceptance(when=utc_now(), who=who or _user(), why=why.strip(), cells=(), commit=git_state()[0])


def _user() -> str:
    import subprocess

    try:
        done = subprocess.run(["git", "config", "user.name"], capture_output=True, text=True, timeout=10)
        return done.stdout.strip() or getpass.getuser()
    except (OSError, subprocess.SubprocessError, KeyError):
        return "unknown"


def _changes(old: Baseline | None, new: Baseline) -> Table:
    """Return the accepted cells' figures with what they were before."""
    from lopa_bench.results.rows import metric_column
    from lopa_bench.results.tables import Column, Row, Table

    rows: list[Row] = []
    for name in new.history[-1].cells:
        figures = new.cells[name].figures
        before = old.cells[name].figures if old is not None and name in old.cells else {}
        rows.append(
            {
                "cell": name,
                "n": len(new.cells[name].samples),
                "repeats": len(new.cells[name].speeds),
                **{f"old {key}": before.get(key) for key in ("accuracy", "tpf") if before},
                **{key: figures[key] for key in ("accuracy", "tpf")},
            }
        )
    accuracy, tpf = metric_column("accuracy"), metric_column("tpf")
    columns = [Column("cell", "cell"), Column("n", "n"), Column("repeats", "repeats")]
    for column in (accuracy, tpf):
        columns.append(Column(f"old {column.key}", f"{column.title} before", column.digits, column.scale))
        columns.append(Column(column.key, column.title, column.digits, column.scale))
    return Table(columns, rows, "accepted")

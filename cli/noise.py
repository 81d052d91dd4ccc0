"""`lopa-bench noise`: how far the figures of a cell move when nothing that matters has changed."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from lopa_bench.cli import options as shared
from lopa_bench.cli.borrowed import with_flags_of
from lopa_bench.cli.run import run, spec_of

if TYPE_CHECKING:
    from lopa_bench.harness.noise import Measured
    from lopa_bench.harness.settings import RunSpec
    from lopa_bench.results.store import StoredRun

NOISE = "Noise"
NOT_TAKEN = ("dry_run", "fresh", "trace", "live")

Reference = Annotated[
    str | None, typer.Argument(metavar="[RUN]", help="A stored run to repeat; or name a cell by the flags of `run`.")
]
Repeats = Annotated[int, typer.Option(help="Fresh runs of the cell as it is.", rich_help_panel=NOISE)]
Vary = Annotated[
    list[str] | None,
    typer.Option(help="One more run with dtype=, threads=, batch-size= or device=; repeat it.", rich_help_panel=NOISE),
]


def _noise(context: typer.Context, reference: Reference = None, repeats: Repeats = 3, vary: Vary = None) -> None:
    """Run a cell again, as it is and in settings that ought not to matter, and store this machine's noise floor.

    Example: lopa-bench noise last --repeats 5 --vary dtype=bfloat16 --vary threads=2
    """
    from lopa_bench.harness.noise import measure_noise, parse_variants

    given = context.params
    format = shared.chosen_format(**{name: given[name] for name in ("json", "csv", "markdown", "latex")})
    runs_dir = Path(given["runs_dir"] or os.environ.get("LOPA_BENCH_RUNS") or "runs")
    spec, stored = _cell(reference, given, runs_dir)
    measured = measure_noise(
        spec,
        runs_dir,
        repeats=repeats,
        variants=parse_variants(vary or []),
        stored=stored,
        told=lambda line: typer.echo(line, err=True),
    )
    _print(measured, format)


def _cell(reference: str | None, given: dict[str, Any], runs_dir: Path) -> tuple[RunSpec, StoredRun | None]:
    """Return what to repeat: the flags' cell, or a stored run's with what the flags change in it."""
    flags = spec_of({"dry_run": False, "fresh": False, "trace": None, **given})
    if reference is None:
        return flags, None
    from lopa_bench.harness import repeating
    from lopa_bench.harness.settings import RunSpec
    from lopa_bench.results.store import load_run

    stored = load_run(reference, runs_dir)
    spec = repeating.spec_of(stored.record)
    plain = RunSpec()
    changes = {
        name: getattr(flags, name)
        for name in RunSpec.__dataclass_fields__
        if name not in ("runs_dir", "command", "options") and getattr(flags, name) != getattr(plain, name)
    }
    cell = replace(spec, **changes, options={**spec.options, **flags.options}, command=flags.command)
    same_cell = set(changes) <= {"limit"} and not flags.options
    return cell, stored if same_cell else None


def _print(measured: Measured, format: str) -> None:
    from lopa_bench.results.comparison.noise_tables import noise_table

    if format == "json":
        import json

        document = {
            "cell": measured.cell.model_dump(mode="json"),
            "stored": measured.stored.model_dump(mode="json") if measured.stored else None,
            "path": str(measured.path),
        }
        typer.echo(json.dumps(document, indent=2))
        return
    shared.print_table(noise_table(measured.cell, measured.stored), format)
    typer.echo(f"stored in {measured.path}", err=True)


noise = with_flags_of(run, _noise, without=NOT_TAKEN)

"""`lopa-bench sweep`: a grid of runs from a file or from lists, only what is missing of it."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from lopa_bench.cli import options as shared
from lopa_bench.cli.borrowed import as_list, with_flags_of
from lopa_bench.cli.run import run
from lopa_bench.cli.stopping import Course
from lopa_bench.errors import ConfigError

if TYPE_CHECKING:
    from lopa_bench.harness.sweeps.file import Written

AXES, WHERE = "Lists: one value, or several with commas", "Where and how"
# The flags of `run` that take lists here; --set gives all the others.
FLAGS = (
    "task", "decoder", "model", "preset", "branches", "lookahead", "max_new_tokens", "block_size", "tau_add", "tau_act",
    "tau_conf", "temperature", "limit", "seed", "dtype", "num_fewshot", "data_dir", "device", "threads", "warmup",
)  # fmt: skip


def _place(*names: str, help: str, **more: Any) -> Any:
    return typer.Option(*names, help=help, rich_help_panel=WHERE, **more)


File = Annotated[Path | None, typer.Argument(metavar="FILE.yaml", help="The grid, see docs/sweeps.md.")]
Set = Annotated[
    list[str] | None,
    typer.Option("--set", "-s", help="Any other run setting or option: KEY=VALUE or KEY=V1,V2.", rich_help_panel=AXES),
]
Name = Annotated[str | None, _place("--name", help="Name that `--sweep NAME` of other commands takes.")]
RunsDir = Annotated[
    Path | None, _place("--runs-dir", help="Where runs are stored, ./runs by default.", envvar="LOPA_BENCH_RUNS")
]
Consent = Annotated[
    bool, _place("--allow-code-execution", help="Agree to run, in a sandbox, the programs that a model writes.")
]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Check and list the cells, run none.")]
Whole = Annotated[bool, typer.Option("--whole", help="A row for each cell of more than 100, too.")]


def _sweep(
    context: typer.Context,
    file: File = None,
    set_: Set = None,
    name: Name = None,
    runs_dir: RunsDir = None,
    allow_code_execution: Consent = False,
    dry_run: DryRun = False,
    whole: Whole = False,
    json: shared.Json = False,
    csv: shared.Csv = False,
    markdown: shared.Markdown = False,
    latex: shared.Latex = False,
) -> None:
    """Run every cell of a grid that is not stored yet, and print a table of all; exit 1 when a cell failed.

    An option goes to those of the decoders that have it.

    Example: lopa-bench sweep --task mini-maths,mini-code --decoder d2f,lopa --branches 1,2,4,8 --limit 20
    """
    given = context.params
    format = shared.chosen_format(json=json, csv=csv, markdown=markdown, latex=latex)
    written = _written(file, given)
    course = Course(runs_dir or Path(written.sweep.runs_dir or "runs"), "cell")
    with course.told():
        if _execute(written, _name(written, file, name), course, dry_run, format, whole):
            raise typer.Exit(1)


def _written(file: Path | None, given: dict[str, Any]) -> Written:
    from lopa_bench.harness.sweeps.file import read_sweep_file, written_in_words

    flags = _flags(given)
    if file is None and not flags:
        raise ConfigError("nothing to sweep: name a file, or give lists such as --decoder d2f,lopa --branches 1,2,4")
    return written_in_words(flags) if file is None else read_sweep_file(file, flags)


def _flags(given: dict[str, Any]) -> dict[str, Any]:
    """Return the values of the command's flags and --set words, lists where they hold commas."""
    from lopa_bench.harness.sweeps.file import split_words

    words = {name: given[name] for name in FLAGS if given[name] is not None}
    for word in given["set_"] or []:
        key, equals, text = word.partition("=")
        name = key.strip().replace("-", "_")
        if not equals or not name:
            raise ConfigError(f"--set {word!r} is not of the form key=value")
        if name in words:
            raise ConfigError(f"{name} is given twice; write one list with commas")
        words[name] = text
    consent = {"allow_code_execution": True} if given["allow_code_execution"] else {}
    return {name: split_words(name, text) for name, text in words.items()} | consent


def _name(written: Written, file: Path | None, name: str | None) -> str:
    """Return the sweep's name: as given, as written, the file's, or one made of the command's lists."""
    from hashlib import sha256

    made = f"lists-{sha256(written.source.encode()).hexdigest()[:8]}"
    return name or written.sweep.name or (file.stem if file is not None else made)


def _execute(written: Written, name: str, course: Course, dry_run: bool, format: str, whole: bool) -> bool:
    """List the cells, run them unless it is a dry run, print the table; return whether one failed."""
    from lopa_bench.cli.sweep_terminal import Checking, SweepTerminal
    from lopa_bench.harness.sweeps.grid import cells_of
    from lopa_bench.harness.sweeps.overview import LONG, plan_overview, result_overview
    from lopa_bench.harness.sweeps.plan import plan_cells, plan_table, stored_paces, varying
    from lopa_bench.harness.sweeps.sweep import has_failed, result_table, run_sweep
    from lopa_bench.harness.sweeps.trial import try_out

    command = tuple(sys.argv)
    root = course.runs_dir
    planned = plan_cells(cells_of(written, root, command), consent_needed=not dry_run, listener=Checking())
    paces = stored_paces(root)
    if tried := try_out(planned, paces):
        typer.echo(f"tried one answer in {tried} of {len(planned)} cells to tell the time", err=True)
    is_long = len(planned) > LONG and not whole
    grouped = is_long and format == "table"
    if dry_run:
        shared.print_table((plan_overview if grouped else plan_table)(planned, paces), format)
        typer.echo("dry run: nothing was stored", err=True)
        return False
    terminal = SweepTerminal(varying([one.cell for one in planned]), course)
    terminal.planned((plan_overview if is_long else plan_table)(planned, paces))
    outcomes = run_sweep(
        planned, root, name=name, source=written.source, command=command, listener=terminal, paces=paces
    )
    shared.print_table((result_overview if grouped else result_table)(outcomes), format)
    typer.echo(f"stored in {root}; other commands take these runs as --sweep {name}", err=True)
    return has_failed(outcomes)


def _listed(name: str, hint: Any) -> Any:
    return as_list(hint, WHERE if name in ("data_dir", "device", "threads", "warmup") else AXES)


sweep = with_flags_of(run, _sweep, only=FLAGS, changed=_listed)

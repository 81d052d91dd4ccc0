"""`lopa-bench reproduce`: a published table's rows run here, and whether their figures come out."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from lopa_bench.cli import options as shared

WHAT, WHERE = "Which figures", "Where and how"


def _what(*names: str, help: str) -> Any:
    return typer.Option(*names, help=help, rich_help_panel=WHAT)


def _where(*names: str, help: str, **more: Any) -> Any:
    return typer.Option(*names, help=help, rich_help_panel=WHERE, **more)


Table_ = Annotated[str, typer.Argument(metavar="TABLE", help="lopa-table1, d2f-table3, fast-dllm-table2, ...")]
Row = Annotated[list[str] | None, _what("--row", help="Only this row, or all rows with these words; repeatable.")]
Task = Annotated[list[str] | None, _what("--task", "-t", help="Only this task; repeatable.")]
Limit = Annotated[str | None, _what("--limit", "-n", help="Only the first N problems, or a share such as 0.1.")]
Subset = Annotated[str | None, _what("--subset", help="A fixed subset of the problems: smoke, small.")]
Model = Annotated[str | None, _where("--model", "-m", help="The checkpoint as a folder; bundled: the mechanics alone.")]
Adapter = Annotated[str | None, _where("--adapter", help="The checkpoint's adapter as a folder.")]
DataDir = Annotated[Path | None, _where("--data-dir", help="Folder with the tasks' files.")]
Device = Annotated[str | None, _where("--device", help="auto, cpu, cuda, cuda:1, npu.")]
Dtype = Annotated[str | None, _where("--dtype", help="Instead of the preset's bfloat16.")]
Threads = Annotated[int | None, _where("--threads", help="CPU threads.")]
Offline = Annotated[bool, _where("--offline", help="Fetch nothing from the hub.")]
RunsDir = Annotated[Path, _where("--runs-dir", help="Where runs are stored.", envvar="LOPA_BENCH_RUNS")]
Stored = Annotated[bool, _where("--stored", help="Run nothing: judge the newest stored run of each preset.")]
Consent = Annotated[
    bool, _where("--allow-code-execution", help="Agree to run, in a sandbox, the programs that a model writes.")
]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Show the figures and their presets, run none.")]


def reproduce(
    table: Table_,
    row: Row = None,
    task: Task = None,
    limit: Limit = None,
    subset: Subset = None,
    model: Model = None,
    adapter: Adapter = None,
    data_dir: DataDir = None,
    device: Device = None,
    dtype: Dtype = None,
    threads: Threads = None,
    offline: Offline = False,
    runs_dir: RunsDir = Path("runs"),
    stored: Stored = False,
    allow_code_execution: Consent = False,
    dry_run: DryRun = False,
    json: shared.Json = False,
    csv: shared.Csv = False,
    markdown: shared.Markdown = False,
    latex: shared.Latex = False,
) -> None:
    """Run a published table's rows and say whether their figures come out; exit 0 all, 1 one not, 3 not comparable.

    Example: lopa-bench reproduce lopa-table1 --row "D2F-Dream LoPA" --task gsm8k --limit 200
    """
    from lopa_bench.cli.execute import Terminal
    from lopa_bench.harness.reproduction import reproduce as steps
    from lopa_bench.harness.reproduction.table import expected_table, result_table
    from lopa_bench.harness.settings import RunSpec

    format = shared.chosen_format(json=json, csv=csv, markdown=markdown, latex=latex)
    asked = RunSpec(
        limit=limit, subset=subset, model=model, adapter=adapter, data_dir=data_dir, device=device, dtype=dtype,
        threads=threads, offline=offline or None, runs_dir=runs_dir, command=tuple(sys.argv),
        allow_code_execution=allow_code_execution or None,
    )  # fmt: skip
    found = steps.targets(table, asked, rows=row or (), tasks=task or ())
    if dry_run:
        shared.print_table(expected_table(found), format)
        return
    if stored:
        done = steps.from_stored(found, runs_dir)
    else:
        steps.check_prerequisites(found)
        done = steps.reproduce(found, lambda label: Terminal(verbose=False, label=label))
    shared.print_table(result_table(done, mechanics=steps.is_mechanics(asked)), format)
    raise typer.Exit(steps.exit_code(done))

"""`lopa-bench list`: what there is to choose from, and what has been run."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from lopa_bench.cli import options as shared
from lopa_bench.errors import ConfigError, nearest

if TYPE_CHECKING:
    from lopa_bench.results.tables import Table

KINDS = ("models", "decoders", "tasks", "presets", "published", "runs")

What = Annotated[str, typer.Argument(metavar="|".join(KINDS), help="What to list.")]
RunsDir = Annotated[Path, typer.Option(help="Where runs are stored.", envvar="LOPA_BENCH_RUNS")]
Paper = Annotated[str | None, typer.Option(help="Published figures of lopa, d2f or fast-dllm alone.")]

Task = Annotated[str | None, typer.Option("--task", "-t", help="Presets of this task alone.")]
Decoder = Annotated[str | None, typer.Option("--decoder", "-d", help="Presets of this decoder alone.")]
DataDir = Annotated[
    Path | None, typer.Option("--data-dir", help="Where to look for the tasks' files.", envvar="LOPA_BENCH_DATA")
]


def list_(
    what: What,
    runs_dir: RunsDir = Path("runs"),
    paper: Paper = None,
    task: Task = None,
    decoder: Decoder = None,
    data_dir: DataDir = None,
    json: shared.Json = False,
    csv: shared.Csv = False,
    markdown: shared.Markdown = False,
    latex: shared.Latex = False,
) -> None:
    """List models, decoders with their options, tasks, presets, the papers' figures or stored runs.

    Example: lopa-bench list decoders
    """
    from lopa_bench.cli import listings

    format = shared.chosen_format(json=json, csv=csv, markdown=markdown, latex=latex)
    tables: dict[str, Callable[[], Table]] = {
        "models": listings.models,
        "decoders": listings.decoders,
        "tasks": lambda: listings.tasks(data_dir),
        "presets": lambda: listings.presets(task, decoder),
        "published": lambda: listings.published(paper),
        "runs": lambda: listings.runs(runs_dir),
    }
    if paper is not None and what != "published":
        raise ConfigError(f"--paper chooses among published figures, not among {what}; use `list published`")
    for word, value in (("task", task), ("decoder", decoder)):
        if value is not None and what != "presets":
            raise ConfigError(f"--{word} chooses among presets, not among {what}; use `list presets`")
    if what not in tables:
        raise ConfigError(f"cannot list '{what}'{nearest(what, KINDS)}; choose from {', '.join(KINDS)}")
    table = tables[what]()
    shared.print_table(listings.for_screen(what, table) if format == "table" else table, format)

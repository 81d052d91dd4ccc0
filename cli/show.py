"""`lopa-bench show`: a stored run."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from lopa_bench.cli import options as shared
from lopa_bench.errors import ConfigError

if TYPE_CHECKING:
    from lopa_bench.results.store import StoredRun

Reference = Annotated[str, typer.Argument(metavar="RUN", help="Number, name or folder of a run, or `last`.")]
RunsDir = Annotated[Path, typer.Option(help="Where runs are stored.", envvar="LOPA_BENCH_RUNS")]
Sample = Annotated[str | None, typer.Option(help="Print one sample whole, by its id or number.")]
Samples = Annotated[bool, typer.Option("--samples", help="List all samples.")]
Metrics = Annotated[
    bool, typer.Option("--metrics", help="Print every figure with its interval, n, definition and formula.")
]
Config = Annotated[bool, typer.Option("--config", help="Print every setting with the place its value came from.")]


def show(
    run: Reference = "last",
    runs_dir: RunsDir = Path("runs"),
    sample: Sample = None,
    samples: Samples = False,
    metrics: Metrics = False,
    count_as: shared.CountAs = None,
    config: Config = False,
    json: shared.Json = False,
    csv: shared.Csv = False,
    markdown: shared.Markdown = False,
    latex: shared.Latex = False,
) -> None:
    """Print a stored run: its table, why answers were wrong, and where it ran.

    Example: lopa-bench show last --config
    """
    from lopa_bench.cli import views
    from lopa_bench.cli.fitting import fitting
    from lopa_bench.results.store import load_run

    format = shared.chosen_format(json=json, csv=csv, markdown=markdown, latex=latex)
    shared.at_most_one({"--sample": sample, "--samples": samples, "--metrics": metrics, "--count-as": count_as})
    stored = load_run(run, runs_dir)
    if sample is not None:
        _print_sample(stored, sample, format)
        return
    if samples:
        shared.print_table(views.samples_table(stored), format)
        return
    if count_as is not None:
        from lopa_bench.results.recount import recount_table

        shared.print_table(recount_table([stored], count_as), format)
        return
    if metrics:
        from lopa_bench.results.rows import figures_table

        shared.print_table(figures_table(views.summary_of(stored), stored.record.id), format)
        return
    if format == "json":
        _print_json(stored)
        return
    table = views.run_table([stored], stored.record.id)
    shared.print_table(fitting(table) if format == "table" else table, format)
    if format == "table":
        for line in views.run_lines(stored, all_settings=config):
            shared.say(line)


def _print_sample(stored: StoredRun, sample_id: str, format: str) -> None:
    from lopa_bench.cli.sample_view import find_sample, sample_lines

    if format not in ("table", "json"):
        raise ConfigError(f"one sample is not a table: leave --{format} out, or use --json")
    sample = find_sample(stored, sample_id)
    if format == "json":
        typer.echo(sample.model_dump_json(indent=2))
        return
    for line in sample_lines(stored, sample):
        shared.say(line)


def _print_json(stored: StoredRun) -> None:
    import json

    from lopa_bench.cli.views import summary_of

    document = {
        "run": stored.record.model_dump(mode="json"),
        "path": str(stored.path),
        "status": stored.status,
        "summary": summary_of(stored).model_dump(mode="json"),
    }
    typer.echo(json.dumps(document, indent=2))

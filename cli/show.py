"""`lopa-bench show`: a stored run."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from lopa_bench.cli import options as shared

if TYPE_CHECKING:
    from lopa_bench.results.store import StoredRun

Reference = Annotated[str, typer.Argument(metavar="RUN", help="Number, name or folder of a run, or `last`.")]
RunsDir = Annotated[Path, typer.Option(help="Where runs are stored.", envvar="LOPA_BENCH_RUNS")]
Sample = Annotated[str | None, typer.Option(help="Print one sample whole, by its id.")]
Samples = Annotated[bool, typer.Option("--samples", help="List all samples.")]
Config = Annotated[bool, typer.Option("--config", help="Print every setting with the place its value came from.")]


def show(
    run: Reference = "last",
    runs_dir: RunsDir = Path("runs"),
    sample: Sample = None,
    samples: Samples = False,
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
    from lopa_bench.results.store import load_run

    format = shared.chosen_format(json=json, csv=csv, markdown=markdown, latex=latex)
    stored = load_run(run, runs_dir)
    if sample is not None:
        _print_sample(stored, sample)
        return
    if samples:
        shared.print_table(views.samples_table(stored), format)
        return
    if format == "json":
        _print_json(stored)
        return
    shared.print_table(views.run_table([stored], stored.record.id), format)
    if format == "table":
        for line in views.run_lines(stored, all_settings=config):
            typer.echo(line)


def _print_sample(stored: StoredRun, sample_id: str) -> None:
    from lopa_bench.errors import ConfigError, nearest

    by_id = {sample.id: sample for sample in stored.samples}
    if sample_id not in by_id:
        raise ConfigError(f"run {stored.record.id} has no sample '{sample_id}'{nearest(sample_id, by_id)}")
    typer.echo(by_id[sample_id].model_dump_json(indent=2))


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

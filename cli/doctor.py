"""`lopa-bench doctor`: what this machine has, and whether the decoders agree with themselves on it."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from lopa_bench.cli import options as shared

if TYPE_CHECKING:
    from lopa_bench.harness.data_check import TaskFitness
    from lopa_bench.harness.environment import Backend
    from lopa_bench.harness.sandbox.sandbox import Way
    from lopa_bench.results.tables import Table

Device = Annotated[str, typer.Option(help="Device to check on; auto is the best there is.")]
Model = Annotated[
    str | None, typer.Option("--model", "-m", help="Check this checkpoint too: bundled:NAME, a folder, or a hub id.")
]


Part = Annotated[
    str, typer.Option(help="With --csv, --markdown, --latex: versions, devices, isolation, tasks or checks.")
]
PARTS = ("versions", "devices", "isolation", "tasks", "checks")


def doctor(
    device: Device = "cpu",
    model: Model = None,
    part: Part = "checks",
    json: shared.Json = False,
    csv: shared.Csv = False,
    markdown: shared.Markdown = False,
    latex: shared.Latex = False,
) -> None:
    """Print versions, devices and isolation, and check the decoders on tiny networks; exit 1 when a check fails.

    Example: lopa-bench doctor --device cuda
    """
    from lopa_bench.harness import environment
    from lopa_bench.harness.data_check import fitness_of_tasks
    from lopa_bench.harness.equivalence import checkpoint_checks, checks
    from lopa_bench.harness.sandbox.sandbox import ways

    format = shared.chosen_format(json=json, csv=csv, markdown=markdown, latex=latex)
    shared.one_of("part", part, PARTS)
    device = environment.choose_device(device)
    versions, backends, isolation = environment.versions(), environment.backends(), ways()
    folder = os.environ.get("LOPA_BENCH_DATA")
    tasks = fitness_of_tasks(Path(folder).expanduser() if folder else None)
    found = (_versions(versions), _backends(backends), _isolation(isolation), _tasks(tasks))
    if format == "table":
        for table in found:
            shared.print_table(table)
    outcomes = [*(checkpoint_checks(model, device) if model else []), *checks(device)]
    if format == "json":
        _print_json(versions, backends, isolation, tasks, outcomes)
    else:
        shared.print_table(dict(zip(PARTS, (*found, _checks(outcomes)), strict=True))[part], format)
    raise typer.Exit(0 if all(outcome.ok for outcome in outcomes) else 1)


def _versions(versions: dict[str, str | None]) -> Table:
    import platform

    from lopa_bench.results.tables import Column, Table

    rows = [{"package": "python", "version": platform.python_version()}]
    rows += [{"package": name, "version": version or "not installed"} for name, version in versions.items()]
    return Table([Column("package", "package"), Column("version", "version")], rows, "versions")


def _backends(backends: list[Backend]) -> Table:
    from lopa_bench.results.tables import Column, Row, Table

    rows: list[Row] = [
        {
            "device": one.device,
            "communication": one.communication,
            "there": one.available,
            "names": ", ".join(one.names) or "-",
            "remark": one.why or "-",
        }
        for one in backends
    ]
    keys = ("device", "communication", "there", "names", "remark")
    return Table([Column(key, key) for key in keys], rows, "devices")


def _checks(outcomes: list[Any]) -> Table:
    from lopa_bench.results.tables import Column, Table

    rows = [{"check": one.name, "holds": one.ok, "seen": one.detail} for one in outcomes]
    failed = sum(not one.ok for one in outcomes)
    notes = (f"{failed} of {len(rows)} checks failed" if failed else f"all {len(rows)} checks hold",)
    return Table([Column(key, key) for key in ("check", "holds", "seen")], rows, "checks", notes)


def _isolation(found: list[Way]) -> Table:
    from lopa_bench.results.tables import Column, Row, Table

    rows: list[Row] = [
        {"isolation": one.name, "works": one.works, "taken": one.is_taken, "remark": one.remark or "-"} for one in found
    ]
    keys = ("isolation", "works", "taken", "remark")
    return Table([Column(key, key) for key in keys], rows, "programs that models write are run in")


def _tasks(found: list[TaskFitness]) -> Table:
    from lopa_bench.results.tables import Column, Row, Table

    rows: list[Row] = [
        {"task": one.task, "usable": one.usable, "data": one.data, "remark": one.remark or "-"} for one in found
    ]
    return Table([Column(key, key) for key in ("task", "usable", "data", "remark")], rows, "tasks")


def _print_json(
    versions: dict[str, str | None],
    backends: list[Backend],
    isolation: list[Way],
    tasks: list[TaskFitness],
    outcomes: list[Any],
) -> None:
    import json
    from dataclasses import asdict

    document = {
        "versions": versions,
        "backends": [asdict(one) for one in backends],
        "isolation": [asdict(one) for one in isolation],
        "tasks": [asdict(one) for one in tasks],
        "checks": [{"name": one.name, "ok": one.ok, "detail": one.detail} for one in outcomes],
        "ok": all(one.ok for one in outcomes),
    }
    typer.echo(json.dumps(document, indent=2))

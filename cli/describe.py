"""`lopa-bench describe`: a task with one of its prompts, or a preset with what its authors stated."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from lopa_bench.cli import options as shared

if TYPE_CHECKING:
    from lopa_bench.harness.task_card import Fact, TaskCard
    from lopa_bench.results.tables import Table

Name = Annotated[str, typer.Argument(metavar="TASK|PRESET", help="A task or a preset, see `list`.")]
DataDir = Annotated[
    Path | None, typer.Option("--data-dir", help="Folder with the task's files.", envvar="LOPA_BENCH_DATA")
]
Sample = Annotated[str, typer.Option("--sample", help="Whose prompt to print: a position or an id.")]
Offline = Annotated[bool, typer.Option("--offline", help="Fetch nothing from the hub.")]


def describe(
    name: Name,
    data_dir: DataDir = None,
    sample: Sample = "0",
    offline: Offline = False,
    json: shared.Json = False,
    csv: shared.Csv = False,
    markdown: shared.Markdown = False,
    latex: shared.Latex = False,
) -> None:
    """Print a task's settings with where each comes from, its data and one whole prompt, or a preset's stated values.

    Example: lopa-bench describe gsm8k --data-dir DATA
    """
    from lopa_bench.harness.task_card import kind_of, task_card

    format = shared.chosen_format(json=json, csv=csv, markdown=markdown, latex=latex)
    if kind_of(name) == "preset":
        _print_preset(name, format)
        return
    folder = data_dir.expanduser() if data_dir else None
    _set_up(folder, name, offline)
    card = task_card(name, folder, sample)
    if format == "json":
        shared.print_json(asdict(card) | {"prompt_sha256": card.prompt_sha256})
        return
    shared.print_table(_table(card.facts, f"{card.name}, version {card.version}"), format)
    if format == "table":
        for line in task_lines(card):
            typer.echo(line)


def _set_up(data_dir: Path | None, name: str, offline: bool) -> None:
    """Keep the hub's libraries off the network where it is not wanted or not there."""
    from lopa_bench.harness import offline as network
    from lopa_bench.harness.task_source import splits_of

    is_local = data_dir is not None or not splits_of(name)
    if offline or is_local or (not network.is_offline() and network.hub_is_out_of_reach()):
        network.go_offline()
    else:
        network.use_private_dataset_cache()
    if offline:
        network.forbid_connections()


def task_lines(card: TaskCard) -> list[str]:
    """Return what stands under a task's table: citation, data, prompt."""
    lines = [f"cite: {card.citation}"]
    for one in card.data:
        rows = "" if one.rows is None else f", {one.rows} rows"
        sha = "" if one.sha256 is None else f", sha256 {one.sha256[:12]}"
        lines.append(f"data: {one.data} {one.split}: {one.file or '-'}{rows}{sha}, {one.status}")
        lines += [f"      {one.problem}"] if one.problem else []
    lines += [f"known: {one.data} {one.split}: {one.release}, sha256 {one.sha256}" for one in card.known]
    if card.no_prompt:
        return [*lines, f"prompt: cannot be shown: {card.no_prompt}"]
    head = f"prompt of {card.prompt_id}, {len(card.prompt)} characters, sha256 {card.prompt_sha256[:12]}:"
    return [*lines, head, card.prompt]


def _print_preset(name: str, format: str) -> None:
    from lopa_bench.harness.task_card import preset_facts
    from lopa_bench.tasks.presets import get_preset

    preset, facts = get_preset(name), preset_facts(name)
    if format == "json":
        document: dict[str, Any] = {
            "preset": preset.name,
            "source": preset.source,
            "note": preset.note,
            "open_question": preset.open_question,
            "published": list(preset.published),
            "settings": {fact.name: fact.value for fact in facts},
        }
        shared.print_json(document)
        return
    shared.print_table(_table(facts, f"{preset.name}: {preset.source}"), format)
    if format == "table":
        words = {"note": preset.note, "open question": preset.open_question, "stands for": ", ".join(preset.published)}
        for word, text in words.items():
            if text:
                typer.echo(f"{word}: {text}")
        typer.echo(f"run it: lopa-bench run --preset {preset.name}")


def _table(facts: tuple[Fact, ...] | list[Fact], title: str) -> Table:
    from lopa_bench.harness.task_card import as_rows
    from lopa_bench.results.tables import Column, Table

    return Table([Column(key, key) for key in ("setting", "value", "from")], as_rows(facts), title)

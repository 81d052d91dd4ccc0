"""The tables of `lopa-bench list`."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from lopa_bench.errors import ConfigError, ModelError, ResultsError
from lopa_bench.results.tables import Column, Row, Table, Value

# What fits a screen; JSON, CSV, Markdown and LaTeX have all columns.
ON_SCREEN = {
    "tasks": ("task", "family", "accuracy is", "tokens", "defined by", "data"),
    "presets": ("preset", "task", "decoder", "model", "shots", "source", "note"),
    "published": ("table", "row", "task", "metric", "value", "unit", "kind", "note"),
}


def for_screen(what: str, table: Table) -> Table:
    """Return a listing without what would make it too wide.

    Runs go by their numbers, as the names tell no more; of a preset's sources the first is named.
    """
    if what == "runs":
        from lopa_bench.results.rows import short_runs

        short = short_runs(str(row["run"]) for row in table.rows)
        return replace(table, rows=[{**row, "run": short[str(row["run"])]} for row in table.rows])
    shown = ON_SCREEN.get(what)
    if shown is None:
        return table
    if what == "presets":
        table = replace(table, rows=[{**row, "source": str(row["source"]).partition(";")[0]} for row in table.rows])
    return replace(table, columns=[column for column in table.columns if column.key in shown])


def models() -> Table:
    """Return the bundled models, the public checkpoints known by name, and the adapters for them."""
    from lopa_bench.harness.bundled_defaults import MODEL_OF
    from lopa_bench.models.catalog import ADAPTERS, CHECKPOINTS
    from lopa_bench.models.loading import BUNDLED, load_config, locate
    from lopa_bench.models.memory import count_parameters

    rows: list[Row] = []
    adapters = {adapter.base: adapter.hub_id for adapter in ADAPTERS}
    for name in (f"bundled:{kind}" for kind in BUNDLED):
        users = ", ".join(decoder for decoder, model in MODEL_OF.items() if model == name)
        try:
            family, config = load_config(locate(name))
        except ModelError as error:
            rows.append({"model": name, "family": str(error), "decoders": users})
            continue
        rows.append(_model(name, family.name, family.diffusion, count_parameters(config), "-", users))
    for one in CHECKPOINTS:
        decoders = "vanilla, fast-dllm, d2f, lopa" if one.family.diffusion else "ar"
        adapter = adapters.get(one.hub_id, "-")
        rows.append(_model(one.hub_id, one.family.name, one.family.diffusion, one.parameters, adapter, decoders))
    columns = [
        Column("model", "model"),
        Column("family", "family"),
        Column("kind", "kind"),
        Column("parameters", "parameters, M", digits=1, scale=1e-6),
        Column("adapter", "D2F adapter"),
        Column("decoders", "decoders"),
    ]
    notes = ("Any other checkpoint of these families loads too, from a folder or by its hub id.",)
    return Table(columns, rows, notes=notes)


def _model(name: str, family: str, diffusion: bool, parameters: int, adapter: str, decoders: str) -> Row:
    kind = "diffusion" if diffusion else "autoregressive"
    return {
        "model": name,
        "family": family,
        "kind": kind,
        "parameters": parameters,
        "adapter": adapter,
        "decoders": decoders,
    }


def decoders() -> Table:
    """Return every option of every decoder."""
    from lopa_bench.decoders.options import describe
    from lopa_bench.decoders.registry import decoder_types
    from lopa_bench.harness.servers.settings import ServerDecoder

    kinds: dict[str, Any] = {**decoder_types(), ServerDecoder.name: ServerDecoder}
    rows: list[Row] = [
        {
            "decoder": name,
            "option": option["name"],
            "default": "none" if option["default"] is None else _plain(option["default"]),
            "aliases": ", ".join(option["aliases"]) or "-",
            "meaning": option["help"],
        }
        for name, kind in kinds.items()
        for option in describe(kind.config_type)
    ]
    columns = [Column(key, key) for key in ("decoder", "option", "default", "aliases", "meaning")]
    return Table(columns, rows, notes=("Give any of them as --set option=value.",))


def _plain(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def tasks(data_dir: Path | None = None) -> Table:
    """Return all tasks, with where their problems would come from."""
    from lopa_bench.harness.data_check import where_data_are
    from lopa_bench.harness.task_source import all_tasks

    folder = data_dir.expanduser() if data_dir else None
    rows: list[Row] = [
        {
            "task": task.name,
            "family": task.family,
            "accuracy is": task.metric,
            "tokens": task.max_new_tokens,
            "defined by": task.origin,
            "data": where_data_are(task.name, folder),
            "citation": task.citation,
        }
        for task in all_tasks()
    ]
    columns = [
        Column(key, key) for key in ("task", "family", "accuracy is", "tokens", "defined by", "data", "citation")
    ]
    notes = ["`lopa-bench describe TASK` prints a task's settings, data and one whole prompt."]
    if folder is None:
        notes.append("Files of your own instead of the hub's: --data-dir DIR or LOPA_BENCH_DATA.")
    return Table(columns, rows, notes=notes)


def presets(task: str | None = None, decoder: str | None = None) -> Table:
    """Return the published settings, those of one task or decoder when told; ConfigError when there is none such."""
    from lopa_bench.decoders.registry import decoder_type
    from lopa_bench.harness.task_source import known_name
    from lopa_bench.tasks.presets import PRESETS

    if decoder is not None:
        decoder_type(decoder)
    chosen = [one for one in PRESETS.values() if decoder in (None, one.decoder)]
    if task is not None:
        chosen = [one for one in chosen if one.task == known_name(task)]
    if not chosen:
        raise ConfigError(f"there are no presets of task {task} with decoder {decoder}; `list presets` shows all")

    rows: list[Row] = [
        {
            "preset": preset.name,
            "task": preset.task,
            "decoder": preset.decoder,
            "model": preset.model,
            "adapter": preset.adapter or "-",
            "shots": preset.num_fewshot,
            "chat": preset.chat,
            "options": ", ".join(f"{name}={value}" for name, value in preset.options.items()),
            "source": preset.source,
            "note": preset.note or "-",
            "stands for": ", ".join(preset.published) or "-",
            "open question": preset.open_question or "-",
        }
        for preset in chosen
    ]
    keys = (
        "preset", "task", "decoder", "model", "adapter", "shots", "chat", "options", "source", "note", "stands for",
        "open question",
    )  # fmt: skip
    notes = ["`lopa-bench describe PRESET` prints all that its authors stated."]
    if task is None and decoder is None:
        notes.append("--task and --decoder show fewer.")
    return Table([Column(key, key) for key in keys], rows, notes=notes)


def published(paper: str | None) -> Table:
    """Return the published figures, one row each."""
    from lopa_bench.results.published_figures import select

    rows: list[Row] = [
        {
            "table": figure.table_id,
            "row": figure.row,
            "task": figure.task or "-",
            "model": figure.model,
            "decoder": figure.decoder,
            "metric": figure.metric,
            "value": figure.value,
            "unit": figure.unit,
            "kind": figure.kind,
            "settings": ", ".join(f"{name}={value}" for name, value in figure.settings.items()) or "-",
            "source": figure.source,
            "note": figure.note or "-",
        }
        for figure in select(paper=paper)
    ]
    keys = ("table", "row", "task", "model", "decoder", "metric", "value", "unit", "kind", "settings", "source", "note")
    notes = (
        "quoted: as printed; digitised: read off a plot. None was measured here; `lopa-bench reproduce` does that.",
    )
    return Table([Column(key, key) for key in keys], rows, notes=notes)


def runs(root: Path) -> Table:
    """Return the runs stored under `root`; one whose samples cannot be read is there, and a note says why."""
    from lopa_bench.cli.views import decoder_words, summary_of
    from lopa_bench.results.rows import metric_column
    from lopa_bench.results.store import list_runs

    rows: list[Row] = []
    damages: list[str] = []
    for run in list_runs(root):
        record = run.record
        row: dict[str, Value] = {
            "run": record.id,
            "created": record.created.strftime("%Y-%m-%d %H:%M"),
            "task": record.task.name,
            "decoder": decoder_words(run),
            "model": record.model.name,
        }
        try:
            figures = summary_of(run).metrics
            row |= {"status": run.status, "samples": f"{len(run.samples)} of {record.task.num_documents}"}
            row |= {name: figures[name].value for name in ("accuracy", "tpf", "tps_e2e")}
        except ResultsError as error:
            row["status"] = "damaged"
            damages.append(str(error))
        rows.append(row)
    columns = [Column(key, key) for key in ("run", "status", "created", "task", "decoder", "model", "samples")]
    columns += [metric_column(name) for name in ("accuracy", "tpf", "tps_e2e")]
    notes = () if rows else (f"no runs in {root} yet; `lopa-bench run` or `lopa-bench demo` makes some",)
    return Table(columns, rows, notes=(*notes, *damages))

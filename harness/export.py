"""A stored run in the forms that other programs read: lm-eval's files, samples for evalplus, a table of samples."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from lopa_bench.errors import ConfigError, ResultsError, TaskDataError, nearest
from lopa_bench.harness.code.task import CodeTask
from lopa_bench.harness.stored_task import documents_of, task_of
from lopa_bench.results.jsonl import replace_file, sentence_on_os_error
from lopa_bench.results.schema import SampleRecord, Setting
from lopa_bench.results.tables import Column, Row, Table, to_csv
from lopa_bench.tasks.code_data import CodeData, load_code_data

if TYPE_CHECKING:
    from lopa_bench.results.store import StoredRun

FORMATS = ("lm-eval", "evalplus", "csv")
FOLDER = "exports"
OVERRIDE = {"humaneval": "HUMANEVAL_OVERRIDE_PATH", "mbpp": "MBPP_OVERRIDE_PATH"}


@dataclass(frozen=True)
class Exported:
    """The files that were written, and what their user should know."""

    files: tuple[Path, ...]
    notes: tuple[str, ...] = ()


def export(run: StoredRun, format: str, out: Path | None = None, data_dir: Path | None = None) -> Exported:
    """Write a run in one of FORMATS.

    Args:
        run: the run.
        format: "csv", one row per sample; "evalplus", a samples.jsonl for `evalplus.evaluate`; "lm-eval", its own
            samples_*.jsonl and results_*.json.
        out: the folder to write in, or for csv and evalplus the file; by default a folder `exports` in the run's.
        data_dir: where the task's data lie, if they have moved since.

    Raises:
        ConfigError: no such format, or not for this task.
        ResultsError: there is nothing to write, or it cannot be written.
        TaskDataError: the task's data cannot be read, or are others than those of the run.
    """
    if format not in FORMATS:
        raise ConfigError(
            f"no export format is called '{format}'{nearest(format, FORMATS)}; there are {', '.join(FORMATS)}"
        )
    if not run.samples:
        raise ResultsError(f"run {run.path.name} holds no answers: there is nothing to export")
    out = run.path / FOLDER if out is None else out.expanduser()
    written = _written(run, format, out, data_dir)
    lacking = run.record.task.num_documents - len(run.samples)
    if lacking > 0:
        note = f"the run is unfinished: it lacks {lacking} of {run.record.task.num_documents} answers"
        written = replace(written, notes=(note, *written.notes))
    return written


def _written(run: StoredRun, format: str, out: Path, data_dir: Path | None) -> Exported:
    if format == "csv":
        return _csv(run, out)
    configuration = dict(run.record.configuration)
    if data_dir is not None:
        configuration["data_dir"] = Setting(value=str(data_dir), origin="flag")
    if format == "evalplus":
        return _evalplus(run, out, configuration)
    from lopa_bench.harness.lm_eval_adapter.export import write

    return Exported(*write(run, out, configuration))


def _file(out: Path, suffix: str, name: str) -> Path:
    """Return the file to write: `out` itself if it looks like one, else `name` in it."""
    path = out if out.suffix == suffix else out / name
    with sentence_on_os_error("make", path.parent, "give another folder with --out"):
        path.parent.mkdir(parents=True, exist_ok=True)
    return path


def _csv(run: StoredRun, out: Path) -> Exported:
    path = _file(out, ".csv", "samples.csv")
    scores = sorted({name for sample in run.samples for name in sample.scores})
    rows = [_row(sample, scores) for sample in run.samples]
    table = Table([Column(name, name) for name in rows[0]], rows)
    replace_file(path, to_csv(table).encode())
    return Exported((path,))


def _row(sample: SampleRecord, scores: Sequence[str]) -> Row:
    plain = sample.model_dump(exclude={"token_ids", "tokens", "work", "time", "scores", "extra", "text", "text_kept"})
    text = {"text": sample.text, "text_kept": sample.text_kept}
    ledgers = {
        f"{name}.{field}": value
        for name, ledger in (("tokens", sample.tokens), ("work", sample.work), ("time", sample.time))
        for field, value in ledger
    }
    return {**plain, **{f"score:{name}": sample.scores.get(name) for name in scores}, **ledgers, **text}


def _evalplus(run: StoredRun, out: Path, configuration: dict[str, Setting]) -> Exported:
    task = task_of(configuration)
    if not isinstance(task, CodeTask) or task.definition.data == "mbpp":
        raise ConfigError(
            f"evalplus has no tests for task {task.name}; runs of humaneval, humaneval+ and mbpp+ can be exported so"
        )
    answered = [sample for sample in run.samples if sample.extracted is not None]
    if not answered:
        raise ResultsError(f"run {run.path.name} holds no programs: its {len(run.samples)} samples are errors")
    documents = documents_of(run, task, answered, same_prompts=False)
    names = [str(document.metadata["task_id"]) for document in documents]
    path = _file(out, ".jsonl", "samples.jsonl")
    lines = [
        json.dumps({"task_id": name, "solution": sample.extracted})
        for name, sample in zip(names, answered, strict=True)
    ]
    replace_file(path, "".join(line + "\n" for line in lines).encode())
    family = task.definition.base_name
    command = f"evalplus.evaluate --dataset {family} --samples {path}"
    files, notes = [path], []
    if len(names) < task.num_available:
        left_out = f"{len(names)} of {task.num_available} problems"
        try:
            problems = _problems(task, names, path, configuration)
            files.append(problems)
            command = f"{OVERRIDE[family]}={problems} {command}"
            notes.append(
                f"evalplus wants a program for every problem; {problems.name} holds the {left_out} of this run"
            )
        except TaskDataError as error:
            notes.append(f"evalplus wants a program for every problem and there are {left_out}: {error}")
    notes.append(f"evaluate with: {command}")
    results = path.with_name(f"{path.stem}_eval_results.json")
    if results.exists():
        notes.append(f"{results} is of an earlier evaluation and evalplus would show it again: delete it first")
    return Exported(tuple(files), tuple(notes))


def _problems(task: CodeTask, names: list[str], path: Path, configuration: dict[str, Setting]) -> Path:
    """Write the data of some problems only, as the package reads them."""
    data = _inputs(task, configuration)
    wanted = set(names)
    lines = [json.dumps(row) for row in data.rows if row["task_id"] in wanted]
    problems = path.with_name(f"{path.stem}_problems.jsonl")
    replace_file(problems, "".join(line + "\n" for line in lines).encode())
    return problems


def _inputs(task: CodeTask, configuration: dict[str, Setting]) -> CodeData:
    if task.definition.data.endswith("+"):
        return task.data
    data_dir = configuration["data_dir"].value
    return load_code_data(f"{task.definition.data}+", None if data_dir is None else Path(str(data_dir)).expanduser())

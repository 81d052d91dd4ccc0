"""A stored run as lm-eval's own output files, written by lm-eval's own code."""

from __future__ import annotations

import json
import time
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from importlib import metadata
from pathlib import Path
from statistics import fmean, stdev
from typing import TYPE_CHECKING, Any

from lopa_bench.errors import ResultsError
from lopa_bench.harness.code.task import CodeTask
from lopa_bench.harness.lm_eval_adapter.tasks import LmEvalTask
from lopa_bench.harness.stored_task import documents_of, task_of
from lopa_bench.results.jsonl import sentence_on_os_error

if TYPE_CHECKING:
    from lopa_bench.results.schema import SampleRecord, Setting
    from lopa_bench.results.store import StoredRun
    from lopa_bench.tasks.base import Document, Task

NO_FILTER = "none"
BULKY = ("base_input", "plus_input", "contract", "atol")
"""Fields of EvalPlus' data that lm-eval's copies do not have."""


def write(run: StoredRun, out: Path, configuration: Mapping[str, Setting]) -> tuple[tuple[Path, ...], tuple[str, ...]]:
    """Write results_*.json and samples_*.jsonl below `out` in a folder with the model's name; return files and notes.

    Raises:
        ResultsError: the run has no score, or its prompts cannot be made again.
    """
    summary = run.summary
    if summary is None or summary.blocked:
        reason = summary.blocked if summary is not None else "it is not finished"
        raise ResultsError(f"run {run.path.name} has no score to export: {reason}")
    from lm_eval.loggers import EvaluationTracker

    task = task_of(configuration)
    judged = [sample for sample in run.samples if sample.status == "ok" and sample.scores]
    if not judged:
        raise ResultsError(f"run {run.path.name} has no score to export: none of its answers has a verdict")
    documents = documents_of(run, task, judged, same_prompts=not _value(configuration, "chat"))
    name = lm_eval_name(task.name)
    rows = [row for pair in zip(documents, judged, strict=True) for row in _rows(task, *pair)]
    with sentence_on_os_error("make", out, "give another folder with --out"):
        out.mkdir(parents=True, exist_ok=True)
    tracker = EvaluationTracker(output_path=str(out))
    tracker.general_config_tracker.log_experiment_args(
        model_source="lopa-bench",
        model_args={"model": run.record.model.name, "decoder": run.record.decoder.name},
        system_instruction=_value(configuration, "system_instruction"),
        chat_template=None,
        fewshot_as_multiturn=bool(_value(configuration, "multiturn")),
    )
    tracker.general_config_tracker.start_time = time.perf_counter() - sum(one.time.total_s for one in run.samples)
    tracker.save_results_aggregated(_results(run, task, name, rows, len(judged)), {name: rows})
    tracker.save_results_samples(name, rows)
    folder = out / str(tracker.general_config_tracker.model_name_sanitized)
    files = (folder / f"results_{tracker.date_id}.json", folder / f"samples_{name}_{tracker.date_id}.jsonl")
    for path, num_lines in zip(files, (1, len(rows)), strict=True):
        if not _is_whole(path, num_lines):
            raise ResultsError(f"lm-eval could not write all of {path}; is there room, and may {out} be written?")
    missing = len(run.samples) - len(judged)
    return files, (f"{missing} answers without a verdict are left out",) if missing else ()


def _is_whole(path: Path, num_lines: int) -> bool:
    """Tell whether a file of JSON is there to its end; lm-eval only logs that it could not write one."""
    try:
        text = path.read_text(encoding="utf-8")
        parts = text.split("\n") if path.suffix == ".jsonl" else [text]
        objects = [json.loads(part) for part in parts if part]
    except (OSError, ValueError):
        return False
    return len(objects) >= num_lines


def lm_eval_name(name: str) -> str:
    """Return a task's name as lm-eval spells it."""
    return name.replace("+", "_plus").replace("-", "_")


def _value(configuration: Mapping[str, Setting], name: str) -> Any:
    return configuration[name].value if name in configuration else None


def _rows(task: Task, document: Document, sample: SampleRecord) -> Iterator[dict[str, Any]]:
    """Yield lm-eval's record of one sample, one for each filter."""
    from lm_eval.utils import handle_non_serializable, hash_string

    doc = document_fields(task, document)
    prompt = sample.prompt or document.prompt
    arguments = (prompt, generation_kwargs(task))
    text = json.dumps(doc, indent=2, default=handle_non_serializable, ensure_ascii=False)
    filtered: dict[str, Any] = task.filtered(document, sample.text_kept) if isinstance(task, LmEvalTask) else {}
    for filter, metrics in by_filter(sample.scores).items():
        yield {
            "doc_id": int(document.id.rpartition("-")[2]),
            "doc": doc,
            "target": document.target,
            "arguments": [arguments],
            "resps": [[sample.text_kept]],
            "filtered_resps": [filtered.get(filter, sample.extracted or "")],
            "filter": filter,
            "metrics": list(metrics),
            "doc_hash": hash_string(text),
            "prompt_hash": hash_string(prompt),
            "target_hash": hash_string(document.target),
            **metrics,
        }


def generation_kwargs(task: Task) -> dict[str, Any]:
    """Return what lm-eval's request says besides the prompt."""
    return task.generation_kwargs if isinstance(task, LmEvalTask) else {"until": list(task.stop)}


def document_fields(task: Task, document: Document) -> dict[str, Any]:
    """Return a problem as its data set has it."""
    if isinstance(task, CodeTask):
        row = task.data.rows[document.metadata["index"]]
        return {name: value for name, value in row.items() if name not in BULKY}
    if "doc" in document.metadata:
        return dict(document.metadata["doc"])
    return {"id": document.id, "prompt": document.prompt, "target": document.target, **document.metadata}


def by_filter(scores: Mapping[str, float]) -> dict[str, dict[str, float]]:
    """Return "metric,filter" scores as metrics by filter."""
    found: dict[str, dict[str, float]] = defaultdict(dict)
    for name, value in scores.items():
        metric, _, filter = name.partition(",")
        found[filter or NO_FILTER][metric] = value
    return dict(found)


def _results(
    run: StoredRun, task: Task, name: str, rows: Sequence[Mapping[str, Any]], num_judged: int
) -> dict[str, Any]:
    """Return what lm-eval stores of a whole evaluation."""
    record = run.record
    shots = int(getattr(task, "num_fewshot", 0))
    figures: dict[str, Any] = {"alias": name, "sample_len": num_judged}
    for key, values in _values(rows).items():
        metric, filter = key
        figures[f"{metric},{filter}"] = fmean(values)
        figures[f"{metric}_stderr,{filter}"] = stdev(values) / len(values) ** 0.5 if len(values) > 1 else "N/A"
    return {
        "results": {name: figures},
        "group_subtasks": {name: []},
        "configs": {
            name: {
                "task": name,
                "output_type": "generate_until",
                "num_fewshot": shots,
                "generation_kwargs": generation_kwargs(task),
                "metadata": {"version": task.version, "source": record.task.source, "scoring": record.scoring},
            }
        },
        "versions": {name: _number(str(task.version))},
        "n-shot": {name: shots},
        "higher_is_better": {name: {metric: True for metric, _ in _values(rows)}},
        "n-samples": {name: {"original": record.task.num_available, "effective": num_judged}},
        "config": {
            "model": "lopa-bench",
            "model_args": {"model": record.model.name, "decoder": record.decoder.name, **record.decoder.options},
            "batch_size": record.environment.batch_size,
            "device": record.environment.device,
            "limit": record.task.num_documents if record.task.partial else None,
            "random_seed": record.seed,
            "lopa_bench": {"run": record.id, "fingerprint": record.fingerprint},
        },
        "git_hash": record.environment.git_commit,
        "date": record.created.timestamp(),
        "lm_eval_version": metadata.version("lm_eval"),
        "transformers_version": record.environment.packages.get("transformers", ""),
    }


def _number(version: str) -> float | str:
    """Return a version as lm-eval writes it, mostly a number."""
    try:
        return float(version)
    except ValueError:
        return version


def _values(rows: Sequence[Mapping[str, Any]]) -> dict[tuple[str, str], list[float]]:
    """Return the samples' values of every metric under every filter."""
    found: dict[tuple[str, str], list[float]] = defaultdict(list)
    for row in rows:
        for metric in row["metrics"]:
            found[metric, row["filter"]].append(row[metric])
    return dict(found)

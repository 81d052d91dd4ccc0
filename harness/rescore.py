"""Judging a run's stored answers again, without the model: by another scorer or clean-up, or after a fault of it."""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lopa_bench.errors import ResultsError, ScorerError
from lopa_bench.harness.code.batch import judge_all
from lopa_bench.harness.code.consent import has_consent
from lopa_bench.harness.code.task import CodeTask
from lopa_bench.harness.records import with_scorer_error, with_verdict
from lopa_bench.harness.settings import FOR_PROGRAMS, Settings, check_runs_answers
from lopa_bench.harness.stored_task import documents_of, task_of
from lopa_bench.harness.task_source import end_scoring, prepare_scoring, scoring_of
from lopa_bench.results import rescoring
from lopa_bench.results.rescoring import Change
from lopa_bench.results.schema import FINISHED, RunRecord, SampleRecord, Setting, Summary
from lopa_bench.results.store import StoredRun
from lopa_bench.results.summary import end_status, summarise
from lopa_bench.results.tables import Column, Row, Table
from lopa_bench.tasks.base import Document, Task

JUDGING = ("allow_code_execution", "data_dir", *FOR_PROGRAMS)
"""The settings that may be others than when the run was made."""

MOST_WORKERS = 8

Progress = Callable[[int, int], None]


@dataclass(frozen=True)
class Rescored:
    """What judging a run again came to; `run` is the run as it is stored now, after a dry run as it was."""

    run: StoredRun
    before: Summary
    after: Summary
    changed: tuple[Change, ...]
    scoring: dict[str, Any]


def rescore(
    run: StoredRun,
    chosen: Mapping[str, Setting],
    *,
    dry_run: bool = False,
    on_progress: Progress = lambda done, total: None,
) -> Rescored:
    """Judge the answers of a run and put the verdicts in place of those it had, which its record keeps.

    Args:
        run: the run, wherever its folder lies now.
        chosen: settings of JUDGING that differ from the run's own; consent never comes from the run.
        dry_run: store nothing.
        on_progress: hears how many of how many answers are judged.

    Raises:
        PrerequisiteError: programs would be run without consent.
        TaskDataError: the data cannot be read, or are others than those of the run.
        ResultsError: the run is in use, or was asked other problems than the task has now.
        ScorerError: nothing can be judged here; the run stays as it was.
    """
    if run.status == "running":
        raise ResultsError(f"run {run.path.name} is in use by another process; judge it again when that has ended")
    configuration = {**run.record.configuration, "allow_code_execution": Setting(value=False), **chosen}
    task = task_of(configuration)
    documents = documents_of(run, task, run.samples, same_prompts=not configuration["chat"].value)
    try:
        scoring = prepare_scoring(task)
        samples = _judge(run, task, documents, on_progress)
    finally:
        end_scoring(task)
    info = run.record.task.model_copy(update={"metric": task.metric})
    record = run.record.model_copy(update={"task": info, "scoring": scoring, "configuration": configuration})
    before, after = summarise(run.record, run.samples), summarise(record, samples)
    changed = rescoring.changes(run.samples, samples)
    if not dry_run:
        entry = rescoring.entry(run.record, before, after, changed)
        record = record.model_copy(update={"rescored": (*record.rescored, entry)})
        if record.status in FINISHED:
            record = record.model_copy(update={"status": end_status(after)})
        after = summarise(record, samples)
        run = rescoring.store_verdicts(run, record, samples, after)
    return Rescored(run, before, after, changed, scoring)


def is_judgeable(sample: SampleRecord) -> bool:
    """Whether there is an answer to judge."""
    return sample.status == "ok" or sample.has_scorer_error


def check_has_answers(run: StoredRun) -> None:
    """Refuse a run of which nothing can be judged: that would come to no verdict and look like one."""
    if not any(map(is_judgeable, run.samples)):
        there = f"its {len(run.samples)} samples are errors" if run.samples else "it holds no samples"
        raise ResultsError(
            f"run {run.path.name} has no answer to judge: {there}; the command that made it goes on with it"
        )


def wants_judging(run: StoredRun, task: Task) -> str | None:
    """Return why a run's answers must be judged again before `task` may add to them, or None."""
    wanted = scoring_of(task)
    if not rescoring.judged_alike(run.record.scoring, wanted):
        was = run.record.scoring
        differing = [
            f"{name} {was.get(name)} and not {value}" for name, value in wanted.items() if was.get(name) != value
        ]
        return "they were judged by " + ", ".join(differing)
    faults = sum(sample.has_scorer_error for sample in run.samples)
    return f"the scorer had failed on {faults} of them" if faults else None


def chosen(run: RunRecord, **asked: Any) -> dict[str, Setting]:
    """Return the settings of JUDGING that were asked for by name, None standing for what was not said.

    Raises:
        ConfigError: a scorer, clean-up or isolation for a task that does not run the answers.
    """
    said = {name: value for name, value in asked.items() if value is not None}
    for name in FOR_PROGRAMS:
        if name in said:
            check_runs_answers(name, run.task.name)
    settings = {
        name: Setting(value=str(one) if isinstance(one, Path) else one, origin="flag") for name, one in said.items()
    }
    if "allow_code_execution" not in settings:
        settings["allow_code_execution"] = Setting(value=has_consent(), origin="environment")
    return settings


def changes_table(result: Rescored) -> Table:
    """Return one row for each verdict that became another."""
    rows: list[Row] = [
        {
            "id": change.after.id,
            "before": change.before.correct,
            "why": _why(change.before),
            "after": change.after.correct,
            "why now": _why(change.after),
        }
        for change in result.changed
    ]
    columns = [Column(key, key) for key in ("id", "before", "why", "after", "why now")]
    return Table(columns, rows, result.run.record.id)


def _why(sample: SampleRecord) -> str:
    return sample.error or sample.why or "-"


def chosen_of(settings: Settings) -> dict[str, Setting]:
    """Return the settings of JUDGING that a command asks for."""
    return {name: settings.run[name] for name in JUDGING}


def _judge(run: StoredRun, task: Task, documents: list[Document], on_progress: Progress) -> list[SampleRecord]:
    """Return the samples with new verdicts; one that never had an answer to judge stays as it is."""
    judgeable = [
        (index, sample, document)
        for index, (sample, document) in enumerate(zip(run.samples, documents, strict=True))
        if is_judgeable(sample)
    ]
    numbers = itertools.count(1)
    num_workers = min(os.cpu_count() or 1, MOST_WORKERS) if isinstance(task, CodeTask) else 1
    pairs = [(document, sample.text_kept) for _, sample, document in judgeable]
    samples = list(run.samples)
    on_progress(0, len(judgeable))
    for (index, sample, _), verdict in zip(
        judgeable, judge_all(task, pairs, num_workers, lambda: on_progress(next(numbers), len(judgeable))), strict=True
    ):
        if isinstance(verdict, ScorerError):
            samples[index] = with_scorer_error(sample, verdict)
        else:
            samples[index] = with_verdict(sample, verdict, task.family)
    return samples

"""Putting new verdicts in place of old ones in a stored run: in steps that a kill at any moment leaves recognisable."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pydantic import JsonValue

from lopa_bench.errors import ResultsError
from lopa_bench.results import jsonl
from lopa_bench.results.locks import FileLock
from lopa_bench.results.schema import (
    SCHEMA_VERSION,
    EarlierVerdict,
    Rescoring,
    RunRecord,
    SampleRecord,
    Summary,
)
from lopa_bench.results.store import LOCK_FILE, RUN_FILE, SAMPLES_FILE, SUMMARY_FILE, StoredRun, read_run

UNFINISHED: dict[str, JsonValue] = {"scorer": "none: judging the answers again was broken off"}
VERDICT = ("status", "error", "scores", "correct", "extracted", "why")


@dataclass(frozen=True)
class Change:
    """One sample whose verdict became another."""

    before: SampleRecord
    after: SampleRecord


def changes(before: Sequence[SampleRecord], after: Sequence[SampleRecord]) -> tuple[Change, ...]:
    """Return the samples whose verdicts differ, score and reason; both lists hold the same samples in one order."""
    pairs = zip(before, after, strict=True)
    return tuple(Change(old, new) for old, new in pairs if any(getattr(old, n) != getattr(new, n) for n in VERDICT))


def entry(run: RunRecord, before: Summary, after: Summary, changed: Sequence[Change]) -> Rescoring:
    """Return what `run.json` keeps of the verdicts that are replaced."""
    earlier = {
        one.before.id: EarlierVerdict(
            correct=one.before.correct, scores=one.before.scores, why=one.before.why, error=one.before.error
        )
        for one in changed
    }
    return Rescoring(
        scoring=run.scoring,
        metric=run.task.metric,
        accuracy=before.metrics["accuracy"].value,
        accuracy_after=after.metrics["accuracy"].value,
        changed=earlier,
    )


def store_verdicts(
    run: StoredRun, record: RunRecord, samples: Sequence[SampleRecord], summary: Summary | None
) -> StoredRun:
    """Replace samples, summary and record of a run, and return the run as it now is.

    The record comes first, with the earlier verdicts in it and a note that judging is not over, and last without that
    note: after a kill in between nothing is lost, and the next scoring does it all again.

    Raises:
        ResultsError: another process is writing the run, or has changed it since it was read.
    """
    with FileLock(run.path / LOCK_FILE, f"run {run.path.name}"):
        now = read_run(run.path)
        if now.version != SCHEMA_VERSION:
            raise ResultsError(
                f"run {run.path.name} has schema version {now.version} and cannot be changed; start a new one"
            )
        if now.record != run.record or now.samples != run.samples:
            raise ResultsError(f"run {run.path.name} was changed while its answers were judged; do it again")
        _replace(run, RUN_FILE, record.model_copy(update={"scoring": UNFINISHED}).model_dump_json(indent=2))
        _replace(run, SAMPLES_FILE, "\n".join(sample.model_dump_json() for sample in samples))
        if summary is not None:
            _replace(run, SUMMARY_FILE, summary.model_dump_json(indent=2))
        _replace(run, RUN_FILE, record.model_dump_json(indent=2))
    return read_run(run.path)


def _replace(run: StoredRun, name: str, text: str) -> None:
    jsonl.replace_file(run.path / name, text.encode() + b"\n" if text else b"")


def judged_alike(scoring: Mapping[str, JsonValue], identity: Mapping[str, JsonValue]) -> bool:
    """Tell whether a run's verdicts depend on the same things; runs of schema version 1 do not say on which."""
    return not scoring or all(scoring.get(name) == value for name, value in identity.items())

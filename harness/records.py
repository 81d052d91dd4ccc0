"""From what happened to what is stored: the record of a run and of each of its samples."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from lopa_bench.harness import identity
from lopa_bench.harness.settings import Settings
from lopa_bench.harness.task_source import source_of
from lopa_bench.results.schema import (
    DecoderInfo,
    Environment,
    ModelInfo,
    RunRecord,
    SampleRecord,
    TaskInfo,
    Why,
)

if TYPE_CHECKING:
    from lopa_bench.harness.answering import Answer
    from lopa_bench.tasks.base import Document, Task


def run_record(
    settings: Settings,
    task: Task,
    documents: Sequence[Document],
    *,
    num_available: int,
    model: ModelInfo,
    environment: Environment,
    fingerprint: str,
    command: tuple[str, ...] = (),
) -> RunRecord:
    """Return the record that a new run begins with."""
    return RunRecord(
        command=command,
        fingerprint=fingerprint,
        configuration=settings.all,
        task=TaskInfo(
            name=task.name,
            version=str(task.version),
            metric=task.metric,
            source=_source_line(source_of(task)),
            prompts_hash=identity.prompts_hash(documents),
            num_documents=len(documents),
            num_available=num_available,
            partial=len(documents) < num_available,
        ),
        model=model,
        decoder=DecoderInfo(
            name=str(settings["decoder"]),
            preset=settings["preset"] or settings["convention"],
            options={name: setting.value for name, setting in settings.options.items()},
        ),
        seed=int(settings["seed"]),
        environment=environment,
    )


def run_title(settings: Settings) -> str:
    """Return the words that a run's folder is named by."""
    words = [str(settings["task"]), str(settings["decoder"])]
    if "branches" in settings.options:
        words.append(f"{settings.options['branches'].value}-branches")
    return " ".join([*words, str(settings["model"]).rpartition("/")[2]])


def _source_line(source: dict[str, object]) -> str:
    """Say in one line where the problems come from: harness, definition, files with their hashes."""
    words = [str(value) for name, value in source.items() if name not in ("data", "num_fewshot")]
    data = source.get("data")
    if isinstance(data, dict):
        cards = [card for card in data.values() if isinstance(card, dict)]
        words += [f"{card['source']} sha256:{card['sha256'][:12]}" for card in cards] or [str(data.get("source"))]
    return ", ".join(words)


def sample_record(task: Task, document: Document, answer: Answer, seed: int) -> SampleRecord:
    """Score an answer and make its record; one with an error is recorded and never scored."""
    outcome = answer.outcome
    sample = SampleRecord(
        id=document.id,
        prompt_hash=identity.prompt_hash(document.prompt),
        prompt_tokens_cut=answer.prompt_tokens_cut,
        token_ids=outcome.answer,
        text=answer.text,
        text_kept=answer.kept,
        tokens=outcome.tokens,
        work=outcome.work,
        time=outcome.time,
        seed=seed,
        masks_left=outcome.masks_left,
        extra={
            "discarded": outcome.num_discarded,
            "revised": outcome.num_revised,
            **({"cluster": str(document.metadata["cluster"])} if "cluster" in document.metadata else {}),
        },
    )
    if outcome.error is not None:
        return sample.model_copy(update={"status": "error", "error": outcome.error})
    verdict = task.judge(document, answer.kept)
    return sample.model_copy(
        update={
            "scores": verdict.scores,
            "correct": verdict.correct,
            "extracted": verdict.extracted,
            "why": _why(verdict.why, answer),
            "stopped_by": answer.stopped_by,
            "stop_string": answer.stop_string,
        }
    )


def _why(why: str | None, answer: Answer) -> str | None:
    """An answer that ran out of room was cut short, whatever the judge made of what there is."""
    if why is not None and answer.stopped_by == "budget" and why != Why.EMPTY:
        return Why.TRUNCATED
    return why

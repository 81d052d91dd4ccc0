"""From what happened to what is stored: the record of a run and of each of its samples."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lopa_bench.errors import ScorerError
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
    from lopa_bench.harness.problem_choice import Choice
    from lopa_bench.tasks.base import Document, Judgement, Task

NOT_RUN = (Why.SYNTAX_ERROR, Why.NOT_EXTRACTED, "no such function", "cut inside a fence", "outside the subset")
"""What a program that is cut short comes to before anything of it runs."""


def run_record(
    settings: Settings,
    task: Task,
    choice: Choice,
    *,
    model: ModelInfo,
    environment: Environment,
    fingerprint: str,
    scoring: dict[str, Any] | None = None,
    command: tuple[str, ...] = (),
) -> RunRecord:
    """Return the record that a new run begins with."""
    return RunRecord(
        command=command,
        fingerprint=fingerprint,
        configuration=settings.all,
        task=task_info(task, choice),
        model=model,
        decoder=DecoderInfo(
            name=str(settings["decoder"]),
            preset=settings["preset"] or settings["convention"],
            options={name: setting.value for name, setting in settings.options.items()},
        ),
        seed=int(settings["seed"]),
        environment=environment,
        scoring=scoring or {},
    )


def task_info(task: Task, choice: Choice) -> TaskInfo:
    """Return which problems of a task are asked."""
    return TaskInfo(
        name=task.name,
        version=str(task.version),
        metric=task.metric,
        source=_source_line(source_of(task)),
        prompts_hash=choice.prompts_hash,
        num_documents=len(choice.documents),
        num_available=choice.num_available,
        partial=len(choice.documents) < choice.num_available,
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
        prompt=document.prompt,
        prompt_hash=identity.prompt_hash(document.prompt),
        target=document.target,
        prompt_tokens_cut=answer.prompt_tokens_cut,
        token_ids=outcome.answer,
        text=answer.text,
        text_kept=answer.kept,
        tokens=outcome.tokens,
        work=outcome.work,
        time=outcome.time,
        seed=seed,
        masks_left=outcome.masks_left,
        stopped_by=None if outcome.error is not None else answer.stopped_by,
        stop_string=None if outcome.error is not None else answer.stop_string,
        extra={
            "discarded": outcome.num_discarded,
            "revised": outcome.num_revised,
            **outcome.extra,
            **({"cluster": str(document.metadata["cluster"])} if "cluster" in document.metadata else {}),
        },
    )
    if outcome.error is not None:
        return sample.model_copy(update={"status": "error", "error": outcome.error, "why": outcome.why})
    return judged(task, document, sample)


def judged(task: Task, document: Document, sample: SampleRecord) -> SampleRecord:
    """Return a sample with the verdict on its answer; where the scorer fails that is its error, and it has no score."""
    try:
        verdict = task.judge(document, sample.text_kept)
    except ScorerError as error:
        return with_scorer_error(sample, error)
    return with_verdict(sample, verdict, task.family)


def with_scorer_error(sample: SampleRecord, error: ScorerError) -> SampleRecord:
    """Return a sample that the scorer failed on."""
    no_verdict: dict[str, Any] = {"scores": {}, "correct": None, "extracted": None, "why": Why.SCORER_ERROR}
    return sample.model_copy(update={**no_verdict, "status": "error", "error": f"{Why.SCORER_ERROR}: {error}"})


def with_verdict(sample: SampleRecord, verdict: Judgement, family: str) -> SampleRecord:
    """Return a sample with a verdict on its answer in place of the one that it had, if any."""
    return sample.model_copy(
        update={
            "status": "ok",
            "error": None,
            "scores": verdict.scores,
            "correct": verdict.correct,
            "extracted": verdict.extracted,
            "why": _why(verdict.why, sample, family),
        }
    )


def _why(why: str | None, sample: SampleRecord, family: str) -> str | None:
    """An answer that ran out of room was cut short, whatever the judge made of what there is.

    Not so a program that ran: the room that was left after it is no reason for what it did.
    """
    can_be_cut = why is not None and why != Why.EMPTY and (family != "code" or why in NOT_RUN)
    return Why.TRUNCATED if can_be_cut and sample.stopped_by == "budget" else why

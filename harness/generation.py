"""The loop of a run: each missing problem, or batch of them, is asked, judged and stored before the next one starts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from lopa_bench.errors import PrerequisiteError
from lopa_bench.harness import identity
from lopa_bench.harness.answering import Question
from lopa_bench.harness.forecast import Forecast, Timekeeper
from lopa_bench.harness.loading import answerer_for
from lopa_bench.harness.memory import free_memory, is_out_of_memory
from lopa_bench.harness.progress import Reporter, Running
from lopa_bench.harness.records import sample_record
from lopa_bench.results.trace import ids_in

if TYPE_CHECKING:
    from lopa_bench.harness.clocks import Clock
    from lopa_bench.harness.job import Job
    from lopa_bench.models.language_model import LanguageModel
    from lopa_bench.results.writer import RunWriter
    from lopa_bench.tasks.base import Document

GIB = 1 << 30


def generate_missing(
    job: Job, writer: RunWriter, missing: Sequence[Document], reporter: Reporter, clock: Clock | None = None
) -> int:
    """Load the model, then answer, judge and store the missing problems; return how many.

    Raises:
        PrerequisiteError: there is no room for the weights.
    """
    from lopa_bench.harness.lm_eval_model import AnsweringLM

    model = _load(job)
    lm = AnsweringLM(answerer_for(job.settings, job.source, model, clock), job.settings)
    running = Running()
    for sample in writer.samples:
        if sample.id in writer.done:
            running.add(sample)
    keeper = _timekeeper(job, running, len(missing), reporter)
    reporter.started(writer.path, running, running.num_done + len(missing))
    questions = [_question(job, document) for document in missing]
    batch_size = int(job.settings["batch_size"])
    try:
        for _ in range(int(job.settings["warmup"])):
            list(lm.answer_all(questions[:batch_size]))
        keeper.begin()
        answers = lm.answer_all(questions, trace=bool(job.settings["trace"]), on_round=keeper.round_ended)
        for number, (document, question, answer) in enumerate(zip(missing, questions, answers, strict=True), 1):
            sample = sample_record(job.task, document, answer, question.seed)
            if job.settings["trace"]:
                rounds = answer.outcome.rounds
                writer.append_trace(sample.id, rounds, lm.answerer.spell(ids_in(rounds)))
            writer.append(sample)
            running.add(sample)
            keeper.sample_ended(sample.work.rounds, more_at_once=number % batch_size > 0 and number < len(missing))
            reporter.sampled(sample, running)
    finally:
        reporter.ended()
    return len(missing)


def _load(job: Job) -> LanguageModel:
    try:
        return job.source.load(job.plan.device, job.plan.dtype)
    except (MemoryError, RuntimeError) as problem:
        if not is_out_of_memory(problem):
            raise
        reason = str(problem).partition("\n")[0] or "no more could be allocated"
    free_memory()
    raise PrerequisiteError(
        f"the weights of {job.source.name}, {job.plan.memory.weights / GIB:.1f} GiB in {job.plan.dtype}, do not fit "
        f"the memory of {job.plan.device}: {reason}; use another --device, --dtype or model"
    )


def _timekeeper(job: Job, running: Running, num_missing: int, reporter: Reporter) -> Timekeeper:
    """Return what keeps the time left; the samples of earlier sittings tell it a pace."""
    most_rounds = job.plan.rounds[1]
    running.forecast = Forecast(num_missing, most_rounds, running.num_done, running.rounds, running.seconds)
    return Timekeeper(running.forecast, reporter.note)


def _question(job: Job, document: Document) -> Question:
    seed = identity.sample_seed(int(job.settings["seed"]), document.id)
    return Question(document.prompt, tuple(job.task.stop), seed)

"""The loop of a run: each missing problem is asked, judged and stored before the next one starts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from lopa_bench.harness import identity
from lopa_bench.harness.loading import answerer_for
from lopa_bench.harness.progress import Reporter, Running
from lopa_bench.harness.records import sample_record
from lopa_bench.results.trace import ids_in

if TYPE_CHECKING:
    from lopa_bench.harness.answering import Answer
    from lopa_bench.harness.driver import Clock
    from lopa_bench.harness.job import Job
    from lopa_bench.harness.lm_eval_model import AnsweringLM
    from lopa_bench.results.schema import SampleRecord
    from lopa_bench.results.writer import RunWriter
    from lopa_bench.tasks.base import Document


def generate_missing(
    job: Job, writer: RunWriter, missing: Sequence[Document], reporter: Reporter, clock: Clock | None = None
) -> int:
    """Load the model, then answer, judge and store the missing problems; return how many."""
    from lopa_bench.harness.lm_eval_model import AnsweringLM

    model = job.source.load(job.plan.device, job.plan.dtype)
    lm = AnsweringLM(answerer_for(job.settings, job.source, model, clock), job.settings)
    running = Running()
    for sample in writer.samples:
        if sample.id in writer.done:
            running.add(sample)
    reporter.started(writer.path, running, running.num_done + len(missing))
    try:
        for _ in range(int(job.settings["warmup"])):
            lm.answer(missing[0].prompt, job.task.stop, seed=0)
        for document in missing:
            sample, answer = _ask(job, lm, document)
            if job.settings["trace"]:
                rounds = answer.outcome.rounds
                writer.append_trace(sample.id, rounds, lm.answerer.spell(ids_in(rounds)))
            writer.append(sample)
            running.add(sample)
            reporter.sampled(sample, running)
    finally:
        reporter.ended()
    return len(missing)


def _ask(job: Job, lm: AnsweringLM, document: Document) -> tuple[SampleRecord, Answer]:
    seed = identity.sample_seed(int(job.settings["seed"]), document.id)
    answer = lm.answer(document.prompt, job.task.stop, seed=seed, trace=bool(job.settings["trace"]))
    return sample_record(job.task, document, answer, seed), answer

"""The loop of a run: each missing problem, or batch of them, is asked, judged and stored before the next one starts."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from lopa_bench.errors import PrerequisiteError
from lopa_bench.harness import identity
from lopa_bench.harness.answering import Question
from lopa_bench.harness.distributed.beats import BETWEEN, JUDGING, READING
from lopa_bench.harness.forecast import Forecast, Timekeeper
from lopa_bench.harness.load import Neighbours
from lopa_bench.harness.loading import answerer_for
from lopa_bench.harness.memory import free_memory, peak_bytes
from lopa_bench.harness.progress import Reporter, Running, Viewer
from lopa_bench.harness.records import sample_record
from lopa_bench.models.exhaustion import is_out_of_memory
from lopa_bench.results.comparison.load import LOAD, QUEUED, WATCHED
from lopa_bench.results.peak_memory import PEAK_MEMORY
from lopa_bench.results.shards import ShardReader, ShardWriter
from lopa_bench.results.trace import ids_in

if TYPE_CHECKING:
    from lopa_bench.decoders.rounds import Round
    from lopa_bench.harness.answering import Answer
    from lopa_bench.harness.clocks import Clock
    from lopa_bench.harness.distributed.crew import Crew
    from lopa_bench.harness.job import Job
    from lopa_bench.harness.lm_eval_adapter.model import AnsweringLM
    from lopa_bench.models.language_model import LanguageModel
    from lopa_bench.results.schema import SampleRecord
    from lopa_bench.results.writer import RunWriter
    from lopa_bench.tasks.base import Document

GIB = 1 << 30
POLL_S = 0.1


def generate_missing(
    job: Job,
    writer: RunWriter,
    missing: Sequence[Document],
    reporter: Reporter,
    clock: Clock | None = None,
    crew: Crew | None = None,
) -> int:
    """Load the model, then answer, judge and store the missing problems; return how many.

    With a crew this is rank 0, which answers its share and takes over what the other processes store.

    Raises:
        PrerequisiteError: there is no room for the weights.
    """
    lm = _answering(job, clock, crew)
    _note_accelerations(writer, lm)
    running = Running()
    for sample in writer.samples:
        if sample.id in writer.done:
            running.add(sample)
    own = list(missing) if crew is None else crew.share(missing)
    keeper = _timekeeper(job, running, len(own), reporter)
    reporter.started(writer.path, running, running.num_done + len(missing))
    others = _Others(writer, running, reporter, crew)
    batch_size = int(job.settings["batch_size"])
    viewer = reporter.viewer(lm.answerer.spell) if batch_size == 1 else None
    try:
        for number, (document, question, answer) in enumerate(_answers(job, lm, own, crew, keeper, viewer), 1):
            if crew is not None:
                crew.begins(JUDGING)
            sample = _store(job, lm, writer, document, question, answer)
            running.add(sample)
            keeper.sample_ended(sample.work.rounds, more_at_once=number % batch_size > 0 and number < len(own))
            reporter.sampled(sample, running)
            others.take_over()
        others.wait()
    finally:
        reporter.ended()
    return len(missing)


def _note_accelerations(writer: RunWriter, lm: AnsweringLM) -> None:
    """Record what was really done to the network; the settings say what was asked."""
    done = getattr(getattr(lm.answerer.decoder, "model", None), "accelerations", ())
    if done != writer.record.environment.accelerations:
        environment = writer.record.environment.model_copy(update={"accelerations": done})
        writer.update(writer.record.model_copy(update={"environment": environment}))


def assist(job: Job, folder: Path, missing: Sequence[Document], crew: Crew, clock: Clock | None = None) -> None:
    """What all ranks but the first do: answer their group's share; a group's head judges it and stores it aside."""
    lm = _answering(job, clock, crew)
    own = crew.share(missing)
    if not crew.is_head or crew.number == 0:
        for _ in _answers(job, lm, own, crew):
            crew.begins(BETWEEN)
        return
    writer = ShardWriter(folder, crew.number)
    try:
        for document, question, answer in _answers(job, lm, own, crew):
            crew.begins(JUDGING)
            _store(job, lm, writer, document, question, answer, rank=crew.number)
    finally:
        writer.close()
    crew.tell_done()


def _answering(job: Job, clock: Clock | None, crew: Crew | None) -> AnsweringLM:
    """Load the model and return what answers, ready to work with the others of a crew."""
    from lopa_bench.harness.lm_eval_adapter.model import AnsweringLM

    if crew is not None:
        crew.begins(READING)
    answerer = answerer_for(job.settings, job.source, _load(job, crew), clock)
    if crew is not None:
        crew.equip(answerer.decoder)
        crew.world.meet("weights")
    return AnsweringLM(answerer, job.settings)


def _answers(
    job: Job,
    lm: AnsweringLM,
    documents: Sequence[Document],
    crew: Crew | None,
    keeper: Timekeeper | None = None,
    viewer: Viewer | None = None,
) -> Iterator[tuple[Document, Question, Answer]]:
    """Warm up, then make the answers one after the other, or batch after batch, each when it is asked for."""
    questions = [_question(job, document) for document in documents]
    _warm_up(job, lm, questions, crew)
    if keeper is not None:
        keeper.begin()

    def round_ended(one: Round) -> None:
        if keeper is not None:
            keeper.round_ended(one)
        if crew is not None:
            crew.round_ended(one)
        if viewer is not None:
            viewer.round_ended(one)

    answers = lm.answer_all(questions, trace=bool(job.settings["trace"]), on_round=round_ended)
    begun = documents if crew is None else crew.told(documents)
    neighbours = Neighbours()
    for document, question, answer in zip(_viewed(begun, viewer, neighbours), questions, answers, strict=True):
        yield document, question, _with_load(answer, neighbours)


def _warm_up(job: Job, lm: AnsweringLM, questions: Sequence[Question], crew: Crew | None) -> None:
    """Make answers that do not count, before the clock begins."""
    for _ in range(int(job.settings["warmup"])):
        if crew is not None:
            crew.warms_up(is_compiled=bool(job.settings["compile"]))
        round_ended = None if crew is None else crew.round_ended
        list(lm.answer_all(questions[: int(job.settings["batch_size"])], on_round=round_ended))
    if crew is not None:
        crew.begins(BETWEEN)


def _viewed(documents: Iterable[Document], viewer: Viewer | None, neighbours: Neighbours) -> Iterator[Document]:
    """The same documents; whoever looks on is told of each before its answer begins."""
    for document in documents:
        if viewer is not None:
            viewer.begin(document.id)
        neighbours.begin()
        yield document


def _with_load(answer: Answer, neighbours: Neighbours) -> Answer:
    """The same answer, which says how other work hindered it."""
    found = {LOAD: neighbours.share(), QUEUED: neighbours.queued_s(), WATCHED: neighbours.watched_s()}
    known = {name: round(value, 4) for name, value in found.items() if value is not None}
    return replace(answer, outcome=replace(answer.outcome, extra={**answer.outcome.extra, **known}))


def _store(
    job: Job,
    lm: AnsweringLM,
    writer: RunWriter | ShardWriter,
    document: Document,
    question: Question,
    answer: Answer,
    rank: int = 0,
) -> SampleRecord:
    """Judge an answer and put it on the disk."""
    sample = sample_record(job.task, document, answer, question.seed)
    sample = sample.model_copy(update={"rank": rank, "extra": {**sample.extra, **_peak(lm)}})
    if job.settings["trace"]:
        rounds = answer.outcome.rounds
        writer.append_trace(sample.id, rounds, lm.answerer.spell(ids_in(rounds)))
    writer.append(sample)
    return sample


def _peak(lm: AnsweringLM) -> dict[str, int]:
    """The most memory that this process or its device held so far; nothing where another program has the model."""
    model = getattr(lm.answerer.decoder, "model", None)
    return {} if model is None else {PEAK_MEMORY: peak_bytes(model.device)}


class _Others:
    """What other processes of the run store, as rank 0 takes it over; nothing where there are none."""

    def __init__(self, writer: RunWriter, running: Running, reporter: Reporter, crew: Crew | None) -> None:
        self.writer, self.running, self.reporter = writer, running, reporter
        self.crew = crew if crew is not None and crew.spread.shape.data > 1 else None
        self._shards = ShardReader(writer.path)

    def take_over(self) -> None:
        """Append what is new in the other processes' parts."""
        if self.crew is None:
            return
        for sample in self._shards.new():
            self.writer.append(sample)
            self.running.add(sample)
            self.reporter.sampled(sample, self.running)

    def wait(self) -> None:
        """Go on until all are done; those that never will be are seen by whoever watches over the ranks."""
        if self.crew is None:
            return
        while not self.crew.all_done():
            self.crew.waits()
            self.take_over()
            time.sleep(POLL_S)
        self.take_over()
        self.writer.end_shards()
        self.writer.has_shards = True


def _load(job: Job, crew: Crew | None) -> LanguageModel:
    device, tensors = (job.plan.device, None) if crew is None else (crew.world.device, crew.tensors)
    try:
        if tensors is None:
            return job.source.load(device, job.plan.dtype)
        return job.source.load(device, job.plan.dtype, tensors)
    except (MemoryError, RuntimeError) as problem:
        if not is_out_of_memory(problem):
            raise
        reason = str(problem).partition("\n")[0] or "no more could be allocated"
    free_memory()
    raise PrerequisiteError(
        f"the weights of {job.source.name}, {job.plan.memory.weights / GIB:.1f} GiB in {job.plan.dtype}, do not fit "
        f"the memory of {device}: {reason}; use another --device, --dtype or model"
    )


def _timekeeper(job: Job, running: Running, num_missing: int, reporter: Reporter) -> Timekeeper:
    """Return what keeps the time left; the samples of earlier sittings tell it a pace."""
    most_rounds = job.plan.rounds[1]
    running.forecast = Forecast(num_missing, most_rounds, running.num_done, running.rounds, running.seconds)
    return Timekeeper(running.forecast, reporter.note)


def _question(job: Job, document: Document) -> Question:
    seed = identity.sample_seed(int(job.settings["seed"]), document.id)
    return Question(document.prompt, tuple(job.task.stop), seed)

"""mini-maths: generated grade-school word problems with a worked answer in GSM8K's format.

A problem is a chain of two to five events on one count, which stays between 2 and 62, so that a network of a
million parameters can do the sums. The worked answer states each step in freely chosen words
(`maths_wording`) followed by the calculation, which the problem determines: `12+5=<<12+5=17>>17 apples.`
The last line is `#### 17`.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

from lopa_bench.tasks.base import Document, Example, Judgement
from lopa_bench.tasks.final_number import last_number, marked_number, same_number
from lopa_bench.tasks.generated import HeldOut, draw_wording
from lopa_bench.tasks.maths_wording import (
    CLOSINGS,
    EVENT_SENTENCES,
    ITEMS,
    NAMES,
    OPENINGS,
    QUESTIONS,
    START_SENTENCES,
    STEPS,
)

SMALLEST_COUNT = 2
LARGEST_COUNT = 62
LEVELS: tuple[int, ...] = (1, 2, 3)
NUM_STEPS: dict[int, tuple[int, ...]] = {1: (2,), 2: (3,), 3: (4, 5)}
SIGNS: dict[str, str] = {"add": "+", "subtract": "-", "multiply": "*", "divide": "/"}


@dataclass(frozen=True)
class Event:
    """One change of the count: `before` becomes `after` by `operation` with the number `amount`."""

    operation: str
    amount: int
    before: int
    after: int


@dataclass(frozen=True)
class MathsProblem:
    """What happens, without the words: who, what and the chain of events."""

    level: int
    name: str
    they: str
    items: str
    start: int
    events: tuple[Event, ...]

    @property
    def end(self) -> int:
        """The count after the last event: the answer."""
        return self.events[-1].after

    @property
    def key(self) -> tuple[object, ...]:
        """What makes two problems the same: the numbers and operations, whoever and whatever it is about."""
        return (self.start, *((event.operation, event.amount) for event in self.events))

    def words(self, template: str, amount: int = 0) -> str:
        """Fill the slots of a wording; `amount` is the number of the event it speaks of."""
        return template.format(
            name=self.name,
            they=self.they,
            They=self.they.capitalize(),
            items=self.items,
            start=self.start,
            end=self.end,
            k=amount,
        )


def draw_event(rng: random.Random, count: int) -> Event:
    """Draw one event that can happen to `count`; the count after it may be out of bounds."""
    operations = []
    if count <= 50:
        operations += ["add", "add"]
    if count >= 6:
        operations += ["subtract", "subtract"]
    if count <= 20:
        operations.append("multiply")
    divisors = [number for number in (2, 3, 4, 5) if count % number == 0 and count // number >= 2]
    if divisors:
        operations.append("divide")
    operation = rng.choice(operations)
    if operation == "add":
        amount = rng.randint(2, 12)
        return Event(operation, amount, count, count + amount)
    if operation == "subtract":
        amount = rng.randint(2, min(12, count - 2))
        return Event(operation, amount, count, count - amount)
    if operation == "multiply":
        amount = rng.randint(2, 4 if count <= 15 else 3)
        return Event(operation, amount, count, count * amount)
    amount = rng.choice(divisors)
    return Event(operation, amount, count, count // amount)


def draw_problem(rng: random.Random, level: int) -> MathsProblem:
    """Draw a problem of `level` (1..3): a chain whose counts all stay within bounds."""
    name, they = rng.choice(NAMES)
    items = rng.choice(ITEMS)
    num_steps = rng.choice(NUM_STEPS[level])
    while True:
        start = count = rng.randint(3, 30)
        events: list[Event] = []
        while len(events) < num_steps and SMALLEST_COUNT <= count <= LARGEST_COUNT:
            events.append(draw_event(rng, count))
            count = events[-1].after
        if len(events) == num_steps and SMALLEST_COUNT <= count <= LARGEST_COUNT:
            return MathsProblem(level, name, they, items, start, tuple(events))


def write_prompt(problem: MathsProblem, rng: random.Random) -> str:
    """Put the problem into words, in the form that GSM8K's prompts have."""
    sentences = [problem.words(rng.choice(START_SENTENCES))]
    for event in problem.events:
        sentences.append(problem.words(rng.choice(EVENT_SENTENCES[event.operation]), event.amount))
    sentences.append(problem.words(rng.choice(QUESTIONS)))
    return f"Question: {' '.join(sentences)}\nAnswer:"


def write_answer(problem: MathsProblem, rng: random.Random) -> str:
    """Write a worked answer; every sentence's wording is drawn on its own, the calculations are fixed."""
    lines = [problem.words(draw_wording(rng, OPENINGS))]
    for event in problem.events:
        wording = problem.words(draw_wording(rng, STEPS[event.operation]), event.amount)
        calculation = f"{event.before}{SIGNS[event.operation]}{event.amount}"
        lines.append(f"{wording} {calculation}=<<{calculation}={event.after}>>{event.after} {problem.items}.")
    lines.append(problem.words(draw_wording(rng, CLOSINGS)))
    lines.append(f"#### {problem.end}")
    return " " + "\n".join(lines)


class MiniMaths:
    """The task: 400 test problems, 200 for choosing settings (`dev`), and training pairs without end."""

    name = "mini-maths"
    version = 1
    family = "maths"
    max_new_tokens = 224
    stop: tuple[str, ...] = ("Question:",)
    metric = "exact_match"
    citation = "Generated by lopa-bench; answer format after Cobbe et al. 2021 (arXiv:2110.14168)."

    _documents: ClassVar[dict[str, list[Document]]] = {}  # written once in a process: a sweep asks in every cell

    def __init__(self) -> None:
        self._held_out = HeldOut(self.name, LEVELS, draw_problem)

    def documents(self, split: str = "test") -> list[Document]:
        """Return the problems of `split` ("test" or "dev"), levels 1, 2, 3 in turn."""
        if split not in self._documents:
            self._documents[split] = self._written(split)
        return list(self._documents[split])

    def _written(self, split: str) -> list[Document]:
        documents = []
        for document_id, problem, rng in self._held_out.problems(split):
            prompt = write_prompt(problem, rng)
            metadata = {
                "level": problem.level,
                "num_steps": len(problem.events),
                "answer": write_answer(problem, rng),
            }
            documents.append(Document(document_id, prompt, str(problem.end), metadata))
        return documents

    def judge(self, document: Document, text: str) -> Judgement:
        """Compare the last number after `####` with the target.

        The score `flexible_match` takes the last number of the text, marked or not. `why` is "empty", "not
        extracted" or "wrong".
        """
        extracted = marked_number(text)
        is_right = same_number(extracted, document.target)
        scores = {
            self.metric: float(is_right),
            "flexible_match": float(same_number(last_number(text), document.target)),
        }
        why = None
        if not is_right:
            why = "wrong" if extracted is not None else "not extracted" if text.strip() else "empty"
        return Judgement(float(is_right), scores, extracted, why)

    def training_examples(self, seed: int) -> Iterator[Example]:
        """Yield training pairs for ever; none has the numbers and operations of a held-out problem."""
        for problem, rng in self._held_out.training_problems(seed):
            yield Example(write_prompt(problem, rng), write_answer(problem, rng))

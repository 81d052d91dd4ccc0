"""What a task is: documents with prompts, a judge, and the few facts a runner needs to know.

A task is torch-free and knows neither models nor decoders: it hands out texts and judges texts.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Protocol, runtime_checkable


@dataclass(frozen=True)
class Example:
    """One training pair: the answer follows the prompt directly, without anything in between."""

    prompt: str
    answer: str


@dataclass(frozen=True)
class Document:
    """One problem of a split.

    `id` is stable across releases (`mini-maths-0007`), `target` is what a right answer comes to (for maths
    the number, for code a reference solution) and `metadata` holds JSON values only. A `cluster` in it names the group
    of like problems that this one belongs to (a subject of MATH); intervals of scores then go by clusters.
    """

    id: str
    prompt: str
    target: str
    metadata: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Entry:
    """A problem before its prompt is built: its id, its kind, and what its data set calls it.

    Subsets of a task hold every `stratum` in its share; `other_id` ("HumanEval/32") may be used to name the problem.
    """

    id: str
    stratum: str = ""
    other_id: str = ""


@dataclass(frozen=True)
class Judgement:
    """The verdict on one text.

    `correct` is the headline score in 0..1, `scores` all scores by name (the headline one included),
    `extracted` what was taken from the text, `why` one of the task's few words for what went wrong, None when
    right.
    """

    correct: float
    scores: dict[str, float]
    extracted: str | None
    why: str | None


@runtime_checkable
class Task(Protocol):
    """What the harness may ask of a task."""

    name: str
    family: str
    max_new_tokens: int
    stop: tuple[str, ...]
    metric: str
    citation: str

    @property
    def version(self) -> int | str:
        """Changes whenever prompts or verdicts do."""
        ...

    def documents(self, split: str = "test") -> list[Document]:
        """Return the documents of `split` in their fixed order; an unknown split raises ConfigError."""
        ...

    def judge(self, document: Document, text: str) -> Judgement:
        """Judge `text`, the answer to `document`'s prompt; never raises for anything a model may write."""
        ...


@runtime_checkable
class OutlinedTask(Protocol):
    """A task that knows its problems before their prompts are built, and builds these in order, as many as needed.

    A prompt may depend on those before it (lm-eval draws shots document after document), never on those after.
    """

    def outline(self) -> list[Entry]:
        """Return all problems in their fixed order."""
        ...

    def first_documents(self, count: int) -> list[Document]:
        """Return the first `count` problems with their complete prompts."""
        ...


@runtime_checkable
class GeneratedTask(Task, Protocol):
    """A task whose problems are made by a seeded generator, so that training data has no end."""

    def training_examples(self, seed: int) -> Iterator[Example]:
        """Yield training pairs for ever, the same for the same seed; none is a held-out problem."""
        ...

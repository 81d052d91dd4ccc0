"""Which of a task's problems a run asks: all, the first few, some by name, or a fixed subset that holds every kind.

A choice is made over the whole task before any prompt is built, so that it never changes a prompt: a problem has the
same one whoever else is asked.
"""

from __future__ import annotations

import hashlib
import math
import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from types import MappingProxyType
from typing import Any

from lopa_bench.errors import ConfigError, nearest
from lopa_bench.tasks.base import Document, Entry, OutlinedTask, Task

SUBSETS: Mapping[str, int] = MappingProxyType({"smoke": 20, "small": 100})
"""Problems in each of the fixed subsets; every one holds the smaller ones."""

ONE_OF = ("limit", "samples", "subset")
RANGE = re.compile(r"(\d+)-(\d+)")


@dataclass(frozen=True)
class Choice:
    """The problems of a run.

    `documents` are asked, in the task's order; `first` is the task's first problem, asked or not, which stands for the
    way in which prompts are built. `num_available` counts the whole task. `rule` says what was asked for, `indices`
    what it came to, in the form that `--samples` takes.
    """

    documents: list[Document]
    first: Document
    num_available: int
    rule: str
    indices: str

    @cached_property
    def ids(self) -> tuple[str, ...]:
        """Ids of the problems."""
        return tuple(document.id for document in self.documents)

    @cached_property
    def prompts_hash(self) -> str:
        """sha256 over the hashes of all prompts, in order."""
        from lopa_bench.harness.identity import prompts_hash

        return prompts_hash(self.documents)

    @cached_property
    def longest_prompt(self) -> str:
        """The prompt with the most characters."""
        return max((document.prompt for document in self.documents), key=len)

    @property
    def line(self) -> str:
        """The choice in one line."""
        shown = self.indices if len(self.indices) <= 100 else f"{self.indices[:90].rpartition(',')[0]}, ..."
        return f"{len(self.documents)} of {self.num_available} ({self.rule}): {shown}"


def choose(task: Task, *, limit: int | float | None = None, samples: str | None = None,
           subset: str | None = None) -> Choice:  # fmt: skip
    """Return the problems that a run asks, with their prompts.

    Args:
        task: the task.
        limit: the first so many, or below 1 the first part of them, rounded up.
        samples: "3,7,20-29": positions from 0, ranges with both ends, ids.
        subset: the name of a fixed subset.

    Raises:
        ConfigError: more than one of these, or a problem that the task does not have.
    """
    entries = outline(task)
    indices = resolve(entries, limit=limit, samples=samples, subset=subset)
    built = prompts_up_to(task, max(indices) + 1)
    return Choice(
        documents=[built[index] for index in indices],
        first=built[0],
        num_available=max(len(entries), int(getattr(task, "num_available", 0))),
        rule=rule(limit=limit, samples=samples, subset=subset),
        indices=as_ranges(indices),
    )


def with_more(choice: Choice, task: Task, indices: str) -> Choice:
    """Return a choice with the problems at `indices`, as another choice of the same task has them, added to it."""
    wanted = sorted(set(from_ranges(choice.indices)) | set(from_ranges(indices)))
    built = prompts_up_to(task, wanted[-1] + 1)
    return replace(choice, documents=[built[index] for index in wanted], indices=as_ranges(wanted))


def outline(task: Task) -> list[Entry]:
    """Return all problems of a task, without their prompts where it can tell them apart from these."""
    if isinstance(task, OutlinedTask):
        return task.outline()
    return [Entry(one.id, f"level {one.metadata.get('level', '')}") for one in task.documents()]


def prompts_up_to(task: Task, count: int) -> list[Document]:
    """Return the first `count` problems with their prompts."""
    return task.first_documents(count) if isinstance(task, OutlinedTask) else task.documents()[:count]


def resolve(entries: Sequence[Entry], *, limit: int | float | None = None, samples: str | None = None,
            subset: str | None = None) -> list[int]:  # fmt: skip
    """Return the positions of the chosen problems, in order."""
    check_one_of(limit=limit, samples=samples, subset=subset)
    if samples is not None:
        return _named(entries, samples)
    if subset is not None:
        return _stratified(entries, SUBSETS[check_subset(subset)])
    return list(range(len(entries) if limit is None else count_of(limit, len(entries))))


def settled(limit: object, samples: str | None, subset: str | None) -> dict[str, int | float | str | None]:
    """Return the three settings as they are recorded; ConfigError when they make no sense, alone or together."""
    check_one_of(limit=limit, samples=samples, subset=subset)
    return {"limit": parse_limit(limit), "samples": samples, "subset": subset and check_subset(subset)}


def check_one_of(**asked: Any) -> None:
    """Refuse two ways to say which problems to ask."""
    given = [name for name in ONE_OF if asked.get(name) is not None]
    if len(given) > 1:
        raise ConfigError(f"--{given[0]} and --{given[1]} both say which problems to ask; give one of them")


def check_subset(name: str) -> str:
    """Return the name of a subset; ConfigError with the nearest for one that there is not."""
    if name not in SUBSETS:
        raise ConfigError(f"no subset is called '{name}'{nearest(name, SUBSETS)}; there are {', '.join(SUBSETS)}")
    return name


def parse_limit(value: object) -> int | float | None:
    """Return a limit as a number of problems or, between 0 and 1, a part of them.

    Raises:
        ConfigError: it is neither.
    """
    if value is None:
        return None
    text = str(value).strip()
    if re.fullmatch(r"[+-]?\d+", text):
        if int(text) < 1:
            raise ConfigError(f"--limit {text} is too small: it must be at least 1, or a part between 0 and 1")
        return int(text)
    try:
        part = float(text)
    except ValueError:
        raise ConfigError(
            f"--limit {text} is no number; give how many problems, or a part of them such as 0.1"
        ) from None
    if not 0 < part < 1:
        raise ConfigError(
            f"--limit {text} is neither a whole number of problems nor a part between 0 and 1; all are asked without it"
        )
    return part


def count_of(limit: int | float, available: int) -> int:
    """Return how many problems a limit comes to; a part is rounded up, and there are never more than there are."""
    return min(math.ceil(limit * available) if isinstance(limit, float) else limit, available)


def rule(*, limit: int | float | None = None, samples: str | None = None, subset: str | None = None) -> str:
    """Say in a few words what was asked for."""
    if samples is not None:
        return "those named"
    if subset is not None:
        return f"subset {subset}"
    if isinstance(limit, float):
        return f"the first {limit:g}, rounded up"
    return "all" if limit is None else f"the first {limit}"


def _named(entries: Sequence[Entry], samples: str) -> list[int]:
    ids = {name: index for index, one in enumerate(entries) for name in (one.id, one.other_id) if name}
    chosen: set[int] = set()
    for word in filter(None, (word.strip() for word in samples.split(","))):
        if word in ids:
            chosen.add(ids[word])
            continue
        ends = RANGE.fullmatch(word)
        low, high = (int(ends[1]), int(ends[2])) if ends else (int(word), int(word)) if word.isdecimal() else (-1, -1)
        if low < 0:
            raise ConfigError(
                f"--samples: no problem is called '{word}'{nearest(word, ids)}; give ids such as {entries[0].id}, or "
                f"positions from 0 to {len(entries) - 1}"
            )
        if low > high or high >= len(entries):
            wrong = (
                "ends before it begins" if low > high else f"is not there: positions go from 0 to {len(entries) - 1}"
            )
            raise ConfigError(f"--samples: {word} {wrong}")
        chosen.update(range(low, high + 1))
    if not chosen:
        raise ConfigError("--samples names no problem; give positions or ids, such as 3,7,20-29")
    return sorted(chosen)


def _stratified(entries: Sequence[Entry], size: int) -> list[int]:
    """Return `size` positions that hold every stratum in its share, by a rule that only the problems' places decide.

    Within a stratum the problems stand in the order of a hash; problem j of m gets the rank (j + 1/2) / m, and those of
    the lowest ranks over all strata are taken. So each stratum gives its share, and a larger subset holds the smaller.
    """
    strata: dict[str, list[int]] = defaultdict(list)
    for index, one in enumerate(entries):
        strata[one.stratum].append(index)
    ranks: list[tuple[float, str, int]] = []
    for stratum, members in strata.items():
        drawn = sorted((hashlib.sha256(f"{stratum}/{index}".encode()).hexdigest(), index) for index in members)
        ranks += [((place + 0.5) / len(drawn), digest, index) for place, (digest, index) in enumerate(drawn)]
    return sorted(index for _, _, index in sorted(ranks)[:size])


def from_ranges(words: str) -> list[int]:
    """Return the positions that `as_ranges` wrote."""
    ends = [word.split("-") for word in words.split(",")]
    return [index for pair in ends for index in range(int(pair[0]), int(pair[-1]) + 1)]


def as_ranges(indices: Iterable[int]) -> str:
    """Return ascending positions as `--samples` takes them: "0-9,12"."""
    runs: list[list[int]] = []
    for index in indices:
        if runs and index == runs[-1][1] + 1:
            runs[-1][1] = index
        else:
            runs.append([index, index])
    return ",".join(f"{low}-{high}" if high > low else str(low) for low, high in runs)

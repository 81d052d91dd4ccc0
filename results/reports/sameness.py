"""Runs of a report that answered with the same tokens though their settings differ: one run twice, or a dead option?"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from lopa_bench.results.comparison.differences import differences, semantic
from lopa_bench.results.reports.runs import Entry, Group


@dataclass(frozen=True)
class SameAnswers:
    """Runs with the same tokens in all their answers; `settings` are the names of what they differ in."""

    task: str
    entries: tuple[Entry, ...]
    settings: tuple[str, ...]

    @property
    def refs(self) -> tuple[str, ...]:
        """The runs' short names."""
        return tuple(one.ref for one in self.entries)

    @property
    def words(self) -> str:
        """What there is to know of it, in a sentence without its end."""
        runs = f"{', '.join(self.refs[:-1])} and {self.refs[-1]}"
        count = len(self.entries[0].samples)
        return (
            f"{runs} gave the same tokens in all {count} answers though settings differ ({', '.join(self.settings)}): "
            "expected of an easy task and where one setting stands for the other, else the wrong run or an option "
            "without effect"
        )


def same_answers(group: Group) -> list[SameAnswers]:
    """Return the runs of a task whose answers are equal and whose settings, meant to change answers, are not.

    A server gives no ids of tokens; its texts are compared.
    """
    alike: dict[object, list[Entry]] = {}
    for entry in group.main:
        answers = tuple((one.id, one.status, one.token_ids, one.text) for one in entry.samples)
        alike.setdefault(frozenset(answers), []).append(entry)
    found = [SameAnswers(group.task, tuple(entries), _settings(entries)) for entries in alike.values()]
    return [one for one in found if one.settings]


def _settings(entries: Sequence[Entry]) -> tuple[str, ...]:
    """Return the names of the settings in which any of some runs differs from the first."""
    first, *others = (one.record for one in entries)
    names = [one.name for other in others for one in semantic(differences(first, other))]
    return tuple(dict.fromkeys(names))

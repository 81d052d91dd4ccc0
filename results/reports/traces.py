"""The traces of a report's runs: what was analysed, and which runs stand for the others in pictures."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from lopa_bench.errors import ResultsError
from lopa_bench.results.fillings.analysis import Analysis, analyse, traces_of
from lopa_bench.results.reports.runs import Entry, Group
from lopa_bench.results.trace import TraceRecord

MOST_SHOWN = 6
"""Panels in a row: the built-in decoders, LoPA twice."""


@dataclass(frozen=True)
class Traced:
    """A run whose rounds are known."""

    task: str
    entry: Entry
    analysis: Analysis

    @cached_property
    def traces(self) -> list[TraceRecord]:
        """The traces of the reported answers."""
        return traces_of(self.entry.cut)


def traced_of(groups: Sequence[Group]) -> tuple[list[Traced], list[str]]:
    """Return the runs that kept traces, and the short names of those that did not."""
    found: list[Traced] = []
    without: list[str] = []
    for group in groups:
        for entry in group.main:
            try:
                analysis = analyse(entry.cut)
            except ResultsError:
                without.append(entry.ref)
                continue
            found.append(Traced(group.task, entry, replace(analysis, run_id=entry.ref)))
    return found, without


def chosen(traced: Sequence[Traced], task: str, most: int = MOST_SHOWN) -> list[Traced]:
    """Return the runs of a task to draw: the first of each decoder, and of LoPA those with fewest and most branches.

    The choice goes by setting alone and never looks at a result.
    """
    own = [one for one in traced if one.task == task]
    first: dict[str, Traced] = {}
    for one in own:
        first.setdefault(one.entry.decoder, one)
    lopa = _alike(sorted((one for one in own if one.entry.branches), key=lambda one: one.entry.branches or 0))
    others = [one for one in first.values() if not one.entry.branches]
    ends = [lopa[0], lopa[-1]] if len(lopa) > 1 else lopa
    room = max(most - len(ends), 0)
    return [*others[-room:], *ends][:most] if room else ends[:most]


def left_out(traced: Sequence[Traced], shown: Sequence[Traced], task: str) -> list[str]:
    """Return the decoders of a task's traced runs of which none is among the `shown`."""
    decoders = dict.fromkeys(one.entry.decoder for one in traced if one.task == task)
    return [name for name in decoders if name not in {one.entry.decoder for one in shown}]


def _alike(runs: Sequence[Traced]) -> list[Traced]:
    """Return those that differ from the first in nothing but the number of branches."""

    def options(one: Traced) -> dict[str, object]:
        return {name: value for name, value in one.entry.record.decoder.options.items() if name != "branches"}

    return [one for one in runs if options(one) == options(runs[0])]


def with_branches(traced: Sequence[Traced], task: str) -> list[Traced]:
    """Return a task's runs with more than one branch that differ in the branches alone, k growing, one for each k.

    Of several such series it is the one with the most k, of those the first: the choice looks at no result.
    """
    own = [one for one in traced if one.task == task and (one.entry.branches or 1) > 1]
    series: list[dict[int, Traced]] = []
    for one in own:
        found: dict[int, Traced] = {}
        for other in _alike([one, *own]):
            found.setdefault(other.entry.branches or 1, other)
        series.append(found)
    most = max(series, key=len, default={})
    return [most[k] for k in sorted(most)]

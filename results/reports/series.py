"""LoPA with k branches against the same setting without lookahead: a series per setting, each step tested in pairs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from lopa_bench.errors import NotComparable
from lopa_bench.results.comparison.compare import Change, Comparison, compare
from lopa_bench.results.comparison.differences import device_words, differences, semantic, show
from lopa_bench.results.comparison.noise import find_noise
from lopa_bench.results.comparison.paired import Side
from lopa_bench.results.reports.runs import Entry, Group
from lopa_bench.results.schema import RunRecord
from lopa_bench.results.statistics import LEVEL

LOPA = "lopa"
BRANCH_WORDS = {"branches", "lookahead", "branching_factor"}
Outcome = Literal["more", "less", "not told apart", "unknown"]


@dataclass(frozen=True)
class Step:
    """One number of branches against the series' base; `p_adjusted` is McNemar's p after Holm, None where untested."""

    entry: Entry
    comparison: Comparison
    p_adjusted: float | None = None

    @property
    def branches(self) -> int:
        """Branches of a round, the anchor included."""
        return self.entry.branches or 1

    def change(self, figure: str) -> Change:
        """Return the change of one figure from the base."""
        return next(one for one in self.comparison.changes if one.figure == figure)

    @property
    def rounds(self) -> Outcome:
        """Whether a round gives more useful tokens than the base's, by the paired interval."""
        return _outcome(self.change("tpf"))

    @property
    def speed(self) -> Outcome:
        """Whether a second gives more useful tokens; within this machine's noise, where that is known, it does not."""
        change = self.change("tps_e2e")
        return "not told apart" if change.remark.startswith("within ") else _outcome(change)

    @property
    def is_noise_known(self) -> bool:
        """Whether equal runs of the cell were timed before."""
        return self.change("tps_e2e").remark.startswith(("within ", "beyond "))

    @property
    def accuracy(self) -> Outcome:
        """Whether more problems are right, by McNemar's test after Holm's correction."""
        flips = self.comparison.flips
        if self.p_adjusted is None:
            return "unknown"
        if self.p_adjusted >= 1 - LEVEL:
            return "not told apart"
        return "more" if flips.gained > flips.lost else "less"


@dataclass(frozen=True)
class Series:
    """Steps of growing k against `base`, all else equal; `words` names what they share."""

    task: str
    words: str
    base: Entry
    steps: tuple[Step, ...]

    @property
    def base_words(self) -> str:
        """The base by what sets it apart; of another decoder with the options that it has otherwise by default."""
        base = self.base
        if base.branches == 1:
            return "k=1"
        own, options = base.record.decoder.options, self.steps[0].entry.record.decoder.options
        other = [
            f"{name}={show(own[name])}" for name in sorted(own.keys() & options.keys()) if own[name] != options[name]
        ]
        return f"{base.words}, its own {', '.join(other)}" if other else base.words

    @property
    def best(self) -> Step | None:
        """The step with the most tokens per round, None where no step has any beyond chance."""
        more = [step for step in self.steps if step.rounds == "more"]
        return max(more, key=lambda step: step.change("tpf").change or 0.0, default=None)

    @property
    def fastest(self) -> Step | None:
        """The step with the most tokens per second, None where none was timed beside the base."""
        known = [step for step in self.steps if step.change("tps_e2e").change is not None]
        return max(known, key=lambda step: step.change("tps_e2e").change or 0.0, default=None)

    def enough(self) -> Step | None:
        """Return the smallest k that is not behind the best one in tokens per round beyond chance."""
        if self.best is None:
            return None
        best = self.best
        for step in self.steps:
            if step.branches >= best.branches or step.rounds != "more":
                continue
            against = compare(side(step.entry), side(best.entry), force=True)
            if _outcome(next(one for one in against.changes if one.figure == "tpf")) != "more":
                return step
        return best


def side(entry: Entry) -> Side:
    """Return an entry as one side of a comparison."""
    return Side(entry.record, entry.samples)


def _outcome(change: Change) -> Outcome:
    if change.interval is None:
        return "unknown"
    if change.interval.low > 1:
        return "more"
    return "less" if change.interval.high < 1 else "not told apart"


def series_of(groups: Sequence[Group], runs_dir: Path) -> tuple[list[Series], list[str]]:
    """Return every series, with tests corrected over all of them, and a line for each LoPA run that has no base."""
    found: list[Series] = []
    lines: list[str] = []
    for group in groups:
        alike = _alike(group)
        for entries in (one for one in alike if not _tells_of_places(one, alike)):
            base = _base(entries, group)
            steps = [one for one in entries if base is not None and (one.branches or 1) > (base.branches or 1)]
            if base is None:
                lines += [f"{one.ref} has no run without lookahead to stand beside" for one in entries]
            elif steps:
                found.append(_series(group.task, base, steps, runs_dir))
    return _corrected(found), lines


def _alike(group: Group) -> list[list[Entry]]:
    """Return the LoPA entries in series: those that differ in nothing that matters but branches, k growing."""
    found: list[list[Entry]] = []
    for entry in sorted(group.main, key=lambda one: one.branches or 0):
        if entry.decoder != LOPA:
            continue
        own = next((series for series in found if _is_alike(series[0].record, entry.record)), None)
        if own is None:
            found.append([entry])
        else:
            own.append(entry)
    return found


def _tells_of_places(entries: Sequence[Entry], alike: Sequence[Sequence[Entry]]) -> bool:
    """Tell whether all of a series are runs of a longer one made again, on other devices or on more of them.

    They are for the speed-up over devices; of branches they say nothing new.
    """
    longer = [one for series in alike if len(series) > len(entries) for one in series]
    return all(any(not _differ_in(one.record, entry.record) for one in longer) for entry in entries)


def _is_alike(one: RunRecord, other: RunRecord) -> bool:
    places = [(place.dtype, device_words(place)) for place in (one.environment, other.environment)]
    return places[0] == places[1] and one.seed == other.seed and _differ_in(one, other) <= BRANCH_WORDS


def _differ_in(one: RunRecord, other: RunRecord) -> set[str]:
    """Return the names of the settings meant to matter in which two runs differ."""
    return {difference.name for difference in semantic(differences(one, other))}


def _base(entries: Sequence[Entry], group: Group) -> Entry | None:
    """Return the run with one branch, else one that differs in nothing else meant to matter.

    That is, in this order, one of another decoder, or one with one branch from another machine.
    """
    if entries[0].branches == 1:
        return entries[0]
    others = [(one, _differ_in(one.record, entries[0].record)) for one in group.main]
    decoders = [one for one, names in others if one.decoder != LOPA and names <= {"decoder"}]
    elsewhere = [one for one, names in others if one.decoder == LOPA and one.branches == 1 and names <= BRANCH_WORDS]
    return next(iter([*decoders, *elsewhere]), None)


def _series(task: str, base: Entry, entries: Sequence[Entry], runs_dir: Path) -> Series:
    steps = []
    for entry in entries:
        noise = [find_noise(runs_dir, one.record) for one in (base, entry)]
        try:
            found = compare(side(base), side(entry), noise=[cell for cell in noise if cell is not None], force=True)
        except NotComparable:
            continue  # its own table says so: such a run was set aside
        steps.append(Step(entry, found))
    words = " ".join(word for word in entries[0].words.split() if not word.startswith("k="))
    return Series(task, words, base, tuple(steps))


def _corrected(found: Sequence[Series]) -> list[Series]:
    tested = [(i, j) for i, one in enumerate(found) for j, step in enumerate(one.steps) if step.comparison.num_scored]
    values = holm([found[i].steps[j].comparison.flips.p_value for i, j in tested])
    adjusted = dict(zip(tested, values, strict=True))
    return [
        replace(one, steps=tuple(replace(step, p_adjusted=adjusted.get((i, j))) for j, step in enumerate(one.steps)))
        for i, one in enumerate(found)
    ]


def holm(values: Sequence[float]) -> list[float]:
    """Return p-values adjusted for their number (Holm 1979), in the same order."""
    order = sorted(range(len(values)), key=lambda index: values[index])
    adjusted = [0.0] * len(values)
    highest = 0.0
    for rank, index in enumerate(order):
        highest = max(highest, min(1.0, values[index] * (len(values) - rank)))
        adjusted[index] = highest
    return adjusted

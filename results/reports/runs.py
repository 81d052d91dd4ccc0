"""The runs of a report: by task, cut to the problems that they share, and set aside where they must not be mixed.

Of each task the set of problems that most runs hold is the one reported. Runs that hold more are cut to it; those that
lack some of it, asked with other prompts, or have no score are shown apart, with the reason, and enter no comparison.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from lopa_bench.results.comparison.differences import INCIDENTAL, show, speed_obstacle
from lopa_bench.results.schema import FINISHED, RunRecord, SampleRecord, Summary
from lopa_bench.results.sittings import mixture
from lopa_bench.results.store import StoredRun
from lopa_bench.results.summary import summarise

LENGTHS = ("max_new_tokens", "steps")
Problems = frozenset[tuple[str, str]]


@dataclass(frozen=True)
class Entry:
    """One run in a report.

    `ref` is its short name there, `words` its setting, `samples` the answers that are reported and `summary` what they
    come to. `aside` says why it is not set beside the others, empty where it is. `remarks` are what a reader must know.
    """

    ref: str
    words: str
    run: StoredRun
    samples: tuple[SampleRecord, ...]
    summary: Summary
    aside: str = ""
    remarks: tuple[str, ...] = ()

    @property
    def record(self) -> RunRecord:
        """What was asked and where it ran."""
        return self.run.record

    @property
    def id(self) -> str:
        """The run's name."""
        return self.record.id

    @property
    def decoder(self) -> str:
        """The decoder's name."""
        return self.record.decoder.name

    @property
    def branches(self) -> int | None:
        """Branches of a round, the anchor included; None for a decoder without."""
        value = self.record.decoder.options.get("branches")
        return value if isinstance(value, int) else None

    @property
    def cut(self) -> StoredRun:
        """The run as if it held the reported answers alone."""
        return self.run.holding(self.samples)


@dataclass(frozen=True)
class Group:
    """The runs of one task; `main` are over the same `num_problems` problems, `aside` are not set beside them."""

    task: str
    num_problems: int
    num_available: int
    main: tuple[Entry, ...]
    aside: tuple[Entry, ...]

    @property
    def notes(self) -> tuple[str, ...]:
        """What holds for the whole group."""
        lines = []
        if self.main and 0 < self.num_problems < self.num_available:
            lines.append(
                f"{self.num_problems} of {self.num_available} problems: figures of a part, not the task's score"
            )
        if len(self.main) > 1 and (obstacle := self.speed_obstacle):
            lines.append(
                f"speeds of these runs are not comparable with each other ({obstacle}); none is marked as best"
            )
        changed = sum(bool(one.record.environment.git_dirty) for one in self.main)
        if changed:
            lines.append(f"{changed} of {len(self.main)} runs were made by a changed copy of their commit")
        lines += [f"{one.ref}: {remark}" for one in self.main for remark in one.remarks]
        return tuple(lines)

    @property
    def speed_obstacle(self) -> str | None:
        """Why the speeds of the runs may not all be set side by side, or one is none; None when they may."""
        for one in self.main:
            if mixed := mixture(one.record):
                return f"{one.ref} was made in several sittings with {mixed}"
        for other in self.main[1:]:
            if reason := speed_obstacle(self.main[0].record, other.record):
                return f"{self.main[0].ref} and {other.ref}: {reason.removeprefix('x not comparable: ')}"
        return None


def groups_of(runs: Sequence[StoredRun]) -> list[Group]:
    """Sort runs by task; a run that is given twice counts once."""
    unique = list({run.path.resolve(): run for run in runs}.values())
    refs = _refs(unique)
    tasks = dict.fromkeys(run.record.task.name for run in unique)
    words = _words(unique)
    return [_group([run for run in unique if run.record.task.name == task], refs, words) for task in tasks]


def _refs(runs: Sequence[StoredRun]) -> dict[str, str]:
    """Return each run's short name, `R7`, or its whole name where numbers meet, by path."""
    numbers = Counter(run.record.number for run in runs)
    return {
        str(run.path): f"R{run.record.number}" if numbers[run.record.number] == 1 else run.record.id for run in runs
    }


def _group(runs: Sequence[StoredRun], refs: dict[str, str], words: dict[str, str]) -> Group:
    kinds = [_kind(run) for run in runs]
    common = Counter(kinds)
    chosen = max(kinds, key=lambda kind: (common[kind], len(kind[1])))
    entries = [_entry(run, chosen, refs[str(run.path)], words[str(run.path)]) for run in runs]
    return Group(
        runs[0].record.task.name,
        len(chosen[1]),
        runs[kinds.index(chosen)].record.task.num_available,
        tuple(one for one in entries if not one.aside),
        tuple(one for one in entries if one.aside),
    )


def _kind(run: StoredRun) -> tuple[tuple[Any, ...], Problems]:
    """Return what must agree: the task's version, score and data, and the problems with their prompts."""
    task = run.record.task
    return (task.version, task.metric, task.num_available), frozenset((one.id, one.prompt_hash) for one in run.samples)


def _entry(run: StoredRun, chosen: tuple[tuple[Any, ...], Problems], ref: str, words: str) -> Entry:
    about, problems = chosen
    ids = {id for id, _ in problems}
    aside = _why_aside(run, about, problems)
    samples = tuple(run.samples) if aside else tuple(one for one in run.samples if one.id in ids)
    task = run.record.task.model_copy(update={"num_documents": len(samples)})
    summary = summarise(run.record.model_copy(update={"task": task}), samples)
    if not aside and (summary.blocked or not summary.n):
        aside = summary.blocked or "no answer went well"
    return Entry(ref, words, run, samples, summary, aside, tuple(_remarks(run, samples, summary)))


def _why_aside(run: StoredRun, about: tuple[Any, ...], problems: Problems) -> str:
    """Return why a run cannot be set beside runs of `about` over `problems`; empty where it can."""
    names = ("task version", "score", "number of problems in the data")
    own, held = _kind(run)
    for name, value, wanted in zip(names, own, about, strict=True):
        if value != wanted:
            return f"another {name}: {value or '-'} instead of {wanted or '-'}"
    if problems <= held:
        return ""
    prompts = dict(held)
    other = sorted(id for id, prompt in problems if id in prompts and prompts[id] != prompt)
    if other:
        return f"asked {len(other)} of the {len(problems)} problems with other prompts ({other[0]} is the first)"
    missing = len(problems - held)
    return f"lacks {missing} of the {len(problems)} problems, it holds {len(held)} ({run.status})"


def _remarks(run: StoredRun, samples: Sequence[SampleRecord], summary: Summary) -> list[str]:
    lines = []
    if len(samples) < len(run.samples):
        lines.append(f"only the {len(samples)} common ones of its {len(run.samples)} problems are reported")
    if summary.num_errors:
        lines.append(f"{summary.num_errors} of {len(samples)} problems ended in an error and take part in no figure")
    if run.status not in FINISHED:
        lines.append(f"the run is not finished ({run.status})")
    if mixed := mixture(run.record):
        lines.append(f"it was made in several sittings with {mixed}: its speeds are a mixture")
    return lines


def _words(runs: Sequence[StoredRun]) -> dict[str, str]:
    """Name each run's setting, by path: its decoder and the options in which that decoder's runs differ.

    Names hold over tasks, so that one name is never two settings. Lengths that differ from task to task alone are no
    part of them. `k` is the number of branches. The model is named where a decoder has several.
    """
    words = [_setting(run, [one for one in runs if one.record.decoder.name == run.record.decoder.name]) for run in runs]
    told: dict[str, list[str]] = {
        "devices": [_arrangement(run.record.environment.groups) for run in runs],
        "seed": [str(run.record.seed) for run in runs],
        "dtype": [run.record.environment.dtype for run in runs],
        "device": [run.record.environment.device_name for run in runs],
    }
    for name in sorted({name for run in runs for name in run.record.configuration} - INCIDENTAL):
        told.setdefault(name, [_set(run, name) for run in runs])
    told["run"] = [str(run.record.number) for run in runs]
    for name, values in told.items():
        words = _told_apart(words, name, values, [run.record.task.name for run in runs])
    return {str(run.path): word for run, word in zip(runs, words, strict=True)}


def _arrangement(groups: Mapping[str, int]) -> str:
    """Return how a run's processes were arranged, `1` for one alone, else such as `dp2 bp4`."""
    return " ".join(f"{axis}{size}" for axis, size in groups.items() if size > 1) or "1"


def _set(run: StoredRun, name: str) -> str:
    setting = run.record.configuration.get(name)
    return "-" if setting is None else show(setting.value)


def _setting(run: StoredRun, alike: Sequence[StoredRun]) -> str:
    """Return a run's decoder and options as far as they differ among runs of that decoder, branches first."""
    options = run.record.decoder.options
    names = sorted((name for name in options if _differs(name, alike)), key=lambda name: name != "branches")
    words = [f"{'k' if name == 'branches' else name}={show(options[name])}" for name in names]
    model = run.record.model.name
    several = len({one.record.model.name for one in alike}) > 1
    return " ".join([run.record.decoder.name, *words, *([f"({model})"] if several else [])])


def _differs(name: str, runs: Sequence[StoredRun]) -> bool:
    """Tell whether runs differ in an option; a length of the task's own must differ within a task."""
    values: dict[str, set[str]] = {}
    for run in runs:
        task = run.record.task.name if name in LENGTHS else ""
        values.setdefault(task, set()).add(show(run.record.decoder.options.get(name)))
    return any(len(one) > 1 for one in values.values())


def _told_apart(words: Sequence[str], name: str, values: Sequence[str], tasks: Sequence[str]) -> list[str]:
    """Add a value to the names that several runs of a task share, where it differs among those."""
    shared: dict[tuple[str, str], set[str]] = {}
    for word, value, task in zip(words, values, tasks, strict=True):
        shared.setdefault((word, task), set()).add(value)
    return [
        f"{word} {name}={value}" if len(shared[word, task]) > 1 else word
        for word, value, task in zip(words, values, tasks, strict=True)
    ]

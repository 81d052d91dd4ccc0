"""The folder of a run, `runs/NNNN-<slug>/`: made at once, written as the run goes, read back by number or name.

A folder holds `run.json`, `samples.jsonl`, `traces.jsonl.gz` when traces are kept, and `summary.json` at the end.
"""

from __future__ import annotations

import difflib
import hashlib
import json
import logging
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from lopa_bench.errors import ResultsError
from lopa_bench.results import jsonl
from lopa_bench.results.locks import is_locked
from lopa_bench.results.schema import FINISHED, SCHEMA_VERSION, RunRecord, SampleRecord, Status, Summary
from lopa_bench.results.shards import SAMPLES_FILE, TRACES_FILE, shard_folders
from lopa_bench.results.trace import TraceRecord
from lopa_bench.results.upgrades import check_version, parse, upgrade

RUN_FILE = "run.json"
SUMMARY_FILE = "summary.json"
LOCK_FILE = ".lock"
RUN_NAME = re.compile(r"(\d{4,})-(.+)")

logger = logging.getLogger(__name__)


def fingerprint(semantic: Mapping[str, Any]) -> str:
    """Return the sha256 of everything that decides a run's answers, independent of the order of keys.

    `semantic` holds JSON values (and tuples): weights hash, adapter, full decoder options, prompts' hash, seed, ... .
    A change of any of them gives another fingerprint; a value JSON cannot hold raises ResultsError.
    """
    try:
        text = json.dumps(semantic, sort_keys=True, ensure_ascii=True, allow_nan=False, separators=(",", ":"))
    except (TypeError, ValueError) as error:
        raise ResultsError(f"the run's settings cannot be stored: {error}") from error
    return hashlib.sha256(text.encode()).hexdigest()


@dataclass(frozen=True)
class StoredRun:
    """A run on disk. `record` is what `run.json` held when it was read, the rest is read when first asked for."""

    path: Path
    record: RunRecord
    version: int = field(repr=False)
    """The schema version it was written under; all that is read is upgraded to the current one."""

    @property
    def status(self) -> Status:
        """The run's status; "interrupted" for one whose process died without a word."""
        if self.record.status == "running" and not is_locked(self.path / LOCK_FILE):
            return "interrupted"
        return self.record.status

    @cached_property
    def samples(self) -> list[SampleRecord]:
        """One sample per id, in the order they were first written; a later line replaces an earlier one of its id.

        Those that other processes of the run stored, and that were not taken over yet, follow.
        """
        by_id: dict[str, SampleRecord] = {}
        for file in (self.path / SAMPLES_FILE, *(folder / SAMPLES_FILE for folder in shard_folders(self.path))):
            lines = jsonl.read_lines(file)
            _log(self.path, lines.notes)
            for index, raw in enumerate(lines.objects):
                sample = parse(SampleRecord, upgrade("sample", raw, self.version), f"{file}, object {index + 1}")
                by_id[sample.id] = sample
        return list(by_id.values())

    def holding(self, samples: Iterable[SampleRecord]) -> StoredRun:
        """Return the run as if it held these of its samples alone."""
        run = StoredRun(self.path, self.record, self.version)
        run.__dict__["samples"] = list(samples)  # where the cached property keeps them
        return run

    @cached_property
    def summary(self) -> Summary | None:
        """The summary, or None for a run that has not ended."""
        file = self.path / SUMMARY_FILE
        if not file.exists():
            return None
        raw = _read_json(file)
        return parse(Summary, upgrade("summary", raw, check_version(raw, str(file))), str(file))

    def traces(self) -> Iterator[TraceRecord]:
        """Yield the traces, one per sample, in the order written; nothing for a run that kept none."""
        file = self.path / TRACES_FILE
        if not file.exists():
            return
        with jsonl.sentence_on_os_error("read", file):
            stored = file.read_bytes()
        content, end = jsonl.whole_members(stored)
        if behind := jsonl.what_is_behind(stored, end):
            _log(self.path, [f"{file.name}: {behind} was left out"])
        lines = jsonl.parse_lines(content, file)
        latest = {str(raw.get("id")): raw for raw in lines.objects}
        yield from self._own(
            [parse(TraceRecord, upgrade("trace", raw, self.version), str(file)) for raw in latest.values()]
        )

    def _own(self, traces: Sequence[TraceRecord]) -> Iterator[TraceRecord]:
        """Yield the traces that led to this run's answers; another run's file would give another run's figures."""
        samples = {sample.id: sample for sample in self.samples if sample.status == "ok"}
        own = [trace for trace in traces if trace.id not in samples or trace.led_to(samples[trace.id])]
        if len(own) < len(traces):
            words = f"{len(traces) - len(own)} of {len(traces)} traces are of other answers than this run's"
            _log(self.path, [f"{TRACES_FILE}: {words} and were left out"])
        yield from own


def read_run(path: Path) -> StoredRun:
    """Read the run in the folder `path`; ResultsError when there is none, SchemaTooNew for a later program's."""
    file = path / RUN_FILE
    if not file.is_file():
        raise ResultsError(f"{path} is not a run: it holds no {RUN_FILE}")
    raw = _read_json(file)
    version = check_version(raw, str(file))
    record = parse(RunRecord, upgrade("run", raw, version), str(file))
    return StoredRun(path, record.model_copy(update={"id": path.name}), version)  # a renamed folder keeps working


def run_folders(root: Path) -> list[Path]:
    """Return the run folders under `root`, by number; none when `root` does not exist."""
    if not root.exists():
        return []
    with jsonl.sentence_on_os_error("list", root, "give a folder with --runs-dir"):
        found = [path for path in root.iterdir() if RUN_NAME.fullmatch(path.name) and (path / RUN_FILE).is_file()]
    return sorted(found, key=lambda path: (run_number(path), path.name))


def run_number(path: Path) -> int:
    """Return the number a run folder's name begins with."""
    match = RUN_NAME.fullmatch(path.name)
    return int(match[1]) if match else 0


def list_runs(root: Path | str) -> list[StoredRun]:
    """Return all readable runs under `root`, by number; a damaged or too new one is left out with a logged warning."""
    runs, unreadable = readable_runs(root)
    for reason in unreadable.values():
        logger.warning("%s", reason)
    return runs


def readable_runs(root: Path | str) -> tuple[list[StoredRun], dict[str, str]]:
    """Return all readable runs under `root`, by number, and of every other one why it cannot be read, by name."""
    runs: list[StoredRun] = []
    unreadable: dict[str, str] = {}
    for path in run_folders(Path(root)):
        try:
            runs.append(read_run(path))
        except ResultsError as error:
            unreadable[path.name] = str(error)
    return runs, unreadable


def find_resumable(root: Path | str, fingerprint: str) -> StoredRun | None:
    """Return the newest run under `root` with this fingerprint, finished or not, or None."""
    return next(all_resumable(root, fingerprint), None)


def all_resumable(root: Path | str, fingerprint: str) -> Iterator[StoredRun]:
    """Yield the runs under `root` with this fingerprint, finished or not, the newest first.

    A finished one answers the same command without running anything; of another, only missing samples are run. An
    unfinished one of an older schema version is passed over: one file never holds samples of two versions.
    """
    for path in reversed(run_folders(Path(root))):
        try:
            if fingerprint.encode() not in (path / RUN_FILE).read_bytes():
                continue  # thousands of runs are looked through without being parsed
            run = read_run(path)
        except (OSError, ResultsError):
            continue  # an unreadable run cannot be continued, and is no reason not to start a new one
        if run.record.fingerprint == fingerprint and _is_resumable(run):
            yield run


def resumable_runs(root: Path | str) -> dict[str, list[StoredRun]]:
    """Return what `all_resumable` yields under `root` for every fingerprint there is, all runs read once."""
    found: dict[str, list[StoredRun]] = {}
    for run in reversed(list_runs(root)):
        if _is_resumable(run):
            found.setdefault(run.record.fingerprint, []).append(run)
    return found


def _is_resumable(run: StoredRun) -> bool:
    return run.version == SCHEMA_VERSION or run.status in FINISHED


def load_run(reference: str | Path, root: Path | str = "runs") -> StoredRun:
    """Return the run that `reference` names: a folder's path, `7`, `0007`, the whole name, or `last`.

    ResultsError names the nearest match when there is none.
    """
    text = str(reference)
    folders = run_folders(Path(root))
    if text == "last" and folders:
        return read_run(folders[-1])
    if text.isdecimal():
        numbered = [path for path in folders if run_number(path) == int(text)]
        if len(numbered) > 1:
            names = ", ".join(path.name for path in numbered)
            raise ResultsError(f"run {text} is ambiguous in {root}: {names}; give the whole name")
        if numbered:
            return read_run(numbered[0])
    for path in folders:
        if path.name == text:
            return read_run(path)
    as_path = _folder(text)
    if as_path is not None:
        return read_run(as_path)
    raise ResultsError(_not_found(text, Path(root), folders))


def _folder(text: str) -> Path | None:
    """Return the folder that a reference names, or its run's file; None where there is none, or can be none."""
    if not text:
        return None
    try:
        path = Path(text).expanduser()
        path = path.parent if path.name == RUN_FILE else path
        return path.resolve() if path.is_dir() else None
    except (OSError, RuntimeError, ValueError):  # a name too long for a file, a home that nobody has
        return None


def _not_found(text: str, root: Path, folders: Sequence[Path]) -> str:
    """Word the message for a reference that names no run."""
    if not folders:
        return f"run '{text}' not found: there are no runs in '{root}' yet; make one with `lopa-bench run`"
    names = [path.name for path in folders]
    close = [name for name in names if text.lower() in name.lower()]
    close = close or difflib.get_close_matches(text, names, n=1, cutoff=0.5)
    guess = f" (did you mean '{close[-1]}'?)" if close else f"; the newest is '{names[-1]}'"
    return f"run '{text}' not found in '{root}'{guess}; `lopa-bench list runs` shows all"


def _read_json(file: Path) -> dict[str, Any]:
    """Read a file that holds one JSON object."""
    with jsonl.sentence_on_os_error("read", file):
        raw = file.read_bytes()
    try:
        value = jsonl.parse_json(raw)
    except ValueError as error:
        raise ResultsError(f"{file} is damaged: {error}") from error
    if not isinstance(value, dict):
        raise ResultsError(f"{file} is damaged: it holds no JSON object")
    return value


def _log(path: Path, notes: Sequence[str]) -> None:
    """Warn of what was mended in the run at `path`."""
    for note in notes:
        logger.warning("run %s: %s", path.name, note)

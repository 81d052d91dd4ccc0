"""Parts of a run that other processes write while it goes, each in a folder of its own inside the run's.

The process that holds the run's lock takes over what they hold, as the run goes and, after a kill, when it goes on.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from lopa_bench.results import jsonl
from lopa_bench.results.schema import SCHEMA_VERSION, SampleRecord
from lopa_bench.results.trace import RoundRecord, TraceRecord
from lopa_bench.results.upgrades import parse, upgrade

SAMPLES_FILE, TRACES_FILE = "samples.jsonl", "traces.jsonl.gz"
PREFIX = "shard-"


class ShardWriter:
    """Appends one process's samples and traces; each is on the disk on return."""

    def __init__(self, run: Path, number: int) -> None:
        self.path = run / f"{PREFIX}{number:03d}"
        with jsonl.sentence_on_os_error("make", self.path):
            self.path.mkdir(exist_ok=True)
        self._samples = jsonl.Appender(self.path / SAMPLES_FILE)
        self._traces: jsonl.Appender | None = None

    def append(self, sample: SampleRecord) -> None:
        """Store a sample."""
        self._samples.append(sample.model_dump_json().encode() + b"\n")

    def append_trace(
        self, sample_id: str, rounds: Sequence[RoundRecord], texts: Mapping[int, str] | None = None
    ) -> None:
        """Store the rounds of a sample and the text of each token id in them."""
        self._traces = self._traces or jsonl.Appender(self.path / TRACES_FILE)
        trace = TraceRecord(id=sample_id, rounds=tuple(rounds), texts=dict(texts or {}))
        self._traces.append(jsonl.gzip_member(trace.model_dump_json().encode() + b"\n"))

    def close(self) -> None:
        """Close the files."""
        self._samples.close()
        if self._traces is not None:
            self._traces.close()


def shard_folders(run: Path) -> list[Path]:
    """The parts that are there, by number."""
    return sorted(path for path in run.glob(f"{PREFIX}*") if path.is_dir())


class ShardReader:
    """Reads what is new in a run's parts; a line in the making is left for the next time."""

    def __init__(self, run: Path) -> None:
        self._run = run
        self._read: dict[Path, int] = {}

    def new(self) -> list[SampleRecord]:
        """Samples that were stored since the last call."""
        found: list[SampleRecord] = []
        for folder in shard_folders(self._run):
            file = folder / SAMPLES_FILE
            start = self._read.get(file, 0)
            if not file.exists() or file.stat().st_size <= start:
                continue
            with jsonl.sentence_on_os_error("read", file), file.open("rb") as stream:
                stream.seek(start)
                content = stream.read()
            whole = content[: content.rfind(b"\n") + 1]
            self._read[file] = start + len(whole)
            found += samples_in(whole, file, SCHEMA_VERSION)
        return found


def samples_in(content: bytes, file: Path, version: int) -> list[SampleRecord]:
    """The samples of a file's content; `file` is for messages."""
    objects = jsonl.parse_lines(content, file).objects
    return [parse(SampleRecord, upgrade("sample", raw, version), str(file)) for raw in objects]


def take_over(run: Path, samples: Path, traces: Path) -> bool:
    """Append what the parts of a run hold to its own files and remove them; True when there were any.

    The caller holds the run's lock, and no process writes the parts any more. A kill on the way leaves a sample in both
    places at worst, where the later line counts.
    """
    folders = shard_folders(run)
    for folder in folders:
        lines = jsonl.read_lines(folder / SAMPLES_FILE)
        _append(samples, lines.content)
        if (folder / TRACES_FILE).exists():
            raw = (folder / TRACES_FILE).read_bytes()
            _append(traces, raw[: jsonl.whole_members(raw)[1]])
    _remove(folders)
    return bool(folders)


def take_over_traces(run: Path, traces: Path) -> None:
    """The same for traces alone, where the samples were taken over as they came."""
    folders = shard_folders(run)
    for folder in folders:
        if (folder / TRACES_FILE).exists():
            _append(traces, (folder / TRACES_FILE).read_bytes())
    _remove(folders)


def _append(file: Path, content: bytes) -> None:
    if not content:
        return
    appender = jsonl.Appender(file)
    try:
        appender.append(content)
    finally:
        appender.close()


def _remove(folders: Iterable[Path]) -> None:
    for folder in folders:
        for file in folder.iterdir():  # the samples last: without them nothing would be missed
            if file.name != SAMPLES_FILE:
                file.unlink(missing_ok=True)
        shutil.rmtree(folder, ignore_errors=True)

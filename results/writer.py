"""Writing a run: its folder is made in one step, and every sample is on the disk before the next one starts."""

from __future__ import annotations

import logging
import os
import re
import secrets
import shutil
import unicodedata
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from types import TracebackType

from lopa_bench.errors import LopaBenchError, ResultsError
from lopa_bench.results import jsonl
from lopa_bench.results.locks import FileLock
from lopa_bench.results.mending import NEW_FOLDER, mend, remove_abandoned
from lopa_bench.results.schema import (
    SCHEMA_VERSION,
    RunRecord,
    SampleRecord,
    Status,
    Summary,
    utc_now,
)
from lopa_bench.results.shards import shard_folders, take_over, take_over_traces
from lopa_bench.results.store import (
    LOCK_FILE,
    RUN_FILE,
    SAMPLES_FILE,
    SUMMARY_FILE,
    TRACES_FILE,
    StoredRun,
    all_resumable,
    read_run,
    run_folders,
    run_number,
)
from lopa_bench.results.trace import RoundRecord, TraceRecord

MAX_SLUG = 60

Choice = Callable[[Iterator[StoredRun]], StoredRun | None]

logger = logging.getLogger(__name__)


def slug(text: str) -> str:
    """Return `text` as a short, safe folder name of a-z, 0-9, dot and dash; "run" when nothing of it is left.

    Different texts may give one slug: the number before it keeps folders apart, and `run.json` keeps the whole text.
    """
    plain = unicodedata.normalize("NFKD", text).encode("ascii", "ignore").decode().lower()
    plain = plain.replace("+", "-plus")  # humaneval+ is not humaneval
    return re.sub(r"[^a-z0-9.]+", "-", plain)[:MAX_SLUG].strip("-.") or "run"


class RunWriter:
    """A run open for writing; no other process can write it until `close`. Made by `create_run` and `reopen_run`.

    As a context manager it closes the run as failed or interrupted when the body raises, or ends without `finish`.
    """

    def __init__(self, path: Path, record: RunRecord, lock: FileLock, samples: Sequence[SampleRecord] = ()) -> None:
        self.path = path
        self.record = record
        self._lock = lock
        self._samples_file = jsonl.Appender(path / SAMPLES_FILE)
        self._traces_file: jsonl.Appender | None = None
        self._by_id = {sample.id: sample for sample in samples}
        self._has_repeats = False
        self._ended = False
        self.has_shards = bool(shard_folders(path))
        """Whether other processes wrote a part, so that samples may stand in any order."""

    @property
    def samples(self) -> list[SampleRecord]:
        """The samples stored so far, those of earlier sittings included, one per id."""
        return list(self._by_id.values())

    @property
    def done(self) -> set[str]:
        """Ids that need not run again: all stored ones but those whose answer went wrong; a scorer's fault is none."""
        return {one.id for one in self._by_id.values() if one.status == "ok" or one.has_scorer_error}

    def append(self, sample: SampleRecord) -> None:
        """Store a sample; it is on the disk on return. One of a known id takes the earlier one's place."""
        self._samples_file.append(sample.model_dump_json().encode() + b"\n")
        self._has_repeats |= sample.id in self._by_id
        self._by_id[sample.id] = sample

    def append_trace(
        self, sample_id: str, rounds: Sequence[RoundRecord], texts: Mapping[int, str] | None = None
    ) -> None:
        """Store the rounds of a sample, compressed, and the text of each token id in them.

        The file is made with the first trace.
        """
        if self._traces_file is None:
            self._traces_file = jsonl.Appender(self.path / TRACES_FILE)
        trace = TraceRecord(id=sample_id, rounds=tuple(rounds), texts=dict(texts or {}))
        self._traces_file.append(jsonl.gzip_member(trace.model_dump_json().encode() + b"\n"))

    def order_samples(self, ids: Sequence[str]) -> None:
        """Write all samples anew in the order of `ids`; those of other ids stay in front, as they were."""
        place = {name: index for index, name in enumerate(ids)}
        ordered = sorted(self.samples, key=lambda sample: place.get(sample.id, -1))
        if ordered != self.samples:
            self.replace_samples(ordered)

    def end_shards(self) -> None:
        """Take over the traces of other processes' parts, whose samples were appended here, and remove the parts."""
        if self._traces_file is not None:
            self._traces_file.close()
            self._traces_file = None
        take_over_traces(self.path, self.path / TRACES_FILE)

    def replace_samples(self, samples: Sequence[SampleRecord]) -> None:
        """Write all samples anew in one step, as when scores are known only after the last answer."""
        content = b"".join(sample.model_dump_json().encode() + b"\n" for sample in samples)
        jsonl.replace_file(self.path / SAMPLES_FILE, content)
        self._samples_file.close()  # the old file, which has no name any more
        self._samples_file = jsonl.Appender(self.path / SAMPLES_FILE)
        self._by_id = {sample.id: sample for sample in samples}
        self._has_repeats = False

    def update(self, record: RunRecord) -> None:
        """Replace `run.json`; id and creation time stay as they are."""
        self.record = record.model_copy(update={"id": self.path.name, "created": self.record.created})
        _write_record(self.path, self.record)

    def finish(self, summary: Summary | None = None, status: Status = "finished", error: str | None = None) -> None:
        """Store the summary if there is one, then set the run's last status and close it.

        With a summary the samples are left one to an id, those that were asked again without their earlier lines.
        """
        if summary is not None:
            if self._has_repeats:
                self.replace_samples(self.samples)
            named = summary.model_copy(update={"run_id": self.path.name})
            jsonl.replace_file(self.path / SUMMARY_FILE, named.model_dump_json(indent=2).encode() + b"\n")
        self._ended = True
        self.update(self.record.model_copy(update={"status": status, "error": error, "finished": utc_now()}))
        self.close()

    def close(self) -> None:
        """Close the files and give up the lock; the status stays as it is. Doing so twice is harmless."""
        if self._traces_file is not None:
            self._traces_file.close()
        self._samples_file.close()
        self._lock.release()

    def __enter__(self) -> RunWriter:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            if not self._ended:
                failed = isinstance(error, Exception)
                is_sentence = isinstance(error, LopaBenchError)  # of a fault of the program the kind is worth knowing
                message = (str(error) if is_sentence else f"{type(error).__name__}: {error}") if failed else None
                self.finish(status="failed" if failed else "interrupted", error=message)
        except ResultsError as second:
            if error is None:
                raise
            logger.debug("%s", second)  # the first error is the one to show
        finally:
            self.close()


def create_run(root: Path | str, title: str, record: RunRecord) -> RunWriter:
    """Make the folder of a new run under `root` and open it for writing.

    The folder appears under the next free number with its `run.json` in it and locked, in one step, so that two
    processes starting at once get two numbers. ResultsError when `root` cannot be written.
    """
    root = _made(root)
    with FileLock(root / LOCK_FILE, f"the folder {root}", wait=True):
        return _create(root, title, record)


def resume_or_create(root: Path | str, title: str, record: RunRecord, choose: Choice | None = None) -> RunWriter:
    """Open a run of `record`'s fingerprint under `root`, or a new one; of two processes only one makes it.

    `choose` says which of the runs, newest first, or that none of them; without it that is the newest. ResultsError
    when `root` cannot be written, or when another process is writing that run.
    """
    root = _made(root)
    with FileLock(root / LOCK_FILE, f"the folder {root}", wait=True):
        runs = all_resumable(root, record.fingerprint)
        found = next(runs, None) if choose is None else choose(runs)
        return _create(root, title, record) if found is None else reopen_run(found)


def _made(root: Path | str) -> Path:
    root = Path(root)
    with jsonl.sentence_on_os_error("make", root, "give another folder with --runs-dir"):
        root.mkdir(parents=True, exist_ok=True)
    return root


def _create(root: Path, title: str, record: RunRecord) -> RunWriter:
    """Make a run's folder out of sight, then give it its name; the caller holds the lock of `root`."""
    remove_abandoned(root)
    hidden = root / f"{NEW_FOLDER}{os.getpid()}-{secrets.token_hex(4)}"
    lock = None
    try:
        numbers = [run_number(path) for path in run_folders(root)]
        path = root / f"{max(numbers, default=0) + 1:04d}-{slug(title)}"
        with jsonl.sentence_on_os_error("make", path, "give another folder with --runs-dir"):
            hidden.mkdir()
        named = record.model_copy(update={"id": path.name, "title": title, "status": "running"})
        lock = FileLock(hidden / LOCK_FILE, f"run {path.name}")
        _write_record(hidden, named)
        with jsonl.sentence_on_os_error("make", path):
            hidden.rename(path)
            _sync_folder(root)
        return RunWriter(path, named, lock)
    except BaseException:
        if lock is not None:
            lock.release()
        shutil.rmtree(hidden, ignore_errors=True)
        raise


def reopen_run(run: StoredRun | Path) -> RunWriter:
    """Open a stored run to add the samples it lacks.

    What a kill left half written is cut, with a logged warning. ResultsError when another process is writing the run or
    when it was written under an older schema version.
    """
    path = run.path if isinstance(run, StoredRun) else run
    lock = FileLock(path / LOCK_FILE, f"run {path.name}")
    try:
        stored = read_run(path)  # only now: the one that held the lock may have changed it
        if stored.version != SCHEMA_VERSION:
            raise ResultsError(
                f"run {path.name} has schema version {stored.version} and cannot be continued; start a new one"
            )
        mend(path)
        had_shards = take_over(path, path / SAMPLES_FILE, path / TRACES_FILE)
        if had_shards:
            mend(path)
        record = stored.record.model_copy(
            update={
                "status": "running",
                "error": None,
                "finished": None,
                "resumed": (*stored.record.resumed, utc_now()),
            }
        )
        _write_record(path, record)
        with jsonl.sentence_on_os_error("remove", path / SUMMARY_FILE):
            (path / SUMMARY_FILE).unlink(missing_ok=True)  # it will not be true of what is added
        writer = RunWriter(path, record, lock, stored.samples)
        writer.has_shards |= had_shards
        return writer
    except BaseException:
        lock.release()
        raise


def _write_record(path: Path, record: RunRecord) -> None:
    """Replace the run's `run.json`."""
    jsonl.replace_file(path / RUN_FILE, record.model_dump_json(indent=2).encode() + b"\n")


def _sync_folder(path: Path) -> None:
    """Ask the disk to keep the entries of a folder, as far as its file system can."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)

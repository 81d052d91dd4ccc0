"""Run by test_bad_places.py as a program: `lopa-bench run` where it cannot write, or is stopped; then once more.

Prints as JSON, by case, what each attempt came to: exit code, last line on stderr, answers stored. The last attempt of
a case is always one with nothing in its way. Children are forked as in kill_loop.py.
"""

from __future__ import annotations

import ctypes
import json
import os
import resource
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from kill_loop import exit_code, import_all, outcome, start, unbroken

from lopa_bench.results.store import list_runs
from lopa_bench.results.writer import RunWriter

CAPABILITY_VERSION = 0x20080522
WRITES_ANYWHERE = (1, 2)  # the capabilities that let the superuser write what is read-only


class Cases:
    """Every case gets a folder of its own under `folder`."""

    def __init__(self, checkpoint: str, folder: Path) -> None:
        self.checkpoint = checkpoint
        self.folder = folder
        self.expected: dict[str, Any] = {}

    def attempt(self, root: Path, before: Callable[[], None] = lambda: None) -> dict[str, Any]:
        """Run the command to its end."""
        stderr = self.folder / "stderr"
        stderr.unlink(missing_ok=True)
        code = exit_code(*start(self.checkpoint, root, before, stderr))
        return self.report(root, code, stderr)

    def report(self, root: Path, code: int, stderr: Path) -> dict[str, Any]:
        text = stderr.read_text()
        runs = list_runs(root) if root.is_dir() else []
        return {
            "code": code,
            "stderr": text,
            "line": text.rstrip().splitlines()[-1].replace(str(self.folder), "FOLDER"),
            "stored": [len(run.samples) for run in runs],
            "status": [run.status for run in runs],
            "whole": len(runs) == 1 and runs[0].status == "finished" and outcome(runs[0]) == self.expected,
        }

    def file_in_place(self, root: Path) -> list[dict[str, Any]]:
        root.write_text("not a folder")
        first = self.attempt(root)
        root.unlink()
        return [first, self.attempt(root)]

    def read_only(self, root: Path) -> list[dict[str, Any]]:
        root.mkdir()
        root.chmod(0o555)
        first = self.attempt(root, give_up_power)
        root.chmod(0o755)
        return [first, self.attempt(root)]

    def read_only_run(self, root: Path) -> list[dict[str, Any]]:
        """A run that was stopped is moved where nothing can be written; later it is finished there, and asked for."""
        stopped = self.attempt(root, lambda: stop_after(3, signal.SIGTERM))
        [run] = list_runs(root)
        set_modes(run.path, 0o555, 0o444)
        refused = self.attempt(root, give_up_power)
        set_modes(run.path, 0o755, 0o644)
        finished = self.attempt(root)
        set_modes(run.path, 0o555, 0o444)
        return [stopped, refused, finished, self.attempt(root, give_up_power)]

    def large_file(self, root: Path) -> list[dict[str, Any]]:
        """Files may not grow beyond what the run's record and some samples take; their traces take less."""
        return [self.attempt(root, lambda: limit_files(9_000)), self.attempt(root)]

    def full_disk(self, root: Path) -> list[dict[str, Any]] | None:
        """A file system of 28 KiB, where this process may make one."""
        root.mkdir()
        if not mount_small(root):
            return None
        full = self.attempt(root)
        again = self.attempt(root)
        remount(root, "size=4m")
        return [full, again, self.attempt(root)]

    def interrupt(self, root: Path) -> list[dict[str, Any]]:
        return [self.attempt(root, lambda: stop_after(4, signal.SIGINT)), self.attempt(root)]

    def terminate(self, root: Path) -> list[dict[str, Any]]:
        return [self.attempt(root, lambda: stop_after(4, signal.SIGTERM)), self.attempt(root)]

    def terminate_early(self, root: Path) -> list[dict[str, Any]]:
        return [self.attempt(root, lambda: stop_after(0, signal.SIGTERM)), self.attempt(root)]

    def two_at_once(self, root: Path) -> list[dict[str, Any]]:
        """The second comes while the first has stored something and is not done."""
        gate, opening = os.pipe()
        child, reading = start(self.checkpoint, root, lambda: wait_after(2, gate), self.folder / "first")
        assert len(os.read(reading, 1)) == 1
        while not list_runs(root) or len(list_runs(root)[0].samples) < 2:
            time.sleep(0.01)
        second = self.attempt(root)
        os.write(opening, b".")
        first = self.report(root, exit_code(child, reading), self.folder / "first")
        return [second, first, self.attempt(root)]

    def both_from_nothing(self, root: Path) -> list[dict[str, Any]]:
        """Two start in the same moment where no run is yet."""
        files = [self.folder / name for name in ("one", "two")]
        children = [start(self.checkpoint, root, stderr=file) for file in files]
        codes = [exit_code(*child) for child in children]
        reports = [self.report(root, code, file) for code, file in zip(codes, files, strict=True)]
        return [*sorted(reports, key=lambda one: one["code"]), self.attempt(root)]

    def damaged(self, root: Path) -> list[dict[str, Any]]:
        """A line in the middle was changed by another program; it is deleted as the message says."""
        stopped = self.attempt(root, lambda: stop_after(4, signal.SIGTERM))
        samples = list_runs(root)[0].path / "samples.jsonl"
        lines = samples.read_text().splitlines(keepends=True)
        samples.write_text("".join([lines[0], lines[1][:30] + "\n", *lines[2:]]))
        stderr = self.folder / "stderr"
        stderr.unlink()
        code = exit_code(*start(self.checkpoint, root, stderr=stderr))
        text = stderr.read_text()
        refused = {"code": code, "stderr": text, "line": text.rstrip().splitlines()[-1]}
        samples.write_text("".join([lines[0], *lines[2:]]))
        return [stopped, refused, self.attempt(root)]


def stop_after(num_samples: int, number: int) -> None:
    """Have this process get a signal once so many samples are stored, in the middle of the next one's decoding."""
    from lopa_bench.harness import generation

    judge = generation.sample_record
    count = 0

    def counting(*arguments: Any) -> Any:
        nonlocal count
        if count == num_samples:
            os.kill(os.getpid(), number)
        count += 1
        return judge(*arguments)

    generation.sample_record = counting  # type: ignore[assignment]


def wait_after(num_samples: int, gate: int) -> None:
    """Have this process wait for a byte from `gate` once so many samples are stored."""
    append, count = RunWriter.append, 0

    def counting(writer: RunWriter, sample: Any) -> None:
        nonlocal count
        if count == num_samples:
            os.read(gate, 1)
        count += 1
        append(writer, sample)

    RunWriter.append = counting  # type: ignore[method-assign]


def limit_files(num_bytes: int) -> None:
    resource.setrlimit(resource.RLIMIT_FSIZE, (num_bytes, num_bytes))


def set_modes(folder: Path, own: int, files: int) -> None:
    for file in folder.iterdir():
        file.chmod(files)
    folder.chmod(own)


def give_up_power() -> None:
    """Let permissions bind this process even where it is the superuser's."""
    header = (ctypes.c_uint32 * 2)(CAPABILITY_VERSION, 0)
    data = (ctypes.c_uint32 * 6)()
    libc = ctypes.CDLL(None, use_errno=True)
    assert libc.capget(header, data) == 0
    for capability in WRITES_ANYWHERE:
        data[0] &= ~(1 << capability)
    assert libc.capset(header, data) == 0


def mount_small(folder: Path) -> bool:
    """Mount 28 KiB of memory at `folder`, for this process and its children alone; False where that is not allowed."""
    new_mounts, private = 0x20000, 1 << 18 | 1 << 14
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(new_mounts) or libc.mount(b"none", b"/", None, private, None):
        return False
    return libc.mount(b"tmpfs", bytes(folder), b"tmpfs", 0, b"size=28k") == 0


def remount(folder: Path, options: str) -> None:
    remount_flag = 32
    assert ctypes.CDLL(None).mount(b"tmpfs", bytes(folder), b"tmpfs", remount_flag, options.encode()) == 0


def main(checkpoint: str, folder: Path) -> None:
    import_all(checkpoint, folder)
    cases = Cases(checkpoint, folder)
    cases.expected = outcome(unbroken(checkpoint, folder / "unbroken")[0])
    names = [name for name in vars(Cases) if not name.startswith("_") and name not in ("attempt", "report")]
    print(json.dumps({name: getattr(cases, name)(folder / name) for name in names}))


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))

"""Run by test_crash_points.py as a program: dies at every single step that a run takes on the disk, one step a time.

The steps are the operating system's calls that change files. A child makes a run of a few samples and is killed at
its n-th step, n = 1, 2, ... until one gets through; after each kill another child goes on. What both leave must equal
what an unbroken one leaves. Prints the number of steps.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from lopa_bench.results.schema import DecoderInfo, ModelInfo, RunRecord, SampleRecord, TaskInfo
from lopa_bench.results.store import StoredRun, list_runs
from lopa_bench.results.summary import summarise
from lopa_bench.results.trace import RoundRecord
from lopa_bench.results.writer import resume_or_create

IDS = ("a", "b", "c")
RECORD = RunRecord(
    task=TaskInfo(name="t", num_documents=3), model=ModelInfo(name="m"), decoder=DecoderInfo(name="d"), fingerprint="f"
)
STEPS = ("mkdir", "open", "write", "pwrite", "fsync", "ftruncate", "truncate", "rename", "replace", "unlink")
# What is killed in the middle and not before: a write that got half its bytes out.
HALVES = ("write",)


def sample(name: str, attempt: str) -> SampleRecord:
    """An answer whose text tells who gave it; "b" fails the first time it is asked."""
    failed = name == "b" and attempt == "first"
    return SampleRecord(id=name, text="x" * 50, seed=1 if attempt == "first" else 2, status="error" if failed else "ok")


def go(root: Path, attempt: str) -> None:
    """Begin the run or go on with it."""
    with resume_or_create(root, "x", RECORD) as writer:
        for name in IDS:
            if name not in writer.done:
                writer.append_trace(name, [RoundRecord(index=0, positions=(0, 1, 2), tokens=(1, 2, 3))])
                writer.append(sample(name, attempt))
        writer.finish(summarise(writer.record, writer.samples))


def child(action: Callable[[], None]) -> int:
    """Do something in a process of its own; return 0, or minus the signal that ended it."""
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            action()
            code = 0
        finally:
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def die_at(number: int) -> None:
    """Have this process killed at its `number`-th step: before it, or half through a write."""
    count = 0

    def counting(name: str, call: Callable[..., Any]) -> Callable[..., Any]:
        def step(*arguments: Any, **more: Any) -> Any:
            nonlocal count
            count += 1
            if count == number:
                if name in HALVES:
                    call(arguments[0], arguments[1][: len(arguments[1]) // 2])
                os.kill(os.getpid(), signal.SIGKILL)
            return call(*arguments, **more)

        return step

    for name in STEPS:
        setattr(os, name, counting(name, getattr(os, name)))


def contents(run: StoredRun) -> dict[str, Any]:
    """All that must be the same however often it was killed."""
    summary = run.summary
    return {
        "status": run.status,
        "samples": [(one.id, one.status, one.text) for one in run.samples],
        "lines": len((run.path / "samples.jsonl").read_bytes().splitlines()),
        "traces": [(trace.id, len(trace.rounds)) for trace in run.traces()],
        "summary": summary and summary.model_dump(exclude={"run_id"}),
        "files": sorted(path.name for path in run.path.iterdir()),
    }


def check(root: Path, expected: dict[str, Any], kept: dict[str, SampleRecord]) -> None:
    """What a killed and resumed run left must be whole, and no finished sample done anew."""
    [run] = list_runs(root)
    found = contents(run)
    assert found == expected, (found, expected)
    by_id = {one.id: one for one in run.samples}
    assert all(by_id[name] == one for name, one in kept.items()), (by_id, kept)
    assert not list(root.glob(".new-*"))


def main(folder: Path) -> None:
    summarise(RECORD, [sample(name, "second") for name in IDS])  # imports what the children would import one by one
    whole = folder / "whole"
    for attempt in ("first", "second"):
        assert child(lambda attempt=attempt: go(whole, attempt)) == 0  # type: ignore[misc]
    expected = contents(list_runs(whole)[0])
    assert [status for _, status, _ in expected["samples"]] == ["ok"] * 3
    number = 0
    code = -signal.SIGKILL
    while code == -signal.SIGKILL:
        number += 1
        root = folder / str(number)

        def broken(root: Path = root, number: int = number) -> None:
            die_at(number)
            go(root, "first")
            go(root, "second")

        code = child(broken)
        kept = {one.id: one for run in list_runs(root) for one in run.samples if one.status == "ok"}
        assert child(lambda root=root: go(root, "second")) == 0  # type: ignore[misc]
        check(root, expected, kept)
    assert code == 0, code
    print(number - 1)


if __name__ == "__main__":
    main(Path(sys.argv[1]))

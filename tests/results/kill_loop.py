"""Run by test_processes.py as a program: a child writes samples for ever and is killed, again and again.

After every kill the run must hold each sample whose `append` had returned, whole and in order, and be writable again.
Prints how many samples were confirmed and how many kills landed in the middle of a write.
"""

from __future__ import annotations

import os
import random
import signal
import sys
import time
from pathlib import Path

from lopa_bench.results import jsonl
from lopa_bench.results.schema import DecoderInfo, ModelInfo, RunRecord, SampleRecord, TaskInfo
from lopa_bench.results.store import find_resumable, read_run
from lopa_bench.results.trace import RoundRecord
from lopa_bench.results.writer import create_run, reopen_run

TEXT_LENGTH = 300_000  # long, so that kills land in the middle of a write
TRACE_LENGTH = 2000
PLACES = tuple(range(TRACE_LENGTH))


def write_for_ever(root: Path, confirm: int) -> None:
    record = RunRecord(
        task=TaskInfo(name="t"), model=ModelInfo(name="m"), decoder=DecoderInfo(name="d"), fingerprint="f"
    )
    found = find_resumable(root, "f")
    writer = reopen_run(found) if found else create_run(root, "x", record)
    number = len(writer.samples)
    while True:
        writer.append(SampleRecord(id=str(number), text=chr(97 + number % 26) * TEXT_LENGTH))
        os.write(confirm, f"{number}\n".encode())
        writer.append_trace(str(number), [RoundRecord(index=0, positions=PLACES, tokens=PLACES)])
        number += 1


def start_and_kill(root: Path, seconds: float) -> list[str]:
    """Return the ids whose append returned before the kill, which comes `seconds` after the first of them."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        write_for_ever(root, writing)
    os.close(writing)
    with os.fdopen(reading) as confirmed:
        first = confirmed.readline().strip()
        time.sleep(seconds)
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        return [first, *confirmed.read().split()]


def check(path: Path, confirmed: set[str]) -> int:
    """Return the number of samples of the run, all of which must be whole."""
    stored = read_run(path)
    ids = [sample.id for sample in stored.samples]
    assert stored.status == "interrupted", stored.status
    assert ids == [str(number) for number in range(len(ids))], ids
    assert confirmed <= set(ids), confirmed - set(ids)
    assert all(sample.text == chr(97 + int(sample.id) % 26) * TEXT_LENGTH for sample in stored.samples)
    assert all(len(trace.rounds[0].tokens) == TRACE_LENGTH for trace in stored.traces())
    return len(ids)


def main(root: Path, num_kills: int) -> None:
    pause = random.Random(0)
    confirmed: set[str] = set()
    num_torn = 0
    for _ in range(num_kills):
        confirmed |= set(start_and_kill(root, pause.uniform(0.0, 0.08)))
        num_torn += bool(jsonl.read_lines(root / "0001-x" / "samples.jsonl").notes)
        count = check(root / "0001-x", confirmed)
    with reopen_run(root / "0001-x") as writer:
        writer.finish()
    lines = (writer.path / "samples.jsonl").read_bytes().splitlines()
    assert len(lines) == count
    assert read_run(writer.path).status == "finished"
    print(len(confirmed), num_torn)


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))

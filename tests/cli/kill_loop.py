"""Run by test_kills.py as a program: `lopa-bench run` killed at random moments and started again, until it is done.

The children are forked from one process that has imported everything, and call the program's own `main`, so that a
kill costs little. Half of the kills come any time after the start, half soon after a sample of that sitting began to be
stored. What is left after each kill, and at the end, is compared with what an unbroken run leaves. Prints the number
of kills, of runs and of kills that left half a line.
"""

from __future__ import annotations

import json
import os
import random
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from lopa_bench.cli.app import main as lopa_bench
from lopa_bench.results import jsonl
from lopa_bench.results.comparison.load import LOAD, QUEUED, WATCHED
from lopa_bench.results.peak_memory import PEAK_MEMORY
from lopa_bench.results.schema import SampleRecord
from lopa_bench.results.store import StoredRun, list_runs
from lopa_bench.results.writer import RunWriter

NUM_SAMPLES = 12
# Of a sample: its seconds, what other work took, and how much memory there was at most.
MEASURED: Any = {"time": ..., "extra": {LOAD, QUEUED, WATCHED, PEAK_MEMORY}}
SECONDS = ("tokens/s", "s/answer", "s/round", "s")


def words(checkpoint: str, root: Path) -> list[str]:
    return [
        "run", "-t", "mini-maths", "-d", "lopa", "-m", checkpoint, "-n", str(NUM_SAMPLES), "--warmup", "0", "--trace",
        "--branches", "2", "--max-new-tokens", "8", "--block-length", "4", "--threads", "1", "--runs-dir", str(root),
    ]  # fmt: skip


def start(
    checkpoint: str, root: Path, before: Callable[[], None] = lambda: None, stderr: Path = Path(os.devnull)
) -> tuple[int, int]:
    """Start the command in a child; return its id and a pipe that gets a byte whenever a sample begins to be stored.

    The child calls `before` first and writes what it has to say to `stderr`.
    """
    reading, writing = os.pipe()
    child = os.fork()
    if child:
        os.close(writing)
        return child, reading
    code = 70
    try:
        os.close(reading)
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        os.dup2(os.open(stderr, os.O_WRONLY | os.O_CREAT), 2)
        append = RunWriter.append

        def tell(writer: RunWriter, sample: SampleRecord) -> None:
            os.write(writing, b".")
            append(writer, sample)

        RunWriter.append = tell  # type: ignore[method-assign]
        before()
        lopa_bench(words(checkpoint, root))
    except SystemExit as end:
        code = int(end.code or 0)
    finally:
        os._exit(code)


def exit_code(child: int, reading: int) -> int:
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    os.close(reading)
    return code


def start_and_kill(checkpoint: str, root: Path, chance: random.Random, whole_s: float, answers_s: float) -> int:
    """Return 0 when the child was done before its kill, else minus the signal."""
    child, reading = start(checkpoint, root)
    if chance.random() < 0.5:
        time.sleep(chance.uniform(0.0, whole_s))
    elif os.read(reading, 1):
        time.sleep(chance.uniform(0.0, answers_s / 3))
    os.kill(child, signal.SIGKILL)
    return exit_code(child, reading)


def check_killed(root: Path, kept: dict[str, SampleRecord]) -> bool:
    """Nothing stored before may be gone or other; remember what is stored now. Tell whether half a line was left."""
    runs = list_runs(root) if root.exists() else []
    if not runs:
        assert not kept
        return False
    [run] = runs
    assert run.status in ("interrupted", "finished"), run.status
    now = {sample.id: sample for sample in run.samples}
    assert all(now.get(name) == sample for name, sample in kept.items()), "a finished sample was lost or done again"
    kept.update(now)
    return bool(jsonl.read_lines(run.path / "samples.jsonl").notes)


def outcome(run: StoredRun) -> dict[str, Any]:
    """All that must be equal however often a run was broken: everything but times and names."""
    assert run.summary is not None
    summary = run.summary.model_dump(exclude={"run_id", "time", "warnings"})
    summary["metrics"] = {name: one for name, one in summary["metrics"].items() if one["unit"] not in SECONDS}
    return {
        "status": run.status,
        "samples": [one.model_dump(exclude=MEASURED) for one in sorted(run.samples, key=lambda sample: sample.id)],
        "summary": summary,
        "traces": [
            (trace.id, [one.model_dump(exclude={"seconds"}) for one in trace.rounds])
            for trace in sorted(run.traces(), key=lambda trace: trace.id)
        ],
        "fingerprint": run.record.fingerprint,
        "configuration": {name: one for name, one in run.record.configuration.items() if name != "runs_dir"},
        "files": sorted(path.name for path in run.path.iterdir()),
    }


def check_done(root: Path, expected: dict[str, Any], kept: dict[str, SampleRecord]) -> None:
    [run] = list_runs(root)
    assert outcome(run) == expected
    assert all(sample == kept[sample.id] for sample in run.samples if sample.id in kept)
    raw = (run.path / "samples.jsonl").read_text()
    assert raw.endswith("\n")
    assert [json.loads(line)["id"] for line in raw.splitlines()] == [f"mini-maths-{i:04d}" for i in range(NUM_SAMPLES)]
    assert not list(root.glob(".new-*"))


def unbroken(checkpoint: str, root: Path) -> tuple[StoredRun, float, float]:
    """Return a run nobody killed, the seconds it took and those from its first sample on."""
    began = time.monotonic()
    child, reading = start(checkpoint, root)
    assert os.read(reading, 1)
    first = time.monotonic()
    code = exit_code(child, reading)
    assert code == 0, code
    ended = time.monotonic()
    return list_runs(root)[0], ended - began, ended - first


def import_all(checkpoint: str, folder: Path) -> None:
    """Make a run in this process, so that the children find everything imported."""
    from lopa_bench.harness.runner import run
    from lopa_bench.harness.settings import RunSpec

    run(RunSpec(task="mini-maths", decoder="lopa", model=checkpoint, limit=1, threads=1, runs_dir=folder / "0"))


def main(checkpoint: str, folder: Path, num_kills: int) -> None:
    import_all(checkpoint, folder)
    reference, whole_s, answers_s = unbroken(checkpoint, folder / "unbroken")
    expected = outcome(reference)
    chance = random.Random()
    killed = runs = torn = 0
    while killed < num_kills:
        runs += 1
        root, kept = folder / f"killed-{runs}", dict[str, SampleRecord]()
        while start_and_kill(checkpoint, root, chance, whole_s, answers_s) == -signal.SIGKILL:
            killed += 1
            torn += check_killed(root, kept)
            if killed >= num_kills:
                child, reading = start(checkpoint, root)
                assert exit_code(child, reading) == 0
                break
        else:  # done before it was killed: what was measured on a busy machine is too long on an idle one
            whole_s, answers_s = 0.8 * whole_s, 0.8 * answers_s
        check_done(root, expected, kept)
    print(killed, runs, torn, round(whole_s, 2), round(answers_s, 2))


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), int(sys.argv[3]))

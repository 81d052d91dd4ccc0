"""Is the scoring of code right? Canonical solutions must all pass, hostile programs must all get their verdict.

    python benchmarks/scoring_check.py --data-dir DIR [--jobs 2] [--skip-canonical] [--skip-hostile]

Prints two tables; exit code 1 on any miss. DIR holds HumanEval.jsonl.gz, HumanEvalPlus-v0.1.10.jsonl.gz, mbpp.jsonl.gz
and MbppPlus-v0.2.0.jsonl.gz.
"""

from __future__ import annotations

import argparse
import socket
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from hostile_programs import HOSTILE, PROBLEM, Hostile, source_of
from rich.console import Console
from rich.table import Table

from lopa_bench.errors import PrerequisiteError
from lopa_bench.harness.code.batch import judge_all
from lopa_bench.harness.code.expected import ExpectedOutputs, private_folder
from lopa_bench.harness.code.judge import (
    PROGRAM_LIMITS,
    SOLUTION_LIMITS,
    AssertionJudge,
    InputJudge,
    Judge,
    OfficialJudge,
    Verdict,
    check_controls,
)
from lopa_bench.harness.sandbox.isolation import Kind
from lopa_bench.harness.sandbox.sandbox import Sandbox
from lopa_bench.tasks.code_data import CodeData, load_code_data

OFFICIAL = {"humaneval": 164, "humaneval+": 164, "mbpp": 500, "mbpp+": 378}
KINDS: tuple[Kind, ...] = ("bubblewrap", "limits")


def judge_for(name: str, data: CodeData) -> Judge:
    if name == "humaneval":
        return OfficialJudge()
    if name == "mbpp":
        return AssertionJudge()
    family = name.rstrip("+")
    expected = ExpectedOutputs(Sandbox(SOLUTION_LIMITS), family, data.sha256, private_folder())
    return InputJudge(family, expected, Sandbox(PROGRAM_LIMITS))


def check_canonical(data_dir: Path, jobs: int, console: Console) -> int:
    """Judge every canonical solution; return the number of misses."""
    table = Table("task", "passed", "of", "seconds", "missed", title="canonical solutions")
    misses = 0
    for name, number in OFFICIAL.items():
        start = time.monotonic()
        data = load_code_data(name, data_dir)
        judge = judge_for(name, data)
        check_controls(judge, data.rows[0])
        programs = [
            (row, row["code"] if "code" in row else row["prompt"] + row["canonical_solution"]) for row in data.rows
        ]
        verdicts = judge_all(judge, programs, jobs)
        missed = [
            f"{row['task_id']} ({getattr(verdict, 'why', verdict)})"
            for row, verdict in zip(data.rows, verdicts, strict=True)
            if not (isinstance(verdict, Verdict) and verdict.passed)
        ]
        seconds = f"{time.monotonic() - start:.0f}"
        table.add_row(name, str(len(verdicts) - len(missed)), str(number), seconds, ", ".join(missed))
        misses += len(missed) + abs(number - len(verdicts))
    console.print(table)
    return misses


@contextmanager
def victims() -> Iterator[tuple[Path, socket.socket]]:
    """A folder and a port that hostile programs go for."""
    with tempfile.TemporaryDirectory() as folder, socket.create_server(("127.0.0.1", 0)) as server:
        outside = Path(folder) / "outside"
        outside.mkdir()
        (outside / "kept").write_text("secret")
        server.setblocking(False)
        yield outside, server


def is_unharmed(outside: Path, server: socket.socket) -> bool:
    try:
        server.accept()
    except BlockingIOError:
        return [(path.name, path.read_text()) for path in outside.iterdir()] == [("kept", "secret")]
    return False


def is_right(program: Hostile, verdict: Verdict, kind: Kind) -> bool:
    refused = program.refused if kind == "limits" else frozenset()
    if program.passes and not refused:
        return verdict.passed
    return not verdict.passed and verdict.why in (refused or program.whys)


def check_hostile(kind: Kind, console: Console) -> int:
    """Judge every hostile program under one kind of isolation; return the number of misses."""
    try:
        sandbox = Sandbox(PROGRAM_LIMITS, kind)
    except PrerequisiteError as error:
        console.print(f"[yellow]{kind}: left out: {error}")
        return 0
    table = Table("program", "verdict", "seconds", "", title=f"hostile programs, {sandbox.isolation.name}")
    judge = InputJudge("humaneval", ExpectedOutputs(sandbox, "humaneval", "own", None), sandbox)
    check_controls(judge, PROBLEM)
    misses = 0
    with victims() as (outside, server):
        for program in HOSTILE:
            start = time.monotonic()
            verdict = judge.judge(PROBLEM, source_of(program, str(outside), server.getsockname()[1]))
            fine = is_right(program, verdict, kind) and is_unharmed(outside, server)
            word = "passed" if verdict.passed else str(verdict.why)
            table.add_row(program.name, word, f"{time.monotonic() - start:.1f}", "" if fine else "[red]WRONG")
            misses += not fine
    console.print(table)
    return misses


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--data-dir", type=Path, required=True)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--skip-canonical", action="store_true")
    parser.add_argument("--skip-hostile", action="store_true")
    chosen: Any = parser.parse_args()
    console = Console()
    misses = 0
    if not chosen.skip_canonical:
        misses += check_canonical(chosen.data_dir, chosen.jobs, console)
    if not chosen.skip_hostile:
        misses += sum(check_hostile(kind, console) for kind in KINDS)
    console.print("[green]all as it should be" if not misses else f"[red]{misses} misses")
    return 1 if misses else 0


if __name__ == "__main__":
    sys.exit(main())

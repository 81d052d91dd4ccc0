"""Verdicts by the evalplus package's own evaluator, on the same programs: `--scorer evalplus`.

It runs in a fresh process that never held a model, inside the same isolation as everything else, because the package's
guard is not one: what it contains it contains by that, and a program that forges its own verdict is believed.
"""

from __future__ import annotations

import threading
from importlib import metadata
from typing import Any

from lopa_bench.errors import PrerequisiteError, ScorerError
from lopa_bench.harness.code.judge import TimeRule, Verdict
from lopa_bench.harness.sandbox.isolation import EVALPLUS, Kind, Limits
from lopa_bench.harness.sandbox.program import Program, ProgramGone
from lopa_bench.harness.sandbox.sandbox import Sandbox

LIMITS = Limits(
    memory_bytes=12 * 2**30, cpu_s=24 * 3600, wall_s=7 * 24 * 3600.0, file_bytes=2**30, scratch_bytes=2**30,
    num_processes=64, num_files=256,
)  # fmt: skip
IMPORT_S = 120.0
JUDGE_S = 600.0
"""The package's own bound is 64 s for each half; the canonical solution is run besides."""
WORDS = {"pass": None, "fail": "wrong", "timeout": "timeout"}


class EvalPlusJudge:
    """Judges by evalplus' evaluator; close it, or use it as a context manager, to end its process.

    Args:
        family: "humaneval" or "mbpp".
        base_only: leave the plus inputs out.
        kind: the isolation to insist on, None for the best there is.
        time_rule: the package's limits, in seconds of wall clock.
    """

    def __init__(
        self, family: str, base_only: bool = False, kind: Kind | None = None, time_rule: TimeRule | None = None
    ) -> None:
        try:
            self.name = f"evalplus {metadata.version('evalplus')}"
        except metadata.PackageNotFoundError as error:
            raise PrerequisiteError("--scorer evalplus needs the package: pip install evalplus") from error
        self._family = family
        self._base_only = base_only
        self._time_rule = time_rule or TimeRule()
        self.sandbox = Sandbox(LIMITS, kind)
        self._lock = threading.Lock()
        self._worker: Program | None = None

    def __enter__(self) -> EvalPlusJudge:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End the evaluator's process."""
        if self._worker is not None:
            self._worker.close()
            self._worker = None

    def controls(self, row: dict[str, Any]) -> tuple[str, str]:
        """Return the canonical solution and a function that gives nothing."""
        return row["prompt"] + row["canonical_solution"], f"def {row['entry_point']}(*_):\n    return None\n"

    def judge(self, row: dict[str, Any], source: str) -> Verdict:
        """Return the package's verdict.

        Raises:
            ScorerError: its process ended or could not do its work.
        """
        request = {
            "family": self._family,
            "row": row,
            "source": source,
            "base_only": self._base_only,
            "min_s": self._time_rule.min_s,
            "factor": self._time_rule.factor,
        }
        with self._lock:
            reply = self._ask(request)
        halves: dict[str, bool] = {half: reply[half] == "pass" for half in ("base", "plus") if half in reply}
        why = next((WORDS.get(reply[half], "wrong") for half in halves if not halves[half]), None)
        return Verdict(all(halves.values()), why, " ".join(f"{half}: {reply[half]}" for half in halves), halves)

    def _ask(self, request: dict[str, Any]) -> dict[str, Any]:
        try:
            worker = self._start()
            worker.send(request)
            reply = worker.receive(JUDGE_S)
        except ProgramGone as gone:
            self.close()
            raise ScorerError(f"evalplus' evaluator ended at {request['row']['task_id']}: {gone.why}") from None
        if "base" not in reply:
            raise ScorerError(f"evalplus' evaluator failed at {request['row']['task_id']}: {reply.get('fault')}")
        return reply

    def _start(self) -> Program:
        if self._worker is None:
            self._worker = self.sandbox.open(EVALPLUS)
            greeting = self._worker.receive(IMPORT_S)
            if "evaluator" not in greeting:
                self.close()
                raise ScorerError(f"evalplus' evaluator does not start: {greeting.get('fault')}")
        return self._worker

"""The canonical solutions pass, all of them: HumanEval 164, HumanEval+ 164, MBPP 500, MBPP+ 378."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from lopa_bench.harness.code.batch import judge_all
from lopa_bench.harness.code.expected import ExpectedOutputs
from lopa_bench.harness.code.judge import (
    PROGRAM_LIMITS,
    SOLUTION_LIMITS,
    AssertionJudge,
    InputJudge,
    Judge,
    OfficialJudge,
    Verdict,
)
from lopa_bench.harness.sandbox.sandbox import Sandbox
from lopa_bench.tasks.code_data import CodeData, load_code_data


def judge_for(name: str, data: CodeData, folder: Path) -> Judge:
    if name == "humaneval":
        return OfficialJudge()
    if name == "mbpp":
        return AssertionJudge()
    family = name.rstrip("+")
    expected = ExpectedOutputs(Sandbox(SOLUTION_LIMITS), family, data.sha256, folder)
    return InputJudge(family, expected, Sandbox(PROGRAM_LIMITS))


def solution(row: dict[str, Any]) -> str:
    return row["code"] if "code" in row else row["prompt"] + row["canonical_solution"]


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize(("name", "number"), [("humaneval", 164), ("humaneval+", 164), ("mbpp", 500), ("mbpp+", 378)])
def test_canonical_solutions_pass(name: str, number: int, data_dir: Path, tmp_path: Path) -> None:
    data = load_code_data(name, data_dir)
    verdicts = judge_all(judge_for(name, data, tmp_path), [(row, solution(row)) for row in data.rows], num_workers=2)
    failed = {
        row["task_id"]: verdict
        for row, verdict in zip(data.rows, verdicts, strict=True)
        if not isinstance(verdict, Verdict) or not verdict.passed
    }
    assert failed == {}
    assert len(verdicts) == number

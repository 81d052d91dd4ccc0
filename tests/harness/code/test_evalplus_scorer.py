"""The package's own evaluator on the same programs, and where its verdict is known to be another."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from lopa_bench.errors import ScorerError
from lopa_bench.harness.code.evalplus_scorer import EvalPlusJudge
from lopa_bench.harness.code.expected import ExpectedOutputs
from lopa_bench.harness.code.judge import PROGRAM_LIMITS, SOLUTION_LIMITS, InputJudge, check_controls
from lopa_bench.harness.sandbox.isolation import Limits
from lopa_bench.harness.sandbox.sandbox import Sandbox
from lopa_bench.tasks.code_data import load_code_data

Row = dict[str, Any]


@pytest.fixture(scope="module")
def rows(data_dir: Path) -> dict[str, Row]:
    return {row["task_id"]: row for name in ("humaneval+", "mbpp+") for row in load_code_data(name, data_dir).rows}


@pytest.fixture(scope="module")
def package() -> Iterator[EvalPlusJudge]:
    with EvalPlusJudge("humaneval") as judge:
        yield judge


@pytest.fixture(scope="module")
def ours(tmp_path_factory: pytest.TempPathFactory) -> InputJudge:
    folder = tmp_path_factory.mktemp("expected")
    expected = ExpectedOutputs(Sandbox(SOLUTION_LIMITS), "humaneval", "test", folder)
    return InputJudge("humaneval", expected, Sandbox(PROGRAM_LIMITS))


def test_controls(package: EvalPlusJudge, rows: dict[str, Row]) -> None:
    check_controls(package, rows["HumanEval/0"])


def test_its_words_become_ours(package: EvalPlusJudge, rows: dict[str, Row]) -> None:
    row = rows["HumanEval/2"]
    right = package.judge(row, row["prompt"] + row["canonical_solution"])
    assert right.halves == {"base": True, "plus": True}
    wrong = package.judge(row, "def truncate_number(number):\n    return number\n")
    assert (wrong.passed, wrong.why, wrong.halves) == (False, "wrong", {"base": False, "plus": False})
    assert package.judge(row, "import os\nos._exit(0)\n").why == "timeout", "its word for a process that ended"


def test_base_alone(rows: dict[str, Row]) -> None:
    row = rows["HumanEval/2"]
    with EvalPlusJudge("humaneval", base_only=True) as judge:
        assert judge.judge(row, row["prompt"] + row["canonical_solution"]).halves == {"base": True}


def test_without_bubblewrap(rows: dict[str, Row]) -> None:
    with EvalPlusJudge("mbpp", kind="limits") as judge:
        check_controls(judge, rows["Mbpp/2"])
        assert judge.sandbox.describe()["warning"]


EXPLAINED: dict[str, tuple[str, str, bool, bool]] = {
    "a right answer to HumanEval/32 can only fail in evalplus 0.3.1": ("HumanEval/32", "", True, False),
    "an object's own equality is not asked here": (
        "HumanEval/2",
        "class Any:\n    def __eq__(self, other): return True\ndef truncate_number(number): return Any()\n",
        False,
        True,
    ),
    "there is no verdict within a program's reach here": (
        "HumanEval/2",
        "import sys\ndef truncate_number(number):\n    frame = sys._getframe()\n    while frame:\n"
        "        if 'stat' in frame.f_locals and 'details' in frame.f_locals:\n"
        "            names = frame.f_locals\n            names['progress'].value = len(names['inputs'])\n"
        "            for i in range(len(names['details'])): names['details'][i] = True\n"
        "            names['stat'].value = 0\n            import os\n            os._exit(0)\n"
        "        frame = frame.f_back\n",
        False,
        True,
    ),
    "a program may use files of its own here": (
        "HumanEval/2",
        "def truncate_number(number):\n    with open('own', 'w') as file:\n        file.write('x')\n"
        "    return number % 1.0\n",
        True,
        False,
    ),
    "a program may start processes here, where it cannot do harm": (
        "HumanEval/2",
        "import os\ndef truncate_number(number):\n    child = os.fork()\n    if child == 0: os._exit(0)\n"
        "    os.waitpid(child, 0)\n    return number % 1.0\n",
        True,
        False,
    ),
    "an array of one number is no number here": (
        "HumanEval/2",
        "import numpy\ndef truncate_number(number):\n    return numpy.array([number - int(number)])\n",
        False,
        True,
    ),
}


@pytest.mark.parametrize("reason", EXPLAINED)
def test_where_the_verdicts_differ(reason: str, package: EvalPlusJudge, ours: InputJudge, rows: dict[str, Row]) -> None:
    number, source, right_here, right_there = EXPLAINED[reason]
    row = rows[number]
    source = source or row["prompt"] + row["canonical_solution"]
    if "processes" in reason and Sandbox().isolation.kind == "limits":
        pytest.skip("needs bubblewrap; without it the guard refuses the fork")
    assert ours.judge(row, source).passed is right_here
    assert package.judge(row, source).passed is right_there


def test_a_dead_evaluator_is_the_scorer_s_fault_and_is_replaced(rows: dict[str, Row]) -> None:
    row = rows["HumanEval/2"]
    source = row["prompt"] + row["canonical_solution"]
    with EvalPlusJudge("humaneval") as judge:
        assert judge.judge(row, source).passed
        assert judge._worker is not None
        os.kill(judge._worker.first_process or judge._worker._process.pid, signal.SIGKILL)
        with pytest.raises(ScorerError, match="evaluator ended at HumanEval/2"):
            judge.judge(row, source)
        assert judge.judge(row, source).passed


def test_limits_that_would_fail_every_program_are_told(rows: dict[str, Row], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lopa_bench.harness.code.evalplus_scorer.LIMITS", Limits(memory_bytes=2**30))
    with EvalPlusJudge("humaneval") as judge, pytest.raises(ScorerError, match="hard limits leave 1073741824 bytes"):
        judge.judge(rows["HumanEval/2"], "")


def test_a_problem_that_cannot_be_prepared_is_the_scorer_s_fault(package: EvalPlusJudge, rows: dict[str, Row]) -> None:
    broken = rows["HumanEval/2"] | {"task_id": "HumanEval/x", "canonical_solution": "    return 1 / 0\n"}
    with pytest.raises(ScorerError, match="failed at HumanEval/x: ZeroDivisionError"):
        package.judge(broken, "")

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from lopa_bench.errors import ScorerError, TaskDataError
from lopa_bench.harness.code import judge as code_judge
from lopa_bench.harness.code.batch import judge_all
from lopa_bench.harness.code.expected import ExpectedOutputs
from lopa_bench.harness.code.judge import (
    PROGRAM_LIMITS,
    SOLUTION_LIMITS,
    AssertionJudge,
    InputJudge,
    Judge,
    OfficialJudge,
    TimeRule,
    Verdict,
    check_controls,
    split_assertions,
)
from lopa_bench.harness.sandbox.program import Output
from lopa_bench.harness.sandbox.sandbox import Sandbox
from lopa_bench.tasks.cleanup import Question, clean
from lopa_bench.tasks.code_data import load_code_data
from lopa_bench.tasks.known_bad import known_bad

Row = dict[str, Any]


@pytest.fixture(scope="module")
def humaneval(data_dir: Path) -> dict[str, Row]:
    return {row["task_id"]: row for row in load_code_data("humaneval", data_dir).rows}


@pytest.fixture(scope="module")
def mbpp(data_dir: Path) -> dict[int, Row]:
    return {row["task_id"]: row for row in load_code_data("mbpp", data_dir).rows}


@pytest.fixture(scope="module")
def official() -> OfficialJudge:
    return OfficialJudge()


@pytest.fixture(scope="module")
def assertions() -> AssertionJudge:
    return AssertionJudge()


def solution(row: Row) -> str:
    return row["code"] if "code" in row else row["prompt"] + row["canonical_solution"]


@pytest.mark.parametrize("number", [0, 32, 33, 38, 50, 53])
def test_check_functions_with_chance_and_helpers(number: int, humaneval: dict[str, Row], official: Judge) -> None:
    row = humaneval[f"HumanEval/{number}"]
    assert official.judge(row, solution(row)) == Verdict(True, detail="")
    wrong = official.judge(row, f"def {row['entry_point']}(*_):\n    return None\n")
    assert not wrong.passed
    assert wrong.why == "wrong"


@pytest.mark.parametrize("rule", ["evalplus", "authors"])
def test_a_helper_of_the_prompt_may_be_cleaned_away(rule: str, humaneval: dict[str, Row], official: Judge) -> None:
    """HumanEval/50's test calls the prompt's other function; a program alone would fail it for want of a name."""
    row = humaneval["HumanEval/50"]
    program = clean(rule, Question(row["prompt"], row["entry_point"]), row["canonical_solution"]).source
    assert "def encode_shift" not in program
    assert official.judge(row, program).passed


def test_the_test_s_helpers_are_not_the_program_s(humaneval: dict[str, Row], official: Judge) -> None:
    row = humaneval["HumanEval/50"]
    forged = "def encode_shift(s):\n    return s\ndef decode_shift(s):\n    return s\n"
    assert not official.judge(row, forged).passed


@pytest.mark.parametrize(
    ("source", "why"),
    [
        ("def other(): pass", "no such function"),
        ("def truncate_number(number: float:\n", "syntax error"),
        ("  x = 1", "syntax error"),
        ("def truncate_number(number):\n    return missing", "runtime error"),
        ("def truncate_number(number):\n    return 1 / 0", "runtime error"),
        ("def truncate_number(number):\n    while True: pass", "timeout"),
        ("import os\nos._exit(3)", "crashed"),
        ("class Any:\n    def __eq__(self, other): return True\ndef truncate_number(number): return Any()", "wrong"),
        (
            "class Any(float):\n    def __sub__(self, other): return 0.0\n    __rsub__ = __eq__ = __sub__\n"
            "def truncate_number(number): return Any()",
            "wrong",
        ),
    ],
)
def test_why(
    source: str, why: str, humaneval: dict[str, Row], official: Judge, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(code_judge, "OFFICIAL_S", 0.5)
    monkeypatch.setattr("lopa_bench.harness.sandbox.program.WALL_FACTOR", 4.0)
    verdict = official.judge(humaneval["HumanEval/2"], source)
    assert (verdict.passed, verdict.why) == (False, why)


def test_time_is_counted_over_all_calls(
    humaneval: dict[str, Row], official: Judge, monkeypatch: pytest.MonkeyPatch
) -> None:
    row = humaneval["HumanEval/53"]
    busy = "def add(x, y):\n    for _ in range(10**5): pass\n    return x + y\n"
    assert official.judge(row, busy).passed
    monkeypatch.setattr(code_judge, "OFFICIAL_S", 0.05)
    assert official.judge(row, busy).why == "timeout"


@pytest.mark.parametrize("number", [11, 12, 367])
def test_assertions(number: int, mbpp: dict[int, Row], assertions: Judge) -> None:
    """Mbpp/367 builds trees out of a class of the program's, in code of its own that is run first."""
    check_controls(assertions, mbpp[number])


def test_an_assertion_fails_for_any_other_value(mbpp: dict[int, Row], assertions: Judge) -> None:
    row = mbpp[11]
    for body in ("return None", "return s", "return [s]", "return open"):
        assert assertions.judge(row, f"def remove_Occ(s, ch):\n    {body}\n").why == "wrong"
    equal = "class Any(str):\n    def __eq__(self, other): return True\ndef remove_Occ(s, ch): return Any()"
    assert assertions.judge(row, equal).why == "wrong"
    assert assertions.judge(row, "def remove_occ(s, ch):\n    return s\n").why == "no such function"


def test_assertions_of_another_form_are_told() -> None:
    for line in ("assert f(1)", "assert f(1) == g(2)", "print(1)", "assert f(1) > 2", "assert f(1) =="):
        with pytest.raises(TaskDataError, match=r"MBPP 5: not of the form"):
            split_assertions({"task_id": 5, "test_list": [line]})


@pytest.fixture
def input_judge(tmp_path: Path) -> InputJudge:
    expected = ExpectedOutputs(Sandbox(SOLUTION_LIMITS), "humaneval", "sha", tmp_path)
    return InputJudge("humaneval", expected, Sandbox(PROGRAM_LIMITS), TimeRule(min_s=0.5))


def row_of(**changes: Any) -> Row:
    return {
        "task_id": "Own/1",
        "prompt": "def f(x):\n",
        "canonical_solution": "    return sorted(x)\n",
        "entry_point": "f",
        "base_input": [[[2, 1]], [[]]],
        "plus_input": [[[3, 1, 2]], [["b", "a"]]],
        "atol": 0,
    } | changes


def test_base_and_plus_are_told_apart(input_judge: InputJudge) -> None:
    row = row_of()
    assert input_judge.judge(row, solution(row)).halves == {"base": True, "plus": True}
    cheat = "def f(x):\n    return {(2, 1): [1, 2], (): []}.get(tuple(x))\n"
    verdict = input_judge.judge(row, cheat)
    assert (verdict.passed, verdict.halves, verdict.detail) == (False, {"base": True, "plus": False}, "plus input 0")
    nothing = input_judge.judge(row, "def f(x):\n    return x\n")
    assert nothing.halves == {"base": False, "plus": False}


def test_a_constant_cheat_fails_the_controls_of_no_judge(input_judge: InputJudge) -> None:
    check_controls(input_judge, row_of())


EXACT = "def square_Sum(n):\n    return {} * n * (n + 1) * (2 * n + 1) // 3\n"


def test_a_right_answer_to_a_known_bad_test_is_told(data_dir: Path, tmp_path: Path) -> None:
    """Mbpp/287's expected values are floats that miss the integer for 17 inputs."""
    data = load_code_data("mbpp+", data_dir)
    row = next(row for row in data.rows if row["task_id"] == "Mbpp/287")
    expected = ExpectedOutputs(Sandbox(SOLUTION_LIMITS), "mbpp", data.sha256, tmp_path)
    judge = InputJudge("mbpp", expected, Sandbox(PROGRAM_LIMITS), known_bad=known_bad(data.release))
    exact = judge.judge(row, EXACT.format(2))
    assert (exact.passed, exact.is_excused, exact.why) == (False, True, "known-bad test")
    assert exact.detail.count(",") == 16
    wrong = judge.judge(row, EXACT.format(3))
    assert (wrong.passed, wrong.is_excused, wrong.why) == (False, False, "wrong")
    right = judge.judge(row, solution(row))
    assert (right.passed, right.is_excused) == (True, False)


def test_each_half_begins_afresh(input_judge: InputJudge) -> None:
    counting = "calls = []\ndef f(x):\n    calls.append(1)\n    return sorted(x) if len(calls) <= 2 else None\n"
    assert input_judge.judge(row_of(), counting).passed


def test_arguments_are_the_program_s_to_change(input_judge: InputJudge) -> None:
    assert input_judge.judge(row_of(), "def f(x):\n    x.sort()\n    return x\n").passed


def test_no_plus_inputs_is_no_failure(input_judge: InputJudge) -> None:
    row = row_of(plus_input={})
    assert input_judge.judge(row, solution(row)).passed


def test_a_solution_that_fails_is_the_scorer_s_fault(input_judge: InputJudge) -> None:
    with pytest.raises(ScorerError, match="canonical solution of Own/2 fails here: ZeroDivisionError"):
        input_judge.judge(row_of(task_id="Own/2", canonical_solution="    return 1 / 0\n"), "")
    with pytest.raises(ScorerError, match="canonical solution of Own/3 does not run here: SyntaxError"):
        input_judge.judge(row_of(task_id="Own/3", canonical_solution="    return (\n"), "")


class Careless:
    """A judge that says the same of every program."""

    name = "the test's judge"

    def __init__(self, verdict: Verdict) -> None:
        self._verdict = verdict

    def judge(self, row: Row, source: str) -> Verdict:
        return self._verdict

    def controls(self, row: Row) -> tuple[str, str]:
        return "right", "wrong"


def test_controls_find_a_judge_that_passes_or_fails_everything() -> None:
    with pytest.raises(ScorerError, match="scores would be too low"):
        check_controls(Careless(Verdict(False, "timeout")), row_of())
    with pytest.raises(ScorerError, match="scores would be too high"):
        check_controls(Careless(Verdict(True)), row_of())


def test_a_killed_program_is_tried_again_once() -> None:
    verdicts = [Verdict(False, "killed"), Verdict(True)]
    assert code_judge.twice_if_killed(lambda: verdicts.pop(0)).passed
    verdicts = [Verdict(False, "killed"), Verdict(False, "killed"), Verdict(True)]
    assert code_judge.twice_if_killed(lambda: verdicts.pop(0)).why == "killed"
    verdicts = [Verdict(False, "crashed"), Verdict(True)]
    assert code_judge.twice_if_killed(lambda: verdicts.pop(0)).why == "crashed"


def test_the_scorer_s_fault_is_no_verdict_and_the_others_are_judged(input_judge: InputJudge) -> None:
    good, bad = row_of(), row_of(task_id="Own/4", canonical_solution="    return 1 / 0\n")
    found = judge_all(input_judge, [(good, solution(good)), (bad, ""), (good, "")], num_workers=2)
    assert isinstance(found[0], Verdict)
    assert isinstance(found[1], ScorerError)
    assert isinstance(found[2], Verdict)
    assert [getattr(one, "passed", None) for one in found] == [True, None, False]


def test_test_code_that_dies_is_the_scorer_s_fault(humaneval: dict[str, Row], official: Judge) -> None:
    row = humaneval["HumanEval/2"] | {"test": "import os\ndef check(candidate):\n    os._exit(1)\n"}
    with pytest.raises(ScorerError, match="test code of HumanEval/2 ended: crashed"):
        official.judge(row, solution(row))


def test_limits_follow_the_solution_s_time() -> None:
    assert TimeRule().limit(0.01) == 1.0
    assert TimeRule().limit(2.0) == 8.0
    assert TimeRule(min_s=4.0).limit(0.5) == 4.0


def test_failure_words() -> None:
    name_error = Output(error="NameError: the program defines no 'f'", why="error")
    assert code_judge.failure(name_error, "f").why == "no such function"
    assert (
        code_judge.failure(Output(error="NameError: name 'g' is not defined", why="error"), "f").why == "runtime error"
    )
    assert code_judge.failure(Output(error="IndentationError: x", why="error"), "f").why == "syntax error"
    assert code_judge.failure(Output(error="timeout", why="timeout"), "f").why == "timeout"

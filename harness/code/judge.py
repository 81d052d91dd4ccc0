"""The verdict on a program: run in the sandbox, judged out here.

Three kinds of tests, one class each: HumanEval's own check functions, MBPP's assertions, and the inputs of HumanEval+
and MBPP+ with the outputs of their canonical solutions. In none of them does the process that runs the program know
what is expected, so the only way to pass is to give the right outputs.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Protocol

from lopa_bench.errors import ScorerError, TaskDataError
from lopa_bench.harness.code.compare import Comparison
from lopa_bench.harness.code.expected import Expected, ExpectedOutputs
from lopa_bench.harness.sandbox import plain_values, value_digest
from lopa_bench.harness.sandbox.isolation import REFEREE, Limits
from lopa_bench.harness.sandbox.program import Output, Program, ProgramGone
from lopa_bench.harness.sandbox.sandbox import Sandbox

LOAD_S = 5.0
OFFICIAL_S = 3.0
"""Processor time for all tests of one problem of HumanEval or MBPP: what their own evaluators give, in wall clock."""
REFEREE_S = 60.0

PROGRAM_LIMITS = Limits(cpu_s=120, wall_s=240.0)
SOLUTION_LIMITS = Limits(cpu_s=900, wall_s=1800.0)


@dataclass(frozen=True)
class TimeRule:
    """Seconds of processor time.

    A call has `factor` times what it took the canonical solution, at least `min_s`; the program's own statements,
    before any call, have `load_s`.
    """

    min_s: float = 1.0
    factor: float = 4.0
    load_s: float = LOAD_S

    def limit(self, solution_s: float) -> float:
        """Return the limit for a call that took the canonical solution so long."""
        return max(self.min_s, self.factor * solution_s)


@dataclass(frozen=True)
class Verdict:
    """Whether a program passed.

    `halves` tells it for "base" and "plus" where there are two; `why` is a word for what went wrong ("wrong", "syntax
    error", "no such function", "runtime error", "timeout", "crashed", "killed", "too much output", "known-bad test"),
    `detail` tells more of it. `is_excused` when it fails nothing but tests whose expected value is known to be wrong.
    """

    passed: bool
    why: str | None = None
    detail: str = ""
    halves: dict[str, bool] | None = None
    is_excused: bool = False


class Judge(Protocol):
    """Judges programs for the problems of one data set."""

    name: str

    def judge(self, row: dict[str, Any], source: str) -> Verdict:
        """Return the verdict; ScorerError when it is the judge that fails."""
        ...

    def controls(self, row: dict[str, Any]) -> tuple[str, str]:
        """Return a program that is known to be right for a problem and one that is known to be wrong."""
        ...


def failure(output: Output, entry_point: str) -> Verdict:
    """Return the verdict on a program that gave an error in place of an output."""
    error = output.error or ""
    why = output.why or "wrong"
    if why == "error":
        is_syntax = error.startswith(("SyntaxError", "IndentationError", "TabError"))
        is_missing = error.startswith("NameError") and f"'{entry_point}'" in error
        why = "syntax error" if is_syntax else "no such function" if is_missing else "runtime error"
    return Verdict(False, why, error)


def twice_if_killed(run: Callable[[], Verdict]) -> Verdict:
    """Return the verdict of `run`; a process that was killed gets a second chance, as it may not be its own doing."""
    verdict = run()
    return run() if verdict.why == "killed" else verdict


class OfficialJudge:
    """HumanEval by its own check functions, which run in another process and ask the program for each value."""

    name = "HumanEval's tests"

    def __init__(self, sandbox: Sandbox | None = None) -> None:
        self._sandbox = sandbox or Sandbox(PROGRAM_LIMITS)

    def controls(self, row: dict[str, Any]) -> tuple[str, str]:
        """Return the canonical solution and a function that always says True."""
        return row["prompt"] + row["canonical_solution"], f"def {row['entry_point']}(*_):\n    return True\n"

    def judge(self, row: dict[str, Any], source: str) -> Verdict:
        """Return the verdict of the problem's check function."""
        return twice_if_killed(lambda: self._judge(row, source))

    def _judge(self, row: dict[str, Any], source: str) -> Verdict:
        with self._sandbox.open() as program:
            loaded = program.load(source, LOAD_S)
            if loaded.why:
                return failure(loaded, row["entry_point"])
            with self._sandbox.open(REFEREE) as referee:
                try:
                    referee.send({name: row[name] for name in ("prompt", "test", "entry_point")})
                    return self._converse(referee, program, row["entry_point"])
                except ProgramGone as gone:
                    raise ScorerError(f"the test code of {row['task_id']} ended: {gone.why}") from None

    def _converse(self, referee: Program, program: Program, entry_point: str) -> Verdict:
        left_s = OFFICIAL_S
        while True:
            message = referee.receive(REFEREE_S)
            if "passed" in message:
                passed = message["passed"] is True
                return Verdict(passed, None if passed else "wrong", str(message.get("reason", "")))
            if left_s <= 0:
                return Verdict(False, "timeout", f"all calls together took more than {OFFICIAL_S} s")
            output = next(program.call(entry_point, [message["arguments"]], [left_s]))
            if output.why:
                return failure(output, entry_point)
            left_s -= output.cpu_s
            too_big = {"opaque": [f"a {output.type_name} too big to be sent", True]}
            referee.send({"value": output.data if output.digest is None else too_big})


class AssertionJudge:
    """MBPP by its assertions: the left side is evaluated where the program is, the right side is compared here."""

    name = "MBPP's assertions"

    def __init__(self, sandbox: Sandbox | None = None) -> None:
        self._sandbox = sandbox or Sandbox(PROGRAM_LIMITS)

    def controls(self, row: dict[str, Any]) -> tuple[str, str]:
        """Return the canonical solution and a function that always gives the first expected value."""
        (left, wanted), *_ = split_assertions(row)
        name = function_called(left)
        return row["code"], f"def {name}(*_):\n    return {wanted!r}\n"

    def judge(self, row: dict[str, Any], source: str) -> Verdict:
        """Return whether all assertions hold."""
        return twice_if_killed(lambda: self._judge(row, source))

    def _judge(self, row: dict[str, Any], source: str) -> Verdict:
        sides = split_assertions(row)
        name = function_called(sides[0][0])
        with self._sandbox.open() as program:
            for code in (source, row["test_setup_code"]):
                loaded = program.load(code, LOAD_S)
                if loaded.why:
                    return failure(loaded, name)
            outputs = program.evaluate([left for left, _ in sides], OFFICIAL_S)
            for output, (left, wanted) in zip(outputs, sides, strict=False):
                if output.why:
                    return failure(output, name)
                if not is_equal(output, wanted):
                    return Verdict(False, "wrong", f"{left} is not {wanted!r}")
        return Verdict(True)


def is_equal(output: Output, wanted: Any) -> bool:
    """Tell whether an output equals a literal, by Python's own equality of plain values."""
    try:
        if output.digest is not None:
            return output.digest == value_digest.digest(wanted)
        return bool(plain_values.decode(output.data) == wanted)
    except Exception:  # whatever a tampered reply may hold
        return False


def split_assertions(row: dict[str, Any]) -> list[tuple[str, Any]]:
    """Return the left side's source and the right side's value of each "assert f(...) == literal"."""
    sides = []
    for line in row["test_list"]:
        try:
            (statement,) = ast.parse(line).body
            assert isinstance(statement, ast.Assert)
            assert isinstance(statement.test, ast.Compare)
            assert [type(operator) for operator in statement.test.ops] == [ast.Eq]
            sides.append((ast.unparse(statement.test.left), ast.literal_eval(statement.test.comparators[0])))
        except (AssertionError, SyntaxError, ValueError) as error:
            raise TaskDataError(f"MBPP {row['task_id']}: not of the form 'assert call == literal': {line!r}") from error
    return sides


def function_called(expression: str) -> str:
    """Return the name of the function that an assertion's left side calls, "" when it calls none by name."""
    node = ast.parse(expression, mode="eval").body
    return node.func.id if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) else ""


class InputJudge:
    """HumanEval+ and MBPP+: base and plus inputs, outputs compared with the canonical solution's by EvalPlus' rules.

    Args:
        family: "humaneval" or "mbpp".
        expected: the canonical solutions' outputs.
        sandbox: where programs are run.
        time_rule: the limit of each call.
        known_bad: indices of plus inputs whose expected value is wrong, by problem.
    """

    def __init__(
        self,
        family: str,
        expected: ExpectedOutputs,
        sandbox: Sandbox | None = None,
        time_rule: TimeRule | None = None,
        known_bad: Mapping[str, frozenset[int]] | None = None,
    ) -> None:
        self.name = "EvalPlus' inputs"
        self._family = family
        self._expected = expected
        self._sandbox = sandbox or Sandbox(PROGRAM_LIMITS)
        self._time_rule = time_rule or TimeRule()
        self._known_bad = known_bad or {}

    def controls(self, row: dict[str, Any]) -> tuple[str, str]:
        """Return the canonical solution and a function that always gives the first expected value."""
        first = plain_values.decode(self._expected.get(row)["base"].outputs[0].data)
        return row["prompt"] + row["canonical_solution"], f"def {row['entry_point']}(*_):\n    return {first!r}\n"

    def judge(self, row: dict[str, Any], source: str) -> Verdict:
        """Return whether all outputs agree; plus inputs are tried only when the base ones are right."""
        expected = self._expected.get(row)
        base = twice_if_killed(partial(self._judge_half, row, source, "base", expected["base"]))
        if not base.passed:
            return replace(base, halves={"base": False, "plus": False})
        plus = twice_if_killed(partial(self._judge_half, row, source, "plus", expected["plus"]))
        return replace(plus, halves={"base": True, "plus": plus.passed})

    def _judge_half(self, row: dict[str, Any], source: str, half: str, expected: Expected) -> Verdict:
        name = row["entry_point"]
        comparison = Comparison(self._family, name, row["atol"])
        limits = [self._time_rule.limit(output.cpu_s) for output in expected.outputs]
        bad = self._known_bad.get(row["task_id"], frozenset()) if half == "plus" else frozenset()
        excused = []
        with self._sandbox.open() as program:
            loaded = program.load(source, self._time_rule.load_s)
            if loaded.why:
                return failure(loaded, name)
            outputs: Iterable[Output] = program.call(name, expected.arguments, limits)
            for index, (output, wanted) in enumerate(zip(outputs, expected.outputs, strict=False)):
                if output.why:
                    return failure(output, name)
                arguments = [plain_values.decode(argument) for argument in expected.arguments[index]]
                if not comparison.agrees(arguments, output, wanted):
                    if index not in bad:
                        return Verdict(False, "wrong", f"{half} input {index}")
                    excused.append(index)
        if excused:
            return Verdict(False, "known-bad test", f"plus inputs {', '.join(map(str, excused))}", is_excused=True)
        return Verdict(True)


def check_controls(judge: Judge, row: dict[str, Any]) -> dict[str, str]:
    """Judge a program that is known to be right and one that is known to be wrong, and return what came of them.

    Raises:
        ScorerError: the judge takes one for the other, so that no score of its may be believed.
    """
    right, wrong = judge.controls(row)
    verdict = judge.judge(row, right)
    if not verdict.passed:
        raise ScorerError(
            f"{judge.name} fail the canonical solution of {row['task_id']} ({verdict.why}: {verdict.detail}); "
            "scores would be too low"
        )
    refused = judge.judge(row, wrong)
    if refused.passed:
        raise ScorerError(f"{judge.name} pass a wrong program for {row['task_id']}; scores would be too high")
    return {"problem": str(row["task_id"]), "right program": "passed", "wrong program": refused.why or "failed"}

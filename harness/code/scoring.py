"""How answers to the code tasks become verdicts: the choices a user has, and the judge that they come to."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, Protocol, cast

from lopa_bench.errors import ConfigError, nearest
from lopa_bench.harness.code.consent import require_consent
from lopa_bench.harness.code.evalplus_scorer import EvalPlusJudge
from lopa_bench.harness.code.expected import ExpectedOutputs, private_folder
from lopa_bench.harness.code.judge import (
    PROGRAM_LIMITS,
    SOLUTION_LIMITS,
    AssertionJudge,
    InputJudge,
    Judge,
    OfficialJudge,
    TimeRule,
    check_controls,
)
from lopa_bench.harness.installed import version_of
from lopa_bench.harness.sandbox.isolation import Kind
from lopa_bench.harness.sandbox.sandbox import Sandbox
from lopa_bench.tasks.code_data import CodeData, load_code_data
from lopa_bench.tasks.code_tasks import CodeDefinition
from lopa_bench.tasks.known_bad import known_bad

SCORERS = ("sandbox", "evalplus")
ISOLATIONS = ("auto", "bubblewrap", "limits")
TESTS = {
    "check functions": "HumanEval's check functions",
    "assertions": "MBPP's assertions",
    "inputs": "EvalPlus' inputs",
}


@dataclass(frozen=True)
class ScoringSettings:
    """How answers become verdicts.

    `allow_execution` is the user's consent; `cleanup` one of `tasks.cleanup.CLEANUPS`, None for the task's own;
    `scorer` "sandbox" or "evalplus"; `isolation` insists on a kind of it; `time_rule` limits each call.
    """

    allow_execution: bool = False
    cleanup: str | None = None
    scorer: str = "sandbox"
    isolation: Kind | None = None
    time_rule: TimeRule = field(default_factory=TimeRule)


class Values(Protocol):
    """Run settings by name, as a `Settings` or the values of a stored run give them."""

    def __getitem__(self, name: str, /) -> Any:
        """Return the value of one."""
        ...


def scoring_settings(values: Values) -> ScoringSettings:
    """Return what the run settings say of scoring; ConfigError for an isolation that there is not."""
    isolation = check_word(str(values["isolation"]), ISOLATIONS, "isolation")
    least = values["min_call_s"]
    return ScoringSettings(
        bool(values["allow_code_execution"]),
        values["cleanup"],
        str(values["scorer"]),
        None if isolation == "auto" else cast(Kind, isolation),
        TimeRule() if least is None else TimeRule(min_s=float(least)),
    )


def check_word(word: str, choices: tuple[str, ...], what: str) -> str:
    """Return one of `choices`; ConfigError with the nearest when `word` is none of them."""
    if word not in choices:
        raise ConfigError(f"no {what} is called '{word}'{nearest(word, choices)}; there are {', '.join(choices)}")
    return word


class CodeScoring:
    """The judge of one code task. Nothing is started before `ready` or `judge` is asked for.

    Args:
        definition: which task.
        settings: the user's choices.
        data_dir: where the data lie; the evalplus package judges HumanEval by a data set of its own.

    Raises:
        ConfigError: a scorer that there is not, or not for this task.
    """

    def __init__(self, definition: CodeDefinition, settings: ScoringSettings, data_dir: Path | None) -> None:
        check_word(settings.scorer, SCORERS, "scorer")
        if settings.scorer == "evalplus" and definition.data == "mbpp":
            raise ConfigError(f"evalplus has no tests for the 500 problems of {definition.name}; use --task mbpp+")
        self.definition = definition
        self.settings = settings
        self._data_dir = data_dir

    @property
    def name(self) -> str:
        """What decides, with its version where it has one."""
        if self.settings.scorer == "evalplus":
            return f"evalplus {version_of('evalplus')}"
        return TESTS[self.definition.tests]

    def identity(self, cleanup: str) -> dict[str, Any]:
        """Return what verdicts depend on: two runs that agree in this were judged alike."""
        package = version_of("evalplus")  # whose rules the clean-up and the comparison of outputs follow
        rule = asdict(self.settings.time_rule)
        return {"scorer": self.name, "cleanup": cleanup, "evalplus": package, "time_rule": rule}

    def plan(self) -> str:
        """Say what will be executed, without executing anything."""
        kind = self.settings.isolation or "bubblewrap if it works here, else limits alone"
        return (
            f"every answer is run as a program, as it is and cleaned up, and judged by {self.name}; isolation: {kind}"
        )

    def check_data(self) -> None:
        """Read the data that judging takes besides the task's own; TaskDataError when they cannot be had."""
        if self._needs_inputs:
            self._tested_rows  # noqa: B018 - the reading is the check

    @property
    def _needs_inputs(self) -> bool:
        return self.settings.scorer == "evalplus" and self.definition.data == "humaneval"

    @cached_property
    def _tested_rows(self) -> Mapping[str, dict[str, Any]]:
        """The problems with EvalPlus' inputs, by id, for a task that has none of its own."""
        return {row["task_id"]: row for row in load_code_data("humaneval+", self._data_dir).rows}

    def tested(self, row: dict[str, Any]) -> dict[str, Any]:
        """Return the problem as the judge wants it."""
        return self._tested_rows[row["task_id"]] if self._needs_inputs else row

    def start(self, data: CodeData) -> tuple[Judge, dict[str, Any]]:
        """Return the judge, once it has told a right program from a wrong one, and what a record says about it.

        Raises:
            PrerequisiteError: no consent, or a tool is missing.
            ScorerError: programs cannot be run here, or the judge fails its controls.
        """
        require_consent(self.definition.name, self.settings.allow_execution)
        judge, sandbox = self._judge(data)
        controls = check_controls(judge, self.tested(data.rows[0]))
        return judge, sandbox.describe() | {"controls": controls}

    def _judge(self, data: CodeData) -> tuple[Judge, Sandbox]:
        definition, settings = self.definition, self.settings
        family = definition.base_name
        if settings.scorer == "evalplus":
            base_only = not definition.data.endswith("+")
            package = EvalPlusJudge(family, base_only, settings.isolation, settings.time_rule)
            return package, package.sandbox
        sandbox = Sandbox(PROGRAM_LIMITS, settings.isolation)
        if definition.tests == "check functions":
            return OfficialJudge(sandbox), sandbox
        if definition.tests == "assertions":
            return AssertionJudge(sandbox), sandbox
        solutions = Sandbox(SOLUTION_LIMITS, settings.isolation)
        expected = ExpectedOutputs(solutions, family, data.sha256, private_folder())
        return InputJudge(family, expected, sandbox, settings.time_rule, known_bad(data.release)), sandbox

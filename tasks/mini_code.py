"""mini-code: generated descriptions of small Python functions, judged by running tests.

The prompt fixes every name (function, argument, element, result). What is free is the style of the code (a
loop in two spellings, a comprehension in two) and the wording of the comments (`code_wording`).
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar

from lopa_bench.tasks import code_wording as wording
from lopa_bench.tasks.base import Document, Example, Judgement
from lopa_bench.tasks.code_plans import Plan, draw_plan
from lopa_bench.tasks.generated import HeldOut, draw_wording
from lopa_bench.tasks.program_runner import Output, ProgramRunner
from lopa_bench.tasks.restricted import ProgramError, extract_function, restrict

LEVELS: tuple[int, ...] = (1, 2, 3)
NUM_TESTS = 6
STYLES: tuple[str, ...] = ("loop", "long loop", "named comprehension", "comprehension")
LOOP_STYLES: tuple[str, ...] = STYLES[:2]
STARTS: dict[str, str] = {"product": "1", "list": "[]", "joined": "[]"}
"""What the result of a loop starts from, where that is not 0."""


@dataclass(frozen=True)
class CodeProblem:
    """A plan and the names that the prompt fixes for it."""

    level: int
    plan: Plan
    function: str
    argument: str
    x: str
    result: str

    @property
    def key(self) -> str:
        """What makes two problems the same: what is to be done, whatever names are used."""
        return self.plan.key

    def fill(self, template: str) -> str:
        """Fill the names into a template."""
        return template.format(function=self.function, argument=self.argument, x=self.x, result=self.result)


def draw_problem(rng: random.Random, level: int) -> CodeProblem:
    """Draw a problem of `level` (1..3) with its names."""
    plan = draw_plan(rng, level)
    is_text = plan.family == "words"
    return CodeProblem(
        level=level,
        plan=plan,
        function=rng.choice(wording.FUNCTION_NAMES),
        argument=rng.choice(wording.TEXT_NAMES if is_text else wording.LIST_NAMES) if plan.family != "range" else "a",
        x=rng.choice(wording.WORD_NAMES if is_text else wording.NUMBER_NAMES),
        result=rng.choice(wording.RESULT_NAMES),
    )


def write_prompt(problem: CodeProblem) -> str:
    """Describe the function: signature, what it returns, the names to use. Ends with a line break."""
    signature = problem.fill("{function}(" + problem.plan.parameters + ")")
    description = problem.plan.description.format(argument=problem.argument)
    return (
        f"Write a function {signature} that returns {description}. "
        f"Use {problem.x} for each element and {problem.result} for the result.\n"
    )


def styles_for(plan: Plan) -> tuple[str, ...]:
    """Return the styles in which `plan` can be written (a product has no short comprehension)."""
    return LOOP_STYLES if plan.reduction == "product" else STYLES


def comprehension(plan: Plan) -> str:
    """Return the one expression that computes the plan."""
    if plan.second is not None:
        first, second = (
            f"sum(1 for {{x}} in {plan.source} if {condition.code})" for condition in (plan.condition, plan.second)
        )
        return f"{first} - {second}"
    made = "1" if plan.reduction == "count" else plan.mapping.code
    tail = f"for {{x}} in {plan.source} if {plan.condition.code}"
    if plan.otherwise is not None:
        tail = f"if {plan.condition.code} else {plan.otherwise.code} for {{x}} in {plan.source}"
    opening = {"list": "[", "joined": f"'{plan.separator}'.join("}.get(plan.reduction, "sum(")
    return f"{opening}{made} {tail}{']' if opening == '[' else ')'}"


def update(plan: Plan, value: str, is_long: bool) -> str:
    """Return the statement that takes `value` into the result, in the short or the long spelling."""
    if plan.reduction in ("list", "joined"):
        return f"{{result}} = {{result}} + [{value}]" if is_long else f"{{result}}.append({value})"
    sign = "*" if plan.reduction == "product" else "+"
    if not is_long:
        return f"{{result}} {sign}= {value}"
    if sign == "*" and value != "{x}":
        value = f"({value})"
    return f"{{result}} = {{result}} {sign} {value}"


def loop(plan: Plan, is_long: bool, comment: str) -> list[str]:
    """Return the lines of a loop that leaves the answer's material in the result."""
    lines = [
        f"    {{result}} = {STARTS.get(plan.reduction, '0')}",
        f"    for {{x}} in {plan.source}:",
        f"        # {comment}",
        f"        if {plan.condition.code}:",
    ]
    indent = " " * 12
    if plan.second is not None:
        down = "{result} = {result} - 1" if is_long else "{result} -= 1"
        lines.append(indent + update(plan, "1", is_long))
        return [*lines, f"        if {plan.second.code}:", indent + down]
    lines.append(indent + update(plan, "1" if plan.reduction == "count" else plan.mapping.code, is_long))
    if plan.otherwise is not None:
        lines += ["        else:", indent + update(plan, plan.otherwise.code, is_long)]
    return lines


def write_answer(problem: CodeProblem, rng: random.Random) -> str:
    """Write a right solution; its style and the wording of its comments are drawn."""
    plan = problem.plan
    style = draw_wording(rng, styles_for(plan))
    lines = [f"def {{function}}({plan.parameters}):", f"    # {draw_wording(rng, wording.START_COMMENTS)}"]
    comment = draw_wording(rng, wording.ELEMENT_COMMENTS)
    returned = "{result}"
    if style in LOOP_STYLES:
        lines += loop(plan, style == "long loop", comment)
        if plan.reduction == "joined":
            returned = f"'{plan.separator}'.join({{result}})"
    elif style == "named comprehension":
        lines += [f"    # {comment}", f"    {{result}} = {comprehension(plan)}"]
    else:
        lines.append(f"    # {comment}")
        returned = comprehension(plan)
    lines += [f"    # {draw_wording(rng, wording.RETURN_COMMENTS)}", f"    return {returned}"]
    return problem.fill("\n".join(lines))


def is_right(output: Output, expected: Any) -> bool:
    """Tell whether a call gave the expected value and no error; True is not 1, and 4.0 is not 4."""
    return output.error is None and same_value(output.value, expected)


def same_value(value: Any, expected: Any) -> bool:
    """Compare two JSON values, types included."""
    if type(value) is not type(expected):
        return False
    if isinstance(expected, list):
        return len(value) == len(expected) and all(map(same_value, value, expected))
    return bool(value == expected)


class MiniCode:
    """The task: 400 test problems, 200 for choosing settings (`dev`), and training pairs without end."""

    name = "mini-code"
    version = 1
    family = "code"
    max_new_tokens = 128
    stop: tuple[str, ...] = ("\nWrite a function",)
    metric = "pass@1"
    citation = "Generated by lopa-bench."

    _documents: ClassVar[dict[str, list[Document]]] = {}  # written once in a process: a sweep asks in every cell

    def __init__(self, runner: ProgramRunner | None = None) -> None:
        self._held_out = HeldOut(self.name, LEVELS, draw_problem)
        self._runner = runner or ProgramRunner()

    def documents(self, split: str = "test") -> list[Document]:
        """Return the problems of `split` ("test" or "dev"), levels 1, 2, 3 in turn.

        `metadata["tests"]` holds `arguments` and `expected` of each test.
        """
        if split not in self._documents:
            self._documents[split] = self._written(split)
        return list(self._documents[split])

    def _written(self, split: str) -> list[Document]:
        documents = []
        for document_id, problem, rng in self._held_out.problems(split):
            answer = write_answer(problem, rng)
            arguments = [problem.plan.draw_arguments(rng, index) for index in range(NUM_TESTS)]
            arguments.append(problem.plan.empty_arguments())
            metadata = {
                "level": problem.level,
                "function": problem.function,
                "tests": [{"arguments": each, "expected": problem.plan.expected(each)} for each in arguments],
                "answer": answer,
            }
            documents.append(Document(document_id, write_prompt(problem), answer, metadata))
        return documents

    def judge(self, document: Document, text: str) -> Judgement:
        """Run the function in `text` on the tests; it is right when it passes all of them.

        The score `tests_passed` is the share of tests passed. `why` is "empty", "not extracted", "syntax error",
        "outside the subset" (it was not run, see `restricted`), "timeout", "crashed" or "wrong". Raises
        PrerequisiteError where programs cannot be run at all.
        """
        if not text.strip():
            return self._judgement(0.0, None, "empty")
        source = None
        try:
            source = extract_function(text)
            name, program = restrict(source)
        except ProgramError as error:
            return self._judgement(0.0, source, error.why)
        if name != document.metadata["function"]:
            return self._judgement(0.0, source, "wrong")
        tests = document.metadata["tests"]
        result = self._runner.run(program, name, [test["arguments"] for test in tests])
        passed = [is_right(output, test["expected"]) for output, test in zip(result.outputs, tests, strict=False)]
        share = sum(passed) / len(tests)
        return self._judgement(share, source, result.why or (None if share == 1.0 else "wrong"))

    def _judgement(self, share: float, source: str | None, why: str | None) -> Judgement:
        correct = float(share == 1.0)
        return Judgement(correct, {self.metric: correct, "tests_passed": share}, source, why)

    def training_examples(self, seed: int) -> Iterator[Example]:
        """Yield training pairs for ever; none asks for what a held-out problem asks for."""
        for problem, rng in self._held_out.training_problems(seed):
            yield Example(write_prompt(problem), write_answer(problem, rng))

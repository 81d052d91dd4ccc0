from __future__ import annotations

import random
from typing import Any

import pytest

from lopa_bench.tasks import code_wording as wording
from lopa_bench.tasks.base import Document
from lopa_bench.tasks.mini_code import LEVELS, STYLES, MiniCode, draw_problem, same_value, styles_for, write_answer


@pytest.fixture(scope="module")
def task() -> MiniCode:
    return MiniCode()


@pytest.fixture
def document() -> Document:
    """A problem that is not of the splits: the sum of the even numbers of a list."""
    tests = [
        {"arguments": [[1, 2, 3, 4]], "expected": 6},
        {"arguments": [[2, 5]], "expected": 2},
        {"arguments": [[]], "expected": 0},
    ]
    return Document("one", "", "", {"function": "f", "tests": tests})


RIGHT = "def f(xs):\n    return sum(x for x in xs if x % 2 == 0)"


def test_every_canonical_answer_is_right(task: MiniCode) -> None:
    for document in task.documents() + task.documents("dev"):
        verdict = task.judge(document, document.target)
        assert (verdict.correct, verdict.why) == (1.0, None)
        assert verdict.scores == {"pass@1": 1.0, "tests_passed": 1.0}
        assert verdict.extracted == document.target


def test_a_problem_may_be_answered_in_many_ways_all_of_them_right(task: MiniCode) -> None:
    rng = random.Random(4)
    for index in range(60):
        problem = draw_problem(rng, LEVELS[index % 3])
        answers = {write_answer(problem, random.Random(seed)) for seed in range(12)}
        arguments = [problem.plan.draw_arguments(rng, number) for number in range(3)]
        tests = [{"arguments": each, "expected": problem.plan.expected(each)} for each in arguments]
        document = Document("one", "", "", {"function": problem.function, "tests": tests})
        assert len(answers) > 10
        assert all(task.judge(document, answer).correct == 1.0 for answer in answers)


def test_all_styles_occur() -> None:
    problem = draw_problem(random.Random(2), 1)
    assert styles_for(problem.plan) == STYLES
    codes = set()
    for seed in range(100):
        lines = write_answer(problem, random.Random(seed)).split("\n")
        codes.add("\n".join(line for line in lines if "#" not in line))
    assert len(codes) == len(STYLES)


@pytest.mark.parametrize("wordings", [wording.START_COMMENTS, wording.ELEMENT_COMMENTS, wording.RETURN_COMMENTS])
def test_alternatives_begin_differently_and_differ_in_length(wordings: tuple[str, ...]) -> None:
    assert len({text.split()[0] for text in wordings}) == len(wordings) == 8
    assert len({len(text.split()) for text in wordings}) >= 5


MUTATIONS = [
    (" > ", " <= "), (" < ", " >= "), (" == 0", " != 0"), (" == 1", " == 0"), (" != 0", " == 0"), (" and ", " or "),
    (" > ", " >= "), (" < ", " <= "), (" += ", " -= "), (" -= ", " += "), ("def ", "def g"), ("sum(", "len("),
    ("b + 1", "b"), (" * ", " + "), (" - ", " + "), (".upper", ".lower"), ("startswith", "endswith"), ("::-1", "::1"),
    ("return ", "pass #"), (" = 0", " = 1"), ("if ", "if not "), (" else ", " + 1 else "),
]  # fmt: skip


def test_changed_answers_are_wrong(task: MiniCode) -> None:
    caught = tried = 0
    for document in task.documents():
        code = "\n".join(line for line in document.target.split("\n") if "#" not in line)
        assert task.judge(document, code).correct == 1.0
        for old, new in MUTATIONS:
            if old in code:
                verdict = task.judge(document, code.replace(old, new, 1))
                tried += 1
                caught += verdict.correct == 0.0
                assert (verdict.why is None) == (verdict.correct == 1.0)
    assert tried > 1000
    assert caught / tried > 0.99  # some changes mean the same, as > and >= do for numbers that are never equal


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (RIGHT, None),
        (f"Here it is:\n```python\n{RIGHT}\n```\nDone.", None),
        (f"import os\n\n{RIGHT}\n\nprint(f([1]))", None),
        (RIGHT.replace("(xs)", "(\n    xs: list[int],\n) -> int"), None),
        (RIGHT.replace("    ", "\t"), None),
        ("", "empty"),
        ("\n \n", "empty"),
        ("I do not know", "not extracted"),
        ("    def f(xs): return 1", "not extracted"),
        ("def f(xs)\n    return 1", "syntax error"),
        ("def f(xs):", "syntax error"),
        ("def f(xs):\n    return '", "syntax error"),
        ("def f(xs):\n    return \x00", "syntax error"),
        ("def f(xs):\n  x = 1\n    return 1", "syntax error"),
        (RIGHT.replace("f(", "g("), "wrong"),
        ("def f():\n    return 0", "wrong"),
        ("def f(xs):\n    pass", "wrong"),
        ("def f(xs):\n    return nothing", "wrong"),
        ("def f(xs):\n    return [6, 2, 0]", "wrong"),
        ("def f(xs):\n    return 0.0 + sum(x for x in xs if x % 2 == 0)", "wrong"),
        ("def f(xs):\n    return str(sum(x for x in xs if x % 2 == 0))", "wrong"),
        ("def f(xs):\n    while True:\n        pass", "timeout"),
        ("def f(xs):\n    s = 'ab'\n    while True:\n        s = s + s", "wrong"),
        ("def f(xs):\n    return [0] * 1000000000", "wrong"),
        ("def f(xs):\n    return '%999999999d' % 5", "wrong"),
        ("def f(xs):\n    return f(xs)", "wrong"),
        ("def f(xs):\n    return 'a' * 10000000", "wrong"),
        ("class A:\n    def __eq__(self, other):\n        return True", "not extracted"),
        ("def f(xs):\n    class A:\n        def __eq__(self, other):\n            return True\n    return A()",
         "outside the subset"),
        ("def f(xs):\n    return 2 ** 9", "outside the subset"),
    ],
)  # fmt: skip
def test_the_verdict_says_what_is_wrong(task: MiniCode, document: Document, text: str, why: str | None) -> None:
    verdict = task.judge(document, text)
    assert verdict.why == why
    assert verdict.correct == float(why is None)
    assert task.judge(document, RIGHT).correct == 1.0  # whatever came before


def test_the_share_of_tests_passed_is_a_score_of_its_own(task: MiniCode, document: Document) -> None:
    verdict = task.judge(document, "def f(xs):\n    return 6 if xs else 0")
    assert verdict.scores == {"pass@1": 0.0, "tests_passed": pytest.approx(2 / 3)}


@pytest.mark.parametrize(
    ("value", "expected", "is_same"),
    [(1, 1, True), (True, 1, False), (1.0, 1, False), ([1, 2], [1, 2], True), ([1], [True], False),
     ([1], [1, 2], False), ("a", "a", True), (None, 0, False), ([], [], True)],
)  # fmt: skip
def test_types_count_when_values_are_compared(value: Any, expected: Any, is_same: bool) -> None:
    assert same_value(value, expected) is is_same

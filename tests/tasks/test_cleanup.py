from __future__ import annotations

import pytest

from lopa_bench.errors import ConfigError
from lopa_bench.tasks.cleanup import CLEANUPS, Program, Question, Style, assemble, clean

PROMPT = (
    'import math\n\ndef base(x):\n    return x\n\ndef twice(x):\n    """Twice x.\n    >>> twice(2)\n    4\n    """\n'
)
BODY = "    return 2 * x\n"
WHOLE = PROMPT + BODY
FUNCTION = "def twice(x):\n    return 2 * x\n"
COMPLETION = Question(PROMPT, "twice", "completion")
OPEN = Question(PROMPT, "twice", "open fence")
ALONE = Question("", "twice", "program")
OPEN_ALONE = Question("", "twice", "open fence")


def works(program: Program) -> bool:
    space: dict[str, object] = {}
    try:
        exec(program.source, space)
        return space["twice"](21) == 42  # type: ignore[operator]
    except (SyntaxError, NameError, KeyError, TypeError):
        return False


STYLES: list[tuple[str, Question, str]] = [
    ("body", COMPLETION, BODY),
    ("body, then a test", COMPLETION, BODY + "\nprint(twice(2))\nassert twice(2) == 5\n"),
    ("body, then prose", COMPLETION, BODY + "\nThis doubles the number.\n"),
    ("body, then another function", COMPLETION, BODY + "\ndef main():\n    return nothing(\n"),
    ("body, then the function again", COMPLETION, BODY + "\ndef twice(x):\n    return 0\n"),
    ("body, then a closing fence", COMPLETION, BODY + "```\nThat is all (really.\n"),
    ("signature repeated", COMPLETION, FUNCTION),
    ("all repeated", COMPLETION, WHOLE),
    ("fence with the function", COMPLETION, f"Sure, here it is:\n```python\n{FUNCTION}```\nIt is right.\n"),
    ("fence with all", COMPLETION, f"```python\n{WHOLE}\n```\n"),
    ("fence with the body", COMPLETION, f"The body:\n```python\n{BODY}```\n"),
    ("fence without language", COMPLETION, f"```\n{FUNCTION}```"),
    ("fence never closed", COMPLETION, f"Here:\n```python\n{FUNCTION}"),
    ("second fence", COMPLETION, f"Run\n```bash\npip install it\n```\nthen\n```python\n{FUNCTION}```\n"),
    ("indented fence", COMPLETION, "1. So:\n   ```python\n   def twice(x):\n       return 2 * x\n   ```\n"),
    ("prose without a fence", COMPLETION, f"Here you are.\n\n{FUNCTION}\nIt is right.\n"),
    ("helper after", COMPLETION, "    return helper(x)\n\ndef helper(x):\n    return 2 * x\n"),
    ("imports and helper before", COMPLETION, f"import os\ndef helper(x):\n    return 2 * x\n{FUNCTION}"),
    ("constant", COMPLETION, "FACTOR = 2\n\ndef twice(x):\n    return FACTOR * x\n"),
    ("windows line ends", COMPLETION, FUNCTION.replace("\n", "\r\n")),
    ("in the open fence: body", OPEN, f"{BODY}```\nDone.\n"),
    ("in the open fence: all", OPEN, f"{WHOLE}```\n"),
    ("in the open fence: prose and another", OPEN, f"Of course:\n```python\n{FUNCTION}```\n"),
    ("in the open fence: not closed", OPEN, BODY),
    ("program", ALONE, FUNCTION),
    ("program in a fence", ALONE, f"Code:\n```python\n{FUNCTION}```\nBye."),
    ("program and its tests", ALONE, FUNCTION + "\nassert twice(1) == 3\n"),
    ("program in the open fence", OPEN_ALONE, FUNCTION + "```\nBye."),
]


@pytest.mark.parametrize(("question", "text"), [case[1:] for case in STYLES], ids=[case[0] for case in STYLES])
def test_right_answers_in_every_style_become_right_programs(question: Question, text: str) -> None:
    program = clean("evalplus", question, text)
    assert works(program), program.source
    assert program.error is None


@pytest.mark.parametrize("text", [BODY, FUNCTION, f"Sure:\n```python\n{FUNCTION}```", BODY + "\nprint(1)\n"])
def test_authors_rule_deals_with_the_usual_styles(text: str) -> None:
    assert works(clean("authors", COMPLETION, text))


@pytest.mark.parametrize("rule", CLEANUPS)
@pytest.mark.parametrize("style", ["completion", "program", "open fence"])
@pytest.mark.parametrize(
    "text", ["    return 3 * x\n", "def twice(x):\n    return 3 * x\n", "def other():\n    return 1"]
)
def test_no_rule_makes_a_wrong_answer_right(rule: str, style: Style, text: str) -> None:
    assert not works(clean(rule, Question(PROMPT, "twice", style), text))


def test_raw_fenced_prose_fails_and_cleaned_passes() -> None:
    text = f"Sure, here is the code:\n```python\n{FUNCTION}```\n"
    assert not works(clean("none", COMPLETION, text))
    assert works(clean("evalplus", COMPLETION, text))


def test_none_leaves_the_answer_as_it_is() -> None:
    assert clean("none", COMPLETION, BODY).source == WHOLE
    assert clean("none", ALONE, "prose").source == "prose"
    assert clean("none", OPEN, BODY + "```\nprose").source == WHOLE


def test_prints_and_tests_are_dropped() -> None:
    assert clean("evalplus", ALONE, FUNCTION + "print(1)\nassert twice(1) == 2\n").source.strip() == FUNCTION.strip()


def test_without_one_entry_point_all_definitions_stay() -> None:
    text = "class Node:\n    def __init__(self):\n        self.left = None\n" + FUNCTION
    assert "class Node" in clean("evalplus", Question("", None, "program"), text).source
    assert "class Node" not in clean("evalplus", ALONE, text).source


@pytest.mark.parametrize(
    "text",
    ["x = 1\nx = " + "-" * 5000 + "1\n", "x = (" * 150 + "\n", "\0" * 20, "\ud800 = 1\nx = 2\n", "(" * 100_000, ""],
    ids=["signs", "parentheses", "null bytes", "surrogate", "open parentheses", "empty"],
)
@pytest.mark.parametrize("rule", CLEANUPS)
def test_odd_texts_crash_no_rule(rule: str, text: str) -> None:
    for question in (COMPLETION, OPEN, ALONE):
        assert isinstance(clean(rule, question, text), Program)


def test_a_crash_of_the_cleaner_is_marked_and_leaves_the_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    def crash(*_: object) -> None:
        raise RecursionError("too deep")

    monkeypatch.setattr("lopa_bench.tasks.longest_code.ast.parse", crash)
    program = clean("evalplus", COMPLETION, BODY)
    assert program == Program(WHOLE, "RecursionError: too deep")


def test_unknown_choice_names_the_nearest() -> None:
    with pytest.raises(ConfigError, match="did you mean 'evalplus'"):
        clean("evalplu", ALONE, "")


@pytest.mark.parametrize("text", [case[2] for case in STYLES], ids=[case[0] for case in STYLES])
@pytest.mark.parametrize("entry_point", ["twice", None])
def test_the_search_alone_differs_from_the_package_and_finds_the_same(text: str, entry_point: str | None) -> None:
    from evalplus.sanitize import sanitize

    for whole in (text, WHOLE + text):
        assert clean("evalplus", Question("", entry_point, "program"), whole).source == sanitize(
            assemble(Question("", entry_point, "program"), whole), entry_point
        )

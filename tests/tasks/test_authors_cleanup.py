from __future__ import annotations

from lopa_bench.tasks.authors_cleanup import authors_program, keep_needed, longest_lines

PROMPT = 'from typing import List\n\ndef helper(x):\n    return x\n\ndef f(x: int) -> int:\n    """Twice."""\n'


def test_the_answer_goes_on_from_the_prompt() -> None:
    assert authors_program(PROMPT, "    return 2 * x", "f") == (
        'from typing import List\ndef f(x: int) -> int:\n    """Twice."""\n    return 2 * x'
    )


def test_first_python_fence_is_taken_and_cut_at_the_next() -> None:
    text = "Sure!\n```python\ndef f(x):\n    return 2 * x\n```\nIt works:\n```python\ndef f(x):\n    return 0\n```"
    assert authors_program(PROMPT, text, "f").endswith("def f(x):\n    return 2 * x")


def test_other_fences_only_cut() -> None:
    assert authors_program(PROMPT, "    return 2 * x\n```\nprose", "f").endswith("return 2 * x")
    assert authors_program("", "```\ndef f(x):\n    return 1\n```", "f") == ""


def test_tabs_and_line_ends_are_made_plain() -> None:
    assert longest_lines("\tdef f():\r\n\t\treturn 1\r\n") == "def f():\n        return 1"


def test_only_a_hundred_lines_are_looked_at() -> None:
    code = "\n".join(f"x{index} = {index}" for index in range(150))
    assert longest_lines(code).count("\n") == 99


def test_what_is_not_needed_goes() -> None:
    code = (
        "import os\nfrom math import sqrt\nLIMIT = 3\nUNUSED = 4\nprint(LIMIT)\nassert LIMIT\n"
        "def silent():\n    pass\ndef helper():\n    return LIMIT\ndef f():\n    return helper()\n"
        "class Unused:\n    pass\na, b = 1, 2\n"
    )
    assert keep_needed(code, "f") == (
        "import os\nfrom math import sqrt\nLIMIT = 3\ndef helper():\n    return LIMIT\ndef f():\n    return helper()"
    )


def test_a_later_definition_takes_the_place_of_an_earlier_one() -> None:
    code = "def f():\n    return 1\ndef g():\n    return f()\ndef f():\n    return g()\n"
    assert keep_needed(code, "g") == "def f():\n    return g()\ndef g():\n    return f()"


def test_names_count_as_attributes_and_what_stands_before_a_dot_does_not() -> None:
    code = (
        "def f(x):\n    return x.helper() + other(x).real\ndef helper(x):\n    return x\ndef other(x):\n    return x\n"
    )
    assert "def helper" in keep_needed(code, "f")
    assert "def other" not in keep_needed(code, "f")


def test_functions_without_return_and_async_ones_go() -> None:
    code = "def f():\n    return gen() + late()\ndef gen():\n    yield 1\nasync def late():\n    return 2\n"
    assert keep_needed(code, "f") == "def f():\n    return gen() + late()"

"""No hostile program gets past the check, and what gets past it is what was checked."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NoReturn

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lopa_bench.tasks.base import Document
from lopa_bench.tasks.mini_code import MiniCode
from lopa_bench.tasks.program_runner import ProgramRunner
from lopa_bench.tasks.restricted import BUILTINS, METHODS, ProgramError, extract_function, restrict


class NeverRuns(ProgramRunner):
    """Stands in for the runner where no program may reach it."""

    def run(self, source: str, function: str, calls: Any) -> NoReturn:
        raise AssertionError(f"about to run {source}")


HOSTILE_BODIES = [
    "import os",
    "from os import system",
    "__import__('os').system('touch {marker}')",
    "return eval('1')",
    "exec('import os')",
    "return compile('1', '', 'eval')",
    "open('{marker}', 'w')",
    "return input()",
    "breakpoint()",
    "print(xs)",
    "exit()",
    "return globals()",
    "return vars()",
    "return locals()",
    "return dir(xs)",
    "return type(xs)",
    "return getattr(xs, 'append')",
    "setattr(xs, 'a', 1)",
    "return object()",
    "return memoryview(bytes(5))",
    "return bytearray(999999999)",
    "return xs.__class__",
    "return ().__class__.__bases__[0].__subclasses__()",
    "return [].append.__self__",
    "return (lambda: 0).__globals__",
    "return (x for x in xs).gi_frame.f_back",
    "return xs.__len__()",
    "xs.a = 1",
    "xs.append.b += 1",
    "for xs.a in xs: pass",
    "return '{0.__class__}'.format(xs)",
    "return '{a}'.format_map(xs)",
    "return str.format('{0.__class__}', xs)",
    "g = str.format",
    "return f'{xs.__class__}'",
    "return f'{xs!r}'",
    "return f'{1:>999999999}'",
    "return __builtins__",
    "return __name__",
    "__x = 1",
    "return sorted(xs, key=eval)",
    "return list(map(eval, ['1']))",
    "return max(xs, **xs)",
    "return dict(__class__=1)",
    "return 9 ** 9 ** 9",
    "return 1 << 999999999",
    "x = 2\nx **= 9",
    "return 1000000000000000000000",
    "return b'x'",
    "return 1j",
    "return ...",
    "return '" + "a" * 300 + "'",
    "try:\n    return 1\nexcept:\n    return 2",
    "raise SystemExit",
    "with xs: pass",
    "assert xs",
    "del xs",
    "global y",
    "def g(): return 1",
    "async def g(): pass",
    "class A: pass",
    "yield 1",
    "return (yield)",
    "match xs:\n    case _: pass",
    "return (y := 1)",
    "return lambda *a: a",
    "return lambda a=xs: a",
    "return lambda a, /: a",
    "return [x async for x in xs]",
    "return " + "(" * 60 + "1" + ")" * 60 + " + 1" * 60,
    "return " + "-" * 3000 + "1",
    "return " + "[" * 90 + "]" * 90,
    "x = 1\n" * 1000,
]
HOSTILE_FUNCTIONS = [
    "def f(xs, y=print('x')):\n    return 1",
    "def f(xs=eval('1')):\n    return 1",
    "def f(*xs):\n    return 1",
    "def f(**xs):\n    return 1",
    "def f(*, xs):\n    return 1",
    "def f(xs, /):\n    return 1",
    "def f(__x):\n    return 1",
    "def __f__(xs):\n    return 1",
    "def f(xs): return 1; import os",
]


def function_of(body: str) -> str:
    return "def f(xs):\n" + "\n".join(f"    {line}" for line in body.split("\n"))


@pytest.mark.parametrize("source", [function_of(body) for body in HOSTILE_BODIES] + HOSTILE_FUNCTIONS)
def test_hostile_programs_are_never_run(source: str, tmp_path: Path) -> None:
    marker = tmp_path / "marker"
    task = MiniCode(NeverRuns())
    document = Document("one", "", "", {"function": "f", "tests": [{"arguments": [[1]], "expected": 1}]})
    verdict = task.judge(document, source.replace("{marker}", str(marker)))
    assert (verdict.correct, verdict.why) == (0.0, "outside the subset")
    assert not marker.exists()


@pytest.mark.parametrize(
    "source",
    [
        "@eval\ndef f(xs):\n    return 1",
        "def f(xs):\n    return 1\ndef g(xs):\n    return 1",
        "1",
        "",
        "async def f(): pass",
    ],
)
def test_only_one_plain_function_is_taken(source: str) -> None:
    with pytest.raises(ProgramError, match="outside the subset"):
        restrict(source)


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("return [x for x in xs if x > 1][::-1]", [3, 2]),
        ("best: int = 0\nfor i, x in enumerate(xs):\n    best = max(best, i * x)\nreturn best", 6),
        ("id, type = 3, 4\nreturn id + type", 7),
        ("count = {}\nfor x in xs:\n    count[x] = count.get(x, 0) + 1\nreturn sorted(count.items())[0][1]", 1),
        ("return sorted(xs, key=lambda x: -x)[0]", 3),
        ("'''Says what it does.'''\nreturn ' '.join(map(str, xs)).upper()", "1 2 3"),
        ("return f'{xs[0]} and {xs[1]}'", "1 and 2"),
        ("total = 0\nwhile xs:\n    total += xs.pop()\nelse:\n    total += 1\nreturn total", 7),
        ("first, *rest = xs\nreturn rest", [2, 3]),
        ("return f(xs[1:]) + 1 if xs else 0", 3),
        ("return [eval for eval in xs]", [1, 2, 3]),
        ("return '\\\\n'", "\\n"),
    ],
)
def test_ordinary_programs_run(runner: ProgramRunner, body: str, expected: object) -> None:
    name, program = restrict(function_of(body))
    (output,) = runner.run(program, name, [[[1, 2, 3]]]).outputs
    assert (output.value, output.error) == (expected, None)


def test_a_name_bound_elsewhere_gives_no_way_to_a_builtin(runner: ProgramRunner) -> None:
    body = "a = [eval for eval in []]\nreturn eval('1')"
    name, program = restrict(function_of(body))
    (output,) = runner.run(program, name, [[[1]]]).outputs
    assert output.error is not None
    assert output.error.startswith("NameError")


def test_annotations_are_not_evaluated() -> None:
    _, program = restrict("def f(xs: print('a')) -> print('b'):\n    y: print('c') = 1\n    return y")
    assert "print" not in program


def test_no_listed_name_leads_out() -> None:
    assert not {"getattr", "type", "eval", "exec", "open", "print", "input", "vars", "object"} & BUILTINS
    assert not {"format", "format_map", "fromkeys", "encode"} & METHODS
    assert not any("_" in name for name in BUILTINS | METHODS)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("def f():\n    return 1\n\nf()", "def f():\n    return 1"),
        ("x\ndef f():\n\n    return 1\n", "def f():\n\n    return 1"),
        ("```\ndef f(): pass\n```", "def f(): pass"),
        ("```python\ndef f(): pass", "def f(): pass"),
        ("```\nnothing\n```\ndef f(): pass", "def f(): pass"),
        ("def f(\n    a\n):\n    pass\nb", "def f(\n    a\n):\n    pass"),
    ],
)
def test_the_first_function_is_taken_out_of_a_text(text: str, expected: str) -> None:
    assert extract_function(text) == expected


@settings(max_examples=300, deadline=None)
@given(st.text(alphabet="def f(xs):\n return[]{}'\"#`0+*\\@\x00é", max_size=80))
def test_any_text_gets_a_verdict(text: str) -> None:
    try:
        name, _ = restrict(extract_function("def " + text))
    except ProgramError as error:
        assert error.why in {"not extracted", "syntax error", "outside the subset"}
    else:
        assert name.isidentifier()


@pytest.fixture(scope="module")
def runner() -> Any:
    with ProgramRunner() as runner:
        yield runner

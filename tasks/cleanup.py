"""From an answer's text to a program: fences and prose taken away, the prompt's code put before it where it belongs.

Named choices, because scores depend on them: `none` (the answer as it is), `evalplus` (the evalplus package's own
sanitizer) and `authors` (the script behind the published HumanEval numbers of D2F, Fast-dLLM and LoPA).
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from types import FunctionType
from typing import Literal

from lopa_bench.errors import ConfigError, PrerequisiteError, nearest
from lopa_bench.tasks.authors_cleanup import authors_program
from lopa_bench.tasks.longest_code import CleanupFailed, longest_code

CLEANUPS = ("none", "evalplus", "authors")
FENCE = "```"
Style = Literal["completion", "program", "open fence"]


@dataclass(frozen=True)
class Question:
    """What an answer is an answer to, as far as making a program of it goes.

    `code` is the Python that the prompt showed (a signature with its docstring), "" when it showed none; `entry_point`
    the function that the tests call, None when several names are needed; `style` how the answer goes on from the
    prompt: with the code itself ("completion"), inside a fence that the prompt opened ("open fence"), or with a program
    of its own, in a fence or not ("program").
    """

    code: str
    entry_point: str | None
    style: Style = "completion"


@dataclass(frozen=True)
class Program:
    """A program made of an answer; `error` says why the clean-up failed and the answer stands as it was."""

    source: str
    error: str | None = None


def check_cleanup(name: str) -> str:
    """Return the name of a choice; ConfigError with the nearest when there is no such."""
    if name not in CLEANUPS:
        raise ConfigError(f"no clean-up is called '{name}'{nearest(name, CLEANUPS)}; there are {', '.join(CLEANUPS)}")
    return name


def clean(name: str, question: Question, text: str) -> Program:
    """Return the program that the choice `name` makes of an answer; it never fails for anything a model may write."""
    rule: Callable[[Question, str], str] = {"none": raw_program, "evalplus": evalplus_program, "authors": _authors}[
        check_cleanup(name)
    ]
    try:
        return Program(rule(question, text))
    except (CleanupFailed, RecursionError, MemoryError, ValueError) as error:
        reason = str(error) if isinstance(error, CleanupFailed) else f"{type(error).__name__}: {error}"
        return Program(raw_program(question, text), reason)


def raw_program(question: Question, text: str) -> str:
    """Return the answer as a program without any cleaning: behind the prompt's code if it goes on from that."""
    if question.style == "program":
        return text
    return question.code + (text.split(FENCE)[0] if question.style == "open fence" else text)


def evalplus_program(question: Question, text: str) -> str:
    """Return what the evalplus package's sanitizer makes of the answer's code.

    Raises:
        CleanupFailed: the sanitizer gave up.
        PrerequisiteError: the package is not installed.
    """
    return _sanitizer()(assemble(question, text), question.entry_point)


def _authors(question: Question, text: str) -> str:
    if question.entry_point is None:
        raise CleanupFailed("the authors' rule needs the one function that is called")
    return authors_program(question.code, text, question.entry_point)


def assemble(question: Question, text: str) -> str:
    """Return one text that holds the answer's code, with the prompt's before it where it is needed.

    An answer that repeats the signature gets only what stands above it in the prompt, imports and helpers.
    """
    code = fenced_code(text, question)
    if not question.code:
        return code
    if goes_on(code) or not defines(code, question.entry_point):
        joint = "" if question.style != "program" or question.code.endswith("\n") else "\n"
        return question.code + joint + code
    alone = code_extract(code)  # or prose around a short function would lose it to a long preamble
    return preamble(question.code, question.entry_point) + (alone if defines(alone, question.entry_point) else code)


def fenced_code(text: str, question: Question) -> str:
    """Return the code in an answer: what stands before its first fence if that is code, else what stands inside.

    Of several blocks the first that defines the entry point is taken, else the first.
    """
    before, fence, after = text.partition(FENCE)
    if not fence or goes_on(before) or defines(before, question.entry_point):
        return before
    blocks = re.findall(rf"{FENCE}[^\n`]*\n(.*?)(?:\n[ \t]*{FENCE}|\Z)", fence + after, re.DOTALL)
    for block in map(textwrap.dedent, blocks):
        if defines(block, question.entry_point):
            return block
    if question.style == "open fence" and before.strip():
        return before
    return blocks[0] if blocks else before + after


def goes_on(code: str) -> bool:
    """Whether a text begins with an indented line: the body of a function that was begun before it."""
    first = next((line for line in code.split("\n") if line.strip()), "")
    return first[:1] in (" ", "\t")


def defines(code: str, entry_point: str | None) -> bool:
    """Whether the entry point is defined at the left margin; any function or class when there is no one entry point."""
    name = re.escape(entry_point) if entry_point else r"\w+"
    return re.search(rf"^(?:async\s+def|def|class)\s+{name}\b|^{name}\s*=", code, re.MULTILINE) is not None


def preamble(code: str, entry_point: str | None) -> str:
    """Return what stands in the prompt's code before the entry point's signature."""
    start = re.search(rf"^(?:async\s+)?def\s+{re.escape(entry_point or '')}\b", code, re.MULTILINE)
    return code[: start.start()] if start else code + "\n"


@lru_cache(maxsize=1)
def _sanitizer() -> Callable[[str, str | None], str]:
    """Return the package's sanitizer, with its search for the longest code done by an equal, faster one.

    The package tries all runs of lines: seconds for a hundred lines and hours for a thousand.
    """
    try:
        from evalplus import sanitize
    except ImportError as error:
        raise PrerequisiteError("the clean-up 'evalplus' needs the package: pip install evalplus") from error

    def with_search(function: Callable[..., str], **others: Callable[..., str]) -> Callable[..., str]:
        assert isinstance(function, FunctionType)
        names = {**function.__globals__, "code_extract": code_extract, **others}
        return FunctionType(function.__code__, names, function.__name__, function.__defaults__, function.__closure__)

    extract = with_search(sanitize.extract_target_code_or_empty)
    return with_search(sanitize.sanitize, extract_target_code_or_empty=extract)


def code_extract(text: str) -> str:
    """Return what the package's function of this name does: the longest run of two lines or more, else one line."""
    lines = text.split("\n")
    first, last = longest_code(lines, min_lines=2) or (0, 0)
    return "\n".join(lines[first : last + 1])

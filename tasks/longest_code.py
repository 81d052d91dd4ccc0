"""The longest run of lines that is Python: what is left of an answer when the prose around its code is taken away."""

from __future__ import annotations

import ast
import threading
import warnings
from collections.abc import Iterator, Sequence
from itertools import accumulate

MAX_WORK = 2_000_000
"""Characters that may be parsed for one answer: seconds at worst. Prose fails at once and costs next to nothing."""

LOST_IS_CHEAPER = 20
"""The parser stops at such an error; the rest of the text is only cut into tokens."""
LOST = (
    "invalid character", "invalid decimal literal", "invalid hexadecimal literal", "invalid imaginary literal",
    "invalid non-printable character", "too many nested parentheses", "unexpected indent", "unindent does not match",
    "unmatched", "unterminated string literal",
)  # fmt: skip
"""Beginnings of the parser's complaints about something that no further line can mend."""

_WARNINGS = threading.Lock()


class CleanupFailed(Exception):
    """An answer that the clean-up cannot deal with; it is judged as it is."""


def longest_code(lines: Sequence[str], min_lines: int) -> tuple[int, int] | None:
    """Return the first and last index of the run of lines that parses and has the most lines that are not blank.

    Of several the one that begins first, then the one that ends first; None when nothing but blank lines parses. This
    is what trying all runs in turn gives, found by trying the longest first and leaving out what cannot succeed.

    Raises:
        CleanupFailed: the parser gave up, or the search became too long.
    """
    ends = list(accumulate((len(line) + 1 for line in lines), initial=0))
    text = "\n".join(lines)
    lost_after = [len(lines)] * len(lines)
    work = 0
    for first, last in _runs(lines, min_lines):
        if last - first >= lost_after[first]:
            continue
        error = syntax_error(text[ends[first] : ends[last + 1] - 1])
        if error is None:
            return first, last
        is_lost = _is_lost(error) and 0 < (error.lineno or 0) <= last - first
        if is_lost:
            lost_after[first] = error.lineno or 0
        work += (ends[last + 1] - ends[first]) // (LOST_IS_CHEAPER if is_lost else 1)
        if work > MAX_WORK:
            raise CleanupFailed("too long a search for the code in it")
    return None


def syntax_error(text: str) -> SyntaxError | None:
    """Return what is wrong with a text as Python; CleanupFailed for one that makes the parser itself give up."""
    try:
        with _WARNINGS, warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of odd escapes in strings
            ast.parse(text)
    except SyntaxError as error:
        return error
    except MemoryError:
        return SyntaxError("too complex")
    except (ValueError, RecursionError) as error:
        raise CleanupFailed(f"{type(error).__name__}: {error}") from None
    return None


def _is_lost(error: SyntaxError) -> bool:
    """Whether the error is one of the line it names alone, so that it stays with every longer text."""
    return error.msg == "invalid syntax" or error.msg.startswith(LOST)


def _runs(lines: Sequence[str], min_lines: int) -> Iterator[tuple[int, int]]:
    """Yield all runs of at least `min_lines`, those with most lines that are not blank first."""
    num_before = list(accumulate((bool(line.strip()) for line in lines), initial=0))
    with_count: dict[int, list[int]] = {}
    for index, count in enumerate(num_before[1:]):
        with_count.setdefault(count, []).append(index)
    for wanted in range(num_before[-1], 0, -1):
        for first in range(len(lines)):
            for last in with_count.get(num_before[first] + wanted, ()):
                if last - first + 1 >= min_lines:
                    yield first, last

"""The pieces of which mini-code's plans are made: conditions on an element and what is made of one."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

LETTERS = "abeiostrn"
"""The letters of which the words of test texts are made."""


@dataclass(frozen=True)
class Condition:
    """A test on one element: in words ("greater than 5"), as code over `{x}` and as a callable.

    `edges` are the numbers at which the outcome changes: those that a test of a solution should try.
    """

    text: str
    code: str
    holds: Callable[[Any], bool]
    edges: tuple[int, ...] = ()


@dataclass(frozen=True)
class Mapping:
    """What is made of one element: in words, as code over `{x}` and as a callable."""

    text: str
    code: str
    apply: Callable[[Any], Any]


def draw_comparison(rng: random.Random) -> Condition:
    """Draw a comparison of a number with a constant."""
    k = rng.randint(2, 30)
    edges = (k - 1, k, k + 1)
    return rng.choice(
        (
            Condition(f"greater than {k}", f"{{x}} > {k}", lambda x: x > k, edges),
            Condition(f"less than {k}", f"{{x}} < {k}", lambda x: x < k, edges),
            Condition(f"equal to {k}", f"{{x}} == {k}", lambda x: x == k, edges),
            Condition(f"different from {k}", f"{{x}} != {k}", lambda x: x != k, edges),
        )
    )


def draw_divisibility(rng: random.Random) -> Condition:
    """Draw a condition on the divisors of a number."""
    k = rng.randint(3, 9)
    return rng.choice(
        (
            Condition(f"divisible by {k}", f"{{x}} % {k} == 0", lambda x: x % k == 0),
            Condition(f"not divisible by {k}", f"{{x}} % {k} != 0", lambda x: x % k != 0),
            Condition("even", "{x} % 2 == 0", lambda x: x % 2 == 0),
            Condition("odd", "{x} % 2 == 1", lambda x: x % 2 == 1),
        )
    )


def draw_condition(rng: random.Random) -> Condition:
    """Draw a condition on a number."""
    return draw_comparison(rng) if rng.random() < 0.6 else draw_divisibility(rng)


SAME_NUMBER = Mapping("numbers", "{x}", lambda x: x)


def draw_mapping(rng: random.Random) -> Mapping:
    """Draw what is made of a number; never the number itself."""
    k = rng.randint(2, 9)
    return rng.choice(
        (
            Mapping("squares of the numbers", "{x} * {x}", lambda x: x * x),
            Mapping("cubes of the numbers", "{x} * {x} * {x}", lambda x: x * x * x),
            Mapping(f"numbers {k} times the numbers", f"{{x}} * {k}", lambda x: x * k),
            Mapping(f"numbers {k} more than the numbers", f"{{x}} + {k}", lambda x: x + k),
            Mapping(f"numbers {k} less than the numbers", f"{{x}} - {k}", lambda x: x - k),
        )
    )


def draw_word_condition(rng: random.Random) -> Condition:
    """Draw a condition on a word."""
    k = rng.randint(2, 9)
    letter = rng.choice(LETTERS)
    return rng.choice(
        (
            Condition(f"longer than {k}", f"len({{x}}) > {k}", lambda x: len(x) > k),
            Condition(f"shorter than {k}", f"len({{x}}) < {k}", lambda x: len(x) < k),
            Condition(f"of length {k}", f"len({{x}}) == {k}", lambda x: len(x) == k),
            Condition(f"starting with {letter}", f"{{x}}.startswith('{letter}')", lambda x: x[0] == letter),
            Condition(f"ending with {letter}", f"{{x}}.endswith('{letter}')", lambda x: x[-1] == letter),
            Condition(f"containing {letter}", f"'{letter}' in {{x}}", lambda x: letter in x),
        )
    )


WORD_MAPPINGS: tuple[Mapping, ...] = (
    Mapping("unchanged", "{x}", lambda x: x),
    Mapping("in upper case", "{x}.upper()", lambda x: x.upper()),
    Mapping("reversed", "{x}[::-1]", lambda x: x[::-1]),
    Mapping("capitalized", "{x}.capitalize()", lambda x: x.capitalize()),
    Mapping("doubled", "{x} + {x}", lambda x: x + x),
)
SEPARATORS: tuple[tuple[str, str], ...] = (
    ("spaces", " "),
    ("commas", ","),
    ("dashes", "-"),
    ("colons", ":"),
    ("slashes", "/"),
    ("dots", "."),
    ("stars", "*"),
)

REPLACEMENTS: tuple[Mapping, ...] = (
    Mapping("0", "0", lambda x: 0),
    Mapping("1", "1", lambda x: 1),
    Mapping("itself", "{x}", lambda x: x),
)

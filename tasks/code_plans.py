"""What a mini-code function has to do: a plan with its description, its reference behaviour and its code.

The expected outputs come from the plan's own Python callables, never from running a solution's text, so that
a solution and its judge are independent.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

LETTERS = "abeiostrn"
LARGEST_NUMBER = 40
NUM_DRAWS = 50


@dataclass(frozen=True)
class Condition:
    """A test on one element: in words ("greater than 5"), as code over `{x}` and as a callable."""

    text: str
    code: str
    holds: Callable[[Any], bool]


@dataclass(frozen=True)
class Mapping:
    """What is made of one element: in words, as code over `{x}` and as a callable."""

    text: str
    code: str
    apply: Callable[[Any], Any]


@dataclass(frozen=True)
class Plan:
    """One function to write.

    `description` has the slot `{argument}`. `source` is the code of what is looped over ("numbers" and "range"
    plans loop over integers, "words" plans over the words of a text), `reduction` one of sum, product, count,
    list, joined and difference (elements that meet `condition` minus those that meet `second`). Elements that
    fail `condition` are replaced by `otherwise`, or skipped when that is None.
    """

    family: str
    description: str
    parameters: str
    source: str
    reduction: str
    condition: Condition
    mapping: Mapping
    otherwise: Mapping | None = None
    second: Condition | None = None
    separator: str = ""

    @property
    def key(self) -> str:
        """What makes two plans the same: the description, whatever names are used."""
        return self.description

    def elements(self, arguments: list[Any]) -> Iterable[Any]:
        """Return what the loop of a right solution runs over for `arguments`."""
        if self.family == "range":
            return range(arguments[0], arguments[1] + 1)
        return arguments[0].split() if self.family == "words" else arguments[0]

    def expected(self, arguments: list[Any]) -> Any:
        """Return the value that a right solution gives for `arguments`."""
        elements = list(self.elements(arguments))
        if self.second is not None:
            return sum(map(self.condition.holds, elements)) - sum(map(self.second.holds, elements))
        made = []
        for element in elements:
            if self.condition.holds(element):
                made.append(self.mapping.apply(element))
            elif self.otherwise is not None:
                made.append(self.otherwise.apply(element))
        if self.reduction == "product":
            product = 1
            for value in made:
                product *= value
            return product
        if self.reduction == "joined":
            return self.separator.join(made)
        return {"sum": sum, "count": len, "list": list}[self.reduction](made)

    def draw_arguments(self, rng: random.Random) -> list[Any]:
        """Draw the arguments of one test, with elements that meet the condition and others that do not.

        A condition that hardly any element meets gets the last of `NUM_DRAWS` draws.
        """
        for _ in range(NUM_DRAWS):
            arguments = self._draw_any_arguments(rng)
            if len({self.condition.holds(element) for element in self.elements(arguments)}) == 2:
                break
        return arguments

    def _draw_any_arguments(self, rng: random.Random) -> list[Any]:
        if self.family == "range":
            return [rng.randint(0, 9), rng.randint(10, LARGEST_NUMBER)]
        if self.family == "words":
            words = ("".join(rng.choices(LETTERS, k=rng.randint(1, 10))) for _ in range(6))
            return [" ".join(words)]
        return [[rng.randint(0, LARGEST_NUMBER) for _ in range(rng.randint(4, 9))]]

    def empty_arguments(self) -> list[Any]:
        """Return arguments for which there is no element to look at."""
        return {"range": [7, 3], "words": [""]}.get(self.family, [[]])


def draw_comparison(rng: random.Random) -> Condition:
    """Draw a comparison of a number with a constant."""
    k = rng.randint(2, 30)
    return rng.choice(
        (
            Condition(f"greater than {k}", f"{{x}} > {k}", lambda x: x > k),
            Condition(f"less than {k}", f"{{x}} < {k}", lambda x: x < k),
            Condition(f"equal to {k}", f"{{x}} == {k}", lambda x: x == k),
            Condition(f"different from {k}", f"{{x}} != {k}", lambda x: x != k),
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
REDUCTIONS: dict[str, str] = {
    "sum": "the sum of the {0} in {{argument}} that are {1}",
    "product": "the product of the {0} in {{argument}} that are {1}",
    "list": "a list of the {0} in {{argument}} that are {1}",
    "count": "how many of the {0} in {{argument}} are {1}",
}


def draw_fold(rng: random.Random, mapping: Mapping, condition: Condition) -> Plan:
    """Draw a sum, product, list or count over the numbers of a list."""
    # What is counted is not changed first: how many squares there are is how many numbers there are.
    reductions = list(REDUCTIONS) if mapping is SAME_NUMBER else ["sum", "product", "list"]
    reduction = rng.choice(reductions)
    description = REDUCTIONS[reduction].format(mapping.text, condition.text)
    return Plan("numbers", description, "{argument}", "{argument}", reduction, condition, mapping)


def draw_words(rng: random.Random, mapping: Mapping) -> Plan:
    """Draw a text made of some words of a text."""
    condition = draw_word_condition(rng)
    separator_text, separator = rng.choice(SEPARATORS)
    description = f"the words of {{argument}} {condition.text}, {mapping.text}, joined by {separator_text}"
    return Plan(
        "words",
        description,
        "{argument}",
        "{argument}.split()",
        "joined",
        condition,
        mapping,
        separator=separator,
    )


def draw_range(rng: random.Random, mapping: Mapping) -> Plan:
    """Draw a sum or list over the integers from a to b."""
    condition = draw_condition(rng)
    reduction = rng.choice(("sum", "list"))
    start = "the sum" if reduction == "sum" else "a list"
    description = f"{start} of the {mapping.text} from a to b that are {condition.text}"
    return Plan("range", description, "a, b", "range(a, b + 1)", reduction, condition, mapping)


REPLACEMENTS: tuple[Mapping, ...] = (
    Mapping("0", "0", lambda x: 0),
    Mapping("1", "1", lambda x: 1),
    Mapping("itself", "{x}", lambda x: x),
)


def draw_replacement(rng: random.Random) -> Plan:
    """Draw a list with every number replaced by one of two things."""
    condition, mapping, otherwise = draw_condition(rng), draw_mapping(rng), rng.choice(REPLACEMENTS)
    made = mapping.code.format(x="it")
    description = (
        f"a list where each number of {{argument}} that is {condition.text} is replaced by {made} "
        f"and each other number by {otherwise.text}"
    )
    return Plan("numbers", description, "{argument}", "{argument}", "list", condition, mapping, otherwise)


def draw_difference(rng: random.Random) -> Plan:
    """Draw a difference of two counts."""
    condition = second = draw_condition(rng)
    while second.text == condition.text:
        second = draw_condition(rng)
    description = f"how many numbers in {{argument}} are {condition.text} minus how many are {second.text}"
    return Plan(
        "numbers",
        description,
        "{argument}",
        "{argument}",
        "difference",
        condition,
        SAME_NUMBER,
        second=second,
    )


def draw_both(rng: random.Random) -> Plan:
    """Draw a fold whose numbers have to meet two conditions."""
    first, second = draw_divisibility(rng), draw_comparison(rng)
    while " == " in second.code:  # "even and equal to 9" would be no test at all
        second = draw_comparison(rng)
    both = Condition(
        f"{first.text} and {second.text}",
        f"{first.code} and {second.code}",
        lambda x: first.holds(x) and second.holds(x),
    )
    return draw_fold(rng, rng.choice((SAME_NUMBER, draw_mapping(rng))), both)


def draw_plan(rng: random.Random, level: int) -> Plan:
    """Draw a plan of `level`: 1 one condition, 2 a condition and a mapping, 3 two things at once."""
    if level == 1:
        if rng.random() < 0.5:
            return draw_fold(rng, SAME_NUMBER, draw_condition(rng))
        return draw_words(rng, WORD_MAPPINGS[0]) if rng.random() < 0.6 else draw_range(rng, SAME_NUMBER)
    if level == 2:
        family = rng.choice(("numbers", "words", "range"))
        if family == "numbers":
            return draw_fold(rng, draw_mapping(rng), draw_condition(rng))
        if family == "words":
            return draw_words(rng, rng.choice(WORD_MAPPINGS[1:]))
        return draw_range(rng, draw_mapping(rng))
    return rng.choice((draw_replacement, draw_difference, draw_both))(rng)

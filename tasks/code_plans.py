"""What a mini-code function has to do: a plan with its description, its reference behaviour and its code.

The expected outputs come from the plan's own Python callables, never from running a solution's text, so that
a solution and its judge are independent.
"""

from __future__ import annotations

import math
import random
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from lopa_bench.tasks.code_pieces import (
    LETTERS,
    REPLACEMENTS,
    SAME_NUMBER,
    SEPARATORS,
    WORD_MAPPINGS,
    Condition,
    Mapping,
    draw_comparison,
    draw_condition,
    draw_divisibility,
    draw_mapping,
    draw_word_condition,
)

LARGEST_NUMBER = 40
NUM_DRAWS = 50


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
        (whole,) = arguments
        return whole.split() if self.family == "words" else whole

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
            return math.prod(made)
        if self.reduction == "joined":
            return self.separator.join(made)
        if self.reduction == "sum":
            return sum(made)
        return len(made) if self.reduction == "count" else made

    def draw_arguments(self, rng: random.Random, index: int) -> list[Any]:
        """Draw the arguments of test number `index`; tests in a row try all edges of the conditions.

        There are elements that meet the condition and others that do not, but for a condition that hardly any
        element meets, which gets the last of `NUM_DRAWS` draws.
        """
        for _ in range(NUM_DRAWS):
            arguments = self._draw_any_arguments(rng, index)
            if len({self.condition.holds(element) for element in self.elements(arguments)}) == 2:
                break
        return arguments

    def _draw_any_arguments(self, rng: random.Random, index: int) -> list[Any]:
        if self.family == "words":
            words = ("".join(rng.choices(LETTERS, k=rng.randint(1, 10))) for _ in range(6))
            return [" ".join(words)]
        conditions = (self.condition, self.second)
        edges = [each.edges[index % len(each.edges)] for each in conditions if each is not None and each.edges]
        if self.family == "range":
            first, last = rng.randint(0, 9), rng.randint(10, LARGEST_NUMBER)
            if index % 2 == 0:  # end where it shows whether the last number counts
                last = max(first, *edges) if edges else max(filter(self.condition.holds, range(last + 1)))
            return [first, last]
        numbers = [rng.randint(0, LARGEST_NUMBER) for _ in range(rng.randint(4, 9))]
        for position, edge in zip(rng.sample(range(len(numbers)), len(edges)), edges, strict=True):
            numbers[position] = edge
        return [numbers]

    def empty_arguments(self) -> list[Any]:
        """Return arguments for which there is no element to look at."""
        return [7, 3] if self.family == "range" else [""] if self.family == "words" else [[]]


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
        second.edges,
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

"""How much worse a figure may become before a gate fails: `exact`, `2%`, `0.1`, or a drop of accuracy in points."""

from __future__ import annotations

import math
import re
from typing import Literal

from pydantic import NonNegativeFloat

from lopa_bench.errors import ConfigError
from lopa_bench.results.schema import Record

ROUNDING = 1e-9  # a quotient of the same sums may differ by this much between two computations
_NUMBER = r"(\d+(?:\.\d*)?|\.\d+)"
_BOUND = re.compile(_NUMBER + "(%?)")
_DROP = re.compile(r"acc(?:uracy)?=" + _NUMBER + r"(?:pt|pts|points?)")

Direction = Literal["higher", "lower", "neither"]


class Bound(Record):
    """`exact` allows no change, not even for the better; the others allow to get worse by so much, and to get better.

    `relative` is a share of the earlier value (0.02 for 2 %), `absolute` is in the figure's own unit.
    """

    kind: Literal["exact", "relative", "absolute"]
    value: NonNegativeFloat = 0.0

    def __str__(self) -> str:
        if self.kind == "exact":
            return "exact"
        return f"{100 * self.value:g}%" if self.kind == "relative" else f"{self.value:g}"

    def require_within(self, before: float, figure: str) -> None:
        """Refuse a number that a figure for which higher is better cannot drop by, as 2 where 2% was meant.

        Raises:
            ConfigError: naming the figure.
        """
        if self.kind == "absolute" and self.value >= before > 0:
            raise ConfigError(
                f"the bound {self} on {figure} can never be exceeded: its baseline is {before:.2f}; "
                f"for a percentage write {self}%"
            )

    def allows(self, before: float, after: float, direction: Direction) -> bool:
        """Whether a figure may go from `before` to `after`; `direction` says which way is better."""
        slack = ROUNDING * max(1.0, abs(before))
        if self.kind == "exact" or direction == "neither":
            return abs(after - before) <= slack
        worse = before - after if direction == "higher" else after - before
        return worse <= self.value * (abs(before) if self.kind == "relative" else 1.0) + slack


class Bounds(Record):
    """The bounds of one check; None leaves a figure ungated. `max_drop` is a share: 0.01 is one point."""

    max_drop: NonNegativeFloat | None = None
    tpf: Bound | None = None
    forwards: Bound | None = None
    tps: Bound | None = None

    def over(self, other: Bounds) -> Bounds:
        """Return these bounds, with `other`'s where there is none."""
        values = {name: value for name, value in vars(self).items() if value is not None}
        return other.model_copy(update=values)


# What is checked when neither the command nor the baseline says: rounding on another processor may move a round or two.
DEFAULT_BOUNDS = Bounds(
    max_drop=0.01, tpf=Bound(kind="relative", value=0.02), forwards=Bound(kind="relative", value=0.02)
)


def parse_bound(text: str, option: str) -> Bound:
    """Read `exact`, `2%` or `0.1`.

    Raises:
        ConfigError: anything else.
    """
    word = text.strip().lower()
    if word == "exact":
        return Bound(kind="exact")
    match = _BOUND.fullmatch(word)
    if match is None or not math.isfinite(float(match[1])):
        raise ConfigError(f"{option} is '{text}'; it has to be exact, a percentage as 2%, or a number as 0.1")
    value = float(match[1])
    return Bound(kind="relative", value=value / 100) if match[2] else Bound(kind="absolute", value=value)


def parse_max_drop(text: str) -> float:
    """Read `acc=1.0pt` and return the share, 0.01.

    Raises:
        ConfigError: anything else; a drop in percent could be meant of the score or of its points.
    """
    match = _DROP.fullmatch(text.strip().lower().replace(" ", ""))
    if match is None:
        raise ConfigError(f"--max-drop is '{text}'; it has to name the points that accuracy may drop, as acc=1.0pt")
    points = float(match[1])
    if points > 100:
        raise ConfigError(f"--max-drop {text} can never be exceeded: accuracy has 100 points")
    return points / 100


def bounds_from(max_drop: str | None, tpf: str | None, forwards: str | None, tps: str | None) -> Bounds:
    """Read the bounds of a command line; those not given stay None."""
    bound = {"tpf": tpf, "forwards": forwards, "tps": tps}
    parsed = {name: parse_bound(text, f"--{name}") for name, text in bound.items() if text is not None}
    for name in ("tpf", "tps"):
        if name in parsed and parsed[name].kind == "relative" and parsed[name].value >= 1:
            raise ConfigError(f"--{name} {bound[name]} can never be exceeded: nothing drops by more than all of it")
    if parsed.get("tps", Bound(kind="absolute")).kind == "exact":
        raise ConfigError("--tps exact would fail on every run: a speed is never the same twice; give a percentage")
    return Bounds(max_drop=None if max_drop is None else parse_max_drop(max_drop), **parsed)

"""What a gate comes to: its outcome, its figures and reason, and for accuracy what chance may have had a part in."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Outcome(StrEnum):
    """What became of a gate; `NOT_GATED` figures are reported and decide nothing."""

    OK = "ok"
    REGRESSED = "regressed"
    NOT_COMPARABLE = "not comparable"
    NOT_GATED = "not gated"


@dataclass(frozen=True)
class Evidence:
    """The problems of a cell whose scores chance may have moved, for a test over several cells.

    Of `num_problems` so many were `gained` and `lost`; `drop` is that of the accuracy and `max_drop` its bound, both
    shares. `is_undecided`: the drop is beyond the bound, and the cell's problems alone cannot tell it from chance.
    """

    gained: int
    lost: int
    num_problems: int
    drop: float
    max_drop: float
    is_undecided: bool = False


@dataclass(frozen=True)
class GateResult:
    """One gate of one run: what it was held to, what was found, and why that is ok or not.

    `is_notable`: it decides nothing, yet a reader of a passed check should know of it. `evidence` is there for an
    accuracy that chance may have moved.
    """

    cell: str
    run: str
    gate: str
    outcome: Outcome
    before: float | None = None
    after: float | None = None
    bound: str = ""
    reason: str = ""
    is_notable: bool = False
    evidence: Evidence | None = None

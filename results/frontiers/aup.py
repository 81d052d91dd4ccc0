"""AUP, accuracy under parallelism: one figure for a decoder's whole trade of accuracy against tokens per forward.

Defined by the d3LLM leaderboard (hao-ai-lab/d3LLM, AUP_leaderboard). A decoder's points, accuracy y in percent at rho
tokens per forward, are sorted by rho. The first point counts as the rectangle rho_1 y_1; between two points the area
is that of the trapezoid over y W(y), where W(y) = min(exp(-alpha (1 - y / y_max)), 1) punishes accuracy lost against
y_max, the best accuracy that any method reaches. Points more than five points of accuracy below the first take no part.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import pairwise

from lopa_bench.errors import ResultsError

ALPHA = 3.0
LARGEST_DROP = 5.0  # percentage points below the first point
ROUNDING = 1e-9  # 100 * 0.58 is a little less than 58


@dataclass(frozen=True)
class Yardstick:
    """The accuracy in percent that AUP measures all others by, and where it comes from; AUP means nothing without."""

    percent: float
    name: str

    def __post_init__(self) -> None:
        if not 0 < self.percent <= 100:
            raise ResultsError(f"y_max is an accuracy in percent, above 0 and at most 100, found {self.percent}")


@dataclass(frozen=True)
class AUP:
    """The figure, the points (rho, accuracy in percent) that made it, and those that fell too far below the first."""

    value: float
    used: tuple[tuple[float, float], ...]
    dropped: tuple[tuple[float, float], ...] = ()


def weight(percent: float, y_max: float, alpha: float = ALPHA) -> float:
    """Return W(y), 1 at y_max and above."""
    return min(math.exp(-alpha * (1 - percent / y_max)), 1.0)


def aup(points: Iterable[tuple[float, float]], y_max: float, alpha: float = ALPHA) -> AUP | None:
    """Return the AUP of (rho, accuracy in percent) points, None where there are none.

    Of points with one rho the most accurate counts. The leaderboard's program refuses a curve whose last point lies too
    far below the first; here it is dropped like any other, and named.

    Raises:
        ResultsError: a rho that is not above 0.
    """
    best: dict[float, float] = {}
    for rho, percent in points:
        if rho <= 0:
            raise ResultsError(f"AUP needs tokens per forward above 0, found {rho}")
        best[rho] = max(percent, best.get(rho, percent))
    if not best:
        return None
    ordered = sorted(best.items())
    first = ordered[0][1]
    least = first - LARGEST_DROP - ROUNDING
    used = tuple(point for point in ordered if point[1] >= least)
    dropped = tuple(point for point in ordered if point[1] < least)
    area = used[0][0] * used[0][1]
    for (left, low), (right, high) in pairwise(used):
        heights = high * weight(high, y_max, alpha) + low * weight(low, y_max, alpha)
        area += (right - left) * heights / 2
    return AUP(area, used, dropped)

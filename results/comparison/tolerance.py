"""How far a measured figure may lie from a published one and still count as reproduced.

A score's tolerance is half the 95 % Wilson interval of the published score at the number of problems that were asked,
plus an allowance for the device. A TPF's is half its bootstrap interval, plus the rounding of the printed figure, plus
an allowance. Speeds are judged on the published device only. docs/reproducing.md gives the reasons.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from lopa_bench.results.schema import Interval
from lopa_bench.results.statistics import wilson_interval

# Points of score. On another device: the difference that users saw between two GPUs with the same settings (GSM8K 77.5
# and 72.8). On the same device: what they call a match with a reference implementation, 1 to 2 points, at its low end.
SCORE_ALLOWANCE = {"same device": 1.0, "another device": 4.7}
# Shares of the published TPF and of the published speed.
TPF_ALLOWANCE = {"same device": 0.02, "another device": 0.05}
SPEED_ALLOWANCE = 0.15
WIDEST_SCORE = 10.0

Judged = Literal["score", "tpf", "speed"]
KIND: dict[str, Judged] = {"score": "score", "tpf": "tpf", "tps": "speed", "tps_mean": "speed", "latency_s": "speed"}


@dataclass(frozen=True)
class Tolerance:
    """A tolerance in the figure's own unit: what n leaves open, the rounding of the printed figure, the allowance."""

    sampling: float
    rounding: float
    allowance: float

    @property
    def total(self) -> float:
        """All three."""
        return self.sampling + self.rounding + self.allowance


def score_tolerance(published: float, n: int, same_device: bool) -> Tolerance:
    """Return the tolerance of a score in percent over `n` problems; without any it is the whole scale."""
    interval = wilson_interval(round(published / 100 * n), n) if n >= 2 else None
    half = 100.0 if interval is None else (interval.high - interval.low) / 2 * 100
    return Tolerance(half, rounding(published), SCORE_ALLOWANCE[_place(same_device)])


def tpf_tolerance(published: float, interval: Interval, same_device: bool) -> Tolerance:
    """Return the tolerance of a TPF whose bootstrap interval is `interval`."""
    return Tolerance(
        (interval.high - interval.low) / 2, rounding(published), TPF_ALLOWANCE[_place(same_device)] * published
    )


def speed_tolerance(published: float) -> Tolerance:
    """Return the tolerance of a speed or latency on the published device."""
    return Tolerance(0.0, rounding(published), SPEED_ALLOWANCE * published)


def problems_needed(published: float) -> int:
    """Return the fewest problems whose sampling tolerance is no wider than WIDEST_SCORE points."""
    n = 2
    while score_tolerance(published, n, same_device=True).sampling > WIDEST_SCORE:
        n += 1
    return n


def rounding(published: float) -> float:
    """Return half a unit of the last digit that a figure was printed with."""
    digits = len(repr(published).partition(".")[2])
    return 0.5 * 10**-digits


def _place(same_device: bool) -> str:
    return "same device" if same_device else "another device"

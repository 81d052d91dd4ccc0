"""How far off a figure may be: from n, from rounding, from the device."""

from __future__ import annotations

import math

import pytest

from lopa_bench.results.comparison.tolerance import (
    problems_needed,
    rounding,
    score_tolerance,
    speed_tolerance,
    tpf_tolerance,
)
from lopa_bench.results.schema import Interval


def test_a_scores_tolerance_by_hand() -> None:
    """Wilson's half width at 973 of 1319: z sqrt(p q / n + z^2 / 4 n^2) / (1 + z^2 / n)."""
    z, n = 1.959964, 1319
    p = 973 / n
    half = z * math.sqrt(p * (1 - p) / n + z * z / (4 * n * n)) / (1 + z * z / n)
    found = score_tolerance(73.8, n, same_device=True)
    assert found.sampling == pytest.approx(100 * half, abs=1e-3)
    assert (found.rounding, found.allowance) == (0.05, 1.0)
    assert found.total == pytest.approx(found.sampling + 1.05)


def test_another_device_is_allowed_what_users_saw_between_two() -> None:
    """The same settings gave GSM8K 77.5 on one GPU and 72.8 on another: that is no failure to reproduce."""
    same, other = (score_tolerance(77.5, 1319, same_device=where) for where in (True, False))
    assert other.allowance == pytest.approx(77.5 - 72.8) and other.sampling == same.sampling
    assert abs(72.8 - 77.5) < other.total and abs(72.8 - 77.5) > same.total


def test_fewer_problems_leave_more_open() -> None:
    widths = [score_tolerance(73.8, n, same_device=True).sampling for n in (10, 100, 500, 1319)]
    assert widths == sorted(widths, reverse=True)
    assert score_tolerance(73.8, 1, same_device=True).sampling == 100.0
    needed = problems_needed(73.8)
    assert score_tolerance(73.8, needed, same_device=True).sampling <= 10
    assert score_tolerance(73.8, needed - 1, same_device=True).sampling > 10
    assert 60 < needed < 100


def test_a_tpfs_and_a_speeds_tolerance() -> None:
    found = tpf_tolerance(10.1, Interval(low=9.8, high=10.2), same_device=False)
    assert found.sampling == pytest.approx(0.2) and found.allowance == pytest.approx(0.505)
    assert found.rounding == pytest.approx(0.05)
    assert speed_tolerance(100.0).total == pytest.approx(15.05)


@pytest.mark.parametrize(("printed", "half"), [(10.1, 0.05), (1073.86, 0.005), (76.0, 0.05)])
def test_rounding_is_half_of_the_last_digit(printed: float, half: float) -> None:
    assert rounding(printed) == pytest.approx(half)

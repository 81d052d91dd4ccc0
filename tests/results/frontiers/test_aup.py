"""AUP against the leaderboard's own figures."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lopa_bench.errors import ResultsError
from lopa_bench.results.frontiers.aup import Yardstick, aup, weight

# Points and areas of the d3LLM leaderboard on GSM8K-CoT, where the best accuracy known is 83.94.
LEADERBOARD = {
    "Dream": ([(1, 83.94)], 83.94),
    "Fast-dLLM-Dream": ([(1, 83.68), (1.44, 79.0)], 116.4864),
    "Fast-dLLM-v2": ([(1, 82.82), (2.21, 81.48)], 176.1064),
    "dParallel": ([(1, 83.8), (3.02, 82.12)], 245.7335),
    "d3LLM-Dream": ([(1, 83.47), (4.94, 81.36)], 391.3278),
}


@pytest.mark.parametrize("method", LEADERBOARD)
def test_the_leaderboard_s_figures(method: str) -> None:
    points, expected = LEADERBOARD[method]
    found = aup(points, 83.94)
    assert found is not None
    assert found.value == pytest.approx(expected, abs=5e-5)
    assert aup(reversed(points), 83.94) == found


def test_a_dip_is_left_out_and_named() -> None:
    found = aup([(1, 80), (2, 70), (3, 79)], 80)
    assert found is not None
    assert found.value == pytest.approx(236.0924, abs=5e-5)
    assert (found.used, found.dropped) == (((1, 80), (3, 79)), ((2, 70),))


def test_a_last_point_too_far_below_is_left_out_too() -> None:
    found = aup([(1, 80), (2, 74.9)], 80)
    assert found is not None
    assert (found.value, found.dropped) == (80, ((2, 74.9),))
    kept = aup([(1, 80), (2, 75)], 80)
    assert kept is not None and kept.dropped == ()
    kept = aup([(1, 100 * 0.63), (2, 100 * 0.58)], 80)  # the second is a little less than 58
    assert kept is not None and kept.dropped == ()


def test_edges() -> None:
    assert aup([], 80) is None
    with pytest.raises(ResultsError, match="above 0"):
        aup([(0, 80)], 80)
    with pytest.raises(ResultsError, match="y_max is an accuracy in percent"):
        Yardstick(0, "nobody")
    assert weight(80, 80) == weight(90, 80) == 1
    assert aup([(2, 60), (2, 70)], 80) == aup([(2, 70)], 80)


@given(st.lists(st.tuples(st.floats(0.1, 20), st.floats(75, 80)), min_size=1, max_size=6, unique_by=lambda p: p[0]))
def test_at_the_yardstick_throughout_it_is_the_plain_area(points: list[tuple[float, float]]) -> None:
    flat = [(rho, 80.0) for rho, _ in points]
    found, lower = aup(flat, 80), aup(points, 80)
    assert found is not None and lower is not None
    assert found.value == pytest.approx(80 * max(rho for rho, _ in flat))
    assert lower.value <= found.value + 1e-9

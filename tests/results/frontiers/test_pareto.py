from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from lopa_bench.results.frontiers.pareto import fastest_within, half_of, halves, on_front

POINTS = st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5)), max_size=9)


def test_a_front_by_hand() -> None:
    assert on_front([(1, 80), (2, 78), (2, 79), (3, 70), (2.5, 69), (1, 80), (0.5, 80)]) == [
        True, False, True, True, False, True, False,
    ]  # fmt: skip
    assert on_front([]) == []


@given(POINTS)
def test_a_point_is_on_the_front_where_none_beats_it(points: list[tuple[int, int]]) -> None:
    def beats(one: tuple[int, int], other: tuple[int, int]) -> bool:
        return one != other and one[0] >= other[0] and one[1] >= other[1]

    assert on_front(points) == [not any(beats(other, point) for other in points) for point in points]


def test_the_fastest_that_is_accurate_enough() -> None:
    points = [(1, 0.80), (3, 0.79), (3, 0.795), (9, 0.70)]
    assert fastest_within(points, 0.79) == 2
    assert fastest_within(points, 0.0) == 3
    assert fastest_within(points, 0.81) is None
    assert fastest_within([(1, 0.8), (2, 0.7)], 0.8 - 0.1) == 1  # which is a little more than 0.7


def test_halves_are_the_same_everywhere_and_nearly_even() -> None:
    assert [half_of(f"mini-maths-{index:04d}") for index in range(4)] == ["choose", "report", "choose", "choose"]
    split = halves(f"gsm8k-{index:04d}" for index in range(1319))
    assert sorted(split["choose"] + split["report"]) == list(range(1319))
    assert abs(len(split["choose"]) - len(split["report"])) < 80

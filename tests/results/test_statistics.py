from __future__ import annotations

from math import comb, sqrt

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lopa_bench.errors import NotComparable
from lopa_bench.results import statistics
from lopa_bench.results.statistics import (
    bootstrap_mean,
    bootstrap_ratio,
    clustered_interval,
    mcnemar_exact,
    paired_difference,
    proportion_interval,
    score_interval,
    wilson_interval,
)

Z = 1.959963984540054


# Values of Newcombe (1998), table I, method 3.
@pytest.mark.parametrize(
    ("successes", "n", "low", "high"),
    [(81, 263, 0.2553, 0.3662), (15, 148, 0.0624, 0.1605), (0, 20, 0.0, 0.1611), (1, 29, 0.0061, 0.1718)],
)
def test_wilson_gives_the_published_values(successes: int, n: int, low: float, high: float) -> None:
    interval = wilson_interval(successes, n)
    assert interval is not None
    assert (interval.low, interval.high) == (pytest.approx(low, abs=5e-5), pytest.approx(high, abs=5e-5))


@pytest.mark.parametrize("n", [2, 10, 164, 1319])
def test_wilson_is_exact_at_none_and_all(n: int) -> None:
    none, full = wilson_interval(0, n), wilson_interval(n, n)
    assert none is not None
    assert full is not None
    assert (none.low, none.high) == (0.0, pytest.approx(Z**2 / (n + Z**2), abs=1e-12))
    assert (full.low, full.high) == (pytest.approx(n / (n + Z**2), abs=1e-12), 1.0)


@given(n=st.integers(2, 3000), data=st.data())
def test_wilson_agrees_with_its_formula(n: int, data: st.DataObject) -> None:
    k = data.draw(st.integers(0, n))
    p = k / n
    centre = (p + Z**2 / (2 * n)) / (1 + Z**2 / n)
    half = Z / (1 + Z**2 / n) * sqrt(p * (1 - p) / n + Z**2 / (4 * n**2))
    interval = wilson_interval(k, n)
    assert interval is not None
    assert (interval.low, interval.high) == (pytest.approx(centre - half, abs=1e-9), pytest.approx(centre + half))


@pytest.mark.parametrize("n", [0, 1])
def test_fewer_than_two_samples_have_no_interval(n: int) -> None:
    assert wilson_interval(n, n) is None
    assert bootstrap_ratio([1.0] * n, [1.0] * n) is None
    assert bootstrap_mean([1.0] * n) is None


def test_80_and_84_of_164_cannot_be_told_apart() -> None:
    fewer, more = wilson_interval(80, 164), wilson_interval(84, 164)
    assert fewer is not None
    assert more is not None
    assert fewer.high > more.low


def test_scores_between_0_and_1_are_resampled_instead() -> None:
    whole, parts = proportion_interval([1.0, 0.0, 1.0]), proportion_interval([1.0, 0.5, 1.0])
    assert whole is not None
    assert parts is not None
    assert (whole.method, parts.method) == ("Wilson", "bootstrap, 2000 resamples")


@pytest.mark.parametrize(
    ("gained", "lost", "p"),
    [(0, 0, 1.0), (5, 5, 1.0), (0, 6, 2 / 2**6), (6, 0, 2 / 2**6), (1, 9, 2 * (1 + 10) / 2**10)],
)
def test_mcnemar_known_values(gained: int, lost: int, p: float) -> None:
    assert mcnemar_exact(gained, lost) == pytest.approx(p, abs=1e-12)


@given(gained=st.integers(0, 60), lost=st.integers(0, 60))
def test_mcnemar_is_twice_the_smaller_binomial_tail(gained: int, lost: int) -> None:
    n, k = gained + lost, min(gained, lost)
    tail = sum(comb(n, i) for i in range(k + 1)) / 2**n
    assert mcnemar_exact(gained, lost) == pytest.approx(min(1.0, 2 * tail), abs=1e-9)


def test_a_ratio_that_never_varies_has_an_interval_of_one_point() -> None:
    interval = bootstrap_ratio([10, 20, 30], [10, 20, 30])
    assert interval is not None
    assert (interval.low, interval.high) == (1.0, 1.0)


def test_the_bootstrap_interval_is_about_the_normal_one_and_repeats() -> None:
    values = [float(i % 10) for i in range(400)]
    interval = bootstrap_mean(values)
    assert interval is not None
    half = Z * sqrt(8.25 / 400)
    assert interval.low == pytest.approx(4.5 - half, abs=0.04)
    assert interval.high == pytest.approx(4.5 + half, abs=0.04)
    assert bootstrap_mean(values) == interval
    assert bootstrap_mean(values, seed=1) != interval
    narrow = bootstrap_mean(values, level=0.5)
    assert narrow is not None
    assert interval.low < narrow.low < narrow.high < interval.high


def test_a_ratio_is_of_sums_with_samples_drawn_in_pairs() -> None:
    interval = bootstrap_ratio([100, 1], [10, 1])  # resamples: both first, both second, one of each
    assert interval is not None
    assert (interval.low, interval.high) == (1.0, 10.0)


def test_resamples_without_a_denominator_are_left_out() -> None:
    assert bootstrap_ratio([1, 2], [0, 0]) is None
    interval = bootstrap_ratio([4, 0], [2, 0])
    assert interval is not None
    assert (interval.low, interval.high) == (2.0, 2.0)


def test_resampling_in_pieces_fits_any_size(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(statistics, "CELLS_AT_ONCE", 50)
    interval = bootstrap_mean([0.0, 1.0] * 20, resamples=333)
    assert interval is not None
    assert 0.3 < interval.low < 0.5 < interval.high < 0.7


def test_a_paired_difference_is_narrower_than_its_two_sides() -> None:
    before = [float(i % 2) for i in range(200)]
    after = before.copy()
    after[0], after[2] = 1.0, 1.0
    value, interval = paired_difference(before, after)
    assert value == pytest.approx(0.01)
    assert interval is not None
    assert 0.0 <= interval.low < 0.01 < interval.high < 0.04


def test_that_no_problem_changed_is_no_certainty() -> None:
    """Twelve problems unchanged: were 22 % of all changed, that would be seen in 95 % of such dozens."""
    same, interval = paired_difference([1.0, 0.0] * 6, [1.0, 0.0] * 6)
    assert same == 0 and interval is not None
    assert (interval.low, interval.high) == pytest.approx((-0.2209, 0.2209), abs=1e-4)
    assert 1 - (1 - interval.high) ** 12 == pytest.approx(0.95)
    many = paired_difference([1.0] * 1000, [1.0] * 1000)[1]
    assert many is not None and many.high == pytest.approx(0.003, abs=1e-4)
    assert paired_difference([1.0], [1.0]) == (0.0, None)


def test_that_all_problems_changed_alike_is_no_certainty_either() -> None:
    lost, interval = paired_difference([1.0] * 12, [0.0] * 12)
    assert lost == -1 and interval is not None
    assert (interval.low, interval.high) == pytest.approx((-1.0, -1 + 2 * 0.2209), abs=1e-4)


def test_pairs_need_the_same_problems() -> None:
    with pytest.raises(NotComparable, match="the same problems in both runs, found 3 and 2"):
        paired_difference([1, 0, 1], [1, 0])
    assert paired_difference([], []) == (None, None)


def test_a_clustered_interval_by_hand() -> None:
    """Five subjects of 20 problems, 10, 11, 9, 10 and 10 right: the sums of errors are 0, 1, -1, 0 and 0."""
    clusters = [name for name in "abcde" for _ in range(20)]
    values = [float(i < right) for right in (10, 11, 9, 10, 10) for i in range(20)]
    reach = 2.7764451 * sqrt((1 + 1) * 5 / 4) / 100  # Student's t at 4 degrees of freedom
    interval = clustered_interval(values, clusters)
    assert interval is not None
    assert (interval.low, interval.high) == (pytest.approx(0.5 - reach), pytest.approx(0.5 + reach))
    assert interval.method == "clustered, 5 clusters"


def test_clusters_that_differ_make_a_wider_interval() -> None:
    clusters = [name for name in "abcdefgh" for _ in range(25)]
    alike = [1.0, 0.0] * 100
    apart = [float(name in "aceg") for name in clusters]
    narrow, plain, wide = (
        clustered_interval(alike, clusters),
        wilson_interval(100, 200),
        score_interval(apart, clusters),
    )
    assert narrow is not None and plain is not None and wide is not None
    assert wide.high - wide.low > 3 * (plain.high - plain.low)
    assert wide.low >= 0 and wide.high <= 1


def test_clusters_of_one_give_the_plain_standard_error() -> None:
    values = [1.0] * 30 + [0.0] * 10
    interval = clustered_interval(values, [str(index) for index in range(40)])
    assert interval is not None
    assert interval.high - 0.75 == pytest.approx(2.0226909 * sqrt(0.75 * 0.25 / 39))  # t at 39 degrees of freedom


@pytest.mark.parametrize(
    "clusters",
    [["a"] * 20, [None] * 20, ["a"] * 19 + [None], ["a", "b"] * 10],
    ids=["one", "none", "some", "no spread"],
)
def test_without_clusters_to_speak_of_it_is_wilson_s(clusters: list[str | None]) -> None:
    values = [1.0] * 20
    assert score_interval(values, clusters) == wilson_interval(20, 20)
    assert score_interval([], []) is None

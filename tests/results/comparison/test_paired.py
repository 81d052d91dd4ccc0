"""Common problems, flips and paired intervals, against hand-computed answers."""

from __future__ import annotations

from typing import Any

import pytest
from stored import record, sample, samples

from lopa_bench.errors import NotComparable
from lopa_bench.results.comparison.paired import Side, fewest_flips, flips, pairs_of, ratio_of_ratios


def side(correct: list[float | None], **changes: Any) -> Side:
    return Side(record(num_documents=len(correct), **changes), samples(correct))


def test_flips_are_counted_by_hand() -> None:
    found = flips(pairs_of(side([1, 1, 1, 0, 0, 0, 1]), side([1, 0, 1, 1, 1, 0, 1])))
    assert (found.both_right, found.gained, found.lost, found.both_wrong) == (3, 2, 1, 1)
    assert found.p_value == pytest.approx(1.0)


def test_mcnemar_of_eight_lost_and_none_gained() -> None:
    found = flips(pairs_of(side([1] * 8), side([0] * 8)))
    assert found.p_value == pytest.approx(2 * 0.5**8)


def test_half_right_answers_are_gained_and_lost_by_their_change() -> None:
    found = flips(pairs_of(side([0.5, 0.5, 1.0, 0.5]), side([0.5, 1.0, 0.5, 0.0])))
    assert (found.both_right, found.gained, found.lost, found.both_wrong) == (0, 1, 2, 0)


def test_unscored_and_failed_answers_are_in_no_flip() -> None:
    before, after = side([1, 1, None]), side([1, 0, 0])
    failed = [after.samples[0].model_copy(update={"status": "error", "error": "NaN"}), *after.samples[1:]]
    found = flips(pairs_of(before, Side(after.record, failed)))
    assert (found.both_right, found.gained, found.lost, found.both_wrong) == (0, 0, 1, 0)


def test_only_common_problems_are_paired() -> None:
    few = Side(record(), [sample(index) for index in (3, 5, 30)])
    assert [pair.before.id for pair in pairs_of(side([1] * 20), few)] == ["mini-maths-0003", "mini-maths-0005"]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"task": {"name": "mini-code"}}, "differ in task: mini-maths vs mini-code"),
        ({"task": {"version": "2"}}, "version of mini-maths: 1 vs 2"),
        ({"task": {"metric": "flexible"}}, "metric of mini-maths: exact_match vs flexible"),
        ({"task": {"num_available": 378}}, "400 problems vs 378"),
    ],
)
def test_other_tasks_versions_metrics_and_data_are_refused(change: dict[str, Any], words: str) -> None:
    with pytest.raises(NotComparable, match=words):
        pairs_of(side([1, 1]), side([1, 1], **change))


def test_the_same_task_version_with_other_prompts_is_refused() -> None:
    after = [sample(0), sample(1, prompt_hash="f" * 64)]
    with pytest.raises(NotComparable, match=r"1 of 2 common problems with other prompts \(mini-maths-0001"):
        pairs_of(side([1, 1]), Side(record(), after))


def test_nothing_in_common_is_refused() -> None:
    with pytest.raises(NotComparable, match="no problem in common"):
        pairs_of(side([1]), Side(record(), [sample(7)]))


def test_it_takes_six_flips_to_be_more_than_chance() -> None:
    assert fewest_flips() == 6  # 2 * 0.5**6 = 0.031, 2 * 0.5**5 = 0.063


def test_a_ratio_of_ratios_by_hand() -> None:
    value, interval = ratio_of_ratios([(60, 20), (40, 20)], [(60, 10), (40, 10)])
    assert value == pytest.approx(2.0)
    assert interval is not None and interval.low == interval.high == pytest.approx(2.0)


def test_a_ratio_over_nothing_is_undefined() -> None:
    assert ratio_of_ratios([], []) == (None, None)
    assert ratio_of_ratios([(0, 5)], [(3, 5)]) == (None, None)
    assert ratio_of_ratios([(2, 1)], [(3, 1)]) == (1.5, None)

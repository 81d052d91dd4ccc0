"""TPF and speed by length, on answers made for it."""

from __future__ import annotations

from typing import Any

import pytest

from lopa_bench.results.fillings.lengths import bucket_of, length_rows, lengths_table


def answers(make_sample: Any, count: int, name: str, **changes: Any) -> list[Any]:
    """Answers of 20 tokens to a prompt of 100, in 10 rounds and a second, unless told otherwise."""
    values = {"useful": 20, "prompt": 100, "rounds": 10, "model_calls": 10, "decode_s": 1.0, "correct": 1.0, **changes}
    return [make_sample(f"{name}{index}", **values) for index in range(count)]


def test_buckets_are_powers_of_two_and_leave_no_gap() -> None:
    assert [bucket_of(length) for length in (0, 15, 16, 31, 32, 100, 1500)] == [
        (0, 15), (0, 15), (16, 31), (16, 31), (32, 63), (64, 127), (1024, 2047),
    ]  # fmt: skip
    for length in range(3000):
        low, high = bucket_of(length)
        assert low <= length <= high and bucket_of(high + 1)[0] == high + 1


def test_a_bucket_has_the_figures_of_its_own_answers(make_sample: Any) -> None:
    short = answers(make_sample, 5, "short", useful=8, decode_s=2.0)
    long = answers(make_sample, 6, "long", useful=40, correct=0.0)
    first, second = length_rows([*long, *short], "answer")
    assert (first.words, first.n, second.words, second.n) == ("below 16", 5, "32-63", 6)
    assert first.figures["tpf"].value == pytest.approx(0.8)
    assert (first.figures["tps_e2e"].value, first.figures["accuracy"].value) == (pytest.approx(4.0), 1.0)
    assert second.figures["tpf"].value == pytest.approx(4.0)
    assert (second.figures["tps_e2e"].value, second.figures["accuracy"].value) == (pytest.approx(40.0), 0.0)
    [one] = length_rows([*long, *short], "prompt")
    assert (one.words, one.n) == ("64-127", 11)
    assert one.figures["tpf"].value == pytest.approx((5 * 8 + 6 * 40) / 110)


def test_a_figure_of_fewer_than_five_answers_is_not_given(make_sample: Any) -> None:
    [four], [five] = (length_rows(answers(make_sample, count, "a"), "answer") for count in (4, 5))
    assert four.n == 4 and all((one.value, one.interval) == (None, None) for one in four.figures.values())
    assert five.figures["tpf"].value == pytest.approx(2.0) and five.figures["tpf"].interval is not None


def test_each_figure_has_its_own_n(make_sample: Any) -> None:
    """Of seven answers three are for warming up: four are too few for a speed, seven are enough for the rest."""
    held = [*answers(make_sample, 4, "a"), *answers(make_sample, 3, "b", warmup=True)]
    failed = answers(make_sample, 2, "c", status="error", error="NaN logits")
    [row] = length_rows([*held, *failed], "answer")
    assert (row.n, row.figures["tpf"].n, row.figures["tps_e2e"].n) == (7, 7, 4)
    assert row.figures["tpf"].value == pytest.approx(2.0) and row.figures["tps_e2e"].value is None


def test_a_server_s_rounds_are_unknown_and_its_speed_is_not(make_sample: Any) -> None:
    [row] = length_rows(answers(make_sample, 5, "a", rounds=0, model_calls=0), "answer")
    assert (row.figures["tpf"].value, row.figures["tps_e2e"].value) == (None, pytest.approx(20.0))


def test_runs_of_a_bucket_stand_beneath_each_other(make_sample: Any) -> None:
    mixed = [*answers(make_sample, 5, "a"), *answers(make_sample, 5, "b", useful=40)]
    runs = [("0001-x", length_rows(mixed, "answer")), ("0002-y", length_rows(mixed[:5], "answer"))]
    found = lengths_table(runs, "answer")
    assert [(row["run"], row["bucket"]) for row in found.rows] == [
        ("0001-x", "16-31"), ("0002-y", "16-31"), ("0001-x", "32-63"),
    ]  # fmt: skip
    assert length_rows([], "answer") == () and not lengths_table([("x", ())], "answer").rows

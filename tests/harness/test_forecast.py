"""The time left of a run by hand-made clocks, and when a line is said about it."""

from __future__ import annotations

import pytest

from lopa_bench.harness.forecast import Announcer, Forecast, Timekeeper, duration


def test_nothing_is_known_before_anything_was_measured() -> None:
    forecast = Forecast(num_left=10, most_rounds=64)
    assert (forecast.seconds_left, forecast.seconds_each, forecast.is_bound) == (None, None, True)


def test_the_first_answer_in_the_making_gives_a_bound() -> None:
    forecast = Forecast(num_left=10, most_rounds=64)
    for number in range(4):
        forecast.tick(2.0 * (number + 1))
    assert forecast.seconds_per_round == 2.0
    assert forecast.seconds_left == 10 * 64 * 2.0 - 4 * 2.0


def test_finished_samples_set_rounds_and_pace() -> None:
    forecast = Forecast(num_left=10, most_rounds=64)
    forecast.add(8, 20.0)
    forecast.add(12, 40.0)
    assert (forecast.rounds_each, forecast.seconds_per_round, forecast.seconds_each) == (10.0, 2.0, 20.0)
    assert forecast.seconds_left == 8 * 20.0
    forecast.tick(42.0)
    assert forecast.seconds_left == 8 * 20.0 - 2.0
    for _ in range(30):  # an answer longer than all before it counts as good as done, not as less than nothing
        forecast.tick(43.0)
    assert forecast.seconds_left == 7 * 20.0


def test_a_run_that_goes_on_knows_its_pace_from_before() -> None:
    forecast = Forecast(num_left=10, most_rounds=64, num_known=5, known_rounds=50, known_s=100.0)
    assert (forecast.is_bound, forecast.seconds_left) == (False, 200.0)
    forecast.add(10, 40.0)  # this machine is half as fast
    assert forecast.seconds_left == 9 * 40.0


def test_answers_without_a_round_still_take_time() -> None:
    forecast = Forecast(num_left=10, most_rounds=64)
    forecast.add(0, 3.0)
    assert forecast.seconds_left == 27.0


def said(seconds: list[float], num_samples: int, rounds: int = 10) -> list[str]:
    """What is said in a run whose samples take so long, one after another."""
    lines: list[str] = []
    announcer, forecast, elapsed = Announcer(lines.append), Forecast(num_samples, 64), 0.0
    for one in seconds:
        for number in range(rounds):
            forecast.tick(elapsed + one * (number + 1) / rounds)
            announcer.hear(forecast)
        elapsed += one
        forecast.add(rounds, elapsed)
        announcer.hear(forecast)
    return lines


def test_a_short_run_is_not_talked_about() -> None:
    assert said([0.5] * 20, 20) == []


def test_after_three_samples_the_time_left_is_said_once() -> None:
    assert said([12.0] * 40, 200) == ["about 39 min left (corrected from 3 samples: 12.0 s each)"]


def test_it_is_said_again_when_it_turns_out_otherwise() -> None:
    lines = said([12.0] * 3 + [36.0] * 9, 200)
    assert [line for line in lines if "left" in line] == [
        "about 39 min left (corrected from 3 samples: 12.0 s each)",
        "about 1 h 18 min left (corrected from 6 samples: 24 s each)",
    ]
    assert said([12.0] * 3 + [13.0] * 30, 200) == lines[:1], "a little more is no news"


SOONER = "--subset smoke or a small --limit tells sooner whether all is as it should be"


def test_a_long_run_is_warned_of_once_and_before_its_first_answer_is_there() -> None:
    lines = said([100.0] * 8, 1319)
    assert lines == [
        f"this will take up to 234 h 29 min, 1319 samples of up to 11 min each; {SOONER}",
        "about 36 h 33 min left (corrected from 3 samples: 2 min each)",
    ]


def test_a_long_run_of_short_answers_is_warned_of_after_the_first() -> None:
    assert said([12.0], 1319) == [f"this will take about 4 h 24 min, 1318 samples of about 12.0 s each; {SOONER}"]


def test_after_the_last_sample_nothing_is_said() -> None:
    forecast, lines = Forecast(num_left=1, most_rounds=4), list[str]()
    forecast.add(4, 9000.0)
    Announcer(lines.append).hear(forecast)
    assert lines == []


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (0.04, "0.0 s"), (12.34, "12.3 s"), (59.9, "60 s"), (99.4, "99 s"), (99.6, "2 min"), (719, "12 min"),
        (4800, "1 h 20 min"), (3570, "1 h"), (7199, "2 h"), (111600, "31 h"),
    ],
)  # fmt: skip
def test_a_time_as_a_person_says_it(seconds: float, words: str) -> None:
    assert duration(seconds) == words


def test_the_samples_of_a_batch_are_reckoned_with_together() -> None:
    """Four that took 100 seconds at once are 25 seconds each, not 100 for the first of them."""
    said: list[str] = []
    now = [0.0]
    keeper = Timekeeper(Forecast(num_left=40, most_rounds=10), said.append, now=lambda: now[0])
    keeper.begin()
    now[0] = 100.0
    for number in range(1, 5):
        keeper.sample_ended(10, more_at_once=number < 4)
    assert said == ["about 15 min left (corrected from 4 samples: 25 s each)"]

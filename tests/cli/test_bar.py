"""The time left beside the progress bar."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from lopa_bench.cli.bar import TimeLeft
from lopa_bench.harness.forecast import Forecast
from lopa_bench.harness.progress import Running


def shown(running: Running | None) -> str:
    task: Any = SimpleNamespace(fields={} if running is None else {"running": running})
    return TimeLeft().render(task).plain


def test_nothing_is_shown_while_nothing_is_known() -> None:
    assert shown(None) == shown(Running()) == shown(Running(forecast=Forecast(9, 64))) == ""


@pytest.mark.parametrize(("num_known", "words"), [(0, "< 21 min left"), (4, "3 min left")])
def test_a_bound_is_told_from_an_estimate(num_known: int, words: str) -> None:
    forecast = Forecast(num_left=10, most_rounds=64, num_known=num_known, known_rounds=8 * num_known, known_s=64.0)
    forecast.tick(2.0)
    assert shown(Running(forecast=forecast)) == words


def test_the_answer_in_the_making_is_counted_down() -> None:
    forecast = Forecast(num_left=2, most_rounds=64)
    forecast.add(10, 30.0)
    assert shown(Running(forecast=forecast)) == "30 s left"
    for number in range(4):
        forecast.tick(30.0 + 3.0 * (number + 1))
    assert shown(Running(forecast=forecast)) == "18.0 s left"

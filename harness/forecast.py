"""How long the rest of a run takes, from what its rounds took so far, and when that is worth a line."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

HOUR_S, MINUTE_S = 3600.0, 60.0
LONG_S = HOUR_S  # from here on a run is worth a warning
SHORT_S = MINUTE_S  # below, nobody needs a line
FIRST_SAMPLES = 3
FIRST_S = 20.0  # so long into the first answer a bound is worth more than waiting for its end
MUCH = 1.25  # times more or less than was said


@dataclass
class Forecast:
    """The time left of a run: the rounds that its samples will take, at the pace of those that were seen.

    Args:
        num_left: samples without an answer.
        most_rounds: the most that an answer can take.
        num_known: samples of earlier sittings.
        known_rounds: rounds that these took together.
        known_s: seconds that these took together.
    """

    num_left: int
    most_rounds: int
    num_known: int = 0
    known_rounds: int = 0
    known_s: float = 0.0
    num_seen: int = 0
    seen_rounds: int = 0
    seen_s: float = 0.0
    rounds_now: int = 0
    now_s: float = 0.0

    def add(self, num_rounds: int, elapsed_s: float) -> None:
        """Enter one more sample; `elapsed_s` is the time since this sitting's first question, judging included."""
        self.num_left -= 1
        self.num_seen += 1
        self.seen_rounds += num_rounds
        self.seen_s = self.now_s = elapsed_s
        self.rounds_now = 0

    def tick(self, elapsed_s: float) -> None:
        """Enter one more round of the answer that is in the making."""
        self.rounds_now += 1
        self.now_s = elapsed_s

    @property
    def is_bound(self) -> bool:
        """Whether no answer was ever finished, so that the longest possible ones are reckoned with."""
        return self.num_known + self.num_seen == 0

    @property
    def rounds_each(self) -> float:
        """Rounds to expect of a sample."""
        if self.is_bound:
            return float(self.most_rounds)
        return (self.known_rounds + self.seen_rounds) / (self.num_known + self.num_seen)

    @property
    def seconds_per_round(self) -> float | None:
        """Seconds for each round, all between the rounds included: of this sitting or else of earlier ones."""
        if self.seen_rounds:
            return self.seen_s / self.seen_rounds
        if self.known_rounds:
            return self.known_s / self.known_rounds
        return self.now_s / self.rounds_now if self.rounds_now else None

    @property
    def seconds_each(self) -> float | None:
        """Seconds to expect of a sample, None while nothing was measured."""
        pace = self.seconds_per_round
        if pace is not None and self.rounds_each:
            return self.rounds_each * pace
        return self.seen_s / self.num_seen if self.num_seen else None  # answers that took no round at all

    @property
    def seconds_left(self) -> float | None:
        """Seconds to expect of all that is left, the rest of the answer in the making included."""
        each, pace = self.seconds_each, self.seconds_per_round
        if each is None:
            return None
        done = min(self.rounds_now * (pace or 0.0), each)
        return max(self.num_left * each - done, 0.0)


class Announcer:
    """Says how long a run takes: a warning once when it is long, a line after a few samples, another when it changed.

    Args:
        say: takes one line for the user.
    """

    def __init__(self, say: Callable[[str], None]) -> None:
        self._say = say
        self._said_s: float | None = None
        self._said_after = 0
        self._warned = False

    def hear(self, forecast: Forecast) -> None:
        """Look at the forecast: before a run goes on, after every round and after every sample."""
        left, each = forecast.seconds_left, forecast.seconds_each
        if left is None or each is None or not forecast.num_left:
            return
        if left > LONG_S and not self._warned and not (forecast.is_bound and forecast.now_s < FIRST_S):
            self._warned = True
            how = "up to" if forecast.is_bound else "about"
            samples = f"{forecast.num_left} sample" + ("s" if forecast.num_left > 1 else "")
            self._say(
                f"this will take {how} {duration(left)}, {samples} of {how} {duration(each)} each; "
                "--subset smoke or a small --limit tells sooner whether all is as it should be"
            )
        if forecast.num_seen >= FIRST_SAMPLES and self._is_news(forecast.num_seen, forecast.seen_s + left):
            self._said_s, self._said_after = forecast.seen_s + left, forecast.num_seen
            if left >= SHORT_S:
                self._say(
                    f"about {duration(left)} left (corrected from {forecast.num_seen} samples: {duration(each)} each)"
                )

    def _is_news(self, num_seen: int, total_s: float) -> bool:
        """Tell whether the whole time differs much from what was said, twice as many samples ago at least."""
        if self._said_s is None:
            return True
        return num_seen >= 2 * self._said_after and not self._said_s / MUCH <= total_s <= self._said_s * MUCH


def duration(seconds: float) -> str:
    """Return a time as a person says it: "12.3 s", "12 min", "1 h 20 min"."""
    if seconds < 99.5:
        return f"{seconds:.1f} s" if seconds < 20 else f"{seconds:.0f} s"
    minutes = round(seconds / MINUTE_S)
    hours, rest = divmod(minutes, 60)
    if not hours:
        return f"{minutes} min"
    return f"{hours} h {rest} min" if rest else f"{hours} h"


class Timekeeper:
    """Keeps a forecast up to date by the wall clock while a run goes, and has it announced.

    Args:
        forecast: what is known before the first question.
        say: takes one line for the user.
        now: gives seconds; for tests.
    """

    def __init__(
        self, forecast: Forecast, say: Callable[[str], None], now: Callable[[], float] = time.monotonic
    ) -> None:
        self.forecast = forecast
        self._announcer = Announcer(say)
        self._now = now
        self._start = now()

    def begin(self) -> None:
        """The first question comes now."""
        self._start = self._now()
        self._announcer.hear(self.forecast)

    def round_ended(self, _: object = None) -> None:
        """One more round of the answer in the making is over."""
        self.forecast.tick(self._now() - self._start)
        self._announcer.hear(self.forecast)

    def sample_ended(self, num_rounds: int, *, more_at_once: bool = False) -> None:
        """One more sample is stored; nothing is said yet when others of its batch, made in the same time, follow."""
        self.forecast.add(num_rounds, self._now() - self._start)
        if not more_at_once:
            self._announcer.hear(self.forecast)

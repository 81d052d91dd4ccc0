"""What a run tells while it goes, and who listens."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from lopa_bench.results.schema import SampleRecord

if TYPE_CHECKING:
    from pathlib import Path

    from lopa_bench.decoders.rounds import Round
    from lopa_bench.harness.forecast import Forecast
    from lopa_bench.harness.plan import Plan


@dataclass
class Running:
    """The figures of the samples so far; None where they are not defined yet. `forecast` tells the time left."""

    num_done: int = 0
    num_errors: int = 0
    correct: float = 0.0
    useful: int = 0
    rounds: int = 0
    seconds: float = 0.0
    forecast: Forecast | None = None

    def add(self, sample: SampleRecord) -> None:
        """Add one sample, timed or not."""
        self.num_done += 1
        if sample.status == "error":
            self.num_errors += 1
            return
        self.correct += sample.correct or 0.0
        self.useful += sample.tokens.useful
        self.rounds += sample.work.rounds
        self.seconds += sample.time.total_s

    @property
    def accuracy(self) -> float | None:
        """Share of right answers among those scored."""
        scored = self.num_done - self.num_errors
        return self.correct / scored if scored else None

    @property
    def tpf(self) -> float | None:
        """Useful tokens per round."""
        return self.useful / self.rounds if self.rounds else None

    @property
    def tokens_per_second(self) -> float | None:
        """Useful tokens per second of generation."""
        return self.useful / self.seconds if self.seconds else None


class Viewer(Protocol):
    """Looks on while answers are made one at a time. What it takes is not counted in any answer's seconds."""

    def begin(self, sample_id: str) -> None:
        """The next rounds are those of this sample."""
        ...

    def round_ended(self, one: Round) -> None:
        """A round has just ended."""
        ...


class Reporter(Protocol):
    """Hears of everything a user may want to see."""

    def viewer(self, spell: Callable[[Iterable[int]], Mapping[int, str]]) -> Viewer | None:
        """Return who looks on while each answer is filled, or None; `spell` gives the text of token ids.

        Only asked where answers are made one at a time.
        """
        ...

    def note(self, text: str) -> None:
        """One line that the user should read."""
        ...

    def planned(self, plan: Plan) -> None:
        """The run is settled and about to begin."""
        ...

    def started(self, path: Path, running: Running, total: int) -> None:
        """The run's folder is there; `running` holds the samples of earlier sittings."""
        ...

    def sampled(self, sample: SampleRecord, running: Running) -> None:
        """One more sample is stored."""
        ...

    def ended(self) -> None:
        """No more samples will come."""
        ...


class Silent:
    """Listens to nothing."""

    def viewer(self, spell: Callable[[Iterable[int]], Mapping[int, str]]) -> Viewer | None:
        """Nobody looks on."""
        return None

    def note(self, text: str) -> None:
        """Ignore it."""

    def planned(self, plan: Plan) -> None:
        """Ignore it."""

    def started(self, path: Path, running: Running, total: int) -> None:
        """Ignore it."""

    def sampled(self, sample: SampleRecord, running: Running) -> None:
        """Ignore it."""

    def ended(self) -> None:
        """Ignore it."""

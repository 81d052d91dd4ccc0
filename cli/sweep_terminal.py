"""What happens on the terminal while a sweep goes."""

from __future__ import annotations

from collections.abc import Sequence
from time import monotonic
from typing import TYPE_CHECKING

import typer

from lopa_bench.cli.execute import Terminal
from lopa_bench.cli.stopping import Course

if TYPE_CHECKING:
    from lopa_bench.harness.progress import Reporter
    from lopa_bench.harness.sweeps.plan import PlannedCell
    from lopa_bench.harness.sweeps.sweep import Outcome
    from lopa_bench.results.tables import Table

SECONDS_BETWEEN = 10.0


class Checking:
    """Says on stderr, every ten seconds, how many cells of a long list are checked and how long the rest may take."""

    def __init__(self) -> None:
        self._began = self._told = monotonic()

    def __call__(self, done: int, total: int) -> None:
        """Say so when it is time to."""
        from lopa_bench.harness.sweeps.plan import duration

        now = monotonic()
        if now - self._told < SECONDS_BETWEEN or not done:
            return
        self._told = now
        left = duration((now - self._began) / done * (total - done))
        typer.echo(f"{done} of {total} cells checked, about {left} left", err=True)


class SweepTerminal:
    """Tells a sweep on stderr: the cells first, then a line and a progress bar per cell that is run.

    A cell is called by its values of `names`; `course` hears how far it is.
    """

    def __init__(self, names: Sequence[str], course: Course) -> None:
        from rich.console import Console

        self.console = Console(stderr=True, highlight=False)
        self.names = names
        self.course = course

    def planned(self, table: Table) -> None:
        """Print the cells."""
        from lopa_bench.results.tables import to_text
        from lopa_bench.results.terminal import draw

        if self.console.is_terminal:
            self.console.print(draw(table, self.console.width))
        else:
            self.console.print(to_text(table), end="", markup=False, soft_wrap=True)

    def cell_begins(self, number: int, total: int, planned: PlannedCell, left_s: float, num_unknown: int) -> Reporter:
        """Say which cell begins and how long all that is left may take; a finished cell says nothing."""
        from lopa_bench.harness.sweeps.plan import duration

        label = f"cell {number} of {total}"
        if planned.num_missing:
            left = f"about {duration(left_s)} left" if left_s else "time left not known yet"
            unknown = f", without {num_unknown} cells not known yet" if left_s and num_unknown else ""
            self.console.print(
                f"{label}: {planned.cell.words(self.names)} ({left}{unknown})", markup=False, soft_wrap=True
            )
        return self.course.begins(Terminal(verbose=False, label=label), total)

    def cell_held(self, number: int, total: int, reason: str) -> None:
        """Say that a cell is left to another process for now."""
        line = f"cell {number} of {total}: {reason.partition(';')[0]}; its turn comes again after the others"
        self.console.print(line, markup=False, soft_wrap=True)

    def cell_ended(self, number: int, total: int, outcome: Outcome) -> None:
        """Say when a cell failed."""
        if outcome.error is not None:
            self.console.print(f"cell {number} of {total} failed: {outcome.error}", markup=False, soft_wrap=True)

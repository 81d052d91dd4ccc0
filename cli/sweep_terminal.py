"""What happens on the terminal while a sweep goes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from lopa_bench.cli.execute import Terminal

if TYPE_CHECKING:
    from lopa_bench.harness.progress import Reporter
    from lopa_bench.harness.sweep import Outcome
    from lopa_bench.harness.sweep_plan import PlannedCell
    from lopa_bench.results.tables import Table


class SweepTerminal:
    """Tells a sweep on stderr: the cells first, then a line and a progress bar per cell that is run.

    A cell is called by its values of `names`.
    """

    def __init__(self, names: Sequence[str]) -> None:
        from rich.console import Console

        self.console = Console(stderr=True, highlight=False)
        self.names = names

    def planned(self, table: Table) -> None:
        """Print the cells."""
        from lopa_bench.results.tables import to_text

        self.console.print(to_text(table), end="", markup=False, soft_wrap=True)

    def cell_begins(self, number: int, total: int, planned: PlannedCell, left_s: float, num_unknown: int) -> Reporter:
        """Say which cell begins and how long all that is left may take; a finished cell says nothing."""
        from lopa_bench.harness.sweep_plan import duration

        label = f"cell {number} of {total}"
        if planned.num_missing:
            left = f"about {duration(left_s)} left" if left_s else "time left not known yet"
            unknown = f", without {num_unknown} cells not known yet" if left_s and num_unknown else ""
            self.console.print(
                f"{label}: {planned.cell.words(self.names)} ({left}{unknown})", markup=False, soft_wrap=True
            )
        return Terminal(verbose=False, label=label)

    def cell_ended(self, number: int, total: int, outcome: Outcome) -> None:
        """Say when a cell failed."""
        if outcome.error is not None:
            self.console.print(f"cell {number} of {total} failed: {outcome.error}", markup=False, soft_wrap=True)

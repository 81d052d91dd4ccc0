"""The progress bar of a run, whose time left is the run's own forecast."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, ProgressColumn, Task, TextColumn
from rich.table import Column
from rich.text import Text

from lopa_bench.harness.forecast import duration

if TYPE_CHECKING:
    from lopa_bench.harness.progress import Running


WIDE = 110


class TimeLeft(ProgressColumn):
    """What the forecast of the task's `running` says, rounds of the answer in the making taken off."""

    def render(self, task: Task) -> Text:
        """Return "12 min left", or nothing while that is not known."""
        running: Running | None = task.fields.get("running")
        left = running.forecast.seconds_left if running is not None and running.forecast is not None else None
        if left is None or running is None or running.forecast is None:
            return Text("")
        bound = "< " if running.forecast.is_bound else ""
        return Text(f"{bound}{duration(left)} left")


def progress_bar(console: Console) -> Progress:
    """Return a bar for tasks with the fields `running` and `figures`, gone when it ends.

    It stays on one line: where there is little room the name is cut short and the bar itself left out.
    """
    is_wide = console.width >= WIDE
    label = Column(no_wrap=True, max_width=console.width // (3 if is_wide else 4))
    columns: list[ProgressColumn] = [TextColumn("{task.description}", table_column=label)]
    if is_wide:
        columns.append(BarColumn(bar_width=20))
    columns += [MofNCompleteColumn(), TimeLeft(table_column=Column(no_wrap=True)), TextColumn("{task.fields[figures]}")]
    return Progress(*columns, console=console, transient=True)

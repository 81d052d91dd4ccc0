"""The loss curve as a table and a picture, and what is shown while training."""

from __future__ import annotations

import csv
from collections import defaultdict
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

COLUMNS = ("step", "seconds", "objective", "loss", "num_steps", "rate_factor", "tokens")

Row = dict[str, Any]


class Curve:
    """Mean loss of each objective between two log points.

    One row per objective and log point, under `COLUMNS`: `seconds` of training so far, `loss` the mean over the
    `num_steps` steps since the last point, `tokens` processed since the start by all processes.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._rows: list[Row] = []
        self._open: defaultdict[str, list[float]] = defaultdict(list)
        self._tokens = 0
        self.seconds = 0.0

    def add(self, objective: str, loss: float, tokens: int) -> None:
        """Take in one step."""
        self._open[objective].append(loss)
        self._tokens += tokens

    def close_row(self, step: int, seconds: float, factor: float) -> list[Row]:
        """End a stretch at `step`; returns its rows."""
        self.seconds = seconds
        rows: list[Row] = []
        for objective, losses in sorted(self._open.items()):
            mean = sum(losses) / len(losses)
            values = (step, round(seconds, 1), objective, round(mean, 5), len(losses), round(factor, 4), self._tokens)
            rows.append(dict(zip(COLUMNS, values, strict=True)))
        self._rows += rows
        self._open.clear()
        return rows

    def state_dict(self) -> dict[str, Any]:
        """Everything, for a checkpoint."""
        return {
            "rows": self._rows,
            "open": dict(self._open),
            "tokens": self._tokens,
            "seconds": self.seconds,
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Take over what `state_dict` gave."""
        self._rows, self._tokens, self.seconds = state["rows"], state["tokens"], state["seconds"]
        self._open = defaultdict(list, state["open"])

    def write(self) -> None:
        """Write the table."""
        self._path.parent.mkdir(parents=True, exist_ok=True)
        with self._path.open("w", newline="", encoding="utf-8") as file:
            writer = csv.DictWriter(file, COLUMNS, lineterminator="\n")
            writer.writeheader()
            writer.writerows(self._rows)

    def plot(self) -> None:
        """Draw the curve beside the table, as PNG."""
        import matplotlib

        matplotlib.use("Agg")
        from matplotlib import pyplot

        figure, axes = pyplot.subplots(figsize=(7, 4), layout="constrained")
        for objective in sorted({row["objective"] for row in self._rows}):
            rows = [row for row in self._rows if row["objective"] == objective]
            axes.plot([row["step"] for row in rows], [row["loss"] for row in rows], label=objective)
        axes.set(xlabel="optimizer step", ylabel="loss", yscale="log")
        axes.legend()
        figure.savefig(self._path.with_suffix(".png"), dpi=120)
        pyplot.close(figure)


class Reporter:
    """A progress bar with the time left on a terminal, plain lines elsewhere; silent when not shown."""

    def __init__(self, title: str, num_steps: int, is_shown: bool) -> None:
        self._console = Console(quiet=not is_shown, stderr=True)
        columns = (BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(), TimeRemainingColumn())
        self._progress = Progress(TextColumn("{task.description}"), *columns, console=self._console)
        self._task = self._progress.add_task(title, total=num_steps)
        self._num_steps = num_steps

    def __enter__(self) -> Self:
        self._progress.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._progress.stop()

    def advance(self, step: int) -> None:
        """Show that `step` steps are done."""
        self._progress.update(self._task, completed=step)

    def line(self, rows: list[Row]) -> None:
        """Print one log point."""
        if not rows:
            return
        losses = "  ".join(f"{row['objective']} {row['loss']:.4f}" for row in rows)
        last = rows[-1]
        speed = last["tokens"] / max(last["seconds"], 1e-9)
        self._console.print(
            f"step {last['step']}/{self._num_steps}  {last['seconds']:.0f} s  {losses}  {speed:,.0f} tokens/s",
            highlight=False,
        )

"""What happens on the terminal while a run goes, and what is printed after it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from lopa_bench.cli.options import print_table

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

    from lopa_bench.harness.plan import Plan
    from lopa_bench.harness.progress import Running
    from lopa_bench.harness.runner import RunResult
    from lopa_bench.harness.settings import RunSpec
    from lopa_bench.results.schema import SampleRecord


class Terminal:
    """Tells a run on stderr: notes, the plan, a progress bar with the figures so far.

    `verbose` prints the whole plan; without it a progress bar named `label` is all there is.
    """

    def __init__(self, *, verbose: bool = True, label: str = "") -> None:
        from rich.console import Console

        self.console = Console(stderr=True, highlight=False)
        self.verbose = verbose
        self.label = label
        self._progress: Progress | None = None
        self._bar: TaskID | None = None
        self._last = ""

    def note(self, text: str) -> None:
        """Print one line."""
        if self.verbose:
            self.console.print(text, markup=False, soft_wrap=True)

    def planned(self, plan: Plan) -> None:
        """Print the plan."""
        if self.verbose:
            from lopa_bench.cli.views import plan_lines

            for line in plan_lines(plan):
                self.console.print(line, markup=False, soft_wrap=True)

    def started(self, path: Path, running: Running, total: int) -> None:
        """Show the bar; samples of earlier sittings count as done."""
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

        if self.verbose:
            self.console.print(f"run: {path}", markup=False, soft_wrap=True)
        columns = (
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeRemainingColumn(),
            TextColumn("{task.fields[figures]}"),
        )
        self._progress = Progress(*columns, console=self.console, transient=True)
        self._progress.start()
        self._bar = self._progress.add_task(self.label or path.name, total=total, figures="")
        # Advanced after it was made, so that the speed, and with it the time left, is that of this sitting alone.
        self._progress.update(self._bar, completed=running.num_done)
        self._progress.reset(self._bar, total=total, completed=running.num_done, figures=figures(running))

    def sampled(self, sample: SampleRecord, running: Running) -> None:
        """Move the bar."""
        self._last = f"{running.num_done} answers: {figures(running)}"
        if self._progress is not None and self._bar is not None:
            self._progress.update(self._bar, completed=running.num_done, figures=figures(running))

    def ended(self) -> None:
        """Take the bar away; where there was none to see, as in a log, say in a line how far it came."""
        if self._progress is not None:
            self._progress.stop()
            self._progress = None
        if self._last and not self.console.is_terminal:
            self.console.print(f"{self.label}  {self._last}".strip(), markup=False, soft_wrap=True)


def figures(running: Running) -> str:
    """Return accuracy, TPF and speed so far in a few words."""
    words = []
    if running.accuracy is not None:
        words.append(f"{running.accuracy:.1%} right")
    if running.tpf is not None:
        words.append(f"TPF {running.tpf:.2f}")
    if running.tokens_per_second is not None:
        words.append(f"{running.tokens_per_second:.1f} tokens/s")
    if running.num_errors:
        words.append(f"{running.num_errors} errors")
    return " · ".join(words)


def execute(spec: RunSpec, format: str) -> None:
    """Run and print: the plan and the progress to stderr, the table (or JSON) to stdout."""
    from lopa_bench.harness.runner import run

    result = run(spec, Terminal())
    print_result(result, format)
    if result.summary is not None and result.summary.blocked:
        raise typer.Exit(1)


def print_result(result: RunResult, format: str) -> None:
    """Print what a run came to."""
    if result.run is None:
        if format == "json":
            typer.echo(json.dumps(result.plan.document(), indent=2))
        else:
            from lopa_bench.cli.views import plan_lines

            for line in plan_lines(result.plan):
                typer.echo(line)
            typer.echo("dry run: nothing was loaded", err=True)
        return
    if format == "json":
        typer.echo(json.dumps(result_document(result), indent=2))
        return
    from lopa_bench.cli.views import reasons, run_table

    print_table(run_table([result.run]), format)
    if format == "table":
        for line in reasons(result.run):
            typer.echo(line)
        typer.echo(f"stored in {result.run.path}", err=True)


def result_document(result: RunResult) -> dict[str, Any]:
    """Return a run's result as JSON values."""
    if result.run is None or result.summary is None:
        return result.plan.document()
    return {
        "run": result.run.record.id,
        "path": str(result.run.path),
        "status": result.run.status,
        "new_samples": result.num_new,
        "task": result.run.record.task.model_dump(mode="json"),
        "decoder": result.run.record.decoder.model_dump(mode="json"),
        "model": result.run.record.model.model_dump(mode="json"),
        "summary": result.summary.model_dump(mode="json"),
    }

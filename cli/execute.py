"""What happens on the terminal while a run goes, and what is printed after it."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from lopa_bench.cli.options import print_table
from lopa_bench.cli.ranks import as_rank, speaks
from lopa_bench.errors import Stopped

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

    from lopa_bench.harness.plan import Plan
    from lopa_bench.harness.progress import Running, Viewer
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
        self._place, self._total = Path(), 0
        self._running: Running | None = None

    def note(self, text: str) -> None:
        """Print one line."""
        if self.verbose:
            self.console.print(text, markup=False, soft_wrap=True)

    def planned(self, plan: Plan) -> None:
        """Print the plan."""
        if self.verbose:
            from lopa_bench.cli.views import plan_lines

            for line in plan_lines(plan, compact=True):
                self.console.print(line, markup=False, soft_wrap=True)

    def started(self, path: Path, running: Running, total: int) -> None:
        """Show the bar; samples of earlier sittings count as done."""
        from lopa_bench.cli.bar import progress_bar

        self._place, self._total, self._running = path, total, running
        if self.verbose:
            self.console.print(f"run: {path}", markup=False, soft_wrap=True)
        self._progress = progress_bar(self.console)
        self._progress.start()
        self._bar = self._progress.add_task(
            self.label or path.name,
            total=total,
            completed=running.num_done,
            figures=figures(running),
            running=running,
        )

    def sampled(self, sample: SampleRecord, running: Running) -> None:
        """Move the bar."""
        self._last = f"{running.num_done} of {self._total} answers: {figures(running)}"
        if self._progress is not None and self._bar is not None:
            self._progress.update(self._bar, completed=running.num_done, figures=figures(running))

    def viewer(self, spell: Callable[[Iterable[int]], Mapping[int, str]]) -> Viewer | None:
        """Nobody looks on; the bar is enough."""
        return None

    def ended(self) -> None:
        """Take the bar away; where there was none to see, as in a log, say in a line how far it came."""
        if self._progress is not None:
            self._progress.stop()
            self._progress = None
        if self._last and not self.console.is_terminal:
            self.console.print(f"{self.label}  {self._last}".strip(), markup=False, soft_wrap=True)

    @property
    def progress(self) -> tuple[int, int]:
        """Answers that are stored, of those asked for."""
        return (0 if self._running is None else self._running.num_done), self._total

    def outlook(self, *, fresh: bool = False) -> str:
        """Say what a run that is stopped now leaves, and how it is gone on with; `fresh` runs must not begin anew."""
        if self._running is None or not self._running.num_done:
            return "nothing was generated yet"
        again = "the same command without --new" if fresh else "the same command"
        return (
            f"{self._running.num_done} of {self._total} answers are stored in {self._place}; {again} goes on from there"
        )


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


def execute(spec: RunSpec, format: str, *, live: bool = False) -> None:
    """Run and print: the plan and the progress (`live`: each answer as it fills up) to stderr, the table to stdout."""
    from lopa_bench.cli.live import terminal_for
    from lopa_bench.harness.distributed.place import world_of
    from lopa_bench.harness.runner import run

    if (spec.devices or 1) > 1 and world_of() is None and not spec.dry_run:
        raise typer.Exit(launched(spec))
    with as_rank():
        terminal = terminal_for(live)
        try:
            result = run(spec, terminal if speaks() else None)
        except KeyboardInterrupt:
            outlook = terminal.outlook(fresh=spec.fresh) if speaks() else "rank 0 says what is stored"
            raise Stopped(f"stopped: {outlook}") from None
        if not speaks():
            return
        print_result(result, format)
        if result.summary is not None and (result.summary.blocked or result.has_errors):
            raise typer.Exit(1)


def launched(spec: RunSpec) -> int:
    """Start the command again in a process per device; what can be known to be wrong is told before."""
    from lopa_bench.harness.distributed.launch import launch
    from lopa_bench.harness.job import prepare

    job = prepare(replace(spec, dry_run=True))
    return launch(sys.argv[1:], job.spread.shape.size, job.spread.timeout_s)


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
    from lopa_bench.cli.fitting import fitting
    from lopa_bench.cli.views import reasons, run_table

    table = run_table([result.run])
    print_table(fitting(table) if format == "table" else table, format)
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

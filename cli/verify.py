"""`lopa-bench verify`: replay reference decodings of the authors' programs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer


def verify(
    cases: Annotated[Path, typer.Argument(help="JSON file with reference cases.")],
    models_dir: Annotated[
        Path | None, typer.Option(help="Folder with the cases' models; beside the file by default.")
    ] = None,
    decoder: Annotated[str | None, typer.Option(help="Only the cases of vanilla, fast-dllm, d2f or lopa.")] = None,
    device: Annotated[str, typer.Option(help="Device to decode on.")] = "cpu",
    as_json: Annotated[bool, typer.Option("--json", help="Print the result as JSON.")] = False,
) -> None:
    """Replay reference cases and compare tokens and calls; exit 1 when any differs.

    Example: lopa-bench verify golden/cases.json --decoder lopa
    """
    from lopa_bench.harness.verify import read_cases
    from lopa_bench.harness.verify import verify as run

    total = len(read_cases(cases, decoder))
    with _progress(total, hidden=as_json) as advance:
        tallies = run(cases, models_dir=models_dir, decoder=decoder, device=device, on_result=advance)
    if as_json:
        typer.echo(json.dumps(_as_document(tallies), indent=2))
    else:
        _print(tallies)
    raise typer.Exit(1 if any(tally.failures for tally in tallies) else 0)


def _progress(total: int, hidden: bool) -> Any:
    """A context whose value is called once per finished case."""
    from contextlib import contextmanager

    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    @contextmanager
    def shown() -> Any:
        columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
        with Progress(*columns, console=Console(stderr=True), transient=True, disable=hidden) as progress:
            task = progress.add_task("verifying", total=total)
            yield lambda result: progress.update(task, advance=1, description=result.id)

    return shown()


def _as_document(tallies: list[Any]) -> dict[str, Any]:
    rows = [
        {
            "decoder": tally.decoder,
            "cases": tally.num_cases,
            "equal_tokens": tally.num_equal_tokens,
            "equal_calls": tally.num_equal_calls,
            "failures": [{"id": failure.id, "difference": failure.difference} for failure in tally.failures],
        }
        for tally in tallies
    ]
    return {"equal": not any(tally.failures for tally in tallies), "decoders": rows}


def _print(tallies: list[Any]) -> None:
    from rich.console import Console
    from rich.table import Table

    table = Table("decoder", "cases", "equal in tokens", "equal in calls")
    for tally in tallies:
        counts = (tally.num_cases, tally.num_equal_tokens, tally.num_equal_calls)
        table.add_row(tally.decoder, *(str(count) for count in counts))
    console = Console()
    console.print(table)
    for tally in tallies:
        for failure in tally.failures:
            console.print(f"{failure.id}: {failure.difference}", markup=False, highlight=False, soft_wrap=True)
    failed = sum(len(tally.failures) for tally in tallies)
    console.print(f"{failed} cases differ" if failed else "all equal")

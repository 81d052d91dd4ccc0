"""`lopa-bench verify`: replay reference decodings of the authors' programs."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from lopa_bench.cli import options as shared
from lopa_bench.cli.ranks import as_rank

if TYPE_CHECKING:
    from lopa_bench.results.tables import Table


def verify(
    cases: Annotated[Path, typer.Argument(help="JSON file with a list of cases.")],
    models_dir: Annotated[
        Path | None, typer.Option(help="Folder with the cases' models; beside the file by default.")
    ] = None,
    decoder: Annotated[str | None, typer.Option(help="Only the cases of vanilla, fast-dllm, d2f or lopa.")] = None,
    device: Annotated[str, typer.Option(help="Device to decode on.")] = "cpu",
    devices: Annotated[int, typer.Option(min=1, help="Processes that share lopa's branches.")] = 1,
    tensor_parallel: Annotated[
        int | None, typer.Option(min=1, help="Of these processes, how many hold the network together.")
    ] = None,
    cache_protocol: Annotated[
        str, typer.Option(help="Between them: two-phase, or single-phase, which skips cases with full attention.")
    ] = "two-phase",
    comm_timeout: Annotated[float, typer.Option(help="Seconds to wait for another process.")] = 120.0,
    json: shared.Json = False,
    csv: shared.Csv = False,
    markdown: shared.Markdown = False,
    latex: shared.Latex = False,
) -> None:
    """Replay reference cases and compare tokens and calls; exit 1 when any differs.

    A case is what another program, such as an algorithm's authors', decoded at temperature 0: model folder, settings,
    prompt ids, answer ids, calls made. No cases come with the package, since they need their models beside them;
    docs/verify.md has the format and shows how to write one.

    Example: lopa-bench verify golden/cases.json --decoder lopa
    """
    from contextlib import nullcontext

    from lopa_bench.errors import ConfigError
    from lopa_bench.harness.distributed.launch import launch
    from lopa_bench.harness.distributed.mesh import (
        branch_group,
        check_protocol,
        check_timeout,
        joined,
        shape_of,
        tensor_group,
    )
    from lopa_bench.harness.distributed.place import world_of
    from lopa_bench.harness.verify import read_cases
    from lopa_bench.harness.verify import verify as run

    format = shared.chosen_format(json=json, csv=csv, markdown=markdown, latex=latex)
    total = len(read_cases(cases, decoder))
    check_protocol(cache_protocol)
    check_timeout(comm_timeout)
    world_size = world_of()
    shape = shape_of(world_size or devices, decoder or "lopa", tensor=tensor_parallel)
    if shape.data > 1:
        raise ConfigError(
            f"{shape.size} devices share lopa's branches, and decoder {decoder} has none: each would replay "
            f"every case; leave --devices out or add --tensor-parallel {shape.size}"
        )
    if devices > 1 and world_size is None:
        raise typer.Exit(launch(sys.argv[1:], devices, comm_timeout))
    with as_rank(), joined(shape, device.partition(":")[0], comm_timeout) if world_size else nullcontext() as world:
        speaks = world is None or world.rank == 0
        with _progress(total, hidden=format != "table" or not speaks) as advance:
            tallies = run(
                cases,
                models_dir=models_dir,
                decoder=decoder,
                device=device if world is None else world.device,
                on_result=advance,
                group=None if world is None else branch_group(world, cache_protocol),
                tensor_group=None if world is None else tensor_group(world),
            )
        if speaks:
            _tell(tallies, format)


def _tell(tallies: list[Any], format: str) -> None:
    """Print what came of the cases; exit 1 when any differs."""
    if format == "json":
        shared.print_json(_as_document(tallies))
    else:
        _print(tallies, format)
    if any(tally.failures for tally in tallies):
        raise typer.Exit(1)


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
            "not_applicable": tally.num_skipped,
            "failures": [{"id": failure.id, "difference": failure.difference} for failure in tally.failures],
        }
        for tally in tallies
    ]
    return {"equal": not any(tally.failures for tally in tallies), "decoders": rows}


def _table(tallies: list[Any]) -> Table:
    from lopa_bench.results.tables import Column, Table

    columns = [
        Column("decoder", "decoder"),
        Column("cases", "cases"),
        Column("tokens", "equal in tokens"),
        Column("calls", "equal in calls"),
    ]
    rows = [
        {
            "decoder": tally.decoder,
            "cases": tally.num_cases,
            "tokens": tally.num_equal_tokens,
            "calls": tally.num_equal_calls,
        }
        for tally in tallies
    ]
    return Table(columns, rows)


def _print(tallies: list[Any], format: str) -> None:
    """Print the table, and what it does not hold below it, or beside it where stdout is one document."""
    shared.print_table(_table(tallies), format)
    aside = format != "table"
    for tally in tallies:
        if tally.num_skipped:
            typer.echo(
                f"{tally.decoder}: {tally.num_skipped} cases have full attention, for which one phase cannot do",
                err=aside,
            )
        for failure in tally.failures:
            typer.echo(f"{failure.id}: {failure.difference}", err=aside)
    failed = sum(len(tally.failures) for tally in tallies)
    typer.echo(f"{failed} {'case differs' if failed == 1 else 'cases differ'}" if failed else "all equal", err=aside)

"""Options that several commands share: the ways a table can be printed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Annotated

import typer

from lopa_bench.errors import ConfigError, nearest

if TYPE_CHECKING:
    from lopa_bench.results.tables import Table

OUTPUT = "Output"

Json = Annotated[bool, typer.Option("--json", help="Print JSON.", rich_help_panel=OUTPUT)]
Csv = Annotated[bool, typer.Option("--csv", help="Print CSV.", rich_help_panel=OUTPUT)]
Markdown = Annotated[bool, typer.Option("--markdown", help="Print a Markdown table.", rich_help_panel=OUTPUT)]
Latex = Annotated[bool, typer.Option("--latex", help="Print a LaTeX table.", rich_help_panel=OUTPUT)]


def _known_convention(name: str | None) -> str | None:
    """Refuse an unknown convention before anything is read or compared."""
    if name is not None:
        from lopa_bench.results.recount import names_for

        names_for(name)
    return name


CountAs = Annotated[
    str | None,
    typer.Option(
        "--count-as",
        "--convention",
        callback=_known_convention,
        help="Count tokens, forwards and seconds as another program does: lopa-dream, lopa-diffucoder, lopa-dist, d2f, "
        "fast-dllm, d3llm, lopa-bench or all. (With `run`, --convention says whose program to follow while decoding.)",
    ),
]


def chosen_format(*, json: bool = False, csv: bool = False, markdown: bool = False, latex: bool = False) -> str:
    """Return the one format that was asked for, "table" when none was; two at once raise ConfigError."""
    asked = [
        name for name, wanted in {"json": json, "csv": csv, "markdown": markdown, "latex": latex}.items() if wanted
    ]
    if len(asked) > 1:
        raise ConfigError(f"--{asked[0]} and --{asked[1]} exclude each other; choose one")
    return asked[0] if asked else "table"


def one_of(option: str, value: str, choices: Sequence[str]) -> None:
    """Refuse a value of `--option` that is none of `choices`."""
    if value not in choices:
        raise ConfigError(f"--{option} '{value}' not found{nearest(value, choices)}; choose from {', '.join(choices)}")


def at_most_one(given: Mapping[str, object]) -> None:
    """Refuse two options that ask for different things to be printed; `given` has a value, None or False for each."""
    asked = [name for name, value in given.items() if value not in (None, False)]
    if len(asked) > 1:
        raise ConfigError(f"{asked[0]} and {asked[1]} exclude each other; choose one")


def go_together(given: Mapping[str, object]) -> None:
    """Refuse options of which some but not all are given; `given` has a value, or None, for each."""
    missing = [name for name, value in given.items() if value is None]
    if missing and len(missing) < len(given):
        there = next(name for name in given if name not in missing)
        raise ConfigError(f"{there} needs {' and '.join(missing)} too")


def say(line: str, *, err: bool = False) -> None:
    """Print a line that may hold names or texts of others, each character shown and none obeyed by the terminal."""
    from lopa_bench.results.characters import visible

    _echo(visible(line), err=err)


def _echo(text: str, *, nl: bool = True, err: bool = False) -> None:
    """Print a text; where nobody reads any longer the command goes on, to the exit code that it comes to."""
    with suppress(BrokenPipeError):
        typer.echo(text, nl=nl, err=err)


def print_json(document: object) -> None:
    """Print JSON values to stdout."""
    import json

    _echo(json.dumps(document, indent=2, ensure_ascii=False))


def print_tables(tables: Sequence[Table], format: str = "table") -> None:
    """Print tables to stdout one after another; an empty line keeps each from the rows or notes of the one before."""
    for index, table in enumerate(tables):
        if index and (format in ("markdown", "latex") or (format == "table" and tables[index - 1].notes)):
            _echo("")
        print_table(table, format)


def print_table(table: Table, format: str = "table") -> None:
    """Print a table to stdout in `format`; in colour only where there is a terminal."""
    from lopa_bench.results.tables import render

    if format != "table":
        _echo(render(table, format), nl=False)
        return
    from rich.console import Console

    console = Console()
    if console.is_terminal:
        from lopa_bench.results.terminal import draw

        console.print(draw(table, console.width))
    else:
        _echo(render(table, "table"), nl=False)

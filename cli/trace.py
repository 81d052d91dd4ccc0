"""`lopa-bench trace`: how one answer was filled, in the terminal, as an animated page, as a figure."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from lopa_bench.cli import options as shared

if TYPE_CHECKING:
    from lopa_bench.results.fillings.replay import Replay

Reference = Annotated[str, typer.Argument(metavar="RUN", help="Number, name or folder of a run, or `last`.")]
RunsDir = Annotated[Path, typer.Option(help="Where runs are stored.", envvar="LOPA_BENCH_RUNS")]
Sample = Annotated[str | None, typer.Option(help="Id or number of the answer; by default the first that has a trace.")]
Html = Annotated[Path | None, typer.Option("--html", help="Write an animated page that needs nothing else.")]
Figure = Annotated[
    list[Path] | None, typer.Option("--figure", help="Draw it to a .png, .pdf or .svg file; may repeat.")
]


def trace(
    run: Reference = "last",
    sample: Sample = None,
    html: Html = None,
    figure: Figure = None,
    runs_dir: RunsDir = Path("runs"),
    json: shared.Json = False,
    csv: shared.Csv = False,
    markdown: shared.Markdown = False,
    latex: shared.Latex = False,
) -> None:
    """Show how one answer of a run made with --trace was filled: its text coloured by round, and what each round did.

    Example: lopa-bench trace last --sample mini-maths-0003 --html filling.html
    """
    from lopa_bench.cli.sample_view import find_sample
    from lopa_bench.results.fillings.replay import replay
    from lopa_bench.results.fillings.replay_text import rounds_table
    from lopa_bench.results.store import load_run

    format = shared.chosen_format(json=json, csv=csv, markdown=markdown, latex=latex)
    stored = load_run(run, runs_dir)
    shown = replay(stored, None if sample is None else find_sample(stored, sample).id)
    if html is not None or figure:
        _write(shown, html, figure or [])
        return
    if format == "json":
        rounds = [dict(row) for row in rounds_table(shown).rows]
        shared.print_json({"facts": shown.facts(), "rounds": rounds, "trace": shown.trace.model_dump(mode="json")})
    elif format == "table":
        _print(shown)
    else:
        shared.print_table(rounds_table(shown), format)


def _write(shown: Replay, html: Path | None, figures: list[Path]) -> None:
    if html is not None:
        from lopa_bench.results.fillings.replay_page import write_page

        write_page(shown, html)
        typer.echo(f"wrote {html}", err=True)
    if figures:
        from lopa_bench.results.fillings.replay_figure import draw_filling

        draw_filling(shown, figures)
        typer.echo(f"wrote {', '.join(map(str, figures))}", err=True)


def _print(shown: Replay) -> None:
    from rich.console import Console

    from lopa_bench.results import characters
    from lopa_bench.results.fillings.replay_text import coloured_answer, legend, rounds_table

    console = Console(highlight=False, soft_wrap=True)
    console.print(
        characters.visible(" · ".join(f"{name} {value}" for name, value in shown.facts().items())), markup=False
    )
    console.print()
    few_colours = console.color_system in ("standard", "windows")
    console.print(coloured_answer(shown, few_colours=few_colours))
    console.print()
    console.print(legend(shown, few_colours=few_colours))
    console.print()
    shared.print_table(rounds_table(shown))

"""The progress bar keeps to one line on every terminal."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from lopa_bench.cli.bar import progress_bar

NAME, FIGURES = "0005-mini-maths-lopa-8-branches-bundled-d2f", "100.0% right · TPF 7.52 · 1613.2 tokens/s"


@pytest.mark.parametrize("width", [60, 80, 109, 110, 200])
def test_the_bar_is_one_line(width: int) -> None:
    console = Console(file=io.StringIO(), width=width, force_terminal=True)
    progress = progress_bar(console)
    progress.add_task(NAME, total=400, completed=17, figures=FIGURES, running=None)
    lines = console.render_lines(progress.get_renderable())
    assert len(lines) == 1
    text = "".join(segment.text for segment in lines[0])
    assert ("17/400" in text) == (width >= 80)
    assert ("━" in text) == (width >= 110)
    assert width < 80 or FIGURES in text

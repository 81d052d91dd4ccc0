"""`lopa-bench trace`: one answer's filling in the terminal, as a page and as a figure."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

WORDS = ("--max-new-tokens", "16", "--block-length", "4", "--skip-threshold", "0.3", "--threads", "1", "--warmup", "0")


@pytest.fixture
def traced(call: Any, diffusion_checkpoint: Path) -> Any:
    """A run of lopa with traces, and the way to ask for one of them."""
    words = ("run", "-t", "mini-maths", "-d", "lopa", "-m", str(diffusion_checkpoint), "-n", "2", "--branches", "3")
    assert call(*words, *WORDS, "--trace")[0] == 0
    return call


def test_the_terminal_shows_text_legend_and_every_round(traced: Any) -> None:
    code, out, _ = traced("trace", "last", "--sample", "mini-maths-0001")
    assert code == 0 and "sample mini-maths-0001" in out and "round " in out
    document = json.loads(traced("trace", "last", "--sample", "mini-maths-0001", "--json")[1])
    num_rounds = len(document["trace"]["rounds"])
    assert len(re.findall(r"^ +\d+ .*\d+:", out, re.MULTILINE)) == num_rounds == int(document["facts"]["rounds"])


def test_the_page_needs_nothing_else_and_holds_every_round(traced: Any, tmp_path: Path) -> None:
    assert traced("trace", "last", "--html", "new/filling.html")[0] == 0
    page = (tmp_path / "new" / "filling.html").read_text()
    assert not re.search(r"(src|href)=.https?:", page)
    rounds = json.loads(traced("trace", "last", "--json")[1])["trace"]["rounds"]
    filled = sum(len(one["positions"]) for one in rounds)
    assert page.count('"round":') >= filled


def test_figures_are_drawn_and_other_names_refused(traced: Any, tmp_path: Path) -> None:
    assert traced("trace", "last", "--figure", "a.png", "--figure", "a.pdf")[0] == 0
    assert (tmp_path / "a.png").read_bytes()[:4] == b"\x89PNG" and (tmp_path / "a.pdf").read_bytes()[:4] == b"%PDF"
    code, _, err = traced("trace", "last", "--figure", "a.gif")
    assert code == 2 and ".png" in err and ".pdf" in err


def test_what_is_not_there_is_one_sentence(traced: Any, diffusion_checkpoint: Path) -> None:
    code, _, err = traced("trace", "last", "--sample", "mini-maths-001")
    assert code == 2 and "did you mean 'mini-maths-0001'" in err
    traced("run", "-t", "mini-maths", "-d", "d2f", "-m", str(diffusion_checkpoint), "-n", "1", *WORDS)
    code, _, err = traced("trace", "last")
    assert code == 2 and "--trace --new" in err

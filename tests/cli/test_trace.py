"""`trace` and `run --live` on a real run."""

from __future__ import annotations

import io
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from lopa_bench.cli import app as program
from lopa_bench.cli import live
from lopa_bench.cli.live import Filling, LiveTerminal
from lopa_bench.decoders.rounds import BranchInfo, Round


@pytest.fixture
def call(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Any:
    monkeypatch.chdir(tmp_path)

    def run(*words: str) -> tuple[int, str, str]:
        capsys.readouterr()
        with pytest.raises(SystemExit) as caught:
            program.main(list(words))
        out, err = capsys.readouterr()
        return int(caught.value.code or 0), out, err

    return run


@pytest.fixture
def small(diffusion_checkpoint: Path) -> list[str]:
    return [
        "run", "-t", "mini-maths", "-d", "lopa", "-m", str(diffusion_checkpoint), "-n", "2", "--warmup", "0",
        "--branches", "3", "--max-new-tokens", "16", "--block-length", "8", "--threads", "1", "-s", "early_stop=false",
    ]  # fmt: skip


def test_one_answer_in_every_form(call: Any, small: list[str]) -> None:
    call(*small, "--trace")
    code, out, _ = call("trace", "last")
    assert code == 0
    assert "sample mini-maths-0000 · decoder lopa, 3 branches" in out and "underlined: a lookahead" in out
    code, out, _ = call("trace", "last", "--sample", "1", "--json")
    held = json.loads(out)
    assert (held["trace"]["id"], held["trace"]["rounds"][-1]["num_slots"]) == ("mini-maths-0001", 16)
    assert call("trace", "last", "--csv")[1].startswith(
        "round,filled,forced,open,branches,won,score,margin,gain,text\n"
    )
    code, out, err = call("trace", "last", "--html", "deep/page.html", "--figure", "a.png", "--figure", "a.pdf")
    assert (code, out) == (0, "")
    assert all(Path(name).stat().st_size > 5000 for name in ("deep/page.html", "a.png", "a.pdf"))
    assert "wrote deep/page.html" in err and "wrote a.png, a.pdf" in err


def test_mistakes_are_a_sentence(call: Any, small: list[str]) -> None:
    call(*small)
    code, _, err = call("trace", "last")
    assert code == 2 and "kept no traces; give its command again with --trace --new" in err


def test_live_without_a_terminal_says_so_and_tells_the_progress(call: Any, small: list[str]) -> None:
    code, out, err = call(*small, "--live")
    assert code == 0
    assert "--live needs a terminal; only the progress is told" in err
    assert "2 of 2 answers" in err and "lopa, 3 branches" in out


def test_the_live_view_fills_up_and_is_gone_at_the_end(
    call: Any, small: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    screen = io.StringIO()
    console = Console(file=screen, force_terminal=True, width=100, height=30, color_system=None)
    monkeypatch.setattr(live, "terminal_for", lambda wanted: LiveTerminal(console) if wanted else None)
    monkeypatch.setattr(live, "SHORTEST_FRAME_S", 0.0)
    code, out, _ = call(*small, "--live", "--trace", "--json")
    seen = screen.getvalue()
    assert code == 0
    for word in (
        "mini-maths-0000",
        "mini-maths-0001",
        "reading the prompt",
        "16 of 16 slots filled",
        "· ·",
        "branches",
    ):
        assert word in seen, word
    rounds = json.loads(out)["summary"]["work"]["rounds"]
    assert seen.count(" slots filled · ") >= rounds  # each round, and again when the next answer begins
    assert "\x1b[1A\x1b[2K" in seen[-400:]  # the lines are taken away


def spell(ids: Iterable[int]) -> dict[int, str]:
    return {token: f"w{token}" for token in ids}


def test_masked_slots_are_dots_and_new_ones_stand_out() -> None:
    filling = Filling("a", spell)
    assert (filling.text().plain, filling.words_on_round()) == ("", "reading the prompt")
    filling.add(Round(0, (1,), (5,), 4, 4, num_slots=3))
    assert filling.text().plain == "· w5· "
    branches = (BranchInfo(0, 7, -0.2, -0.1, 1), BranchInfo(None, None, 1.0, -0.5, 2))
    filling.add(Round(1, (0,), (7,), 4, 4, num_slots=5, branches=branches, winner=0))
    assert filling.text().plain == "w7w5· · · "
    assert live.NEW in [str(span.style) for span in filling.text().spans if span.start == 0]
    assert filling.words_on_round() == (
        "round 1 · 1 new · 2 of 5 slots filled · 1.00 a round · 2 branches · lookahead won 1 of 1"
    )


def test_a_long_answer_shows_its_end() -> None:
    console = Console(file=io.StringIO(), force_terminal=True, width=60, height=16, color_system=None)
    terminal = LiveTerminal(console)
    terminal.viewer(spell)
    terminal.begin("a")
    terminal.round_ended(Round(0, tuple(range(400)), tuple(range(400)), 4, 4, num_slots=420))
    with console.capture() as captured:
        console.print(terminal.picture())
    drawn = captured.get()
    assert "a (its end)" in drawn and "w399" in drawn and "w0w1" not in drawn
    assert len(drawn.splitlines()) <= console.height

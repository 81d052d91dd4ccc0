"""One answer's filling: its slots, its colours, its page and its figure."""

from __future__ import annotations

import itertools
import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from lopa_bench.errors import ConfigError, ResultsError
from lopa_bench.results.fillings.replay import (
    Replay,
    Slot,
    colour_of,
    ink_on,
    luminance_of,
    replay,
    runs_of,
    visible,
)
from lopa_bench.results.fillings.replay_figure import draw_filling, drawn_length
from lopa_bench.results.fillings.replay_page import document, page
from lopa_bench.results.fillings.replay_text import coloured_answer, legend, rounds_table, style_of
from lopa_bench.results.schema import DecoderInfo, ModelInfo
from lopa_bench.results.store import StoredRun, load_run
from lopa_bench.results.trace import BranchRecord, RoundRecord
from lopa_bench.results.writer import create_run

EOS = 2
TEXTS = {EOS: "<eos>", 10: "So", 11: " it", 12: " is\n", 13: "</script><b>"}
ANCHOR = BranchRecord(score=-1.0, num_filled=1)
AHEAD = BranchRecord(position=0, token=10, creation=-0.3, score=-0.5, num_filled=2)
ROUNDS = (
    RoundRecord(index=0, positions=(2,), tokens=(12,), num_slots=4, num_forced=1, branches=(ANCHOR,), winner=0),
    RoundRecord(index=1, positions=(0, 1), tokens=(10, 11), num_slots=6, branches=(AHEAD, ANCHOR), winner=0),
    RoundRecord(index=2, positions=(4, 3), tokens=(EOS, 13), num_slots=6, branches=(ANCHOR,), winner=0),
)


@pytest.fixture
def run(tmp_path: Path, make_run: Any, make_sample: Any) -> StoredRun:
    record = make_run(num_documents=2).model_copy(
        update={
            "model": ModelInfo(name="m", eos_token_id=EOS),
            "decoder": DecoderInfo(name="lopa", options={"branches": 2}),
        }
    )
    with create_run(tmp_path / "runs", "lopa", record) as writer:
        writer.append_trace("a", ROUNDS, TEXTS)
        writer.append(make_sample("a", useful=4, committed=5, rounds=3, correct=0.0, why="wrong"))
        writer.append(make_sample("b", useful=4, rounds=3))
        writer.finish()
    return load_run(writer.path)


@pytest.fixture
def shown(run: StoredRun) -> Replay:
    return replay(run)


def test_slots_say_when_they_were_filled_and_what_stands_out(shown: Replay) -> None:
    assert [slot.round for slot in shown.slots] == [1, 1, 0, 2, 2, None]
    assert [slot.text for slot in shown.slots] == ["So", " it", " is\n", "</script><b>", "<eos>", "·"]
    assert [slot.looked_ahead for slot in shown.slots] == [True, False, False, False, False, False]
    assert [slot.is_eos for slot in shown.slots] == [False, False, False, False, True, False]
    assert [slot.behind_end for slot in shown.slots] == [False] * 5 + [True]
    facts = shown.facts()
    assert (facts["decoder"], facts["verdict"], facts["TPF"], shown.length) == ("lopa, 2 branches", "wrong", "1.33", 4)


def test_an_answer_that_is_not_there_is_named(run: StoredRun, tmp_path: Path, make_run: Any, make_sample: Any) -> None:
    with pytest.raises(ConfigError, match="has no sample 'c'"):
        replay(run, "c")
    with pytest.raises(ResultsError, match="sample b of run 0001-lopa has no trace; those are there: a"):
        replay(run, "b")
    with create_run(tmp_path / "other", "plain", make_run()) as writer:
        writer.append(make_sample("a"))
        writer.finish()
    with pytest.raises(ResultsError, match="kept no traces; give its command again with --trace --new"):
        replay(load_run(writer.path))


def test_traces_of_other_samples_alone_are_told(tmp_path: Path, make_run: Any, make_sample: Any) -> None:
    with create_run(tmp_path, "mixed up", make_run()) as writer:
        writer.append_trace("elsewhere-0001", ROUNDS)
        writer.append(make_sample("a"))
        writer.finish()
    with pytest.raises(ResultsError, match="has traces of other samples alone: elsewhere-0001"):
        replay(load_run(writer.path))


def test_colours_rise_in_lightness_and_can_be_written_on() -> None:
    for num_rounds in (2, 7, 40):
        lightness = [luminance_of(colour_of(index, num_rounds)) for index in range(num_rounds)]
        assert lightness == sorted(lightness) and lightness[0] < lightness[-1]
        for index in range(num_rounds):
            colour = colour_of(index, num_rounds)
            pair = sorted([luminance_of(colour), luminance_of(ink_on(colour))])
            assert (pair[1] + 0.05) / (pair[0] + 0.05) >= 4.5  # WCAG 2.1, level AA
    assert (colour_of(0, 9), colour_of(8, 9)) == ("#440154", "#fde725")
    assert re.fullmatch("#[0-9a-f]{6}", colour_of(0, 1))


def test_what_cannot_be_seen_is_shown() -> None:
    assert (visible(" a\n"), visible("\t"), visible("")) == (" a↵\n", "→", "∅")
    assert (visible("\x14\r"), visible("\x1b[2J"), visible("\u200b")) == ("␔␍", "␛[2J", "\ufffd")


def test_neighbours_of_one_round_are_one_piece(shown: Replay) -> None:
    assert [runs_of(one, shown.trace) for one in ROUNDS] == [
        [(2, " is\n")],
        [(0, "So it")],
        [(3, "</script><b><eos>")],
    ]


def test_the_terminal_has_the_text_a_legend_and_a_line_per_round(shown: Replay) -> None:
    text = coloured_answer(shown)
    assert text.plain == "So it is↵\n</script><b><eos>·"
    first = next(span for span in text.spans if span.start == 0)
    assert colour_of(1, 3) in str(first.style) and "underline" in str(first.style)
    assert legend(shown).plain == "round  0  1  2   underlined: a lookahead that won  ·: never filled"
    rows = rounds_table(shown).rows
    assert [(row["filled"], row["forced"], row["won"], row["gain"]) for row in rows] == [
        (1, 1, "-", None),
        (2, 0, "0 So", 1),
        (2, 0, "-", None),
    ]
    assert rows[0]["text"] == "2: is↵"
    assert [(row["score"], row["margin"]) for row in rows] == [(-1.0, None), (-0.5, 0.5), (-1.0, None)]


def test_the_winner_s_score_stands_beside_what_it_brought(shown: Replay) -> None:
    kept = RoundRecord(index=0, positions=(2,), tokens=(12,), branches=(AHEAD, ANCHOR), winner=1)
    unscored = kept.model_copy(update={"branches": (AHEAD.model_copy(update={"score": None}), ANCHOR), "winner": 0})
    for rounds, expected in (((kept,), (-1.0, 0.0)), ((unscored,), (None, None))):
        [row] = rounds_table(replace(shown, trace=shown.trace.model_copy(update={"rounds": rounds}))).rows
        assert (row["score"], row["margin"]) == expected
    plain = RoundRecord(index=0, positions=(2,), tokens=(12,))
    table = rounds_table(replace(shown, trace=shown.trace.model_copy(update={"rounds": (plain,)})))
    assert not {"score", "margin", "won"} & {column.key for column in table.columns}


def test_few_colours_come_in_turn_and_neighbours_differ(shown: Replay) -> None:
    many = replace(shown, trace=shown.trace.model_copy(update={"rounds": ROUNDS * 5}))
    styles = [style_of(index, 15, few_colours=True) for index in range(15)]
    assert all(one != other for one, other in itertools.pairwise(styles)) and styles[0] == styles[6]
    assert not any("#" in style for style in styles)
    assert "and again in turn" in legend(many, few_colours=True).plain
    assert "and again" not in legend(shown, few_colours=True).plain + legend(many).plain
    assert {str(span.style).split(" bold")[0] for span in coloured_answer(shown, few_colours=True).spans} <= {
        *styles,
        "dim",
    }


def test_a_figure_ends_where_the_filling_does(shown: Replay) -> None:
    empty = tuple(Slot(position, "·", None) for position in range(len(shown.slots), 200))
    assert drawn_length(replace(shown, slots=(*shown.slots, *empty))) == 16
    assert drawn_length(shown) == len(shown.slots) == 6
    assert drawn_length(replace(shown, slots=empty)) == len(empty)


def test_the_page_needs_nothing_else_and_cannot_be_broken_by_what_a_model_wrote(shown: Replay) -> None:
    html = page(shown)
    assert not re.search(r"(?:src|href)\s*=|url\(|@import|https?://", html)
    assert html.count("</script>") == 2  # its own two; the model's is written another way
    assert "<b>" not in html
    [held] = re.findall(r'<script type="application/json" id="data">(.*?)</script>', html, flags=re.DOTALL)
    assert json.loads(held) == document(shown)
    assert json.loads(held)["slots"][3]["text"] == "</script><b>"


def test_the_page_plays_what_the_trace_holds(shown: Replay) -> None:
    played = document(shown)
    assert [one["open"] for one in played["rounds"]] == [4, 6, 6]
    assert [one["count"] for one in played["rounds"]] == [1, 2, 2]
    assert [slot["round"] for slot in played["slots"]] == [1, 1, 0, 2, 2, None]
    assert played["rounds"][1]["branches"][0] == {"position": 0, "text": "So", "score": -0.5, "filled": 2}
    assert played["rounds"][1]["winner"] == 0


@pytest.mark.parametrize("suffix", [".png", ".pdf", ".svg"])
def test_a_figure_is_drawn_and_is_the_same_every_time(shown: Replay, tmp_path: Path, suffix: str) -> None:
    once, again = tmp_path / f"once{suffix}", tmp_path / f"again{suffix}"
    draw_filling(shown, [once])
    draw_filling(shown, [again])
    assert once.stat().st_size > 2000
    assert once.read_bytes() == again.read_bytes()


def test_an_answer_without_a_round_is_drawn_and_shown_empty(tmp_path: Path, make_run: Any, make_sample: Any) -> None:
    with create_run(tmp_path / "runs", "lopa", make_run(num_documents=1)) as writer:
        writer.append_trace("a", (), {})
        writer.append(make_sample("a", useful=0, committed=0, rounds=0, correct=0.0, why="empty"))
        writer.finish()
    none = replay(load_run(writer.path))
    draw_filling(none, [tmp_path / "none.png"])
    assert (tmp_path / "none.png").stat().st_size > 2000
    assert len(rounds_table(none).rows) == 0 and "<html" in page(none) and coloured_answer(none).plain == ""
    assert legend(none) is not None


def test_a_figure_of_another_kind_is_refused(shown: Replay, tmp_path: Path) -> None:
    with pytest.raises(ResultsError, match=r"must end in \.png, \.svg, \.pdf"):
        draw_filling(shown, [tmp_path / "a.gif"])

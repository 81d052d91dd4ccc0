"""Tables on terminals of every width: whole words, no line too long, the grid where it fits."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lopa_bench.results.tables import Column, Table, to_text

MODEL = "Dream-org/Dream-v0-Instruct-7B"
COLUMNS = [
    Column("model", "model"),
    Column("kind", "kind of model"),
    Column("score", "accuracy %", digits=1, scale=100, interval=True, direction="higher"),
    Column("speed", "tokens/s", digits=1),
]
ROW = {"model": MODEL, "kind": "diffusion", "score": 0.5, "score_low": 0.25, "score_high": 0.75, "speed": 7.0}


def table(num_rows: int, **more: str) -> Table:
    return Table(COLUMNS, [{**ROW, **more, "speed": float(index)} for index in range(num_rows)], "title", ("a note",))


@pytest.mark.parametrize(
    ("num_rows", "width", "first_line", "form"),
    [
        (5, None, "model", "grid"),
        (5, 90, "model", "grid"),
        (5, 76, "model", "grid"),
        (5, 72, "kind of", "narrow grid"),
        (2, 60, MODEL, "listed"),
        (5, 60, MODEL, "listed"),
        (1, 50, "model", "turned"),
        (2, 40, MODEL, "listed"),
    ],
)
def test_the_form_follows_from_the_room_there_is(num_rows: int, width: int | None, first_line: str, form: str) -> None:
    lines = [line for line in to_text(table(num_rows), width).splitlines() if line.strip()]
    assert lines[0].strip() == "title"
    assert lines[1].strip().startswith(first_line)
    assert ("kind of model" in lines[1]) == (form == "grid")
    assert any(line.startswith("accuracy %") and "50.0 [25.0, 75.0]" in line for line in lines) == (form == "turned")
    assert "a note" in lines[-1]


def test_rows_that_share_their_first_cell_are_named_by_two() -> None:
    text = to_text(Table([*COLUMNS, Column("x", "x" * 30)], [{**ROW, "kind": f"kind{i}"} for i in range(5)]), 60)
    assert f"{MODEL} · kind3" in text.splitlines()


def test_a_table_without_rows_shows_its_titles_at_any_width() -> None:
    for width in (None, 80, 20):
        assert "accuracy" in to_text(Table(COLUMNS, []), width)


WORDS = st.text("abcdefghij-/", min_size=1, max_size=18)
CELLS = st.lists(WORDS, min_size=1, max_size=8).map(" ".join)


@settings(max_examples=150, deadline=None)
@given(st.lists(st.tuples(CELLS, CELLS, CELLS), min_size=1, max_size=6), st.integers(24, 130))
def test_no_word_is_cut_and_no_line_is_too_long(rows: list[tuple[str, str, str]], width: int) -> None:
    columns = [Column("a", "first"), Column("b", "second"), Column("c", "third")]
    text = to_text(Table(columns, [dict(zip("abc", row, strict=True)) for row in rows]), width)
    assert max(map(len, text.splitlines())) <= width
    shown = text.split()
    for row in rows:
        for word in " ".join(row).split():
            assert word in shown


def test_an_empty_cell_is_not_listed() -> None:
    columns = [*COLUMNS, Column("remark", "remark")]
    rows = [{**ROW, "remark": text} for text in ("", "slow", "", "", "")]
    text = to_text(Table(columns, rows), 50)
    assert text.count("remark") == 1 and "remark slow" in text


@pytest.mark.parametrize("width", [None, 90, 40])
def test_what_a_model_wrote_commands_no_terminal(width: int | None) -> None:
    shown = to_text(table(2, kind="\x1b]0;title\x07\x9b2J"), width)
    assert r"\x1b]0;title\x07\x9b2J" in shown
    assert not set(shown) & {"\x1b", "\x07", "\x9b"}

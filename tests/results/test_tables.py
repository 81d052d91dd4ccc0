from __future__ import annotations

import csv
import io
import json
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lopa_bench.errors import ConfigError
from lopa_bench.results.characters import escape_latex
from lopa_bench.results.tables import FORMATS, Column, Table, best_rows, render

NAME = Column("name", "decoder")
TPF = Column("tpf", "TPF", digits=2, direction="higher")
ACCURACY = Column("accuracy", "accuracy %", digits=1, scale=100, direction="higher", interval=True)
LATENCY = Column("latency_s", "latency", digits=3, direction="lower")
TABLE = Table(
    [NAME, ACCURACY, TPF, LATENCY],
    [
        {"name": "ar", "accuracy": 0.97, "accuracy_low": 0.951, "accuracy_high": 0.982, "tpf": 1.0, "latency_s": 0.5},
        {"name": "d2f_x & 5%", "accuracy": 0.9, "tpf": 3.14159, "latency_s": None},
        {"name": "lopa", "accuracy": 0.885, "tpf": 5.4321, "latency_s": 0.25},
        {"name": "absent"},
    ],
    title="mini-maths",
    notes=["n = 400"],
)


def numbers_of_markdown(text: str) -> list[list[str]]:
    lines = [line for line in text.splitlines() if line.startswith("|")][2:]
    return [[cell.strip().strip("*") for cell in line.strip("| ").split(" | ")] for line in lines]


def numbers_of_latex(text: str) -> list[list[str]]:
    body = text.split("\\midrule\n")[1].split("\\bottomrule")[0]
    rows = [line.removesuffix(" \\\\") for line in body.splitlines()]
    return [[re.sub(r"\\textbf\{(.*)\}$", r"\1", cell) for cell in re.split(r" & ", row)] for row in rows]


def test_all_formats_carry_the_same_numbers() -> None:
    from_json = json.loads(render(TABLE, "json"))["rows"]
    from_csv = list(csv.DictReader(io.StringIO(render(TABLE, "csv"))))
    markdown, latex = numbers_of_markdown(render(TABLE, "markdown")), numbers_of_latex(render(TABLE, "latex"))
    text = render(TABLE, "table")
    for index, row in enumerate(TABLE.rows):
        assert from_json[index] == row
        for column, key in enumerate(["name", "accuracy", "tpf", "latency_s"]):
            value = row.get(key)
            assert from_csv[index][key] == ("" if value is None else str(value))
            shown = markdown[index][column]
            if column:
                assert latex[index][column] == shown
                assert shown in text
            if isinstance(value, float):
                scaled = value * 100 if key == "accuracy" else value
                assert float(shown.split()[0]) == pytest.approx(scaled, abs=0.05)


def test_intervals_undefined_and_missing_cells() -> None:
    cells = numbers_of_markdown(render(TABLE, "markdown"))
    assert cells[0] == ["ar", "97.0 [95.1, 98.2]", "1.00", "0.500"]
    assert cells[1][3] == "n/a"
    assert cells[3] == ["absent", "—", "—", "—"]
    assert render(TABLE, "csv").splitlines()[0] == "name,accuracy,accuracy_low,accuracy_high,tpf,latency_s"


def test_the_best_is_marked_by_direction() -> None:
    markdown = render(TABLE, "markdown")
    assert "| ar | **97.0 [95.1, 98.2]** | 1.00 | 0.500 |" in markdown
    assert "| lopa | 88.5 | **5.43** | **0.250** |" in markdown
    assert r"lopa & 88.5 & \textbf{5.43} & \textbf{0.250} \\" in render(TABLE, "latex")
    assert "*" not in render(TABLE, "csv") + render(TABLE, "table")


@pytest.mark.parametrize(
    ("values", "direction", "best"),
    [
        ([0.5, 2.0], "higher", {1}),  # a slow-down is no speed-up: nothing is clipped at 1
        ([0.5, 2.0], "lower", {0}),
        ([1.001, 1.002, 0.9], "higher", {0, 1}),  # a reader cannot tell them apart
        ([1.0, 2.0], "neither", set()),
        ([1.0], "higher", set()),
        ([1.0, None], "higher", set()),
        ([None, None], "higher", set()),
        ([True, False], "higher", set()),
    ],
)
def test_which_rows_are_best(values: list[float | None], direction: str, best: set[int]) -> None:
    column = Column("x", "x", digits=2, direction=direction)  # type: ignore[arg-type]
    assert best_rows(Table([column], [{"x": value} for value in values]), column) == best


def test_latex_escapes() -> None:
    assert escape_latex(r"_ % & $ # { } ~ ^ \ ") == (
        r"\_ \% \& \$ \# \{ \} \textasciitilde{} \textasciicircum{} \textbackslash{} "
    )
    assert (escape_latex("[a]"), escape_latex("*a")) == ("{[}a]", "{*}a"), "behind a line's end they are commands"
    assert escape_latex("--tpf a---b") == "-{}-tpf a-{}-{}-b"
    assert escape_latex("a↵b… 漢") == r"a$\hookleftarrow$b\ldots{} \texttt{U+6F22}"
    assert escape_latex("\r\x1b[0m\u202e") == r"\textbackslash{}x0d\textbackslash{}x1b[0m\textbackslash{}u202e"
    assert escape_latex("τ ≥ 0.9 → Δ") == r"$\tau$ $\geq$ 0.9 $\rightarrow$ $\Delta$"


@given(name=st.text(alphabet=st.characters(codec="ascii"), max_size=30))
def test_latex_rows_keep_their_cells_whatever_the_name(name: str) -> None:
    text = render(Table([NAME, TPF], [{"name": name, "tpf": 1.0}]), "latex")
    row = text.split("\\midrule\n")[1].split("\\bottomrule")[0]
    assert row.endswith(" & 1.00 \\\\\n")
    cell = row.removesuffix(" & 1.00 \\\\\n")
    commands = r"\\textbackslash\{\}|\\textasciitilde\{\}|\\textasciicircum\{\}|\\textless\{\}|\\textgreater\{\}"
    assert not re.search(r"[_%&$#{}~^\\]", re.sub(commands + r"|\\textbar\{\}|\{[\[*]\}|-\{\}-|\\[_%&$#{}]", "", cell))


def test_markdown_cells_cannot_break_the_row() -> None:
    lines = render(Table([NAME, TPF], [{"name": "a|b*c\nd", "tpf": 1.0}]), "markdown").splitlines()
    assert lines[-1] == r"| a\|b\*c d | 1.00 |"


def test_markup_in_a_name_is_text() -> None:
    assert "[bold]x[/bold]" in render(Table([NAME], [{"name": "[bold]x[/bold]"}], title="[red]t"), "table")


def test_signs_flags_and_whole_numbers() -> None:
    columns = [Column("delta", "Δ", 1, 100, signed=True), Column("n", "n"), Column("ok", "ok")]
    rows = [{"delta": 0.012, "n": 1319, "ok": True}, {"delta": -0.02, "n": 20, "ok": False}]
    assert numbers_of_markdown(render(Table(columns, rows), "markdown")) == [
        ["+1.2", "1319", "yes"], ["-2.0", "20", "no"],
    ]  # fmt: skip


def test_a_terminal_table_is_as_wide_as_it_needs_or_as_told() -> None:
    wide = render(Table([NAME], [{"name": "x" * 150}]))
    assert "x" * 150 in wide
    assert max(map(len, render(Table([NAME], [{"name": "word " * 30}]), width=40).splitlines())) <= 40


def test_an_unknown_format_names_the_nearest() -> None:
    with pytest.raises(ConfigError, match=r"unknown format 'markdwn' \(did you mean 'markdown'\?\)"):
        render(TABLE, "markdwn")


@pytest.mark.parametrize("format", FORMATS)
def test_an_empty_table_renders(format: str) -> None:
    assert render(Table([NAME, TPF], []), format)

"""The printed run in docs/metrics.md has every figure, convention and definition that there is today, and adds up."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from lopa_bench.results.conventions import CONVENTIONS
from lopa_bench.results.metrics import METRICS

PAGE = Path(__file__).parents[2] / "docs" / "metrics.md"


@pytest.fixture(scope="module")
def printed() -> list[list[list[str]]]:
    """The rows of the tables in the section, cells apart."""
    text = PAGE.read_text(encoding="utf-8")
    [section] = re.findall(r"^## All of it for one run\n(.*?)^## ", text, re.MULTILINE | re.DOTALL)
    blocks = re.findall(r"```text\n(.*?)```", section, re.DOTALL)
    return [[re.split(r" {2,}", line.strip()) for line in block.partition("\n\n")[0].splitlines()] for block in blocks]


def test_every_figure_is_printed_with_its_definition_of_today(printed: list[list[list[str]]]) -> None:
    rows = {row[0]: row for row in printed[0][2:] if not row[0].startswith("score:")}
    assert list(rows) == list(METRICS)
    for name, metric in METRICS.items():
        unit, _, version, better, _, formula = rows[name][2:]
        assert (unit, int(version), better, formula) == (metric.unit, metric.version, metric.direction, metric.formula)


def test_every_convention_is_printed_and_the_quotients_are_those_of_their_parts(
    printed: list[list[list[str]]],
) -> None:
    titles, _, *rows = printed[1]
    assert [row[0] for row in rows] == list(CONVENTIONS)
    for row in rows:
        cells = dict(zip(titles, row, strict=True))
        if cells["steps"] != "n/a":
            assert f"{int(cells['tokens']) / int(cells['steps']):.2f}" == cells["TPF"]
        if cells["n timed"] == cells["n"]:
            assert float(cells["tokens/s"]) == pytest.approx(int(cells["tokens"]) / float(cells["seconds"]), rel=2e-3)


def test_this_program_s_row_is_the_figures_of_the_table_above(printed: list[list[list[str]]]) -> None:
    figures = {row[0]: float(row[1].partition(" ")[0]) for row in printed[0][2:]}
    own = dict(zip(printed[1][0], printed[1][2], strict=True))
    assert own["convention"] == "lopa-bench"
    for title, name in {"TPF": "tpf", "tokens/s": "tps_e2e", "mean": "tps_mean", "best": "tps_max"}.items():
        assert float(own[title]) == pytest.approx(figures[name], rel=1e-3)

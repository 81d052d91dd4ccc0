"""docs/metrics.md against the code: its tables are made from the definitions."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from pathlib import Path

import pytest
from pages import check_section

from lopa_bench.results.conventions import CONVENTIONS
from lopa_bench.results.definitions import DERIVED
from lopa_bench.results.metrics import METRICS, Definition
from lopa_bench.results.schema import TimeLedger, TokenLedger, WorkLedger
from lopa_bench.results.summary import WITH_INTERVAL

PAGE = Path(__file__).parents[2] / "docs" / "metrics.md"


def definitions_section(definitions: Mapping[str, Definition]) -> str:
    lines = ["| id | version | unit | better | formula |", "| :--- | :--- | :--- | :--- | :--- |"]
    lines += [f"| `{m.id}` | {m.version} | {m.unit} | {m.direction} | {m.formula} |" for m in definitions.values()]
    return "\n".join(lines)


def intervals_section() -> str:
    ratios = ", ".join(f"`{name}`" for name in WITH_INTERVAL)
    rows = {
        "accuracy, scores of filters": "Wilson's score interval; by clusters where the task has them; percentile "
        "bootstrap where scores are not all 0 or 1",
        ratios: "percentile bootstrap of the ratio of sums, samples drawn whole",
        "`tps_mean`": "percentile bootstrap of the mean",
    }
    lines = ["| figure | method |", "| :--- | :--- |"]
    return "\n".join([*lines, *(f"| {figure} | {method} |" for figure, method in rows.items())])


def conventions_section() -> str:
    lines = ["| convention | program | tokens; forwards; seconds |", "| :--- | :--- | :--- |"]
    lines += [f"| `{one.name}` | {one.source} | {one.words} |" for one in CONVENTIONS.values()]
    return "\n".join(lines)


SECTIONS = {
    "figures": partial(definitions_section, METRICS), "derived": partial(definitions_section, DERIVED),
    "intervals": intervals_section, "conventions": conventions_section,
}  # fmt: skip


@pytest.mark.parametrize("section", SECTIONS)
def test_the_tables_are_those_of_the_code(section: str) -> None:
    check_section(PAGE, section, SECTIONS[section]())


def test_every_field_of_the_ledgers_is_explained() -> None:
    text = PAGE.read_text(encoding="utf-8")
    for ledger in (TokenLedger, WorkLedger, TimeLedger):
        for field in ledger.model_fields:
            assert f"| `{field}` |" in text

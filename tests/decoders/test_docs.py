"""docs/decoders.md says what the code says.

`LOPA_BENCH_UPDATE_DOCS=1 pytest tests/decoders/test_docs.py` rewrites its tables.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from pages import check_section

from lopa_bench.decoders.options import describe
from lopa_bench.decoders.presets import CONVENTIONS
from lopa_bench.decoders.registry import BUILT_IN, decoder_type

PAGE = Path(__file__).resolve().parents[2] / "docs" / "decoders.md"


def plain(value: Any) -> str:
    """A value as it is typed on the command line."""
    return "none" if value is None else str(value).lower() if isinstance(value, bool) else str(value)


def options_section() -> str:
    """One table for what all share, then one per decoder for the rest."""
    lines: list[str] = []
    shared = {row["name"] for row in describe(decoder_type("ar").config_type)}
    for title, name in (("all", "ar"), *((f"`{kind.name}`", kind.name) for kind in BUILT_IN if kind.name != "ar")):
        lines += [
            f"### Options of {title}",
            "",
            "| option | default | also | meaning |",
            "| :--- | :--- | :--- | :--- |",
        ]
        for row in describe(decoder_type(name).config_type):
            if (row["name"] in shared) == (title == "all"):
                also = ", ".join(f"`{alias}`" for alias in row["aliases"])
                lines.append(f"| `{row['name']}` | {plain(row['default'])} | {also} | {row['help']} |")
        lines.append("")
    return "\n".join(lines).rstrip()


def conventions_section() -> str:
    lines = ["| convention | decoder | sets | `branching_factor` | program |", "| :--- | :--- | :--- | :--- | :--- |"]
    meaning = {None: "", True: "= branches", False: "= branches - 1"}
    for name, one in CONVENTIONS.items():
        own = {key: value for key, value in one.options.items() if key not in ("early_stop", "allow_mask_token")}
        sets = ", ".join(f"`{key}` {plain(value)}" for key, value in own.items())
        lines.append(
            f"| `{name}` | `{one.decoder}` | {sets} | {meaning[one.branching_factor_counts_anchor]} | {one.source} |"
        )
    return "\n".join(lines)


SECTIONS = {"options": options_section, "conventions": conventions_section}


@pytest.mark.parametrize("section", SECTIONS)
def test_the_tables_are_those_of_the_code(section: str) -> None:
    check_section(PAGE, section, SECTIONS[section]())


def test_every_decoder_and_every_option_is_explained_in_the_text() -> None:
    text = PAGE.read_text(encoding="utf-8")
    prose = text[: text.index("## Options")]
    for kind in BUILT_IN:
        assert re.search(rf"^## {kind.name}$", prose, re.MULTILINE), f"no section on {kind.name}"
        for row in describe(kind.config_type):
            obvious = {"max_new_tokens", "rule", "cache", "base", "remasking", "whole_blocks"}
            assert row["name"] in obvious or f"`{row['name']}`" in prose, f"{kind.name}: {row['name']} is not explained"

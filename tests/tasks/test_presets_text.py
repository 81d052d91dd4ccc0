"""The presets of the launch scripts against the notes' table of them, option by option as they resolve."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from lopa_bench.decoders.registry import resolve
from lopa_bench.tasks.presets import PRESETS, Preset

TASKS = {"minerva_math": "math", "gsm8k_cot": "gsm8k-cot"}
NAMES = {"LS": "lopa-dream-script-", "C scripts": "lopa-diffucoder-script-", "DS": "d2f-dream-", "DLS": "d2f-llada-"}
STRATEGIES = {"default": "probability", "neg_entropy": "neg_entropy"}
SAME = '"'


@pytest.fixture(scope="module")
def rows(request: pytest.FixtureRequest) -> list[dict[str, str]]:
    """The rows of the table, those that repeat the model above with it written out."""
    file: Path = request.getfixturevalue("reference_dir") / "decoders.md"
    if not file.exists():
        pytest.skip("reference notes (decoders.md) not found")
    section = file.read_text(encoding="utf-8").partition("### 7.4 Presets")[2].partition("\n## ")[0]
    lines = [line.strip("|\n").split("|") for line in re.findall(r"^\|.*\n", section, re.MULTILINE)]
    head, _, *body = [[re.sub(r"\*\*", "", cell).strip() for cell in line] for line in lines]
    found: list[dict[str, str]] = []
    for cells in body:
        row = dict(zip(head, cells, strict=True))
        row["model"] = found[-1]["model"] if row["model"] == SAME else row["model"]
        found.append(row)
    return found


def presets_of(row: dict[str, str]) -> Iterator[Preset]:
    """Yield the presets of a row: one for a script of one task, LoPA-Dist's of all settings for its own."""
    if row["script"] != "NT":
        task = row["task"].replace("(+)", "+")
        yield PRESETS[f"{NAMES[row['script']]}{TASKS.get(task, task)}"]
        return
    for word in row["task"].split(", "):
        task, _, shots = word.partition(" ")
        own = [one for name, one in PRESETS.items() if name.startswith("lopa-dist-") and one.task == task]
        assert len(own) == 36 and {one.num_fewshot for one in own} == {int(shots.removesuffix("-shot"))}
        yield from own


def number(text: str) -> float:
    return float(re.match(r"\.?\d+\.?\d*", text)[0])  # type: ignore[index]


def test_every_script_of_the_notes_has_its_preset(rows: list[dict[str, str]]) -> None:
    checked = 0
    for row in rows:
        if "off by default" in row["model"]:  # HumanEval of LoPA-Dist, of which no figure was published
            continue
        for preset in presets_of(row):
            config: Any = resolve(preset.decoder, preset.options, preset.convention)
            wanted = {
                "max_new_tokens": number(row["len"]),
                "block_size": number(row["block"]),
                "tau_add": number(row["add"]),
            }
            if row["script"] == "NT":
                assert config.tau_act == config.tau_conf and f"{config.tau_act:g}"[1:] in row["conf"], preset.name
            else:
                wanted |= {"tau_act": number(row["act"]), "tau_conf": number(row["conf"])}
                assert preset.num_fewshot == number(row["shots"]), preset.name
                names = [str(one).rpartition("/")[2] for one in (preset.model, preset.adapter)]
                assert " + ".join(names) == row["model"], preset.name
            assert {name: getattr(config, name) for name in wanted} == wanted, preset.name
            assert config.strategy == STRATEGIES[row["strategy"]] and config.temperature == 0.0, preset.name
            checked += 1
    assert checked == 4 + 2 + 2 * 36 + 4 + 4


def test_prompts_and_ends_are_the_scripts_own(rows: list[dict[str, str]]) -> None:
    for row in rows:
        if "off by default" in row["model"]:
            continue
        for preset in presets_of(row):
            size = "Instruct" if "Instruct" in preset.model else "Base"
            words = {name: _of(size, row[name]) for name in ("chat", "bos", "escape_until")}
            assert preset.chat == (words["chat"].startswith(("yes", "own"))), preset.name
            assert preset.bos == (words["bos"] == "true"), preset.name
            assert preset.stops_apply != words["escape_until"].startswith("true"), preset.name
            if row["branching_factor"][0].isdigit():
                assert str(preset.options["branching_factor"]) in row["branching_factor"].split(","), preset.name


def _of(size: str, words: str) -> str:
    """Return what a cell says of a model: "Base true / Instruct false", or of both."""
    parts = {name: word for name, _, word in (part.partition(" ") for part in words.split(" / "))}
    return parts.get(size, words)

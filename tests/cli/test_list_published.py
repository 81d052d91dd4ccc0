"""`lopa-bench list published`: the papers' figures, all or of one paper."""

from __future__ import annotations

import json
from typing import Any


def test_all_figures_are_listed_with_their_sources(call: Any) -> None:
    code, out, _ = call("list", "published", "--json")
    rows = json.loads(out)["rows"]
    assert code == 0 and len(rows) == 1242
    [best] = [
        row
        for row in rows
        if (row["table"], row["row"], row["task"], row["metric"]) == ("lopa-table1", "D2F-Dream LoPA", "gsm8k", "tpf")
    ]
    assert (best["value"], best["kind"]) == (10.1, "quoted") and "arXiv 2512.16229, Table 1" in best["source"]


def test_one_papers_figures(call: Any) -> None:
    code, out, _ = call("list", "published", "--paper", "fast-dllm", "--csv")
    lines = out.splitlines()
    assert code == 0 and len(lines) == 1 + 174
    assert all(line.startswith("fast-dllm-") for line in lines[1:])
    assert "quoted: as printed" in call("list", "published", "--paper", "d2f")[1]


def test_mistakes(call: Any) -> None:
    code, _, err = call("list", "published", "--paper", "d2ff")
    assert code == 2 and "did you mean 'd2f'" in err
    code, _, err = call("list", "tasks", "--paper", "d2f")
    assert code == 2 and "--paper chooses among published figures" in err


def test_presets_say_which_figures_they_stand_for(call: Any) -> None:
    rows = {row["preset"]: row for row in json.loads(call("list", "presets", "--json")[1])["rows"]}
    assert "lopa-table1/d2f-dream-lopa/gsm8k" in rows["lopa-dream-gsm8k"]["stands for"]
    assert "does not state" in rows["lopa-dream-instruct-mbpp"]["open question"]


def test_presets_stand_beside_their_sources_in_every_format(call: Any) -> None:
    """On a screen the first source is named, in all else all of them."""
    words = ("list", "presets", "--task", "gsm8k", "--decoder", "lopa")
    whole = {row["preset"]: row["source"] for row in json.loads(call(*words, "--json")[1])["rows"]}
    assert any("; " in source for source in whole.values())
    lines = {line.split()[0]: line for line in call(*words)[1].splitlines() if line.split()[:1]}
    for preset, source in whole.items():
        first, *others = source.split("; ")
        assert f" {first} " in lines[preset] and not any(one in lines[preset] for one in others)
        assert f',"{source}",' in call(*words, "--csv")[1] and source in call(*words, "--markdown")[1].replace("\\", "")

"""`lopa-bench report` from outside: a small sweep with traces becomes a folder with every figure."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from report_cases import lopa
from stored import samples, store


def test_traced_runs_have_all_figures_of_rounds(call: Any, diffusion_checkpoint: Path, tmp_path: Path) -> None:
    code, _, err = call(
        "sweep", "--task", "mini-maths", "--decoder", "lopa", "--branches", "1,3", "--model", str(diffusion_checkpoint),
        "--limit", "2", "--warmup", "0", "--max-new-tokens", "8", "--block-length", "4", "--threads", "1",
        "--set", "trace=true", "--name", "traced",
    )  # fmt: skip
    assert code == 0, err
    out = tmp_path / "report"
    code, said, err = call("report", "--sweep", "traced", "--out", str(out), "--title", "Trial")
    assert code == 0, err
    assert "Does LoPA pay here?" in said and f"open {out / 'report.html'}" in err
    index = json.loads((out / "report.json").read_text())
    drawn = {one["name"] for one in index["figures"]}
    assert {"branches", "tokens-per-round", "fill-order"} <= drawn and index["title"] == "Trial"
    assert {one["name"] for one in index["tables"]} >= {"fill-order", "branches"}
    code, _, err = call("report", "2", "--out", str(tmp_path / "alone"))
    assert code == 0, f"one run, of which no option needs to be named: {err}"


def test_runs_that_are_set_aside_are_named_in_the_terminal_too(call: Any, tmp_path: Path) -> None:
    runs = tmp_path / "runs"
    for branches in (1, 4):
        lopa(runs, branches)
    lopa(runs, 8, correct=(1.0,) * 3)
    code, _, err = call("report", "1", "2", "3", "--out", str(tmp_path / "out"))
    assert code == 0 and "set aside: R3 (lopa k=8): lacks 17 of the 20 problems" in err
    assert "set aside: R1" not in err


def test_published_figures_of_lopa_stand_beside_where_none_is_of_the_task(call: Any, tmp_path: Path) -> None:
    lopa(tmp_path / "runs", 1)
    code, _, err = call("report", "1", "--out", str(tmp_path / "out"), "--published")
    assert code == 0, err
    rows = json.loads((tmp_path / "out" / "tables" / "published.json").read_text())["rows"]
    assert {row["kind"] for row in rows} == {"quoted"} and all("measured" not in row for row in rows)
    assert {"mbpp", "gsm8k", "humaneval+"} <= {row["task"] for row in rows}


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ((), "no runs named"),
        (("1", "--style", "slides"), "--style 'slides' not found"),
        (("2",), "run '2' not found"),
        (("--sweep", "none"), "sweep 'none' not found"),
    ],
)
def test_a_mistake_is_a_sentence(call: Any, words: tuple[str, ...], sentence: str, tmp_path: Path) -> None:
    store(tmp_path / "runs", samples())
    code, out, err = call("report", *words, "--out", str(tmp_path / "out"))
    assert code == 2 and sentence in err and not out and not (tmp_path / "out").exists()

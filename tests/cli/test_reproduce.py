"""`lopa-bench reproduce` from outside: what is expected, what is missing, the mechanics on a bundled model."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path
from typing import Any

import pytest

PAGE = Path(__file__).resolve().parents[2] / "docs" / "reproducing.md"
ROW = ["reproduce", "lopa-table1", "--row", "D2F-Dream Vanilla", "--task", "gsm8k"]


def test_a_dry_run_shows_figures_and_presets(call: Any) -> None:
    code, out, _ = call(*ROW, "--dry-run")
    assert code == 0 and "d2f-dream-instruct-gsm8k" in out and "78.5" in out and "quoted" in out
    rows = json.loads(call("reproduce", "d2f-table2", "--dry-run", "--json")[1])["rows"]
    assert len(rows) == 80
    assert {row["preset"] for row in rows if "dLLM-Cache" in row["row"]} == {"-"}
    assert not Path("runs").exists()
    assert "expected: LoPA, arXiv 2512.16229, Figure 1; nothing" in call("reproduce", "lopa-figure1", "--dry-run")[1]


def test_without_the_checkpoint_one_line_says_what_is_missing(call: Any, data_dir: Path) -> None:
    code, out, err = call(*ROW, "--data-dir", str(data_dir))
    assert (code, out) == (2, "")
    [line] = err.splitlines()
    assert "needs Dream-org/Dream-v0-Instruct-7B with adapter" in line and "--model bundled" in line


def test_the_mechanics_run_on_a_bundled_model_and_say_so(call: Any) -> None:
    code, out, err = call(*ROW, "--model", "bundled", "--limit", "1", "--json")
    assert code == 3
    document = json.loads(out)
    assert "NOT COMPARABLE" in document["notes"][0]
    rows = {row["metric"]: row for row in document["rows"]}
    assert set(rows) == {"tpf", "score"}
    for row in rows.values():
        assert row["verdict"] == "not comparable" and row["measured"] is not None and row["n"] == 1
        assert "model: Dream-org/Dream-v0-Instruct-7B -> bundled:d2f" in row["differences"]
        assert "task: gsm8k -> mini-maths" in row["differences"]
    assert rows["tpf"]["expected"] == 3.1
    assert "1 of 1: lopa-table1/d2f-dream-vanilla/gsm8k" in err
    assert rows["tpf"]["tolerance"] is None and "too few answers" in rows["tpf"]["remark"]
    assert rows["tpf"]["run"].startswith("0001-mini-maths-d2f") and "Infinity" not in out


@pytest.mark.slow
def test_what_a_program_counts_behind_the_eos_is_known_from_the_trace(call: Any) -> None:
    """D2F's program counts every id that is no EOS, the text behind it too."""
    words = ["reproduce", "d2f-table2", "--row", "D2F-Dream", "--task", "gsm8k-cot", "--model", "bundled", "--json"]
    code, out, _ = call(*words, "--limit", "1")
    rows = {row["metric"]: row for row in json.loads(out)["rows"]}
    assert code == 3 and set(rows) == {"tps", "latency_s", "gen_length", "score"}
    assert all(row["measured"] is not None for row in rows.values())
    assert "not judged: 8 x A100-PCIe-40GB vs" in rows["tps"]["remark"]


def test_stored_runs_are_judged_without_running(call: Any) -> None:
    code, out, _ = call(*ROW, "--stored")
    assert code == 3 and "no finished run of preset d2f-dream-instruct-gsm8k is stored in runs" in out


def test_code_needs_consent_before_anything_runs(call: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("LOPA_BENCH_ALLOW_CODE_EXECUTION", raising=False)
    code, out, _ = call("reproduce", "lopa-table2", "--row", "D2F-DiffuCoder LoPA", "--dry-run")
    assert code == 0 and "lopa-diffucoder-humaneval+" in out


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["lopa-tabel1"], "did you mean 'lopa-table1'"),
        (["lopa-table1", "--row", "D2F-Drean"], "no row of published figures is called 'D2F-Drean'"),
        (["lopa-table1", "--task", "gsm9k"], "did you mean 'gsm8k'"),
        (["d2f-table8"], "has settings and no results"),
        ([], "TABLE"),
    ],
)
def test_a_mistake_ends_in_one_line(call: Any, words: list[str], told: str) -> None:
    code, out, err = call("reproduce", *words)
    assert (code, out) == (2, "") and told in err.splitlines()[-1]


def test_the_pages_sweep_is_the_papers_curve(tmp_path: Path) -> None:
    from lopa_bench.harness.sweeps.file import read_sweep_file
    from lopa_bench.harness.sweeps.grid import cells_of
    from lopa_bench.results.published_figures import select

    [grid] = re.findall(r"^```yaml\n(.*?)^```", PAGE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    (tmp_path / "grid.yaml").write_text(grid)
    cells = cells_of(read_sweep_file(tmp_path / "grid.yaml"))
    curve = {int(row.settings["branches"]) for row in select("lopa-figure4", tasks=["gsm8k"]) if row.decoder == "lopa"}
    assert {cell.value("branches") for cell in cells} == curve
    assert {(cell.value("task"), cell.value("decoder"), cell.value("tau_conf")) for cell in cells} == {
        ("gsm8k", "lopa", 0.9)
    }


def test_the_page_names_every_table_and_its_commands_parse(call: Any) -> None:
    from lopa_bench.results.published_figures import table_ids

    text = PAGE.read_text(encoding="utf-8")
    assert not [table for table in table_ids() if f"`{table}`" not in text]
    commands = [
        line
        for block in re.findall(r"^```console\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
        for line in block.splitlines()
    ]
    assert len(commands) >= 4
    for line in commands:
        words = shlex.split(line)[1:]
        code, out, err = call(*words, *([] if "list" in words else ["--dry-run"]))
        assert code == 0 and out, err

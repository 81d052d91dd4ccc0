"""`describe`, `data check` and the listings of tasks and presets, from outside."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

Call = Callable[..., tuple[int, str, str]]


def test_a_task_is_described_with_a_whole_prompt(call: Call, data_dir: Path) -> None:
    code, out, _ = call("describe", "gsm8k_cot", "--data-dir", str(data_dir), "--sample", "gsm8k-cot-0001")
    assert code == 0
    assert "gsm8k-cot, version 3.0" in out and "8 " in out and "gsm8k/gsm8k-cot.yaml; --num-fewshot" in out
    assert "cite: Cobbe et al. 2021" in out
    assert "gsm8k_test.jsonl.gz, 1319 rows, sha256 3730d312f6e3, known release" in out
    assert "prompt of gsm8k-cot-0001" in out and out.rstrip().endswith("How many bolts in total does it take?\nA:")


def test_a_task_as_json(call: Call, data_dir: Path) -> None:
    document = json.loads(call("describe", "gsm8k", "--data-dir", str(data_dir), "--json")[1])
    assert document["prompt"].endswith("\nAnswer:") and len(document["prompt_sha256"]) == 64
    assert {fact["name"]: fact["value"] for fact in document["facts"]}["shots"] == 5
    assert document["known"][0]["sha256"].startswith("3730d312")


def test_a_preset_is_described_with_what_its_authors_stated(call: Call) -> None:
    code, out, _ = call("describe", "lopa-dream-gsm8k")
    assert code == 0
    assert "LoPA, arXiv 2512.16229, Table 5" in out and "tau_add" in out and "convention lopa-dream" in out
    assert "run it: lopa-bench run --preset lopa-dream-gsm8k" in out
    document = json.loads(call("describe", "lopa-dream-gsm8k", "--json")[1])
    assert document["settings"]["branches"] == 14 and document["settings"]["num_fewshot"] == 4
    assert "tau_add" in call("describe", "lopa-dream-gsm8k", "--csv")[1]


def test_a_typing_error_leads_to_the_nearest_of_both(call: Call) -> None:
    for typed, meant in (("gsm8kk", "gsm8k"), ("lopa-dream-gsm9k", "lopa-dream-gsm8k")):
        code, out, err = call("describe", typed)
        assert (code, out) == (2, "") and f"did you mean '{meant}'" in err


@pytest.mark.parametrize("words", [("describe",), ("data", "check"), ("list",)])
def test_the_help_has_an_example(call: Call, words: tuple[str, ...]) -> None:
    code, out, _ = call(*words, "--help")
    assert code == 0 and f"Example: lopa-bench {' '.join(words)}" in out


def test_whole_data_pass_the_check(call: Call, data_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LOPA_BENCH_DATA", str(data_dir))
    code, out, err = call("data", "check", "gsm8k", "mbpp")
    assert (code, err) == (0, "")
    assert "3730d312f6e3" in out and out.count("known release") == 3
    rows = json.loads(call("data", "check", "gsm8k", "--json")[1])["rows"]
    assert [(row["split"], row["rows"], row["status"]) for row in rows] == [
        ("test", 1319, "known release"), ("train", 7473, "known release"),
    ]  # fmt: skip


def test_damaged_data_fail_it_with_a_sentence(call: Call, tmp_path: Path) -> None:
    (tmp_path / "gsm8k_test.jsonl").write_text('{"question": "cut')
    code, out, err = call("data", "check", "--data-dir", str(tmp_path))
    assert code == 2 and "damaged" in out
    [line] = err.splitlines()
    assert line.startswith("lopa-bench: data file ") and "gsm8k_test.jsonl is damaged at line 1" in line
    code, out, _ = call("data", "check", "--data-dir", str(tmp_path), "--json")
    assert code == 2 and "damaged at line 1" in json.loads(out)["rows"][0]["problem"]


def test_nothing_checked_is_no_pass(call: Call, tmp_path: Path) -> None:
    for words, sentence in (
        ((), "no folder to check: give --data-dir"),
        (("--data-dir", str(tmp_path)), "holds no file of any task, so nothing was checked"),
        (("mbpp", "--data-dir", str(tmp_path)), "no test split of mbpp"),
        (("mini-maths", "--data-dir", str(tmp_path)), "needs no data"),
    ):
        code, _, err = call("data", "check", *words)
        assert code == 2 and sentence in err


def test_tasks_are_listed_with_where_their_data_are(call: Call, data_dir: Path) -> None:
    rows = {
        row["task"]: row for row in json.loads(call("list", "tasks", "--data-dir", str(data_dir), "--json")[1])["rows"]
    }
    assert rows["mbpp+"]["data"] == "found: MbppPlus-v0.2.0.jsonl.gz"
    assert rows["mini-code"]["data"] == "none needed"
    assert "from the hub: openai/gsm8k" in call("list", "tasks")[1]


def test_presets_of_one_task_or_decoder(call: Call) -> None:
    rows = json.loads(call("list", "presets", "--task", "minerva_math", "--decoder", "d2f", "--json")[1])["rows"]
    assert rows and {(row["task"], row["decoder"]) for row in rows} == {("math", "d2f")}
    for words, sentence in (
        (("presets", "--task", "gsm8kk"), "did you mean 'gsm8k'"),
        (("presets", "--decoder", "lopaa"), "did you mean 'lopa'"),
        (("presets", "--task", "mini-maths"), "there are no presets of task mini-maths"),
        (("tasks", "--decoder", "lopa"), "--decoder chooses among presets"),
    ):
        code, out, err = call("list", *words)
        assert (code, out) == (2, "") and sentence in err

"""The check of data files, and what is said of a task before it runs."""

from __future__ import annotations

import gzip
import importlib.util
import json
import shutil
from pathlib import Path

import pytest

from lopa_bench.errors import ConfigError, TaskDataError
from lopa_bench.harness.data_check import check_data, fitness_of_tasks, where_data_are
from lopa_bench.harness.problem_choice import SUBSETS
from lopa_bench.harness.task_card import kind_of, preset_facts, task_card
from lopa_bench.harness.task_source import all_tasks, known_name, splits_of
from lopa_bench.tasks.presets import PRESETS


def test_the_known_releases_are_recognised(data_dir: Path) -> None:
    checks = {(one.data, one.split): one for one in check_data((), data_dir)}
    assert set(checks) == {
        ("gsm8k", "test"), ("gsm8k", "train"), ("math", "test"), ("math500", "test"), ("humaneval", "test"),
        ("humaneval+", "test"), ("mbpp", "test"), ("mbpp+", "test"),
    }  # fmt: skip
    found = {key: one for key, one in checks.items() if one.status != "not there"}
    assert {one.status for one in found.values()} == {"known release"}
    assert len(found) >= 6
    assert checks["gsm8k", "test"].tasks == ("gsm8k", "gsm8k-cot", "gsm8k-cot-zeroshot", "gsm8k-cot-llama")
    assert (checks["gsm8k", "test"].rows, checks["mbpp", "test"].rows) == (1319, 974)


def test_every_kind_of_file_is_told_apart(tmp_path: Path, data_dir: Path) -> None:
    shutil.copy(data_dir / "gsm8k_train.jsonl.gz", tmp_path)
    (tmp_path / "gsm8k_test.jsonl").write_text("<html>")
    row = {"problem": "x", "level": "Level 1", "type": "Algebra", "solution": r"\boxed{1}"}
    (tmp_path / "math_test.jsonl").write_text(json.dumps(row))
    rows = gzip.decompress((data_dir / "HumanEval.jsonl.gz").read_bytes()).splitlines(keepends=True)
    (tmp_path / "HumanEval.jsonl").write_bytes(b"".join(reversed(rows)))
    checks = {
        (one.data, one.split): one for one in check_data(("gsm8k", "minerva_math", "humaneval", "mbpp"), tmp_path)
    }
    assert {key: one.status for key, one in checks.items()} == {
        ("gsm8k", "test"): "damaged",
        ("gsm8k", "train"): "known release",
        ("math", "test"): "a part of the release",
        ("humaneval", "test"): "unknown release",
        ("mbpp", "test"): "not there",
    }
    assert "gsm8k_test.jsonl is damaged at line 1" in checks["gsm8k", "test"].problem


def test_a_task_whose_packages_are_missing_is_told(monkeypatch: pytest.MonkeyPatch, data_dir: Path) -> None:
    assert {one.task for one in fitness_of_tasks()} == {task.name for task in all_tasks()}
    find = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name, *_: None if name == "sympy" else find(name))
    fitness = {one.task: one for one in fitness_of_tasks(data_dir)}
    assert {name for name, one in fitness.items() if not one.usable} == {"math", "math500"}
    assert "pip install 'lopa-bench[math]'" in fitness["math"].remark
    assert fitness["mbpp"].data == "found: mbpp.jsonl.gz"


def test_what_cannot_be_checked_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="mini-maths is generated"):
        check_data(("mini-maths",), tmp_path)
    with pytest.raises(ConfigError, match="did you mean 'gsm8k'"):
        check_data(("gsm8kk",), tmp_path)
    with pytest.raises(TaskDataError, match="does not exist"):
        check_data((), tmp_path / "nowhere")


def test_where_data_would_come_from(tmp_path: Path, data_dir: Path) -> None:
    assert where_data_are("mini-maths", None) == "none needed"
    assert where_data_are("math", None) == "from the hub: EleutherAI/hendrycks_math"
    assert where_data_are("gsm8k", data_dir) == "found: gsm8k_test.jsonl.gz"
    assert where_data_are("mbpp+", tmp_path) == "not found (MbppPlus-v0.2.0.jsonl.gz)"
    assert where_data_are("mbpp+", tmp_path / "nowhere").endswith("does not exist")
    (tmp_path / "algebra").mkdir()
    (tmp_path / "algebra" / "test-00000-of-00001.parquet").write_bytes(b"")
    assert where_data_are("math", tmp_path) == "found in part"


@pytest.mark.parametrize("name", ["gsm8k", "gsm8k-cot", "mini-code", "humaneval", "mbpp+"])
def test_a_card_has_a_whole_prompt_and_says_where_each_setting_is_decided(name: str, data_dir: Path) -> None:
    card = task_card(name, data_dir, sample="2")
    facts = {fact.name: fact for fact in card.facts}
    assert {"prompts", "shots", "chat", "stop", "max_new_tokens", "accuracy is", "version"} <= set(facts)
    assert all(fact.origin for fact in card.facts)
    assert card.prompt and card.prompt_id.endswith("-0002") and len(card.prompt_sha256) == 64
    assert card.citation and card.version and card.no_prompt == ""
    assert {one.status for one in card.data} == ({"known release"} if splits_of(name) else set())
    assert {(one.data, one.split) for one in card.known} == {(one.data, one.split) for one in card.data}


def test_the_settings_of_lm_eval_s_tasks_are_read_from_its_files(data_dir: Path) -> None:
    facts = {fact.name: fact for fact in task_card("gsm8k", data_dir).facts}
    assert (facts["shots"].value, facts["shots"].origin) == (5, "gsm8k/gsm8k.yaml; --num-fewshot")
    assert "anew for every problem, seed 1234" in facts["shots are"].value
    assert facts["clean-up"].value == "strict-match, flexible-extract"
    assert facts["stop"].value == ["Question:", "</s>", "<|im_end|>"]


def test_without_data_the_card_says_why_there_is_no_prompt(tmp_path: Path) -> None:
    card = task_card("gsm8k", tmp_path)
    assert card.prompt == "" and card.prompt_sha256 == ""
    assert "no test split of gsm8k" in card.no_prompt
    assert [one.status for one in card.data] == ["not there", "not there"]
    with pytest.raises(ConfigError, match="positions go from 0 to 399"):
        task_card("mini-maths", sample="400")


@pytest.mark.parametrize("name", PRESETS)
def test_every_preset_s_task_can_be_run_and_its_stated_values_are_shown(name: str) -> None:
    preset = PRESETS[name]
    assert known_name(preset.task) in {task.name for task in all_tasks()}
    facts = {fact.name: fact for fact in preset_facts(name)}
    for key, value in {**preset.settings(), **preset.options}.items():
        assert (facts[key].value, facts[key].origin) == (value, preset.source)


def test_names_are_found_or_the_nearest_is_told() -> None:
    assert (kind_of("gsm8k_cot"), kind_of("lopa-dream-gsm8k")) == ("task", "preset")
    with pytest.raises(ConfigError, match="did you mean 'lopa-dream-gsm8k'"):
        kind_of("lopa-dream-gsm9k")


def test_the_page_about_tasks_names_every_task_and_every_file() -> None:
    page = (Path(__file__).resolve().parents[2] / "docs" / "tasks.md").read_text()
    for task in all_tasks():
        assert f"`{task.name.removesuffix('-instruct')}`" in page
        for split in splits_of(task.name):
            assert f"`{split.file_stem}.jsonl.gz`" in page
    for name, size in SUBSETS.items():
        assert f"`--subset {name}`" in page and f" {size} " in page

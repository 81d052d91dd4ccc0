from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from pathlib import Path

import pytest

from lopa_bench.errors import ConfigError, TaskDataError
from lopa_bench.tasks.code_data import DATA_SETS, load_code_data

Rows = list[dict[str, object]]


@pytest.mark.parametrize(("name", "number"), [("humaneval", 164), ("humaneval+", 164), ("mbpp", 500), ("mbpp+", 378)])
def test_reads_the_known_releases(name: str, number: int, data_dir: Path) -> None:
    data = load_code_data(name, data_dir)
    assert len(data.rows) == number
    assert data.release in DATA_SETS[name].known.values()
    assert data.card()["sha256"] == data.sha256


def test_mbpp_is_its_test_split(data_dir: Path) -> None:
    ids = [row["task_id"] for row in load_code_data("mbpp", data_dir).rows]
    assert ids == list(range(11, 511))


@pytest.fixture
def write(tmp_path: Path, data_dir: Path) -> Callable[..., Path]:
    """Write HumanEval, changed, into a folder of its own."""

    def write(change: Callable[[Rows], Rows | str] = lambda rows: rows, suffix: str = ".jsonl.gz") -> Path:
        content = gzip.decompress((data_dir / "HumanEval.jsonl.gz").read_bytes()).decode()
        changed = change([json.loads(line) for line in content.splitlines()])
        text = changed if isinstance(changed, str) else "".join(json.dumps(row) + "\n" for row in changed)
        data = gzip.compress(text.encode()) if suffix.endswith("gz") else text.encode()
        (tmp_path / f"HumanEval{suffix}").write_bytes(data)
        return tmp_path

    return write


@pytest.mark.parametrize("suffix", [".jsonl.gz", ".jsonl"])
def test_another_file_of_the_right_kind_is_read_and_called_unknown(write: Callable[..., Path], suffix: str) -> None:
    data = load_code_data("humaneval", write(lambda rows: rows[::-1], suffix))
    assert data.release is None
    assert data.card()["release"] == "unknown release"


def test_parquet_is_read(tmp_path: Path, data_dir: Path) -> None:
    from pyarrow import Table, parquet

    rows = load_code_data("humaneval", data_dir).rows
    parquet.write_table(Table.from_pylist(list(rows)), tmp_path / "HumanEval.parquet")
    assert load_code_data("humaneval", tmp_path).rows == rows


def test_cut_short(write: Callable[..., Path]) -> None:
    with pytest.raises(TaskDataError, match=r"has 164; it was cut short; its sha256 \w{12} is none"):
        load_code_data("humaneval", write(lambda rows: rows[:100]))


def test_broken_line_is_named(write: Callable[..., Path]) -> None:
    def breaks(rows: Rows) -> str:
        lines = [json.dumps(row) for row in rows]
        return "\n".join([*lines[:41], lines[41][:60], *lines[42:]])

    with pytest.raises(TaskDataError, match=r"at line 42: not JSON .* it starts with '\{\"task_id\": .*1d49078ba3e2"):
        load_code_data("humaneval", write(breaks))


def test_missing_field_is_named_with_the_fields_found(write: Callable[..., Path]) -> None:
    def without(rows: Rows) -> Rows:
        del rows[6]["entry_point"]
        return rows

    with pytest.raises(TaskDataError, match=r"line 7: field 'entry_point' .* found the fields task_id, prompt, canon"):
        load_code_data("humaneval", write(without))


def test_field_of_another_kind(write: Callable[..., Path]) -> None:
    def change(rows: Rows) -> Rows:
        rows[0]["prompt"] = 3
        return rows

    with pytest.raises(TaskDataError, match=r"line 1: field 'prompt' .*\(it is int\)"):
        load_code_data("humaneval", write(change))


def test_another_task_s_file(tmp_path: Path, data_dir: Path) -> None:
    (tmp_path / "HumanEvalPlus-v0.1.10.jsonl.gz").write_bytes((data_dir / "mbpp.jsonl.gz").read_bytes())
    with pytest.raises(TaskDataError, match=r"line 1: field '\w+' of humaneval\+ is missing"):
        load_code_data("humaneval+", tmp_path)


def test_damaged_archive(tmp_path: Path, data_dir: Path) -> None:
    content = (data_dir / "HumanEval.jsonl.gz").read_bytes()
    (tmp_path / "HumanEval.jsonl.gz").write_bytes(content[: len(content) // 2])
    with pytest.raises(
        TaskDataError, match=r"HumanEval.jsonl.gz is damaged: .*sha256 of the compressed file is \w{12}"
    ):
        load_code_data("humaneval", tmp_path)


def test_absent_file_and_folder(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("")
    with pytest.raises(TaskDataError, match=r"looked for mbpp.jsonl.gz, .jsonl and .parquet, .* found notes.txt"):
        load_code_data("mbpp", tmp_path)
    with pytest.raises(TaskDataError, match="does not exist"):
        load_code_data("mbpp", tmp_path / "nowhere")


def test_nothing_is_fetched_offline(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    for name in DATA_SETS:
        with pytest.raises(TaskDataError, match=r"no network, or offline was asked for; give a folder .*--data-dir"):
            load_code_data(name)


def test_unknown_name() -> None:
    with pytest.raises(ConfigError, match=r"did you mean 'humaneval\+'|did you mean 'humaneval'"):
        load_code_data("humanevl")

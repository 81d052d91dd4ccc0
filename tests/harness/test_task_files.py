"""Data files that are whole, and every way in which they may not be."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

from lopa_bench.errors import TaskDataError
from lopa_bench.harness.task_files import read_split

ROWS = [{"question": f"What is {i} + 1?", "answer": f"It is {i + 1}.\n#### {i + 1}"} for i in range(5)]
FIELDS = ("question", "answer")


def lines(rows: list[dict[str, str]]) -> str:
    return "".join(json.dumps(row) + "\n" for row in rows)


def read(folder: Path) -> list[dict[str, str]]:
    return read_split(folder, "gsm8k", "test", FIELDS).rows


def test_json_lines_plain_and_compressed_hold_the_same_data(tmp_path: Path) -> None:
    plain, packed = tmp_path / "plain", tmp_path / "packed"
    plain.mkdir()
    packed.mkdir()
    (plain / "gsm8k_test.jsonl").write_text(lines(ROWS))
    (packed / "gsm8k_test.jsonl.gz").write_bytes(gzip.compress(lines(ROWS).encode()))
    first, second = (read_split(folder, "gsm8k", "test", FIELDS) for folder in (plain, packed))
    assert first.rows == second.rows == ROWS
    assert first.sha256 == second.sha256
    assert first.card()["num_rows"] == 5


@pytest.mark.parametrize("name", ["gsm8k_test.parquet", "main/test-00000-of-00001.parquet"])
def test_parquet(tmp_path: Path, name: str) -> None:
    import pyarrow
    from pyarrow import parquet

    (tmp_path / name).parent.mkdir(exist_ok=True)
    parquet.write_table(pyarrow.Table.from_pylist(ROWS), tmp_path / name)
    assert read(tmp_path) == ROWS


@pytest.mark.parametrize("name", ["gsm8k_test", "gsm8k/test", "test"])
def test_a_folder_saved_by_datasets(tmp_path: Path, name: str) -> None:
    from datasets import Dataset

    Dataset.from_list(ROWS).save_to_disk(str(tmp_path / name))
    assert read(tmp_path) == ROWS


def test_a_missing_folder_and_a_missing_file_are_told_apart(tmp_path: Path) -> None:
    with pytest.raises(TaskDataError, match="does not exist"):
        read(tmp_path / "nowhere")
    (tmp_path / "other.txt").write_text("")
    with pytest.raises(TaskDataError, match=r"no test split of gsm8k .* found other.txt"):
        read(tmp_path)


DAMAGED = {
    "cut at the end": (lines(ROWS)[:-20], r"damaged at line 5: not JSON"),
    "a web page": ("<!DOCTYPE html>\n<html></html>\n", r"damaged at line 1: not JSON .* starts with '<!DOCTYPE html>'"),
    "empty": ("", "is empty"),
    "blank lines only": ("\n\n", "is empty"),
    "a list": ("[1, 2]\n", "damaged at line 1: a list, not an object"),
    "another split's fields": (
        '{"problem": "x", "solution": "y"}\n',
        "no text field 'question', found problem, solution",
    ),
    "a number where a text is due": ('{"question": 3, "answer": "x"}\n', "row 1: no text field 'question'"),
    "not unicode": (b"\xff\xfe\x00", "is damaged"),
}


@pytest.mark.parametrize("kind", DAMAGED)
def test_damage_is_told_with_file_and_line(tmp_path: Path, kind: str) -> None:
    content, words = DAMAGED[kind]
    file = tmp_path / "gsm8k_test.jsonl"
    file.write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(TaskDataError, match=words) as caught:
        read(tmp_path)
    assert str(file) in str(caught.value)


@pytest.mark.parametrize("content", [b"not gzip", gzip.compress(lines(ROWS).encode())[:40]])
def test_a_damaged_archive(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "gsm8k_test.jsonl.gz").write_bytes(content)
    with pytest.raises(TaskDataError, match=r"gsm8k_test.jsonl.gz is damaged"):
        read(tmp_path)


def test_a_damaged_parquet_file(tmp_path: Path) -> None:
    (tmp_path / "gsm8k_test.parquet").write_bytes(b"PAR1 not really")
    with pytest.raises(TaskDataError, match="is damaged"):
        read(tmp_path)

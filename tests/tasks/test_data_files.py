"""Data files that are whole, and every way in which they may not be."""

from __future__ import annotations

import gzip
import hashlib
import json
from dataclasses import replace
from pathlib import Path

import pytest

from lopa_bench.errors import TaskDataError
from lopa_bench.tasks.data_files import Split, SplitData, content_hash, fetch, find_files, read_split

ROWS = [{"question": f"What is {i} + 1?", "answer": f"It is {i + 1}.\n#### {i + 1}"} for i in range(5)]
FIELDS = {"question": str, "answer": str}
KNOWN = {content_hash(ROWS, FIELDS): "release 1"}
SPLIT = Split("gsm8k", "test", FIELDS, 5, "some/where", KNOWN, configs=("main",), key="question")


def lines(rows: list[dict[str, str]]) -> str:
    return "".join(json.dumps(row) + "\n" for row in rows)


def read(folder: Path, split: Split = SPLIT) -> SplitData:
    return read_split(split, folder)


def test_json_lines_plain_and_compressed_hold_the_same_data(tmp_path: Path) -> None:
    plain, packed = tmp_path / "plain", tmp_path / "packed"
    plain.mkdir()
    packed.mkdir()
    (plain / "gsm8k_test.jsonl").write_text(lines(ROWS))
    (packed / "gsm8k_test.jsonl.gz").write_bytes(gzip.compress(lines(ROWS).encode()))
    first, second = read(plain), read(packed)
    assert first.rows == second.rows == tuple(ROWS)
    assert first.sha256 == second.sha256 == hashlib.sha256(lines(ROWS).encode()).hexdigest()
    assert (first.card()["num_rows"], first.card()["release"]) == (5, "release 1")


@pytest.mark.parametrize(
    "name",
    [
        "gsm8k_test.parquet",
        "main/test-00000-of-00001.parquet",
        "gsm8k/main/test-00000-of-00001.parquet",
        "gsm8k/test-00000-of-00001.parquet",
    ],
)
def test_parquet(tmp_path: Path, name: str) -> None:
    import pyarrow
    from pyarrow import parquet

    (tmp_path / name).parent.mkdir(exist_ok=True, parents=True)
    parquet.write_table(pyarrow.Table.from_pylist(ROWS), tmp_path / name)
    assert read(tmp_path).rows == tuple(ROWS)
    assert read(tmp_path).release == "release 1", "the rows' content is known, whatever holds them"


@pytest.mark.parametrize("name", ["gsm8k_test", "gsm8k/test", "test"])
def test_a_folder_saved_by_datasets(tmp_path: Path, name: str) -> None:
    from datasets import Dataset

    Dataset.from_list(ROWS).save_to_disk(str(tmp_path / name))
    assert read(tmp_path).rows == tuple(ROWS)
    assert read(tmp_path).release == "release 1"


def test_all_splits_saved_together_by_datasets(tmp_path: Path) -> None:
    from datasets import Dataset, DatasetDict

    DatasetDict(test=Dataset.from_list(ROWS)).save_to_disk(str(tmp_path / "gsm8k"))
    assert read(tmp_path).rows == tuple(ROWS)


def write_shards(folder: Path, parts: list[list[dict[str, str]]], of: int) -> None:
    import pyarrow
    from pyarrow import parquet

    folder.mkdir(parents=True, exist_ok=True)
    for index, rows in enumerate(parts):
        parquet.write_table(pyarrow.Table.from_pylist(rows), folder / f"test-{index:05d}-of-{of:05d}.parquet")


def test_all_shards_are_read_and_a_missing_one_is_told(tmp_path: Path) -> None:
    write_shards(tmp_path / "whole", [ROWS[:2], ROWS[2:]], of=2)
    assert read(tmp_path / "whole").rows == tuple(ROWS)
    write_shards(tmp_path / "lacking", [ROWS[:2], ROWS[2:4]], of=3)
    with pytest.raises(TaskDataError, match="holds 2 of the 3 parts"):
        read(tmp_path / "lacking")


def test_configurations_are_joined_in_order_and_a_missing_one_is_named(tmp_path: Path) -> None:
    split = replace(SPLIT, data="sums", known={}, configs=("easy", "hard", "odd"))
    for config, part in (("hard", ROWS[2:4]), ("easy", ROWS[:2])):
        write_shards(tmp_path / "sums" / config, [part], of=1)
    with pytest.raises(TaskDataError, match=r"test split of sums in .* lacks odd"):
        read(tmp_path, split)
    write_shards(tmp_path / "sums" / "odd", [ROWS[4:]], of=1)
    data = read(tmp_path, split)
    assert data.rows == tuple(ROWS)
    assert "and 2 more files" in data.source


def test_a_missing_folder_and_a_missing_file_are_told_apart(tmp_path: Path) -> None:
    with pytest.raises(TaskDataError, match="does not exist"):
        read(tmp_path / "nowhere")
    (tmp_path / "other.txt").write_text("")
    with pytest.raises(TaskDataError, match="is a file; give the folder"):
        read(tmp_path / "other.txt")
    with pytest.raises(TaskDataError, match=r"no test split of gsm8k .* found other.txt"):
        read(tmp_path)
    assert find_files(SPLIT, tmp_path) == []


DAMAGED = {
    "cut in a line": (lines(ROWS)[:-20], r"damaged at line 5: not JSON .* is none of the known ones \(\w{12} release"),
    "cut between lines": (
        lines(ROWS[:3]),
        r"holds 3 problems, gsm8k has 5; it was cut short; its sha256 \w{12} is none",
    ),
    "too many lines": (
        lines([*ROWS, {"question": "x", "answer": "#### 1"}]),
        r"holds 6 problems, gsm8k has 5; its sha",
    ),
    "a web page": (
        "<!DOCTYPE html>\n<html></html>\n",
        r"damaged at line 1: not JSON .* starts with '<!DOCTYPE html>', a web page saved under this name",
    ),
    "empty": ("", "is empty; its sha256 e3b0c44298fc"),
    "blank lines only": ("\n\n", "is empty"),
    "a list": ("[1, 2]\n", "damaged at line 1: a list, not an object"),
    "another task's fields": (
        '\n{"problem": "x", "solution": "y"}\n',
        r"line 2: field 'question' of gsm8k is missing .* fields problem, solution, gsm8k has question, answer",
    ),
    "a number where a text is due": ('{"question": 3, "answer": "x"}\n', r"line 1: field 'question' .*\(it is int\)"),
    "twice the same": (
        lines([*ROWS[:4], ROWS[1]]),
        r"line 5: the question 'What is 1 \+ 1\?' is that of line 2 too; its sha256",
    ),
    "not unicode": (b"\xff\xfe\x00", "is damaged"),
}


@pytest.mark.parametrize("kind", DAMAGED)
def test_damage_is_told_with_file_line_and_hash(tmp_path: Path, kind: str) -> None:
    content, words = DAMAGED[kind]
    file = tmp_path / "gsm8k_test.jsonl"
    file.write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(TaskDataError, match=words) as caught:
        read(tmp_path)
    assert str(file) in str(caught.value)


def test_a_field_that_lacks_what_all_have(tmp_path: Path) -> None:
    (tmp_path / "gsm8k_test.jsonl").write_text(lines([*ROWS[:4], {"question": "x", "answer": "I do not know."}]))
    with pytest.raises(TaskDataError, match=r"line 5: the answer lacks what every answer .* it is 'I do not know.'"):
        read(tmp_path, replace(SPLIT, must_hold={"answer": "#### "}))


def test_where_no_release_is_known_a_part_of_the_data_is_enough(tmp_path: Path) -> None:
    (tmp_path / "gsm8k_test.jsonl").write_text(lines(ROWS[:3]))
    data = read(tmp_path, replace(SPLIT, known={}))
    assert (len(data.rows), data.release, data.card()["release"]) == (3, None, "unknown release")


def test_an_archive_under_the_name_of_a_text_is_told_as_one(tmp_path: Path) -> None:
    (tmp_path / "gsm8k_test.jsonl").write_bytes(gzip.compress(lines(ROWS).encode()))
    with pytest.raises(TaskDataError, match=r"gsm8k_test\.jsonl is gzip .*: rename it to gsm8k_test\.jsonl\.gz"):
        read(tmp_path)
    (tmp_path / "gsm8k_test.jsonl").rename(tmp_path / "gsm8k_test.jsonl.gz")
    assert len(read(tmp_path).rows) == len(ROWS)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"not gzip", "Not a gzipped file"),
        (gzip.compress(lines(ROWS).encode())[:40], "Compressed file ended"),
        (b"<html>not found</html>", "a web page saved under this name"),
    ],
    ids=["another file", "cut short", "a web page"],
)
def test_a_damaged_archive(tmp_path: Path, content: bytes, words: str) -> None:
    (tmp_path / "gsm8k_test.jsonl.gz").write_bytes(content)
    sha256 = hashlib.sha256(content).hexdigest()[:12]
    with pytest.raises(
        TaskDataError, match=rf"gsm8k_test.jsonl.gz is damaged: .*{words}.* compressed file is {sha256}"
    ):
        read(tmp_path)


def test_a_damaged_parquet_file(tmp_path: Path) -> None:
    (tmp_path / "gsm8k_test.parquet").write_bytes(b"PAR1 not really")
    with pytest.raises(TaskDataError, match="is damaged"):
        read(tmp_path)


def test_a_damaged_saved_folder(tmp_path: Path) -> None:
    from datasets import Dataset

    Dataset.from_list(ROWS).save_to_disk(str(tmp_path / "gsm8k_test"))
    for file in (tmp_path / "gsm8k_test").glob("*.arrow"):
        file.write_bytes(file.read_bytes()[:50])
    with pytest.raises(TaskDataError, match="gsm8k_test cannot be read"):
        read(tmp_path)


def test_a_file_that_may_not_be_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "gsm8k_test.jsonl").write_text(lines(ROWS))

    def refuse(_: Path) -> bytes:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "read_bytes", refuse)
    with pytest.raises(TaskDataError, match=r"gsm8k_test.jsonl cannot be read: Permission denied"):
        read(tmp_path)


def test_what_comes_from_the_hub_is_checked_alike(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[object, ...]] = []

    def load(path: str, name: str | None, split: str) -> list[dict[str, str]]:
        asked.append((path, name, split))
        return ROWS

    monkeypatch.setattr("datasets.load_dataset", load)
    data = fetch(SPLIT)
    assert asked == [("some/where", "main", "test")]
    assert (data.rows, data.source, data.release) == (tuple(ROWS), "some/where", "release 1")
    with pytest.raises(TaskDataError, match="some/where, line 1: field 'problem' of gsm8k is missing"):
        fetch(replace(SPLIT, fields={"problem": str}))
    with pytest.raises(TaskDataError, match="some/where holds 5 problems, gsm8k has 7"):
        fetch(replace(SPLIT, num_rows=7))

from __future__ import annotations

import gzip
import json
import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lopa_bench.errors import ResultsError
from lopa_bench.results.jsonl import gzip_member, parse_lines, read_lines, replace_file, whole_members

FILE = Path("samples.jsonl")
OBJECTS = st.lists(st.dictionaries(st.text(max_size=5), st.text(max_size=20) | st.integers(), max_size=3), max_size=5)


def lines_of(objects: list[dict[str, Any]]) -> bytes:
    return b"".join(json.dumps(one, ensure_ascii=False).encode("utf8", "surrogatepass") + b"\n" for one in objects)


@given(objects=OBJECTS, data=st.data())
def test_a_file_cut_anywhere_keeps_all_whole_lines(objects: list[dict[str, Any]], data: st.DataObject) -> None:
    raw = lines_of(objects)
    cut = data.draw(st.integers(0, len(raw)))
    found = parse_lines(raw[:cut], FILE)
    num_whole = raw[:cut].count(b"\n")
    assert found.objects[:num_whole] == objects[:num_whole]
    assert len(found.objects) - num_whole in (0, 1)  # 1: only the line's end was missing
    again = parse_lines(found.content, FILE)
    assert (again.objects, again.notes, again.mended) == (found.objects, [], False)


def test_two_objects_on_a_line_are_parted() -> None:
    found = parse_lines(b'{"a": 1}\n{"b": "}{"}{"c": 3}\n{"d": 4}\n', FILE)
    assert found.objects == [{"a": 1}, {"b": "}{"}, {"c": 3}, {"d": 4}]
    assert found.content == b'{"a": 1}\n{"b": "}{"}\n{"c": 3}\n{"d": 4}\n'
    assert found.notes == ["samples.jsonl: line 2 held 2 objects and was parted"]


def test_a_whole_object_before_a_half_one_is_kept() -> None:
    found = parse_lines(b'{"a": 1}{"b": "\xc3', FILE)
    assert found.objects == [{"a": 1}]
    assert found.content == b'{"a": 1}\n'
    assert found.mended


@pytest.mark.parametrize("tail", [b"\0\0\0\0", b"<html>", b"[1, 2", b'"text'])
def test_any_other_tail_is_cut(tail: bytes) -> None:
    found = parse_lines(b'{"a": 1}\n' + tail, FILE)
    assert found.objects == [{"a": 1}]
    assert found.notes == ["samples.jsonl: the last line was half written and was cut"]


def test_damage_in_the_middle_names_the_line() -> None:
    with pytest.raises(ResultsError, match=r"samples\.jsonl is damaged at line 2; delete that line and run the same"):
        parse_lines(b'{"a": 1}\n{"b": \n{"c": 1}\n', FILE)


def test_an_absent_file_is_an_empty_one(tmp_path: Path) -> None:
    assert read_lines(tmp_path / "none.jsonl").objects == []
    with pytest.raises(ResultsError, match=r"cannot read .*: Is a directory"):
        read_lines(tmp_path)


@given(pieces=st.lists(st.binary(min_size=1, max_size=300), min_size=1, max_size=5), data=st.data())
def test_gzip_members_cut_anywhere_keep_the_whole_ones(pieces: list[bytes], data: st.DataObject) -> None:
    members = [gzip_member(piece) for piece in pieces]
    raw = b"".join(members)
    assert gzip.decompress(raw) == b"".join(pieces)
    cut = data.draw(st.integers(0, len(raw)))
    content, end = whole_members(raw[:cut])
    num_whole = next(i for i in range(len(members), -1, -1) if sum(map(len, members[:i])) <= cut)
    assert content == b"".join(pieces[:num_whole])
    assert end == sum(map(len, members[:num_whole]))


def test_long_members_are_read_in_chunks() -> None:
    pieces = [os.urandom(200_000), b"x" * 10, os.urandom(70_000)]
    raw = b"".join(map(gzip_member, pieces))
    assert whole_members(raw) == (b"".join(pieces), len(raw))


def test_a_replaced_file_is_old_or_new(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "run.json"
    replace_file(file, b"old")

    def fail(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", fail)
        with pytest.raises(ResultsError, match=r"cannot write .*run\.json: No space left on device"):
            replace_file(file, b"new")
    assert [path.name for path in tmp_path.iterdir()] == ["run.json"]
    assert file.read_bytes() == b"old"

"""Reading the files of a data set, with a sentence for everything that can be wrong with them.

A split is read from local files (JSON lines, compressed or not; parquet; a folder saved by `datasets`) or from the hub,
and checked in the same way wherever it comes from. A file that is not what it should be is told by its name, the line,
what was found there and its sha256 against the known releases.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from lopa_bench.errors import TaskDataError
from lopa_bench.tasks.file_formats import Row, read_rows

Kinds = type | tuple[type, ...]
Numbered = Sequence[tuple[int, Row]]
SUFFIXES = (".jsonl.gz", ".jsonl", ".parquet")
SHARD = re.compile(r"-(\d{5})-of-(\d{5})\.parquet$")


@dataclass(frozen=True)
class Split:
    """What is known of one split of a data set.

    Args:
        data: the data set's name, for users.
        split: "test" or "train".
        fields: what every row must have, with its type.
        num_rows: rows of the release.
        hub: the repository on the hub.
        known: releases by the sha256 of the uncompressed file or of the rows' content (`SplitData.content`). Where any
            is known, a file with another number of rows is refused; otherwise it may be a part of the data.
        stem: a local file's name without its suffix; `{data}_{split}` unless given.
        configs: the hub's configurations that make up the split, in order.
        must_hold: patterns that some fields must contain.
        key: the field that no two rows share; None where nothing says so.
    """

    data: str
    split: str
    fields: Mapping[str, Kinds]
    num_rows: int
    hub: str
    known: Mapping[str, str] = field(default_factory=dict)
    stem: str = ""
    configs: tuple[str, ...] = ("",)
    must_hold: Mapping[str, str] = field(default_factory=dict)
    key: str | None = None

    @property
    def file_stem(self) -> str:
        """A local file's name without its suffix."""
        return self.stem or f"{self.data}_{self.split}"

    def identity(self, sha256: str) -> str:
        """Say whether a file's sha256 is that of a known release."""
        short = sha256[:12]
        if sha256 in self.known:
            return f"its sha256 {short} is that of {self.known[sha256]}"
        if not self.known:
            return f"its sha256 is {short}, and none is known to compare it with"
        files: dict[str, str] = {}
        for sha, release in self.known.items():
            files.setdefault(release, sha)  # the file's stands before the rows'
        known = ", ".join(f"{sha[:12]} {release}" for release, sha in files.items())
        return f"its sha256 {short} is none of the known ones ({known})"


@dataclass(frozen=True)
class SplitData:
    """The rows of a split and what identifies them.

    `sha256` is that of the uncompressed file, or of the rows' content where there is no such file; `content` is that of
    the rows' content whatever held them; `release` is None for data that are none of the known ones.
    """

    rows: tuple[Row, ...]
    source: str
    sha256: str
    content: str
    release: str | None = None

    def card(self) -> dict[str, Any]:
        """Return what a run record keeps of it."""
        release = self.release or "unknown release"
        card = {"source": self.source, "num_rows": len(self.rows), "sha256": self.sha256, "release": release}
        return card | {"content_sha256": self.content}


def load_split(split: Split, data_dir: Path | None) -> SplitData:
    """Return a split from a folder, or without one from the hub; TaskDataError when it cannot be had or is wrong."""
    return fetch(split) if data_dir is None else read_split(split, data_dir)


def read_split(split: Split, data_dir: Path) -> SplitData:
    """Read and check a split from local files.

    Raises:
        TaskDataError: the folder or file is absent, damaged, cut short or holds other data.
    """
    if not data_dir.is_dir():
        what = "is a file" if data_dir.exists() else "does not exist"
        raise TaskDataError(f"data folder {data_dir} {what}; give the folder that holds {split.file_stem}.jsonl.gz")
    files = find_files(split, data_dir)
    if not files:
        raise TaskDataError(
            f"no {split.split} split of {split.data} in {data_dir}: looked for {split.file_stem}.jsonl.gz, .jsonl and "
            f".parquet, saved folders and the hub's own layout, found {_listing(data_dir)}"
        )
    return read_file(split, *files)


def read_file(split: Split, *files: Path) -> SplitData:
    """Read and check the file, or the files together, that hold a split."""
    rows: list[Row] = []
    shas = []
    for file in files:
        found, sha256 = read_rows(file, split.identity)
        check_rows(split, file, found, sha256)
        rows += [row for _, row in found]
        shas.append(sha256)
    content = content_hash(rows, split.fields)
    sha256 = (shas[0] or content) if len(files) == 1 else content
    source = str(files[0]) if len(files) == 1 else f"{files[0].parent} and {len(files) - 1} more files"
    return _checked(split, rows, source, sha256, content)


def find_files(split: Split, data_dir: Path) -> list[Path]:
    """Return the file, the saved folder or the parquet shards that hold a split; none where there are none.

    Looked for, in this order: `{stem}.jsonl.gz`, `.jsonl`, `.parquet`; a folder written by `datasets` (`{stem}/`,
    `{data}/{split}/` or `{split}/`); the hub's own layout (`{config}/{split}-00000-of-00001.parquet`, in the folder or
    in `{data}/`).

    Raises:
        TaskDataError: some of the hub's configurations or shards are there and others are missing.
    """
    for suffix in SUFFIXES:
        if (file := data_dir / f"{split.file_stem}{suffix}").is_file():
            return [file]
    for folder in (data_dir / split.file_stem, data_dir / split.data / split.split, data_dir / split.split):
        if (folder / "dataset_info.json").is_file():
            return [folder]
    found = {config: _shards(split, data_dir, config) for config in split.configs}
    missing = [config for config, files in found.items() if not files]
    if missing and len(missing) < len(found):
        raise TaskDataError(f"the {split.split} split of {split.data} in {data_dir} lacks {', '.join(missing)}")
    return [file for files in found.values() for file in files]


def _shards(split: Split, data_dir: Path, config: str) -> list[Path]:
    folders = [data_dir / split.data / config, data_dir / config]
    if len(split.configs) == 1:
        folders += [data_dir / split.data, data_dir]
    for folder in folders:
        if files := sorted(folder.glob(f"{split.split}-*.parquet")):
            ends = [SHARD.search(file.name) for file in files]
            if ends[0] and int(ends[0][2]) != len(files):
                raise TaskDataError(f"{folder} holds {len(files)} of the {int(ends[0][2])} parts of {files[0].name}")
            return files
    return []


def fetch(split: Split) -> SplitData:
    """Return a split from the hub or its cache; TaskDataError when it cannot be had."""

    def load() -> SplitData:
        import datasets

        rows: list[Row] = []
        for config in split.configs:
            rows += [dict(row) for row in datasets.load_dataset(split.hub, config or None, split=split.split)]
        check_rows(split, split.hub, list(enumerate(rows, start=1)), "")
        content = content_hash(rows, split.fields)
        return _checked(split, rows, split.hub, content, content)

    return fetched(split, load)


def fetched(split: Split, load: Callable[[], SplitData], *, obeys_switch: bool = True) -> SplitData:
    """Return what `load` brings from the publisher, or from the cache of what it fetched before.

    Args:
        split: what is fetched.
        load: fetches it.
        obeys_switch: whether `load` knows the hub's switch for being offline; otherwise it is not even tried then.

    Raises:
        TaskDataError: it cannot be had; says what to do.
    """
    is_offline = os.environ.get("HF_HUB_OFFLINE", "").lower() in ("1", "true", "yes", "on")
    advice = f"give a folder with {split.file_stem}.jsonl.gz: --data-dir"
    what = f"the data of {split.data} ({split.hub})"
    offline = f"{what} would have to be fetched: no network, or offline was asked for; {advice}"
    if is_offline and not obeys_switch:
        raise TaskDataError(offline)
    try:
        return load()
    except TaskDataError:
        raise
    except Exception as error:
        if is_offline:
            raise TaskDataError(offline) from error
        reason = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
        raise TaskDataError(f"{what} could not be fetched: {reason}; {advice}") from error


def _checked(split: Split, rows: Sequence[Row], source: str, sha256: str, content: str) -> SplitData:
    if split.known and len(rows) != split.num_rows:
        cut = "; it was cut short" if len(rows) < split.num_rows else ""
        raise TaskDataError(
            f"data file {source} holds {len(rows)} problems, {split.data} has {split.num_rows}{cut}; "
            f"{split.identity(sha256)}; fetch it again"
        )
    release = split.known.get(sha256) or split.known.get(content)
    return SplitData(tuple(rows), source, sha256, content, release)


def check_rows(split: Split, source: Path | str, numbered: Numbered, sha256: str) -> None:
    """Check every row of a file; TaskDataError names the first that does not fit."""
    identity = f"; {split.identity(sha256)}" if sha256 else ""
    if not numbered:
        raise TaskDataError(f"data file {source} is empty{identity}; fetch it again")
    seen: dict[Any, int] = {}
    for number, row in numbered:
        if fault := _fault(split, row):
            raise TaskDataError(f"data file {source}, line {number}: {fault}{identity}")
        if split.key is None:
            continue
        if (first := seen.setdefault(row[split.key], number)) != number:
            shown = repr(row[split.key])[:60]
            raise TaskDataError(
                f"data file {source}, line {number}: the {split.key} {shown} is that of line {first} too{identity}"
            )


def _fault(split: Split, row: Row) -> str:
    for name, kind in split.fields.items():
        if not isinstance(row.get(name), kind):
            found = "no such field" if name not in row else f"it is {type(row[name]).__name__}"
            return (
                f"field '{name}' of {split.data} is missing or of another kind ({found}); found the fields "
                f"{', '.join(map(str, row)) or 'none'}, {split.data} has {', '.join(split.fields)}"
            )
    for name, pattern in split.must_hold.items():
        if not re.search(pattern, row[name]):
            return f"the {name} lacks what every {name} of {split.data} has ({pattern}); it is {row[name][-40:]!r}"
    return ""


def content_hash(rows: Iterable[Row], fields: Iterable[str]) -> str:
    """Return the sha256 of the named fields of all rows in order, the same for every kind of file."""
    digest, names = hashlib.sha256(), sorted(fields)
    for row in rows:
        digest.update(json.dumps({name: row[name] for name in names}, sort_keys=True).encode() + b"\n")
    return digest.hexdigest()


def _listing(folder: Path) -> str:
    names = sorted(entry.name for entry in folder.iterdir())
    return ", ".join(names[:8]) + (f" and {len(names) - 8} more" if len(names) > 8 else "") if names else "nothing"

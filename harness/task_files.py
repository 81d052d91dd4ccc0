"""Reading one split of a task from local files, with a sentence for everything that can be wrong with them."""

from __future__ import annotations

import gzip
import hashlib
import json
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lopa_bench.errors import TaskDataError

Row = dict[str, Any]


@dataclass(frozen=True)
class SplitData:
    """The rows of a split and what identifies them: file, number of rows, sha256 of the uncompressed bytes."""

    rows: list[Row]
    source: str
    sha256: str

    def card(self) -> dict[str, Any]:
        """What a run record keeps of it."""
        return {"source": self.source, "num_rows": len(self.rows), "sha256": self.sha256}


def find_split(data_dir: Path, task: str, split: str) -> Path | None:
    """Return the file or saved folder that holds a split, or None.

    Looked for, in this order: `{task}_{split}.jsonl.gz`, `.jsonl`, `.parquet`; a folder written by `datasets`
    (`{task}_{split}/`, or one of all splits: `{task}/` or the data folder itself); the hub's own parquet layout
    (`main/{split}-*.parquet`).
    """
    for suffix in (".jsonl.gz", ".jsonl", ".parquet"):
        if (file := data_dir / f"{task}_{split}{suffix}").is_file():
            return file
    for folder in (data_dir / f"{task}_{split}", data_dir / task / split, data_dir / split):
        if (folder / "dataset_info.json").is_file():
            return folder
    for folder in (data_dir / task / "main", data_dir / "main", data_dir):
        if files := sorted(folder.glob(f"{split}-*.parquet")):
            return files[0]
    return None


def read_split(data_dir: Path, task: str, split: str, fields: Sequence[str]) -> SplitData:
    """Read a split and check that every row has the text fields the task needs.

    Raises:
        TaskDataError: the folder or file is absent, damaged, or holds other fields; names file and line.
    """
    if not data_dir.is_dir():
        raise TaskDataError(
            f"data folder {data_dir} does not exist; give the folder that holds {task}_{split}.jsonl.gz"
        )
    path = find_split(data_dir, task, split)
    if path is None:
        raise TaskDataError(
            f"no {split} split of {task} in {data_dir}: looked for {task}_{split}.jsonl.gz, .jsonl, .parquet and saved "
            f"folders, found {_listing(data_dir)}"
        )
    if path.is_dir():
        data = _read_saved_folder(path)
    elif path.suffix == ".parquet":
        data = _read_parquet(path)
    else:
        data = _read_lines(path)
    _check_fields(data, fields)
    return data


def _listing(folder: Path) -> str:
    names = sorted(entry.name for entry in folder.iterdir())
    return ", ".join(names[:8]) + (f" and {len(names) - 8} more" if len(names) > 8 else "") if names else "nothing"


def _read_lines(path: Path) -> SplitData:
    try:
        content = path.read_bytes()
        if path.suffix == ".gz":
            content = gzip.decompress(content)
        text = content.decode("utf-8")
    except (OSError, EOFError, zlib.error, UnicodeDecodeError) as error:
        raise TaskDataError(f"data file {path} is damaged: {error}; fetch it again") from error
    rows = []
    for number, line in enumerate(text.splitlines(), start=1):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
        except json.JSONDecodeError as error:
            start = line[:40].strip()
            raise TaskDataError(
                f"data file {path} is damaged at line {number}: not JSON ({error.msg}), it starts with {start!r}; "
                "fetch it again"
            ) from error
        if not isinstance(row, dict):
            raise TaskDataError(f"data file {path} is damaged at line {number}: a {type(row).__name__}, not an object")
        rows.append(row)
    if not rows:
        raise TaskDataError(f"data file {path} is empty; fetch it again")
    return SplitData(rows, str(path), hashlib.sha256(content).hexdigest())


def _read_parquet(path: Path) -> SplitData:
    from pyarrow import ArrowInvalid, parquet  # type: ignore[import-untyped]

    try:
        rows = parquet.read_table(path).to_pylist()
    except (OSError, ArrowInvalid) as error:
        raise TaskDataError(f"data file {path} is damaged: {error}; fetch it again") from error
    return SplitData(rows, str(path), hashlib.sha256(path.read_bytes()).hexdigest())


def _read_saved_folder(path: Path) -> SplitData:
    import datasets

    try:
        rows = [dict(row) for row in datasets.load_from_disk(str(path))]
    except (OSError, ValueError) as error:
        raise TaskDataError(f"saved data folder {path} cannot be read: {error}; save it again") from error
    content = "\n".join(json.dumps(row, sort_keys=True) for row in rows)
    return SplitData(rows, str(path), hashlib.sha256(content.encode()).hexdigest())


def _check_fields(data: SplitData, fields: Sequence[str]) -> None:
    if not data.rows:
        raise TaskDataError(f"data file {data.source} is empty; fetch it again")
    for number, row in enumerate(data.rows, start=1):
        for field in fields:
            if not isinstance(row.get(field), str):
                raise TaskDataError(
                    f"data file {data.source}, row {number}: no text field '{field}', found "
                    f"{', '.join(map(str, row)) or 'no fields'}; this task needs {', '.join(fields)}"
                )

"""The kinds of file that data come in, each read into rows with the number of the line that a row stands in."""

from __future__ import annotations

import gzip
import hashlib
import json
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

from lopa_bench.errors import TaskDataError

GZIP_MARK = b"\x1f\x8b"

Row = dict[str, Any]
Identity = Callable[[str], str]


def read_rows(path: Path, identity: Identity) -> tuple[list[tuple[int, Row]], str]:
    """Read a file or a folder saved by `datasets`.

    Args:
        path: `.jsonl`, `.jsonl.gz`, `.parquet`, or a folder.
        identity: says of a sha256 whether it is a known one.

    Returns:
        The rows, each with its line, and the sha256 of the (uncompressed) file; "" for a folder.

    Raises:
        TaskDataError: it is damaged or of another kind; says where.
    """
    if path.is_dir():
        return _read_saved_folder(path), ""
    if path.suffix == ".parquet":
        return _read_parquet(path)
    return _read_lines(path, identity)


def _read_lines(path: Path, identity: Identity) -> tuple[list[tuple[int, Row]], str]:
    content = _uncompressed(path)
    sha256 = hashlib.sha256(content).hexdigest()
    numbered = []
    for number, line in enumerate(content.split(b"\n"), start=1):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
        except ValueError as error:  # not JSON, or not text
            start = line[:40].decode(errors="replace").strip()
            page = ", a web page saved under this name" if start.startswith("<") else ""
            raise TaskDataError(
                f"data file {path} is damaged at line {number}: not JSON ({error}), it starts with {start!r}{page}; "
                f"{identity(sha256)}; fetch it again"
            ) from error
        if not isinstance(row, dict):
            raise TaskDataError(
                f"data file {path} is damaged at line {number}: a {type(row).__name__}, not an object; "
                f"{identity(sha256)}; fetch it again"
            )
        numbered.append((number, row))
    return numbered, sha256


def _uncompressed(path: Path) -> bytes:
    try:
        content = path.read_bytes()
    except OSError as error:
        raise TaskDataError(f"data file {path} cannot be read: {error.strerror or error}") from error
    if path.suffix != ".gz":
        if content.startswith(GZIP_MARK):
            raise TaskDataError(f"data file {path} is gzip and not named so: rename it to {path.name}.gz, or unpack it")
        return content
    try:
        return gzip.decompress(content)
    except (OSError, EOFError, zlib.error) as error:
        sha256 = hashlib.sha256(content).hexdigest()[:12]
        start = content[:40].decode(errors="replace").strip()
        page = ", a web page saved under this name" if start.startswith("<") else ""
        raise TaskDataError(
            f"data file {path} is damaged: {error}{page}; the sha256 of the compressed file is {sha256}; fetch it again"
        ) from error


def _read_parquet(path: Path) -> tuple[list[tuple[int, Row]], str]:
    from pyarrow import ArrowException, parquet  # type: ignore[import-untyped]

    try:
        rows = parquet.read_table(path).to_pylist()
        sha256 = hashlib.sha256(path.read_bytes()).hexdigest()
    except (OSError, ArrowException) as error:
        raise TaskDataError(f"data file {path} is damaged: {error}; fetch it again") from error
    return list(enumerate(rows, start=1)), sha256


def _read_saved_folder(path: Path) -> list[tuple[int, Row]]:
    import datasets

    try:
        saved = datasets.load_from_disk(str(path))
        return [(number, dict(row)) for number, row in enumerate(saved, start=1)]
    except Exception as error:  # whatever `datasets` and pyarrow raise for a file that is not whole
        reason = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
        raise TaskDataError(f"saved data folder {path} cannot be read: {reason}; save it again") from error

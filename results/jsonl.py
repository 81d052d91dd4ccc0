"""Line-by-line JSON files that survive a kill: appended whole, and mended when the last write was cut short."""

from __future__ import annotations

import errno
import gzip
import json
import os
import zlib
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lopa_bench.errors import ResultsError

GZIP_BEGINS = b"\x1f\x8b\x08"
GZIP_WINDOW = 31  # zlib's code for "a gzip header and trailer, the largest window"
CHUNK = 1 << 16
NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


@contextmanager
def sentence_on_os_error(action: str, path: Path, advice: str = "") -> Iterator[None]:
    """Turn an OSError of the body into a ResultsError "cannot ACTION PATH: REASON; ADVICE"."""
    try:
        yield
    except OSError as error:
        reason = error.strerror or str(error)
        if error.errno in NO_ROOM:
            advice = "make room and run the same command again, all that was stored is kept"
        raise ResultsError(f"cannot {action} {path}: {reason}" + (f"; {advice}" if advice else "")) from error


def replace_file(path: Path, data: bytes) -> None:
    """Write `data` to `path` so that a reader, or a kill at any moment, finds the old or the new content whole."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        with sentence_on_os_error("write", path), temporary.open("wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
            temporary.replace(path)
    finally:
        with suppress(OSError):
            temporary.unlink(missing_ok=True)


class Appender:
    """An open file to which whole pieces are appended: each is on the disk when `append` returns, or not at all.

    The file must have no other writer. With `ResultsError` on a full disk the file is back at its last whole piece.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        with sentence_on_os_error("open", path):
            self._descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
            self._size = os.fstat(self._descriptor).st_size

    def append(self, piece: bytes) -> None:
        """Append `piece` and wait until the disk has it."""
        with sentence_on_os_error("write to", self.path):
            try:
                written = 0
                while written < len(piece):
                    written += os.write(self._descriptor, piece[written:])
                os.fsync(self._descriptor)
            except BaseException:  # a Ctrl-C between two partial writes must not leave half a line either
                with suppress(OSError):
                    os.ftruncate(self._descriptor, self._size)
                raise
        self._size += len(piece)

    def close(self) -> None:
        """Close the file; doing so twice is harmless."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1


@dataclass(frozen=True)
class Lines:
    """The objects of a JSON-lines file, the file's content as it should be, and how that differs from what it was."""

    objects: list[dict[str, Any]]
    content: bytes
    mended: bool
    notes: list[str]


def read_lines(path: Path) -> Lines:
    """Read a JSON-lines file that a kill may have cut.

    A last line cut short is dropped, two objects on one line are parted, both with a note; damage anywhere else
    raises ResultsError with the line's number. An absent file is an empty one.
    """
    with sentence_on_os_error("read", path):
        raw = path.read_bytes() if path.exists() else b""
    return parse_lines(raw, path)


def parse_lines(raw: bytes, path: Path) -> Lines:
    """Parse the bytes of a JSON-lines file, as `read_lines`; `path` is for messages."""
    objects: list[dict[str, Any]] = []
    good: list[bytes] = []
    notes: list[str] = []
    lines = raw.split(b"\n")
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        found, whole = _objects_of(line)
        if not whole:
            if number != len(lines):
                raise ResultsError(
                    f"{path} is damaged at line {number}; delete that line and run the same command again to redo it"
                )
            notes.append(f"{path.name}: the last line was half written and was cut")
        elif len(found) > 1:
            notes.append(f"{path.name}: line {number} held {len(found)} objects and was parted")
        objects.extend(found)
        if whole and len(found) == 1:
            good.append(line)
        else:
            good.extend(json.dumps(one, ensure_ascii=False).encode() for one in found)
    content = b"".join(line + b"\n" for line in good)
    return Lines(objects, content, content != raw, notes)


def parse_json(raw: bytes | str) -> Any:
    """Parse one JSON document.

    Raises:
        ValueError: it is none, is nested too deeply, or holds half a character, which cannot be written again.
    """
    try:
        value = json.loads(raw)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    if not _can_be_written(value, raw):
        raise ValueError("it holds half a character")
    return value


def _can_be_written(value: Any, raw: bytes | str) -> bool:
    """Tell whether text made of `raw` is all Unicode: JSON can spell half of a surrogate pair."""
    if (b"\\ud" if isinstance(raw, bytes) else "\\ud") not in raw.lower():  # type: ignore[operator]
        return True
    try:
        json.dumps(value, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        return False
    return True


def _objects_of(line: bytes) -> tuple[list[dict[str, Any]], bool]:
    """Return the JSON objects a line begins with, and whether they are all of it."""
    decoder = json.JSONDecoder()
    found: list[dict[str, Any]] = []
    try:
        text = line.decode().strip()
    except UnicodeDecodeError as error:  # a cut inside a character: what is before it may hold whole objects
        text = line[: error.start].decode().strip() + "\ufffd"
    while text:
        try:
            value, end = decoder.raw_decode(text)
        except (ValueError, RecursionError):  # no JSON, a number of thousands of digits, brackets without end
            return found, False
        if not isinstance(value, dict) or not _can_be_written(value, line):
            return found, False
        found.append(value)
        text = text[end:].lstrip()
    return found, True


def gzip_member(data: bytes) -> bytes:
    """Compress `data` to a gzip member of its own; members set one after another are one valid gzip file."""
    return gzip.compress(data, mtime=0)


def what_is_behind(raw: bytes, end: int) -> str | None:
    """Say what stands behind the whole members of a gzip file, which end at `end`; None where nothing does."""
    if end >= len(raw):
        return None
    if raw.find(GZIP_BEGINS, end + 1) >= 0 or not raw.startswith(GZIP_BEGINS, end):
        return f"it is damaged at byte {end}, and what stands from there on"
    return "the last trace was half written and"


def whole_members(raw: bytes) -> tuple[bytes, int]:
    """Return the decompressed content of the whole gzip members `raw` begins with, and where the last of them ends."""
    content: list[bytes] = []
    end = 0
    while end < len(raw):
        member = zlib.decompressobj(GZIP_WINDOW)
        pieces: list[bytes] = []
        position = end
        try:
            while position < len(raw) and not member.eof:  # by chunks: `unused_data` copies what follows the member
                chunk = raw[position : position + CHUNK]
                pieces.append(member.decompress(chunk))
                position += len(chunk)
        except zlib.error:
            break
        if not member.eof:
            break
        content += pieces
        end = position - len(member.unused_data)
    return b"".join(content), end

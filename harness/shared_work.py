"""Several runs planned or made one after another: what they have in common is done once.

The cells of a sweep read the same tokenizers and data, ask git and the installed packages the same, and hash the same
weights. Nothing outlives the body of `shared_work`, and every key holds all that the value depends on.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import Any, TypeVar

from lopa_bench.errors import LopaBenchError

T = TypeVar("T")

_shelf: ContextVar[dict[Hashable, Any] | None] = ContextVar("shared_work", default=None)


@contextmanager
def shared_work() -> Iterator[None]:
    """Let `once` keep what it makes while the body runs; a body within another shares with it."""
    if _shelf.get() is not None:
        yield
        return
    token = _shelf.set({})
    try:
        yield
    finally:
        _shelf.reset(token)


def once(key: Hashable, make: Callable[[], T]) -> T:
    """Return what `make` gives: within `shared_work` the first time only, and from then on the same object.

    An error for the user is kept too, so that ten thousand cells of one bad checkpoint read it once.
    """
    shelf = _shelf.get()
    if shelf is None:
        return make()
    if key not in shelf:
        try:
            shelf[key] = make()
        except LopaBenchError as error:
            shelf[key] = error
    found: T | LopaBenchError = shelf[key]
    if isinstance(found, LopaBenchError):
        raise found.with_traceback(None)
    return found


def folder_state(folder: Path, names: Iterable[str] | None = None) -> tuple[tuple[str, int, int], ...]:
    """Return name, size and time of change of a folder's files, those named or all: equal while nobody changes them."""
    try:
        files = [folder / name for name in names] if names is not None else sorted(folder.iterdir())
        states = [(file.name, file.stat()) for file in files if file.is_file()]
    except OSError:
        return ()  # whoever reads a file of it says what is wrong
    return tuple((name, state.st_size, state.st_mtime_ns) for name, state in states)

"""Several runs of one process over the same checkpoint: its weights are read once."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

_shelf: ContextVar[dict[Hashable, Any] | None] = ContextVar("loaded_models", default=None)


@contextmanager
def models_kept() -> Iterator[None]:
    """Keep the model that was loaded last while the body runs; never more than one, for two might not fit."""
    token = _shelf.set({})
    try:
        yield
    finally:
        _shelf.reset(token)


def kept(key: Hashable, load: Callable[[], Any]) -> Any:
    """Return the model of `key`: the one kept, where `models_kept` is in force, otherwise what `load` gives."""
    shelf = _shelf.get()
    if shelf is None:
        return load()
    if key not in shelf:
        shelf.clear()  # before the next one is read
        shelf[key] = load()
    return shelf[key]

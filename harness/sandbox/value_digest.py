"""A digest that is equal for two plain values exactly if they are equal, for values too big to send and to keep.

The child loads this file by its path, like `plain_values`: standard library only.
"""

from __future__ import annotations

import itertools
import marshal
import sys
from collections.abc import Iterable
from typing import Any

CHUNK = 4096
MAX_DEPTH = 200
SIMPLE = {str, int, type(None)}
BASES = (int, float, str, list, tuple, dict, set, frozenset, complex, bytes, bytearray)


class NotPlain(Exception):
    """A value that has no digest: it holds a NaN or another type's value, or is nested too deeply."""


def digest(value: Any) -> str:
    """Return a text that is the same for equal values (1, 1.0 and True are; a list and a tuple never).

    Raises:
        NotPlain: the value has none.
    """
    import hashlib  # slow to import, and hardly ever needed in the child

    state = hashlib.sha256()
    base = base_of(value)
    try:
        if base is list or base is tuple:
            items = base.__iter__(value)
            state.update(f"{base.__name__} {base.__len__(value)} ".encode())
            while chunk := list(itertools.islice(items, CHUNK)):  # a gigabyte in one piece would not fit
                state.update(marshal.dumps(_uniform_items(chunk, 0), 0))
        else:
            state.update(marshal.dumps(_uniform(value, 0), 0))
    except (RecursionError, ValueError) as error:
        raise NotPlain(str(error)) from None
    return state.hexdigest()


def base_of(value: object) -> Any:
    """Return the plain type that a value's real type is or comes from, None when it is none of them."""
    return next((kind for kind in type.__dict__["__mro__"].__get__(type(value)) if kind in BASES), None)


def _uniform(value: Any, depth: int) -> Any:
    """Return a value whose marshalled bytes are the same for all values that are equal to `value`."""
    if depth > MAX_DEPTH:
        raise NotPlain("nested too deeply")
    if value is None or type(value) is str:
        return value
    base = base_of(value)
    if base is int:
        return int.__index__(value)
    if base is float:
        return _uniform_float(float.__float__(value))
    if base is list or base is tuple:
        items = _uniform_items(value if type(value) is base else base(base.__iter__(value)), depth + 1)
        return items if type(items) is base else base(items)
    if base is dict:
        pairs = ((_uniform(key, depth + 1), _uniform(item, depth + 1)) for key, item in dict.items(value))
        return (..., "dict", _sorted(pairs))
    if base is set or base is frozenset:
        return (..., "set", _sorted(_uniform(item, depth + 1) for item in base.__iter__(value)))
    if base is complex:
        parts = (_uniform_float(value.real), _uniform_float(value.imag))
        return parts[0] if parts[1] == 0 else (..., "complex", *parts)
    if base is str:
        return str.__str__(value)
    if base is bytes or base is bytearray:
        return bytes(value)
    generic = getattr(sys.modules.get("numpy"), "generic", None)
    if isinstance(generic, type) and generic in type(value).__mro__:
        return _uniform(generic.item(value), depth + 1)  # type: ignore[attr-defined]
    raise NotPlain("a value of another type")


def _uniform_items(items: Any, depth: int) -> Any:
    """Return the items made uniform, in the same container where there is nothing to do (the usual case, and fast)."""
    kinds = set(map(type, items))
    if kinds == {tuple} or kinds == {list}:
        inner = set(map(type, itertools.chain.from_iterable(items)))
        if inner <= SIMPLE:
            return items
    if kinds <= SIMPLE:
        return items
    if kinds <= {int, float}:
        return [item if type(item) is int else _uniform_float(item) for item in items]
    return [_uniform(item, depth) for item in items]


def _uniform_float(value: float) -> Any:
    if value != value:
        raise NotPlain("a NaN equals nothing")
    return int(value) if value.is_integer() else value


def _sorted(items: Iterable[Any]) -> list[Any]:
    return sorted(items, key=lambda item: marshal.dumps(item, 0))

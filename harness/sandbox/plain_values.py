"""Values of plain types as JSON and back.

Both sides of the sandbox use it: the child, which runs programs that nobody has read, and the parent, which must
never unpickle anything of theirs. The child loads this file by its path, so it may import the standard library only.

What arrives is of a type listed here or an `Opaque`, which equals nothing: an object's own `__eq__`, `__class__` or
`__iter__` stays in the child. A subclass (a Counter, a named tuple, a numpy float) travels as its base type's content.
"""

from __future__ import annotations

import itertools
import sys
from collections.abc import Iterator
from types import GeneratorType
from typing import Any

# Started for every program anew, the child imports as little as it can: no dataclasses, and decimal and fractions
# only where there is something for them to do.

FORMAT = 1
"""Raise it with any change of what is written: stored expected values are kept per format."""
MAX_COST = 2**18
"""Characters, with 8 for every item, up to which a value is sent itself and not as a digest."""
MAX_DEPTH = 200
MAX_ITERATED = 100_000
LARGEST_JSON_INTEGER = 2**53


class TooBig(Exception):
    """A value that is sent as a digest."""


class Opaque:
    """What stands for a value of another type: its type's name and, where it was asked, its truth."""

    __slots__ = ("truth", "type_name")

    def __init__(self, type_name: str, truth: bool | None = None) -> None:
        self.type_name = type_name
        self.truth = truth

    def __bool__(self) -> bool:
        return True if self.truth is None else self.truth

    def __repr__(self) -> str:
        return f"<a {self.type_name}>"


def type_name(value: object) -> str:
    """Return "list", or "collections.Counter" for a type that is not built in."""
    kind = type(value)
    module, name = type.__dict__["__module__"].__get__(kind), type.__dict__["__qualname__"].__get__(kind)
    return str(name) if module == "builtins" else f"{module}.{name}"


def is_a(value: object, kind: type) -> bool:
    """Tell whether a value's real type is `kind` or below; `isinstance` would believe the value's own `__class__`."""
    return kind in type.__dict__["__mro__"].__get__(type(value))


def settle(value: Any) -> Any:
    """Take out of a result what needs its own code: an iterator's items, an unknown object's truth.

    Run it under the program's time limit. Raises whatever that code raises.
    """
    if any(is_a(value, kind) for kind in PLAIN) or any(is_from(value, *name) for name in NUMBERS):
        return value
    if type(value) in ITERATOR_TYPES:
        return iter(list(itertools.islice(value, MAX_ITERATED)))
    return Opaque(type_name(value), bool(value))


PLAIN: tuple[type, ...] = (
    type(None), int, float, complex, str, bytes, bytearray, list, tuple, set, frozenset, dict, range, Opaque,
)  # fmt: skip
ITERATOR_TYPES: tuple[type, ...] = (
    GeneratorType, map, filter, zip, enumerate, reversed, type(iter([])), type(iter(())), type({}.keys()),
    type({}.values()), type({}.items()), type(iter(set())), type(iter("")), type(iter(range(0))),
)  # fmt: skip


NUMPY_SCALAR, DECIMAL, FRACTION = NUMBERS = ("numpy", "generic"), ("decimal", "Decimal"), ("fractions", "Fraction")


def is_from(value: object, module: str, name: str) -> bool:
    """Tell whether a value is of a module's type; without the module loaded there can be none."""
    kind = getattr(sys.modules.get(module), name, None)
    return isinstance(kind, type) and is_a(value, kind)


def encode(value: Any, budget: list[int] | None = None, depth: int = 0) -> Any:
    """Return `value` as something that `json` can write; `decode` gives it back.

    Args:
        value: anything; what is not plain becomes an Opaque.
        budget: `[cost left]`, taken from as it goes; None for no limit.
        depth: how deep in the whole value it stands.

    Raises:
        TooBig: the budget is spent.
    """
    if depth > MAX_DEPTH:
        return {"opaque": ["a value nested too deeply", True]}
    if budget is not None:
        _spend(budget, 8)
    if value is None or value is True or value is False:
        return value
    if (write := WRITERS.get(type(value))) is not None:
        return write(value, budget, depth + 1)
    for kind, write in WRITERS.items():
        if is_a(value, kind):
            return write(value, budget, depth + 1)
    if is_from(value, *NUMPY_SCALAR):
        return _encode_numpy(value, budget, depth + 1)
    if is_from(value, *DECIMAL):
        return {"decimal": sys.modules["decimal"].Decimal.__str__(value)}
    if is_from(value, *FRACTION):
        return {"fraction": _encode_all(sys.modules["fractions"].Fraction.as_integer_ratio(value), budget, depth + 1)}
    if type(value) is Opaque:
        return {"opaque": [value.type_name, value.truth]}
    return {"opaque": [type_name(value), None]}


def _spend(budget: list[int] | None, cost: int) -> None:
    if budget is not None:
        budget[0] -= cost
        if budget[0] < 0:
            raise TooBig


def _encode_all(items: Any, budget: list[int] | None, depth: int) -> list[Any]:
    return [encode(item, budget, depth) for item in items]


def _encode_int(value: int, budget: list[int] | None, _: int) -> Any:
    value = int.__index__(value)
    if -LARGEST_JSON_INTEGER < value < LARGEST_JSON_INTEGER:
        return value
    _spend(budget, value.bit_length() // 4)
    return {"int": hex(value)}


def _encode_float(value: float, _budget: list[int] | None, _depth: int) -> Any:
    value = float.__float__(value)
    return value if value - value == 0 else {"float": float.__repr__(value)}


def _encode_dict(value: dict[Any, Any], budget: list[int] | None, depth: int) -> Any:
    return {"dict": [[encode(k, budget, depth), encode(v, budget, depth)] for k, v in dict.items(value)]}


def _encode_numpy(value: Any, budget: list[int] | None, depth: int) -> Any:
    plain = sys.modules["numpy"].generic.item(value)
    return encode(Opaque(type_name(value)) if is_from(plain, *NUMPY_SCALAR) else plain, budget, depth)


def _encode_bytes(value: Any, budget: list[int] | None, _: int) -> Any:
    _spend(budget, 2 * len(value))
    return {"bytes": bytes(value).hex()}


def _encode_text(value: str, budget: list[int] | None, _: int) -> Any:
    _spend(budget, str.__len__(value))
    return str.__str__(value)


WRITERS: dict[type, Any] = {
    int: _encode_int,
    float: _encode_float,
    str: _encode_text,
    list: lambda value, budget, depth: _encode_all(list.__iter__(value), budget, depth),
    tuple: lambda value, budget, depth: {"tuple": _encode_all(tuple.__iter__(value), budget, depth)},
    dict: _encode_dict,
    set: lambda value, budget, depth: {"set": _encode_all(set.__iter__(value), budget, depth)},
    frozenset: lambda value, budget, depth: {"frozenset": _encode_all(frozenset.__iter__(value), budget, depth)},
    complex: lambda value, budget, depth: {"complex": _encode_all((value.real, value.imag), budget, depth)},
    bytes: _encode_bytes,
    bytearray: _encode_bytes,
    range: lambda value, budget, depth: {"range": _encode_all((value.start, value.stop, value.step), budget, depth)},
    type(iter([])): lambda value, budget, depth: {"iterator": _encode_all(value, budget, depth)},
}


def decode(data: Any, depth: int = 0) -> Any:
    """Return the value that `encode` wrote; whatever else `data` may be, no code of the program's is run.

    Raises:
        ValueError: it was not written by `encode`.
    """
    if data is None or isinstance(data, (bool, int, float, str)):
        return data
    if depth > MAX_DEPTH + 2:
        raise ValueError("nested too deeply")
    if isinstance(data, list):
        return [decode(item, depth + 1) for item in data]
    tag, content = next(iter(data.items()), ("", None)) if isinstance(data, dict) else ("", None)
    if tag not in READERS:
        raise ValueError(f"no value is written as {tag!r}")
    try:
        return READERS[tag](content, depth + 1)
    except (TypeError, KeyError, ArithmeticError) as error:
        raise ValueError(f"not a {tag}: {error}") from None


def _items(content: Any, depth: int) -> Iterator[Any]:
    if not isinstance(content, list):
        raise ValueError("not a list of items")
    return (decode(item, depth) for item in content)


def _read_decimal(content: Any, _: int) -> Any:
    from decimal import Decimal

    return Decimal(content)


def _read_fraction(content: Any, depth: int) -> Any:
    from fractions import Fraction

    return Fraction(*_items(content, depth))


def _read_range(content: Any, depth: int) -> range:
    value = range(*_items(content, depth))
    if len(value) > MAX_ITERATED:
        raise ValueError("a range of too many items")
    return value


def _read_opaque(content: Any, _: int) -> Opaque:
    name, truth = content
    if truth not in (True, False, None):
        raise ValueError("no truth value")
    return Opaque(str(name), truth)


READERS: dict[str, Any] = {
    "int": lambda content, depth: int(content, 16),
    "float": lambda content, depth: float(content),
    "tuple": lambda content, depth: tuple(_items(content, depth)),
    "set": lambda content, depth: set(_items(content, depth)),
    "frozenset": lambda content, depth: frozenset(_items(content, depth)),
    "dict": lambda content, depth: {decode(k, depth): decode(v, depth) for k, v in content},
    "complex": lambda content, depth: complex(*_items(content, depth)),
    "bytes": lambda content, depth: bytes.fromhex(content),
    "decimal": _read_decimal,
    "fraction": _read_fraction,
    "range": _read_range,
    "iterator": lambda content, depth: iter(list(_items(content, depth))),
    "opaque": _read_opaque,
}

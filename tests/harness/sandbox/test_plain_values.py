from __future__ import annotations

import json
import math
from collections import Counter, OrderedDict, defaultdict, namedtuple
from decimal import Decimal
from enum import IntEnum
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lopa_bench.harness.sandbox.plain_values import (
    MAX_COST,
    MAX_ITERATED,
    Opaque,
    TooBig,
    decode,
    encode,
    settle,
    type_name,
)
from lopa_bench.harness.sandbox.value_digest import NotPlain, digest

NUMBERS = st.integers() | st.floats(allow_nan=False) | st.complex_numbers(allow_nan=False)
HASHABLE = st.recursive(
    st.none() | st.booleans() | NUMBERS | st.text() | st.binary(),
    lambda inner: st.tuples(inner, inner) | st.frozensets(inner, max_size=3),
    max_leaves=6,
)
VALUES = st.recursive(
    HASHABLE | st.sets(HASHABLE, max_size=3),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(HASHABLE, inner, max_size=3) | st.tuples(inner, inner),
    max_leaves=12,
)
Point = namedtuple("Point", "x y")


class Colour(IntEnum):
    RED = 1


def sent(value: Any) -> Any:
    """What arrives at the other end of the pipe."""
    return decode(json.loads(json.dumps(encode(value))))


def same(left: Any, right: Any) -> bool:
    return repr(left) == repr(right) if not isinstance(left, (set, frozenset, dict)) else left == right


@given(VALUES)
@settings(max_examples=60, deadline=None)
def test_values_arrive_as_they_were(value: Any) -> None:
    arrived = sent(value)
    assert type(arrived) is type(value)
    assert arrived == value


@pytest.mark.parametrize(
    "value",
    [10**400, -(2**53), 2**53, 2**63, 0.1, 1e308, -0.0, math.inf, -math.inf, "\ud800", "\0", b"\xff", (), [], {}, set(),
     1j, Decimal("1.50"), Fraction(1, 3), range(3, 9, 2), [(1, [2, {3: {4}}])], True, None],
    ids=repr,
)  # fmt: skip
def test_odd_values_arrive(value: Any) -> None:
    arrived = sent(value)
    assert type(arrived) is type(value)
    assert same(arrived, value)


def test_nan_arrives() -> None:
    assert math.isnan(sent(math.nan))


@pytest.mark.parametrize(
    ("value", "plain"),
    [
        (Counter("aab"), {"a": 2, "b": 1}),
        (OrderedDict(a=1), {"a": 1}),
        (defaultdict(list, a=[1]), {"a": [1]}),
        (Point(1, 2), (1, 2)),
        (Colour.RED, 1),
        (np.float64(0.5), 0.5),
        (np.int64(7), 7),
        (np.bool_(True), True),
        (bytearray(b"x"), b"x"),
    ],
)
def test_subclasses_and_numpy_numbers_travel_as_their_content(value: Any, plain: Any) -> None:
    assert sent(value) == plain
    assert type(sent(value)) is type(plain)


def test_the_type_s_own_name_is_kept() -> None:
    assert type_name(Counter()) == "collections.Counter"
    assert type_name(np.float64(1)) == "numpy.float64"
    assert type_name(1) == "int"


class Equal(int):
    def __eq__(self, other: object) -> bool:
        return True

    __hash__ = int.__hash__

    def __index__(self) -> int:
        return 42


class Liar:
    __class__ = property(lambda self: dict)  # type: ignore[assignment]

    def items(self) -> list[Any]:
        raise AssertionError("asked")


class LyingList(list[int]):
    def __iter__(self) -> Any:
        raise AssertionError("asked")

    def __len__(self) -> int:
        raise AssertionError("asked")


def test_no_method_of_the_object_s_own_is_asked() -> None:
    assert sent(Equal(3)) == 3
    assert isinstance(sent(Liar()), Opaque)
    assert sent(LyingList([1, 2])) == [1, 2]
    assert digest(LyingList([1, 2])) == digest([1, 2])
    assert digest(Equal(3)) == digest(3)


def test_other_objects_equal_nothing() -> None:
    for value in (object(), len, int, np.array([1]), re_match()):
        arrived = sent(settle(value))
        assert isinstance(arrived, Opaque)
        assert arrived != sent(value)
        assert arrived not in (None, True, 1, [1])


def re_match() -> Any:
    import re

    return re.match("a", "a")


def test_truth_is_asked_once_and_kept() -> None:
    class Empty:
        def __bool__(self) -> bool:
            return False

    assert bool(sent(settle(Empty()))) is False
    assert bool(sent(settle(re_match()))) is True


def test_iterators_arrive_with_their_items() -> None:
    for iterator in (map(str, [1, 2]), (str(x) for x in (1, 2)), {"1": 0, "2": 0}.keys(), zip("12", strict=True)):
        assert len(list(sent(settle(iterator)))) == 2
    endless = iter(int, 1)
    assert isinstance(sent(settle(endless)), Opaque), "of a type that is not known to end"
    assert len(list(sent(settle(x for x in iter(int, 1))))) == MAX_ITERATED


def test_nested_without_end_is_not_plain() -> None:
    held: list[Any] = []
    held.append(held)
    assert "opaque" in json.dumps(encode(held))
    with pytest.raises(NotPlain):
        digest(held)


def test_big_values_are_not_sent() -> None:
    for value in ("x" * (MAX_COST + 1), [0] * MAX_COST, b"x" * MAX_COST, 2 ** (5 * MAX_COST)):
        with pytest.raises(TooBig):
            encode(value, [MAX_COST])


@pytest.mark.parametrize(
    "data",
    [{}, {"unknown": 1}, {"int": "x"}, {"int": 5}, {"set": [[1]]}, {"set": 3}, {"dict": [[1]]}, {"dict": [[[1], 2]]},
     {"complex": ["x", 1]}, {"range": [0, 10**9, 1]}, {"opaque": ["x", 5]}, {"opaque": 1}, {"fraction": [1, 0]},
     {"decimal": "x"}, {"bytes": "zz"}, {"float": "x"}, {"tuple": {"tuple": 1}}],
    ids=repr,
)  # fmt: skip
def test_what_was_not_written_by_encode_is_refused(data: Any) -> None:
    with pytest.raises(ValueError, match=r"\w"):
        decode(data)


def test_deep_data_are_refused() -> None:
    data: Any = 1
    for _ in range(5000):
        data = [data]
    with pytest.raises(ValueError, match="deeply"):
        decode(data)


@given(VALUES, VALUES)
@settings(max_examples=60, deadline=None)
def test_digests_are_equal_exactly_for_equal_values(left: Any, right: Any) -> None:
    assert (digest(left) == digest(right)) == (left == right)


@pytest.mark.parametrize(
    ("left", "right"),
    [(1, True), (1, 1.0), (0, -0.0), (2**60, float(2**60)), (1, 1 + 0j), ([1, 2.0, True], [1.0, 2, 1]), ((1,), (True,)),
     ({1, 2}, frozenset((2.0, 1))), ({1: "a", 2: "b"}, {2.0: "b", True: "a"}), (b"x", bytearray(b"x")),
     ([[1, "a"]] * 5000, [[1.0, "a"]] * 5000), (Counter("ab"), {"a": 1, "b": 1}), (np.float64(2), 2)],
)  # fmt: skip
def test_equal_values_of_different_types(left: Any, right: Any) -> None:
    assert left == right
    assert digest(left) == digest(right)


@pytest.mark.parametrize(
    ("left", "right"),
    [([1], (1,)), ("1", 1), (b"1", "1"), ([1, 2], [2, 1]), ([], ()), ([-1], [-2]), (0.1 + 0.2, 0.3), ([[]], [()]),
     ({1}, [1]), ({1: 2}, {2: 1}), (["ab"], ["a", "b"]), ([1] * 5000, [1] * 5001), (10**400, 10**400 + 1), (None, 0)],
)  # fmt: skip
def test_different_values(left: Any, right: Any) -> None:
    assert left != right
    assert digest(left) != digest(right)


def test_a_nan_has_no_digest() -> None:
    for value in (math.nan, [1.0, math.nan], {math.nan}):
        with pytest.raises(NotPlain):
            digest(value)

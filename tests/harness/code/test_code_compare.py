"""EvalPlus' rules, each with values that they let pass and values that they do not."""

from __future__ import annotations

from typing import Any

import pytest

from lopa_bench.harness.code.compare import Comparison, is_floats, only_not_none
from lopa_bench.harness.sandbox.plain_values import encode, type_name
from lopa_bench.harness.sandbox.program import Output
from lopa_bench.harness.sandbox.value_digest import digest


def output(value: Any) -> Output:
    return Output(data=encode(value), type_name=type_name(value))


def big(value: Any) -> Output:
    return Output(digest=digest(value), type_name=type_name(value))


def agrees(
    value: Any, wanted: Any, name: str = "f", family: str = "mbpp", arguments: Any = (), atol: float = 0
) -> bool:
    return Comparison(family, name, atol).agrees(arguments, output(value), output(wanted))


@pytest.mark.parametrize(
    ("value", "wanted"),
    [(1, 1), (1, True), (1.0, 1), ([1, (2,)], [1, (2,)]), ({1: {2}}, {1: {2}}), (None, None), (0.1 + 0.2, 0.3),
     ([0.1 + 0.2], [0.3]), ((0.1 + 0.2, 1.0), (0.3, 1.0)), (float("inf"), float("inf"))],
)  # fmt: skip
def test_equal(value: Any, wanted: Any) -> None:
    assert agrees(value, wanted)


@pytest.mark.parametrize(
    ("value", "wanted"),
    [(2, 1), ([1], (1,)), ("1", 1), (None, False), (0.31, 0.3), ([0.3, 0.3], [0.3]), ((0.1 + 0.2,), [0.3]),
     (float("nan"), float("nan")), ("0.3", 0.3), (object(), 1), (object(), None)],
)  # fmt: skip
def test_unequal(value: Any, wanted: Any) -> None:
    assert not agrees(value, wanted)


def test_tolerance_asks_for_the_same_type() -> None:
    import numpy as np

    assert agrees(np.float64(0.3), 0.3)
    assert not agrees(np.float64(0.1) + 0.2, 0.3), "equal within the tolerance, but a numpy number"
    assert not agrees(1, 1.0000001, atol=1e-4)
    assert agrees(1.0, 1.0000001, atol=1e-4)


def test_a_float_brings_a_tolerance_for_what_follows() -> None:
    comparison = Comparison("humaneval", "f", 0)
    near = 10**9, 10**9 + 1
    assert not comparison.agrees((), output(near[0]), output(near[1]))
    assert comparison.agrees((), output(0.5), output(0.5))
    assert comparison.agrees((), output(near[0]), output(near[1]))


def test_find_zero_needs_a_zero_and_not_the_same_one() -> None:
    rule = {"name": "find_zero", "family": "humaneval", "arguments": [[-6, 11, -6, 1]], "atol": 1e-4}
    for root in (1.0, 2.0, 3.0, 2.0000001):
        assert agrees(root, 1.0, **rule)
    for wrong in (0.5, 4.0, None, "1.0", float("nan")):
        assert not agrees(wrong, 1.0, **rule)


@pytest.mark.parametrize(
    ("name", "value", "wanted", "arguments", "right"),
    [
        ("are_equivalent", 5, True, (36, 57), True),
        ("sum_div", 0, 7, (8,), True),
        ("sum_div", 1, 7, (8,), False),
        ("surface_Area", 35, 33, (3, 4), True),
        ("surface_Area", 34, 33, (3, 4), False),
        ("digit_distance_nums", 1, 9, (1, 2), True),
        ("digit_distance_nums", 2, 9, (1, 2), False),
        ("similar_elements", [5, 4, 4], (4, 5), (), True),
        ("similar_elements", {4}, (4, 5), (), False),
        ("similar_elements", 4, (4, 5), (), False),
        ("check_str", "anything", True, (), True),
        ("check_str", None, True, (), False),
        ("check_str", None, False, (), True),
        ("check_str", False, False, (), True),
        ("check_str", False, True, (), False),
        ("check_str", 0, False, (), False),
    ],
)
def test_special_rules_of_mbpp(name: str, value: Any, wanted: Any, arguments: Any, right: bool) -> None:
    assert agrees(value, wanted, name, "mbpp", arguments) is right


def test_the_special_rules_are_mbpp_s_alone() -> None:
    assert not agrees(5, True, "are_equivalent", "humaneval")
    assert not only_not_none("humaneval", "check_str")
    assert only_not_none("mbpp", "check_str")


def test_big_values_are_compared_by_digest() -> None:
    value = list(range(1000))
    comparison = Comparison("humaneval", "f", 0)
    assert comparison.agrees((), big(value), big([float(item) for item in value]))
    assert comparison.agrees((), output(value), big(value))
    assert comparison.agrees((), big(value), output(value))
    assert not comparison.agrees((), big(value), big(value[:-1]))
    assert not comparison.agrees((), output([float("nan")]), big(value))


def test_whatever_cannot_be_compared_is_wrong() -> None:
    comparison = Comparison("humaneval", "f", 1e-6)
    assert not comparison.agrees((), Output(data={"unknown": 1}), output(1))
    assert not comparison.agrees((), Output(why="timeout"), output(1))
    assert not comparison.agrees((), output({"a": 1.0}), output({"a": 1.5}))
    assert not comparison.agrees((), output(["a"]), output([1.0]))


def test_floats_are_told_as_the_package_tells_them() -> None:
    from evalplus.eval import is_floats as package

    for value in (1.0, 1, [], [1.0], [1], [1.0, 1], (1.0,), {1.0}, "1.0", None, [[1.0]]):
        assert is_floats(value) == package(value), value

from __future__ import annotations

import pytest

from lopa_bench.tasks.final_number import last_number, marked_number, same_number


@pytest.mark.parametrize(
    ("text", "marked", "anywhere"),
    [
        ("so 5.\n#### 12", "12", "12"),
        ("#### 3\nmore\n#### 4", "4", "4"),
        ("#### 12 and then 99", "12", "99"),
        ("####12", "12", "12"),
        ("#### $1,234.50", "1234.50", "1234.50"),
        ("#### -7.", "-7", "-7"),
        ("#### 1 2", "1", "2"),
        ("####\n12", None, "12"),
        ("#### twelve", None, None),
        ("### 12", None, "12"),
        ("2+3=<<2+3=5>>5", None, "5"),
        ("#### ١٢", None, None),
        ("####", None, None),
        ("", None, None),
    ],
)
def test_numbers_are_found(text: str, marked: str | None, anywhere: str | None) -> None:
    assert marked_number(text) == marked
    assert last_number(text) == anywhere


@pytest.mark.parametrize(
    ("found", "is_same"),
    [("12", True), ("12.0", True), ("012", True), ("-12", False), ("1.2", False), ("9" * 5000, False), (None, False)],
)
def test_numbers_are_compared_by_value(found: str | None, is_same: bool) -> None:
    assert same_number(found, "12") is is_same

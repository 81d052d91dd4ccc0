"""Bounds as they are written and what they allow."""

from __future__ import annotations

import pytest

from lopa_bench.errors import ConfigError
from lopa_bench.results.comparison.bounds import DEFAULT_BOUNDS, Bound, Bounds, bounds_from, parse_bound, parse_max_drop


@pytest.mark.parametrize(
    ("text", "kind", "value"),
    [
        ("exact", "exact", 0), ("0%", "relative", 0), ("2%", "relative", 0.02), ("2.5%", "relative", 0.025),
        ("0.1", "absolute", 0.1), (".5", "absolute", 0.5), ("15%", "relative", 0.15), (" Exact ", "exact", 0),
    ],
)  # fmt: skip
def test_bounds_are_read(text: str, kind: str, value: float) -> None:
    found = parse_bound(text, "--tpf")
    assert (found.kind, found.value) == (kind, pytest.approx(value))
    assert parse_bound(str(found), "--tpf") == found


@pytest.mark.parametrize("text", ["", "-2%", "2%%", "nan", "inf", "1e-2", "two", "2 percent", "--"])
def test_what_is_no_bound_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match="--tpf is"):
        parse_bound(text, "--tpf")


@pytest.mark.parametrize(("text", "share"), [("acc=1.0pt", 0.01), ("acc=0pt", 0), ("accuracy=2.5 points", 0.025)])
def test_drops_are_read(text: str, share: float) -> None:
    assert parse_max_drop(text) == pytest.approx(share)


@pytest.mark.parametrize("text", ["1pt", "acc=1%", "acc=1", "acc=-1pt", "acc=101pt", "tpf=1pt", "acc=nanpt", ""])
def test_what_is_no_drop_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match="--max-drop"):
        parse_max_drop(text)


@pytest.mark.parametrize("option", ["tpf", "tps"])
def test_a_drop_by_all_of_it_is_no_bound(option: str) -> None:
    given = {"max_drop": None, "tpf": None, "forwards": "150%", "tps": None}
    assert bounds_from(**given).forwards is not None  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match=f"--{option} 100% can never be exceeded"):
        bounds_from(**{**given, option: "100%"})  # type: ignore[arg-type]


def test_a_speed_can_not_be_exact() -> None:
    with pytest.raises(ConfigError, match="never the same twice"):
        bounds_from(None, None, None, "exact")


@pytest.mark.parametrize(
    ("bound", "direction", "before", "after", "allowed"),
    [
        ("exact", "higher", 2.0, 2.0, True),
        ("exact", "higher", 2.0, 2.0 + 1e-12, True),
        ("exact", "higher", 2.0, 2.1, False),
        ("exact", "lower", 100, 99, False),
        ("0%", "lower", 100, 100, True),
        ("0%", "lower", 100, 101, False),
        ("0%", "lower", 100, 90, True),
        ("2%", "higher", 100, 98, True),
        ("2%", "higher", 100, 97.9, False),
        ("10%", "lower", 100, 110, True),
        ("10%", "lower", 100, 111, False),
        ("0.1", "higher", 2.0, 1.9, True),
        ("0.1", "higher", 2.0, 1.89, False),
        ("5%", "higher", 0.0, 0.0, True),
        ("5%", "lower", 0.0, 1.0, False),
    ],
)
def test_what_a_bound_allows(bound: str, direction: str, before: float, after: float, allowed: bool) -> None:
    assert parse_bound(bound, "--x").allows(before, after, direction) is allowed  # type: ignore[arg-type]


def test_a_command_line_s_bounds_come_before_a_stage_s() -> None:
    stage = Bounds(max_drop=0.05, tpf=Bound(kind="exact"))
    found = bounds_from("acc=0pt", None, None, None).over(stage).over(DEFAULT_BOUNDS)
    assert (found.max_drop, found.tpf, found.forwards) == (0.0, Bound(kind="exact"), DEFAULT_BOUNDS.forwards)
    assert found.tps is None

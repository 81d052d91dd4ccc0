"""Runs that a server answered, among the others: no ids and no rounds, and nothing made up in their place."""

from __future__ import annotations

from typing import Any

from stored import record, sample

from lopa_bench.results.comparison.baseline import figures_of, line_of
from lopa_bench.results.comparison.compare import Comparison, compare
from lopa_bench.results.comparison.noise import Repeat, agreement
from lopa_bench.results.comparison.paired import Side, pairs_of
from lopa_bench.results.schema import SampleRecord, WorkLedger


def answers(*texts: str) -> list[SampleRecord]:
    """What a server said: a text, tokens and seconds."""
    return [
        sample(index, token_ids=(), text=text, text_kept=text, work=WorkLedger()) for index, text in enumerate(texts)
    ]


def side(samples: list[SampleRecord], name: str = "0001-a") -> Side:
    return Side(record(id=name), samples)


def before_and_after(found: Comparison) -> dict[str, tuple[Any, Any]]:
    return {one.figure: (one.before, one.after) for one in found.changes}


def test_answers_without_ids_are_compared_by_their_text() -> None:
    one, same, other = answers("a", "b", "c"), answers("a", "b", "c"), answers("a", "x", "c")
    assert compare(side(one), side(same, "0002-b")).num_identical == 3
    assert compare(side(one), side(other, "0002-b")).num_identical == 2
    repeat = Repeat(run="x", accuracy=1.0, tokens_per_second=1.0)
    assert agreement(repeat, pairs_of(side(one), side(other))).identical == 2
    assert [line_of(a) == line_of(b) for a, b in zip(one, other, strict=True)] == [True, False, True]


def test_work_that_is_not_known_is_nothing_and_not_zero() -> None:
    found = before_and_after(compare(side(answers("a", "b")), side([sample(0), sample(1)], "0002-b")))
    for figure in ("tpf", "rounds", "model_calls", "branch_forwards", "positions"):
        before, after = found[figure]
        assert before is None and after > 0
    figures = figures_of({one.id: line_of(one) for one in answers("a", "b")})
    assert (figures["tpf"], figures["tpf_branch"], figures["amplification"]) == (None, None, None)

"""Many programs judged side by side, for scoring that does not wait for a model."""

from __future__ import annotations

from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from lopa_bench.harness.code_judge import Judge, Verdict
from lopa_bench.harness.sandbox import ScorerError

Pair = tuple[dict[str, Any], str]


def judge_all(judge: Judge, pairs: Iterable[Pair], num_workers: int = 1) -> list[Verdict | ScorerError]:
    """Return the verdict on each (problem, program), in order; where the judge fails, its error in the verdict's place.

    Threads are enough: the work is done in child processes, one for each program.
    """

    def one(pair: Pair) -> Verdict | ScorerError:
        try:
            return judge.judge(*pair)
        except ScorerError as error:
            return error

    with ThreadPoolExecutor(max_workers=num_workers) as pool:
        return list(pool.map(one, pairs))

"""Many answers judged side by side, for scoring that does not wait for a model."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import Protocol, TypeVar

from lopa_bench.errors import ScorerError

ProblemT = TypeVar("ProblemT", contravariant=True)
VerdictT = TypeVar("VerdictT", covariant=True)


class Judging(Protocol[ProblemT, VerdictT]):
    """Whatever judges one answer to one problem: a judge of programs, or a whole task."""

    def judge(self, problem: ProblemT, answer: str, /) -> VerdictT:
        """Return the verdict; ScorerError when it is the judge that fails."""
        ...


def judge_all(
    judge: Judging[ProblemT, VerdictT],
    pairs: Iterable[tuple[ProblemT, str]],
    num_workers: int = 1,
    on_verdict: Callable[[], None] = lambda: None,
) -> list[VerdictT | ScorerError]:
    """Return the verdict on each (problem, answer), in order; where the judge fails, its error in the verdict's place.

    Threads are enough for programs, which run in child processes. One worker is the caller's own thread: some scorers
    of maths set alarms, which only the main thread may. `on_verdict` hears of each.
    """

    def one(pair: tuple[ProblemT, str]) -> VerdictT | ScorerError:
        try:
            return judge.judge(*pair)
        except ScorerError as error:
            return error
        finally:
            on_verdict()

    if num_workers == 1:
        return [one(pair) for pair in pairs]
    with ThreadPoolExecutor(max_workers=num_workers) as pool:
        return list(pool.map(one, pairs))

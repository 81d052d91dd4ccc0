"""What an exception means for the answer that it befell."""

from __future__ import annotations

from dataclasses import dataclass

from lopa_bench.errors import DecodeError, NaNLogits
from lopa_bench.models.exhaustion import is_out_of_memory, lack_in_words
from lopa_bench.results.schema import Why


@dataclass(frozen=True)
class Failure:
    """Why a generation has no answer that may be scored: a word and a sentence."""

    why: Why
    sentence: str


def failure_of(problem: Exception) -> Failure | None:
    """Return what an exception means for its sample; None for a fault of the program."""
    if isinstance(problem, DecodeError):
        return Failure(Why.NAN_LOGITS if isinstance(problem, NaNLogits) else Why.DECODE_ERROR, str(problem))
    if is_out_of_memory(problem):
        return Failure(Why.OUT_OF_MEMORY, f"{Why.OUT_OF_MEMORY}: {lack_in_words(problem)}")
    return None

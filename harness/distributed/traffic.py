"""What the processes of one answer told each other, as it is stored with the answer and its rounds."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from pydantic import JsonValue

from lopa_bench.results.trace import RoundRecord

if TYPE_CHECKING:
    from lopa_bench.decoders.communication import Exchange


def traffic(exchanges: Sequence[Exchange]) -> dict[str, JsonValue]:
    """Bytes of an answer's collectives, all processes together, as they are stored with it."""
    return {
        "rounds": len(exchanges),
        "gathered_bytes": sum(one.gathered_bytes for one in exchanges),
        "sent_bytes": sum(one.sent_bytes for one in exchanges),
    }


def with_exchanges(rounds: Sequence[RoundRecord], exchanges: Sequence[Exchange]) -> tuple[RoundRecord, ...]:
    """A trace with what each round's collectives took, which is known only after the next round's began."""
    if not exchanges:
        return tuple(rounds)
    return tuple(
        one.model_copy(
            update={
                "comm_s": exchange.comm_s,
                "wait_s": exchange.wait_s,
                "gathered_bytes": exchange.gathered_bytes,
                "sent_bytes": exchange.sent_bytes,
            }
        )
        for one, exchange in zip(rounds, exchanges, strict=False)
    )


def tensor_seconds(model: Any) -> float:
    """Seconds that this process has spent so far in the sums and gathers that hold a network together; 0 where alone.

    Waiting for a slower process is in them; on an accelerator, where they only queue, the time to queue them.
    """
    vocabulary = getattr(model, "vocabulary", None)
    meter = getattr(getattr(vocabulary, "group", None), "meter", None)
    return 0.0 if meter is None else float(meter.seconds)

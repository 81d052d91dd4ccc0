"""What the processes of one answer told each other, as it is stored with the answer and its rounds."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from pydantic import JsonValue

from lopa_bench.results.trace import RoundRecord

if TYPE_CHECKING:
    from lopa_bench.decoders.communication import Exchange


def traffic(exchanges: Sequence[Exchange], network_bytes: int = 0) -> dict[str, JsonValue]:
    """Bytes of an answer's collectives, as they are stored with it; empty where there were none.

    Those of the branches are of all processes together; `network_bytes` are what this one handed over in the sums and
    gathers that hold a network together.
    """
    found: dict[str, JsonValue] = {"network_bytes": network_bytes} if network_bytes else {}
    if not exchanges:
        return found
    return {
        "rounds": len(exchanges),
        "gathered_bytes": sum(one.gathered_bytes for one in exchanges),
        "sent_bytes": sum(one.sent_bytes for one in exchanges),
        **found,
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


def tensor_work(model: Any) -> tuple[float, int]:
    """Seconds and bytes of this process's sums and gathers that hold a network together, so far; zeros where alone.

    Waiting for a slower process is in them; on an accelerator, where they only queue, the time to queue them.
    """
    vocabulary = getattr(model, "vocabulary", None)
    meter = getattr(getattr(vocabulary, "group", None), "meter", None)
    return (0.0, 0) if meter is None else (float(meter.seconds), int(meter.num_bytes))

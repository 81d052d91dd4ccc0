"""What the processes of an answer told each other and how long it took, as it is stored with it and its rounds."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import zip_longest
from typing import TYPE_CHECKING, Any

from pydantic import JsonValue

from lopa_bench.harness.distributed.call_times import RoundTimes
from lopa_bench.results.trace import RoundRecord

if TYPE_CHECKING:
    from lopa_bench.decoders.communication import Communicator, Exchange
    from lopa_bench.harness.distributed.call_times import CallMeter
    from lopa_bench.harness.distributed.tensor_group import TorchTensorGroup


class Traffic:
    """The collectives of one answer, of its branches and of its network; there are none where one process makes it.

    `start` it on every process that makes the answer, tell it when a round has ended, and `finish` it on every one.

    Attributes:
        is_shared: whether several processes make the answer.
        times: seconds of each round, and of what came after the last where the answer failed; None where they cannot
            be known.
    """

    def __init__(self, decoder: Any) -> None:
        group = getattr(decoder, "group", None)
        vocabulary = getattr(decoder.model, "vocabulary", None)
        network = getattr(vocabulary, "group", None)
        self.is_shared = group is not None or vocabulary is not None
        self.times: list[RoundTimes] | None = []
        self._branches: Communicator | None = None if group is None else group.communicator
        self._network: TorchTensorGroup | None = network if hasattr(network, "finish") else None
        self._meter: CallMeter | None = None
        self._exchanges: Sequence[Exchange] = ()

    def start(self) -> None:
        """The answer begins."""
        if self._branches is not None:
            self._branches.start()
        if self._network is not None:
            self._meter = self._network.start()

    def round_ended(self) -> None:
        """What was told since the last round was this one's."""
        if self._meter is not None:
            self._meter.round_ended()

    def finish(self) -> None:
        """The answer is there and the device has done its work; the processes tell each other their times."""
        network: list[RoundTimes] | None = []
        if self._network is not None and self._meter is not None:
            network = self._network.finish(self._meter)
        if self._branches is not None:
            self._exchanges = self._branches.finish()
        self.times = None if network is None else _joined(self._exchanges, network)

    def seconds(self, share: float = 1.0) -> tuple[float | None, float | None]:
        """Seconds of communication and of waiting; `share` of them where answers beside it share its calls."""
        if self.times is None:
            return None, None
        return share * sum(one.comm_s for one in self.times), share * sum(one.wait_s for one in self.times)

    def totals(self, has_own_calls: bool = True) -> dict[str, JsonValue]:
        """Bytes of the answer's collectives, as they are stored with it; empty where there were none.

        Those of the branches are of all processes together; `network_bytes` are what this one handed over in the sums
        and gathers that hold a network together, which are none's own where answers beside this one share its calls.
        """
        num_bytes = self._meter.num_bytes if self._meter is not None and has_own_calls else 0
        found: dict[str, JsonValue] = {"network_bytes": num_bytes} if num_bytes else {}
        if not self._exchanges:
            return found
        return {
            "rounds": len(self._exchanges),
            "gathered_bytes": sum(one.gathered_bytes for one in self._exchanges),
            "sent_bytes": sum(one.sent_bytes for one in self._exchanges),
            **found,
        }

    def told(self, rounds: Sequence[RoundRecord], has_own_calls: bool = True) -> tuple[RoundRecord, ...]:
        """A trace with what each round's collectives took, which is known only at the end.

        Rounds whose calls answers beside this one shared have no seconds of their own.
        """
        times = self.times if has_own_calls else None
        parts = zip_longest(rounds, self._exchanges[: len(rounds)], (times or [])[: len(rounds)])
        return tuple(one.model_copy(update=_update(exchange, seconds)) for one, exchange, seconds in parts)


def _joined(exchanges: Sequence[Exchange], network: Sequence[RoundTimes]) -> list[RoundTimes]:
    """The seconds of both kinds of collectives, round by round."""
    return [
        RoundTimes(
            (branches.comm_s if branches else 0.0) + (own.comm_s if own else 0.0),
            (branches.wait_s if branches else 0.0) + (own.wait_s if own else 0.0),
        )
        for branches, own in zip_longest(exchanges, network)
    ]


def _update(exchange: Exchange | None, seconds: RoundTimes | None) -> dict[str, float | int]:
    """What a round's record says of its collectives, which has nothing of those that there were not."""
    found: dict[str, float | int] = {}
    if seconds is not None:
        found |= {"comm_s": seconds.comm_s, "wait_s": seconds.wait_s}
    if exchange is not None:
        found |= {"gathered_bytes": exchange.gathered_bytes, "sent_bytes": exchange.sent_bytes}
    return found

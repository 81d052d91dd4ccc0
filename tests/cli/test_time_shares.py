"""What a run on several processes says of where its time went."""

from __future__ import annotations

from lopa_bench.cli.views import _talk_line
from lopa_bench.results.schema import TimeLedger


def test_communication_and_waiting_are_told_beside_computing() -> None:
    line = _talk_line(TimeLedger(decode_s=4.0, comm_s=1.0, rank_wait_s=0.5))
    assert line == "of decoding: computing 62%, communication 25%, waiting for processes 12%"


def test_what_a_device_cannot_time_is_said_and_not_shown_as_nothing() -> None:
    line = _talk_line(TimeLedger(decode_s=4.0, comm_s=None, rank_wait_s=None))
    assert "was not measured" in line and "%" not in line

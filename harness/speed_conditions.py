"""What a run's speeds are speeds of, though its answers do not depend on it, and which stored run has it alike."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from lopa_bench.results.schema import RunRecord
from lopa_bench.results.sittings import one_and_other, timings_of

if TYPE_CHECKING:
    from lopa_bench.harness.distributed.mesh import MeshShape
    from lopa_bench.results.store import StoredRun

CONDITION_OF = {
    "device": "device", "threads": "threads", "warmup": "warm-up", "devices": "processes",
    "branch_parallel": "processes", "tensor_parallel": "processes", "data_parallel": "processes",
    "cache_protocol": "cache protocol",
}  # fmt: skip
"""The settings that decide speeds and no answers, each with the condition that it sets."""


def conditions_of(record: RunRecord) -> dict[str, set[str]]:
    """Return what a run's speeds are of, by condition; a run of several sittings may have several of a kind."""
    found = timings_of(record)
    count = _value(record, "warmup")
    if count is not None:
        found["warm-up"] = {f"{count} warm-up{'s' * (count != 1)}"}
    device = _value(record, "device")
    found["device"] = {record.environment.device if device in (None, "auto") else str(device)}
    protocol = _value(record, "cache_protocol")
    if protocol is not None and record.environment.groups.get("bp", 1) > 1:
        found["cache protocol"] = {f"the {protocol} protocol"}
    return found


def conditions_asked(record: RunRecord, shape: MeshShape) -> dict[str, str]:
    """Return what the speeds of a run would be of that begins now.

    Args:
        record: what it would begin with.
        shape: its processes. How many threads each of several has is known only to them, if nobody asked for a number.
    """
    groups = {} if shape.size == 1 else {"dp": shape.data, "bp": shape.branch, "tp": shape.tensor}
    here = record.environment.model_copy(update={"groups": groups})
    found = conditions_of(record.model_copy(update={"environment": here}))
    if shape.size > 1 and _value(record, "threads") is None:
        del found["threads"]
    return {name: one_and_other(words) for name, words in found.items()}


def best_of(runs: Iterable[StoredRun], asked: Mapping[str, str], must_match: Sequence[str] = ()) -> StoredRun | None:
    """Return which of the runs of one fingerprint answers what is asked, None where none may.

    That is the one whose speeds differ in the fewest conditions from what is asked, the newest of several.

    Args:
        runs: the newest first.
        asked: see `conditions_asked`.
        must_match: the settings (see CONDITION_OF) in which a run must not differ.
    """
    required = {CONDITION_OF[name] for name in must_match}
    best: tuple[int, StoredRun] | None = None
    for run in runs:
        differing = _differing(run.record, asked)
        if not differing:
            return run
        if not required & set(differing) and (best is None or len(differing) < best[0]):
            best = len(differing), run
    return None if best is None else best[1]


def other_conditions(record: RunRecord, asked: Mapping[str, str]) -> tuple[str, str] | None:
    """Return what a stored run's speeds are of and what was asked for, where these differ; None where they do not."""
    differing = {name: words for name, words in _differing(record, asked).items() if name != "device"}
    if not differing:
        return None
    return ", ".join(map(one_and_other, differing.values())), ", ".join(asked[name] for name in differing)


def _differing(record: RunRecord, asked: Mapping[str, str]) -> dict[str, set[str]]:
    """Return the conditions that a stored run had otherwise; one that its record does not tell is none of them."""
    found = conditions_of(record)
    return {name: found[name] for name, words in asked.items() if name in found and found[name] != {words}}


def _value(record: RunRecord, name: str) -> Any:
    setting = record.configuration.get(name)
    return None if setting is None else setting.value

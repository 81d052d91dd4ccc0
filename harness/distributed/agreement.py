"""Whether the processes of a job were started for the same run: by one command, one package and the same files.

Draws, thresholds and weights decide answers on the process that computes a branch. Processes that differ in one of them
would not always go apart, but make a record that says what only rank 0 was told.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from pydantic import JsonValue

from lopa_bench.errors import ConfigError

if TYPE_CHECKING:
    from lopa_bench.harness.distributed.mesh import World
    from lopa_bench.results.schema import RunRecord

OF_ONE_PROCESS = (
    "runs_dir", "data_dir", "offline", "threads", "preset", "limit", "samples", "subset", "device", "dtype", "model",
    "adapter", "tokenizer", "force_adapter", "convention", "devices", "branch_parallel", "tensor_parallel",
    "data_parallel", "comm_timeout",
)  # fmt: skip
MOST_LETTERS = 24
"""Settings that may differ: paths of a machine, and those whose outcome is compared instead."""


def terms_of(record: RunRecord) -> dict[str, JsonValue]:
    """Everything that must be the same on all processes of a run, by the name that a person knows it under."""
    settings = {name: one.value for name, one in record.configuration.items() if name not in OF_ONE_PROCESS}
    where, model = record.environment, record.model
    return {
        **json.loads(json.dumps(settings)),
        "task": record.task.name,
        "the task's data": record.task.source,
        "the prompts": record.task.prompts_hash,
        "the weights": model.hash,
        "the adapter": model.adapter_hash,
        "the tokenizer": model.tokenizer_hash,
        "the kind of device": where.device,
        "the dtype": where.dtype,
        "lopa-bench's code": where.code,
        "Python": ".".join(where.python.split(".")[:2]),
        **where.packages,
    }


def check_agreement(world: World, terms: Mapping[str, JsonValue]) -> None:
    """Compare `terms` among all processes; they tell each other through the job's store, once.

    Raises:
        ConfigError: on every process, the first that is not like rank 0 and what differs.
    """
    world.store.set(f"terms/{world.rank}", json.dumps(terms))
    world.meet("terms")
    check_equal([json.loads(world.store.get(f"terms/{rank}")) for rank in range(world.size)])


def check_equal(terms: Sequence[Mapping[str, Any]]) -> None:
    """Refuse processes whose terms, by rank, are not those of rank 0."""
    first = terms[0]
    for rank, own in enumerate(terms):
        names = sorted(name for name in {*own, *first} if own.get(name) != first.get(name))
        if names:
            differing = ", ".join(f"{name} ({_short(own.get(name))}, not {_short(first.get(name))})" for name in names)
            raise ConfigError(
                f"rank {rank} was started for another run than rank 0: {differing}; start all with the same command, "
                "version and files"
            )


def _short(value: Any) -> str:
    words = str(value)
    return words if len(words) <= MOST_LETTERS else f"{words[:MOST_LETTERS]}..."

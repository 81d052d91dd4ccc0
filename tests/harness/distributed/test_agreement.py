"""Processes that were started for different runs find it out before the first answer."""

from __future__ import annotations

import json
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, cast

import pytest
import torch.distributed as dist

from lopa_bench.errors import ConfigError
from lopa_bench.harness.distributed.agreement import check_agreement, terms_of
from lopa_bench.harness.distributed.mesh import World, _check_arrangement
from lopa_bench.harness.job import prepare
from lopa_bench.harness.runner import record_of
from lopa_bench.harness.settings import RunSpec

Start = Callable[..., RunSpec]


def terms(spec: RunSpec) -> dict[str, Any]:
    return terms_of(record_of(prepare(spec), ()))


def meet(*of_ranks: dict[str, Any]) -> None:
    """Let rank 0 hear of all others, which were there before it."""
    store = dist.HashStore()
    for rank, own in enumerate(of_ranks):
        store.set(f"terms/{rank}", json.dumps(own))
    world = SimpleNamespace(store=store, rank=0, size=len(of_ranks), meet=lambda what: None)
    check_agreement(cast(World, world), of_ranks[0])


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"seed": 7}, "rank 1 was started for another run than rank 0: seed (7, not 0)"),
        ({"options": {"branches": 2, "tau_conf": 0.5}}, "tau_conf (0.5, not"),
        ({"limit": 1}, "problems (0, not 0-2)"),
        ({"warmup": 3}, "warmup (3, not"),
        ({"trace": True}, "trace (True, not"),
        ({"cache_protocol": "single-phase"}, "cache_protocol (single-phase, not two-phase)"),
    ],
    ids=str,
)
def test_what_decides_answers_must_be_the_same(start: Start, change: dict[str, Any], words: str) -> None:
    with pytest.raises(ConfigError) as refused:
        meet(terms(start()), terms(start(**change)))
    assert words in str(refused.value) and "start all with the same command" in str(refused.value)


def test_places_and_the_number_of_devices_may_differ(start: Start) -> None:
    own, other = terms(start()), terms(start(data_dir=None, comm_timeout=5.0, branch_parallel=1))
    assert own == other
    meet(own, other, own)


@pytest.mark.parametrize("name", ["the weights", "lopa-bench's code", "torch", "Python", "the prompts"])
def test_other_files_and_versions_are_another_run(start: Start, name: str) -> None:
    own = terms(start())
    assert own[name]
    with pytest.raises(ConfigError, match=f"rank 2 .*: {name} \\(other, not"):
        meet(own, own, {**own, name: "other"})


def test_processes_that_expect_other_groups_are_refused() -> None:
    _check_arrangement(["1 x 2 x 1", "1 x 2 x 1"])
    with pytest.raises(ConfigError, match=r"rank 1 was started for 2 x 1 x 1 .*, rank 0 for 1 x 2 x 1"):
        _check_arrangement(["1 x 2 x 1", "2 x 1 x 1"])

"""What a run's speeds are of, and which stored run is taken for it."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest
from stored import PLACE, record

from lopa_bench.harness import identity
from lopa_bench.harness.distributed.mesh import ALONE, MeshShape
from lopa_bench.harness.settings import RunSpec
from lopa_bench.harness.speed_conditions import CONDITION_OF, best_of, conditions_asked, other_conditions
from lopa_bench.results.schema import RunRecord
from lopa_bench.results.sittings import Sitting
from lopa_bench.results.store import StoredRun

SETTINGS = {"warmup": 1, "threads": 1, "cache_protocol": "two-phase"}
ASKED = conditions_asked(record(settings=SETTINGS), ALONE)


def stored(**changes: Any) -> StoredRun:
    settings = {**SETTINGS, **changes.pop("settings", {})}
    return StoredRun(Path("0001-x"), record(settings=settings, **changes), 2)


def test_the_settings_that_only_speeds_depend_on_decide_no_answer() -> None:
    assert set(CONDITION_OF) <= set(identity.INCIDENTAL) & {one.name for one in fields(RunSpec)}


SHARED = {"dp": 1, "bp": 2, "tp": 1}


@pytest.mark.parametrize(
    ("changes", "names"),
    [
        ({"place": {"num_threads": 2}}, ["threads"]),
        ({"settings": {"warmup": 0}}, ["warmup"]),
        ({"settings": {"device": "cpu:1"}}, ["device"]),
        (
            {"place": {"groups": SHARED}},
            ["devices", "branch_parallel", "tensor_parallel", "data_parallel"],
        ),
        ({"earlier_groups": (SHARED,)}, ["devices"]),
        ({"earlier_sittings": (Sitting(place=PLACE.model_copy(update={"num_threads": 2})),)}, ["threads"]),
    ],
    ids=["threads", "warmup", "device", "processes", "earlier processes", "earlier threads"],
)
def test_what_must_match_is_not_taken_where_it_does_not(changes: dict[str, Any], names: list[str]) -> None:
    other, same = stored(**changes), stored()
    for name in CONDITION_OF:
        assert (best_of([other], ASKED, [name]) is None) == (CONDITION_OF[name] in {CONDITION_OF[one] for one in names})
        assert best_of([same], ASKED, [name]) is same
    assert best_of([other], ASKED) is other and best_of([other, same], ASKED) is same


def test_of_runs_that_all_differ_the_one_that_differs_least_is_taken_the_newest_of_equals() -> None:
    both = stored(place={"num_threads": 2}, settings={"warmup": 3})
    one, another = stored(settings={"warmup": 3}), stored(settings={"warmup": 4})
    assert best_of([both, one, another], ASKED) is one
    assert best_of([both, one], ASKED, ["warmup"]) is None


def test_what_an_old_record_does_not_tell_is_no_difference() -> None:
    old = StoredRun(Path("0001-x"), record(), 2)
    assert best_of([old], ASKED, tuple(CONDITION_OF)) is old and other_conditions(old.record, ASKED) is None


def test_the_device_by_default_is_the_device_by_name() -> None:
    assert best_of([stored(settings={"device": "auto"})], ASKED, ["device"]) is not None


def on_two(settings: dict[str, Any]) -> RunRecord:
    return record(settings={**SETTINGS, **settings}, place={"groups": SHARED})


def test_processes_and_their_protocol_are_told() -> None:
    two = MeshShape(data=1, branch=2, tensor=1)
    asked = conditions_asked(record(settings=SETTINGS), two)
    assert other_conditions(on_two({}), asked) is None
    assert other_conditions(record(settings=SETTINGS), asked) == (
        "1 x 1 x 1 processes (data x branch x tensor)", "1 x 2 x 1 processes (data x branch x tensor)",
    )  # fmt: skip
    told = other_conditions(on_two({"cache_protocol": "single-phase"}), asked)
    assert told == ("the single-phase protocol", "the two-phase protocol")


def test_how_many_threads_each_of_several_processes_has_is_not_guessed() -> None:
    two = MeshShape(data=1, branch=2, tensor=1)
    here = record(settings={**SETTINGS, "threads": None}, place={"num_threads": 64})
    assert other_conditions(on_two({}), conditions_asked(here, two)) is None

"""Settings that differ are all found, and sorted by what they can do to the figures."""

from __future__ import annotations

from typing import Any

import pytest
from stored import record

from lopa_bench.results.comparison.differences import differences, scope, scope_warning, semantic, speed_obstacle
from lopa_bench.results.schema import DecoderInfo, RunRecord


def names(before: RunRecord, after: RunRecord, kind: str) -> list[str]:
    return [one.name for one in differences(before, after) if one.kind == kind]


def test_a_run_does_not_differ_from_itself() -> None:
    assert differences(record(), record()) == []


@pytest.mark.parametrize(
    ("change", "name"),
    [
        ({"options": {"tau_conf": 0.8}}, "tau_conf"),
        ({"options": {"branches": 1}}, "branches"),
        ({"model": {"hash": "sha256:other"}}, "model"),
        ({"model": {"adapter": "x", "adapter_hash": "beef"}}, "adapter"),
        ({"model": {"tokenizer_hash": "other"}}, "tokenizer"),
        ({"settings": {"num_fewshot": 5}, "origins": {"num_fewshot": "flag"}}, "num_fewshot"),
        (
            {"settings": {"a_setting_of_the_future": 1}, "origins": {"a_setting_of_the_future": "file"}},
            "a_setting_of_the_future",
        ),
        ({"decoder": "d2f"}, "decoder"),
    ],
)
def test_what_is_meant_to_change_answers_is_semantic(change: dict[str, Any], name: str) -> None:
    assert names(record(), record(**change), "semantic") == [name]


@pytest.mark.parametrize(
    ("change", "name"),
    [
        ({"device_name": "H200", "device": "cuda"}, "device"),
        ({"dtype": "bfloat16"}, "dtype"),
        ({"num_threads": 2}, "threads"),
        ({"batch_size": 4}, "batch_size"),
        ({"packages": {"torch": "2.10.0", "lm-eval": "0.4.12"}}, "torch"),
        ({"git_commit": "b" * 40}, "commit"),
        ({"git_dirty": True}, "commit"),
    ],
)
def test_what_ought_not_to_but_can_is_of_the_environment(change: dict[str, Any], name: str) -> None:
    found = differences(record(), record(place=change))
    assert [(one.name, one.kind) for one in found] == [(name, "environment")]


def test_where_files_lie_and_how_many_problems_there_are_is_incidental() -> None:
    other = record(num_documents=5, settings={"runs_dir": "elsewhere", "data_dir": "data", "warmup": 3})
    assert names(record(), other, "incidental") == ["data_dir", "limit", "runs_dir", "warmup"]
    assert semantic(differences(record(), other)) == []


def test_a_seed_matters_only_where_something_is_drawn() -> None:
    assert names(record(seed=1), record(seed=2), "incidental") == ["seed"]
    warm = {"temperature": 0.7}
    assert names(record(seed=1, options=warm), record(seed=2, options=warm), "semantic") == ["seed"]
    random = {"select": "random"}
    assert names(record(seed=1, options=random), record(seed=2, options=random), "semantic") == ["seed"]


def test_options_that_come_with_another_decoder_are_that_one_difference() -> None:
    d2f = record(decoder="d2f", options={"whole_blocks": False, "full_attention": False})
    lopa = record(decoder="lopa", options={"full_attention": True})
    found = differences(d2f, lopa)
    assert [str(one) for one in semantic(found)] == ["decoder: d2f vs lopa"]
    assert [(one.name, one.remark) for one in found if one.kind == "incidental"] == [
        ("full_attention", "each decoder's own default")
    ]
    asked = record(decoder="lopa", options={"full_attention": True}, origins={"full_attention": "flag"})
    assert [one.name for one in semantic(differences(d2f, asked))] == ["decoder", "full_attention"]


def test_a_default_that_only_one_version_knows_is_not_meant_to_change_answers() -> None:
    found = differences(record(), record(settings={"a_setting_of_the_future": 1}))
    assert [(one.name, one.kind, one.before) for one in found] == [("a_setting_of_the_future", "environment", "-")]


def test_the_same_weights_under_another_name_are_no_other_model() -> None:
    found = differences(record(), record(model={"name": "./copy-of-d2f"}))
    assert [(one.name, one.kind) for one in found] == [("model", "incidental")]


@pytest.mark.parametrize(
    ("before", "after", "words"),
    [
        ({"device_name": "H200"}, {"device_name": "A100"}, "x not comparable: H200 vs A100"),
        ({}, {"dtype": "bfloat16"}, "x not comparable: float32 vs bfloat16"),
        ({}, {"num_threads": 2}, "x not comparable: threads 1 vs 2"),
        ({}, {"batch_size": 4}, "x not comparable: batch 1 vs 4"),
        ({}, {"world_size": 2}, "x not comparable: processes 1 vs 2"),
        ({"num_devices": 2}, {}, "x not comparable: 2 x AMD EPYC vs AMD EPYC"),
        ({}, {"packages": {"torch": "2.10"}}, "x not comparable: torch 2.9.0 vs 2.10"),
        (
            {"world_size": 2, "num_devices": 2, "groups": {"dp": 1, "bp": 2, "tp": 1}},
            {"world_size": 2, "num_devices": 2, "groups": {"dp": 1, "bp": 1, "tp": 2}},
            "x not comparable: processes 2 (bp 2) vs 2 (tp 2)",
        ),
        (
            {"world_size": 2, "num_devices": 2, "communication": "gloo, two-phase"},
            {"world_size": 2, "num_devices": 2, "communication": "nccl, two-phase"},
            "x not comparable: communication gloo, two-phase vs nccl, two-phase",
        ),
        (
            {"accelerations": ("w8a8 (torch._int_mm: 35)",)},
            {"accelerations": ("w8a8 (dequantised: 35)",)},
            "x not comparable: network w8a8 (torch._int_mm: 35) vs w8a8 (dequantised: 35)",
        ),
    ],
    ids=[
        "device", "dtype", "threads", "batch", "processes", "devices", "library", "arrangement", "communication",
        "accelerations",
    ],
)  # fmt: skip
def test_speeds_of_unlike_machines_are_not_set_side_by_side(
    before: dict[str, Any], after: dict[str, Any], words: str
) -> None:
    assert speed_obstacle(record(place=before), record(place=after)) == words


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [("compile", True, "none vs true"), ("quantize", "w8a8", "none vs w8a8"), ("merge_qkv", True, "none vs true")],
    ids=["compile", "quantize", "merge_qkv"],
)
def test_another_network_is_a_difference_and_no_ratio_of_speeds(name: str, value: Any, words: str) -> None:
    plain, changed = record(settings={name: None}), record(settings={name: value}, origins={name: "flag"})
    assert [one.name for one in differences(plain, changed)] == [name]
    assert speed_obstacle(plain, changed) == f"x not comparable: {name.replace('_', ' ')} {words}"
    assert speed_obstacle(changed, changed) is None and speed_obstacle(plain, record(settings={name: False})) is None


def test_branches_on_two_processes_are_not_a_network_on_two() -> None:
    """As many processes, which share other things."""
    sizes = {"world_size": 2, "num_devices": 2}
    one = record(place={**sizes, "groups": {"dp": 1, "bp": 2, "tp": 1}, "communication": "gloo, two-phase"})
    other = record(place={**sizes, "groups": {"dp": 1, "bp": 1, "tp": 2}, "communication": "gloo"})
    assert [str(found) for found in differences(one, other)] == [
        "world_size: 2 (bp 2) vs 2 (tp 2)", "communication: gloo, two-phase vs gloo",
    ]  # fmt: skip
    not_told = record(place=sizes)
    assert differences(one, not_told) == [] and speed_obstacle(one, not_told) is None


def test_a_speed_without_a_device_or_with_a_trace_enters_no_comparison() -> None:
    assert "device" in str(speed_obstacle(record(), record(place={"device": "", "device_name": ""}, id="0002-x")))
    assert "trace" in str(speed_obstacle(record(), record(settings={"trace": True})))


def test_speeds_are_comparable_over_commits_and_scoring_libraries() -> None:
    packages = {"torch": "2.9.0", "lm-eval": "0.4.13", "lopa-bench": "0.2.0"}
    assert speed_obstacle(record(), record(place={"git_commit": "b" * 40, "packages": packages})) is None


def fast(cache: str, name: str) -> RunRecord:
    return record(decoder="fast-dllm", options={"rule": "dream", "cache": cache}, id=name)


def test_a_cache_that_changes_where_slots_are_chosen_from_is_told() -> None:
    warning = scope_warning(fast("none", "0001-a"), fast("prefix", "0002-b"))
    assert warning is not None and "0001-a chooses its slots from the whole answer, 0002-b from one block" in warning
    assert scope_warning(fast("dual", "0001-a"), fast("prefix", "0002-b")) is None


def test_the_scope_of_every_built_in_decoder_is_known() -> None:
    from lopa_bench.decoders.registry import BUILT_IN, resolve

    for kind in BUILT_IN:
        assert scope(DecoderInfo(name=kind.name, options=vars(resolve(kind.name)))) is not None
    assert scope(DecoderInfo(name="somebody's")) is None

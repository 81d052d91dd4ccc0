"""Reference cases and whole runs on a network that several processes hold together."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from threads import ThreadGroup, on_ranks

from lopa_bench.decoders.registry import create
from lopa_bench.errors import ConfigError
from lopa_bench.harness.distributed.launch import launch
from lopa_bench.harness.job import prepare
from lopa_bench.harness.runner import run
from lopa_bench.harness.settings import RunSpec
from lopa_bench.harness.verify import CaseResult, run_case
from lopa_bench.models.loading import load_model, load_tokenizer
from lopa_bench.results.store import list_runs, load_run
from lopa_bench.tasks.mini_maths import MiniMaths

TIMEOUT_S = 60.0
OF_EACH = 3
NUM_PROBLEMS = 12


@pytest.mark.parametrize("size", [2, 3, 4])
def test_reference_cases_of_every_decoder_are_equal_in_tokens_and_calls(size: int, golden_dir: Path) -> None:
    cases = json.loads((golden_dir / "cases.json").read_text())
    names = sorted({case["decoder"] for case in cases})
    some = [case for name in names for case in [c for c in cases if c["decoder"] == name][:: 33 // OF_EACH][:OF_EACH]]

    def on_rank(group: ThreadGroup) -> list[CaseResult]:
        models = {case["model"]: load_model(golden_dir / case["model"], tensor_group=group) for case in some}
        return [run_case(case, models[case["model"]]) for case in some]

    for results in on_ranks(size, on_rank):
        assert len(results) >= 2 * len(names)
        assert [result.difference for result in results] == [""] * len(results)


def answers(dtype: str, group: ThreadGroup | None = None) -> list[tuple[list[int], int]]:
    """Tokens and rounds of the bundled model for a few problems."""
    model = load_model("bundled:d2f", dtype=dtype, tensor_group=group)
    decoder = create("lopa", model, {"branches": 4, "block_size": 8})
    encode, made = load_tokenizer("bundled:d2f"), []
    for document in MiniMaths().documents()[:NUM_PROBLEMS]:
        generation = decoder.decode(encode(document.prompt)["input_ids"])
        num_rounds = len(generation.run())
        made.append((generation.answer, num_rounds))
    return made


@pytest.mark.slow
@pytest.mark.parametrize(("dtype", "most_different"), [("float32", 0), ("bfloat16", 3)], ids=["float32", "bfloat16"])
def test_answers_of_several_processes_are_those_of_one_but_for_rounding_to_sixteen_bits(
    dtype: str, most_different: int
) -> None:
    alone = answers(dtype)
    for together in on_ranks(2, lambda group: answers(dtype, group)):
        assert sum(a[0] != b[0] for a, b in zip(together, alone, strict=True)) <= most_different
        rounds = [sum(count for _, count in one) for one in (together, alone)]
        assert rounds[0] == pytest.approx(rounds[1], rel=0.05 if most_different else 0)


@pytest.mark.slow
def test_four_processes_share_branches_and_network_in_reference_cases(golden_dir: Path, tmp_path: Path) -> None:
    cases = json.loads((golden_dir / "cases.json").read_text())
    few = tmp_path / "cases.json"
    few.write_text(json.dumps([case for case in cases if case["decoder"] == "lopa"][::8]))
    words = ["verify", str(few), "--models-dir", str(golden_dir), "--devices", "4", "--tensor-parallel", "2", "--json"]
    assert launch(words, 4, TIMEOUT_S) == 0


@pytest.mark.slow
@pytest.mark.parametrize("temperature", [0.0, 0.8])
def test_a_run_on_two_processes_makes_the_record_of_one(
    temperature: float, start: Callable[..., RunSpec], tmp_path: Path
) -> None:
    spec = start(options={"temperature": temperature})
    options = [word for name, value in spec.options.items() for word in ("--set", f"{name}={value}")]
    root = tmp_path / "two"
    words = ["run", "-t", "mini-maths", "-d", "lopa", "-m", str(spec.model), "-n", "3", "--warmup", "0", "--json"]
    words += [
        "--threads",
        "1",
        "--runs-dir",
        str(root),
        "--devices",
        "2",
        "--tensor-parallel",
        "2",
        "--trace",
        *options,
    ]
    assert launch(words, 2, TIMEOUT_S) == 0
    alone = run(spec).run
    assert alone is not None
    together = load_run(list_runs(root)[0].path)
    assert [one.token_ids for one in together.samples] == [one.token_ids for one in alone.samples]
    assert [one.work for one in together.samples] == [one.work for one in alone.samples]
    assert together.record.environment.groups == {"dp": 1, "bp": 1, "tp": 2}
    # The sums are told as communication and waiting, of each answer what its rounds come to.
    rounds = {trace.id: trace.rounds for trace in together.traces()}
    for one in together.samples:
        comm_s, wait_s = one.time.comm_s, one.time.rank_wait_s
        assert comm_s and wait_s is not None and 0 < comm_s + wait_s <= one.time.decode_s
        assert sum(round.comm_s or 0.0 for round in rounds[one.id]) == pytest.approx(comm_s, abs=1e-9)
        assert sum(round.wait_s or 0.0 for round in rounds[one.id]) == pytest.approx(wait_s, abs=1e-9)
        assert all(round.comm_s and round.gathered_bytes is None for round in rounds[one.id])
    traffic: list[Any] = [one.extra["traffic"] for one in together.samples]
    assert all(one["network_bytes"] > 0 for one in traffic)


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ({"devices": 8, "tensor_parallel": 8}, "8 processes leaves some without a head: the model has"),
        ({"devices": 2, "tensor_parallel": 2, "options": {"top_p": 0.9}}, r"top_p = 0.9 needs all probabilities"),
        ({"devices": 2, "tensor_parallel": 2, "compile": True}, "--compile is not offered with tensor parallelism"),
    ],
)
def test_what_parts_of_a_network_cannot_do_is_refused_before_anything_starts(
    asked: dict[str, Any], said: str, start: Callable[..., RunSpec]
) -> None:
    with pytest.raises(ConfigError, match=said):
        prepare(start(**asked))


def environment_of(spec: RunSpec) -> tuple[str, tuple[str, ...]]:
    made = run(spec).run
    assert made is not None
    return made.record.fingerprint, made.record.environment.accelerations


def test_what_was_done_to_the_network_is_recorded_and_makes_another_run(start: Callable[..., RunSpec]) -> None:
    asked: list[dict[str, Any]] = [{}, {"quantize": "w8a8"}, {"merge_qkv": True}]
    found = [environment_of(start(limit=1, **one)) for one in asked]
    assert len({fingerprint for fingerprint, _ in found}) == 3
    plain, coded, merged = (done for _, done in found)
    assert plain == () and coded[0].startswith("w8a8 (torch._int_mm: ") and merged == ("merged q, k, v and gate, up",)


def test_the_plan_reckons_with_eight_bits(start: Callable[..., RunSpec]) -> None:
    plain, coded = (
        run(start(model="bundled:d2f", dry_run=True, **asked)).plan.memory for asked in ({}, {"quantize": "w8a8"})
    )
    assert coded.weights < 0.4 * plain.weights and coded.cache == plain.cache


@pytest.mark.slow
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("task", ["mini-maths", "mini-code"])
def test_eight_bits_cost_few_answers_of_the_bundled_model(task: str, dtype: str, start: Callable[..., RunSpec]) -> None:
    def right(**asked: Any) -> dict[str, bool]:
        spec = start(task=task, model="bundled:d2f", decoder="d2f", limit=20, dtype=dtype, **asked)
        made = run(RunSpec(**{**vars(spec), "options": {}})).run
        assert made is not None
        return {one.id: bool(one.correct) for one in made.samples}

    plain, eight_bit = right(), right(quantize="w8a8")
    assert sum(plain.values()) >= 15
    assert sum(plain[name] and not eight_bit[name] for name in plain) <= 2


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ({"devices": 2, "tensor_parallel": 2, "dtype": "bfloat16"}, ["bfloat16"]),
        ({"devices": 2, "branch_parallel": 2, "dtype": "float16"}, ["float16"]),
        ({"devices": 2, "tensor_parallel": 2, "dtype": "float32"}, []),
        ({"devices": 2, "data_parallel": 2, "dtype": "bfloat16"}, []),
        ({"dtype": "bfloat16"}, []),
    ],
    ids=["network", "branches", "float32", "samples", "one"],
)
def test_the_plan_says_where_sixteen_bits_round_otherwise(
    asked: dict[str, Any], said: list[str], start: Callable[..., RunSpec]
) -> None:
    told = [note for note in prepare(start(dry_run=True, **asked)).plan.notes if "on several devices" in note]
    assert [note.partition(" ")[0] for note in told] == said

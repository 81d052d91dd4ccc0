"""The cost model counts what the network does, and says so when more devices would be slower."""

from __future__ import annotations

import inspect
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from stored import store
from torch.utils.flop_counter import FlopCounterMode

from lopa_bench.cli import speed as command
from lopa_bench.errors import ConfigError, ModelError
from lopa_bench.harness.speed import speed
from lopa_bench.harness.speed.measure import dream_config, measure_pair, mid_config
from lopa_bench.harness.speed.model import (
    STATES,
    Machine,
    RoundShape,
    at,
    attention_flops,
    layer_s,
    predict,
    product_flops,
    speed_up,
)
from lopa_bench.harness.speed.rates import link_rates, measure_device, projections, random_model
from lopa_bench.harness.speed.speed import SpeedQuestion, config_of, tokens_per_round_of
from lopa_bench.models.config import ModelConfig
from lopa_bench.models.tiny import tiny_config

PRODUCTS = {1: 1e10, 100: 1e11}
QUICK = Machine(PRODUCTS, PRODUCTS, {1: 1e10}, {1: 1e10}, {1: 1e10}, {1: 1e10}, 1e-4, 1e-4, 1e-5, 1e10)
ROUND = RoundShape(8, 32, 128, 32, 3.0)


def times(machine: Machine, bp: int = 1, tp: int = 1, config: ModelConfig | None = None) -> float:
    config = config or mid_config()
    alone = predict(machine, config, 4, ROUND, 1, 1, 3.0)
    return speed_up(predict(machine, config, 4, ROUND, bp, tp, 3.0), alone)


def test_operations_are_those_that_torch_counts() -> None:
    config = tiny_config("dream", num_layers=3)
    model = random_model(config, "cpu", torch.float32, None)
    counter = FlopCounterMode(display=False)
    with counter:
        model.predict(torch.ones(1, 16, dtype=torch.long), (1, 16))
    head = 2 * 15 * config.hidden_size * config.vocab_size
    ours = config.num_layers * (product_flops(config, 16) + attention_flops(config, 16, 16)) + head
    # Without a mask CPU attention is one kernel that the counter may not know; its two products are added then.
    attention = config.num_layers * 4 * 16 * 16 * config.num_heads * config.head_dim
    assert counter.get_total_flops() in (ours, ours - attention)


def test_between_measured_rates_lies_a_line_in_logarithms_and_beyond_them_the_nearest() -> None:
    assert [at(PRODUCTS, rows) for rows in (0.5, 1, 10, 100, 1000)] == pytest.approx([1e10, 1e10, 10**10.5, 1e11, 1e11])


def test_more_devices_are_faster_over_a_quick_link_and_slower_over_a_slow_one() -> None:
    assert 1 < times(QUICK, bp=2) < 2.2 and 1 < times(QUICK, tp=2) < 2
    assert times(replace(QUICK, link_latency_s=0.05), tp=2) < 1
    assert times(replace(QUICK, link_bytes_s=1e5), bp=8) < 1


def test_a_slow_down_is_told_as_one() -> None:
    slow = replace(QUICK, link_latency_s=0.0)
    compute = predict(slow, mid_config(), 4, ROUND, 1, 2, 1.0)
    one = predict(slow, mid_config(), 4, ROUND, 1, 1, 1.0)
    wanted = one.seconds / 0.8
    latency = (wanted - compute.seconds) / (2 * mid_config().num_layers + 3 + STATES)
    assert times(replace(QUICK, link_latency_s=latency), tp=2) == pytest.approx(0.8)


def test_devices_beyond_the_branches_bring_nothing() -> None:
    few = replace(ROUND, branches=2)
    two, four = (predict(QUICK, mid_config(), 4, few, bp, 1, 1.0) for bp in (2, 4))
    assert four.compute_s == two.compute_s and four.comm_s > two.comm_s


def test_the_exchange_of_branches_stays_small_for_7b_shapes() -> None:
    found = predict(replace(QUICK, link_latency_s=0.0), dream_config(), 2, ROUND, 8, 1, 3.0)
    keys = 2 * 28 * 4 * 128 * 2 * ROUND.committed
    rows = 8 * 32 * 12 * 7 / 8
    assert found.comm_s * 1e10 == pytest.approx(keys + rows)


def test_sums_of_sixteen_bit_networks_travel_in_thirty_two() -> None:
    quick = replace(QUICK, link_latency_s=0.0)
    half, whole = (predict(quick, mid_config(), size, ROUND, 1, 2, 1.0).comm_s for size in (2, 4))
    # The embedding's sum alone has numbers of the network's size.
    hidden = ROUND.branches * ROUND.window * mid_config().hidden_size
    assert (whole - half) * (QUICK.link_bytes_s or 0.0) == pytest.approx(2 * hidden)


def test_a_checkpoint_gives_its_shape_only() -> None:
    assert config_of("bundled:d2f").num_layers == 5
    assert config_of("dream-7b").vocab_size == 152064
    with pytest.raises(ModelError, match="nowhere"):
        config_of("nowhere")


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"window": 0}, "--window 0 is too small"),
        ({"tokens_per_round": {0: 1.0}}, "0 branches"),
        ({"tokens_per_round": {2: 0.0}}, "0 tokens per round"),
    ],
)
def test_impossible_rounds_are_refused(changes: dict[str, object], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        SpeedQuestion(**{"tokens_per_round": {1: 1.0}, **changes})  # type: ignore[arg-type]


def test_tpf_and_branches_come_from_a_stored_run(tmp_path: Path) -> None:
    run = store(tmp_path)
    tokens, rounds = sum(one.tokens.useful for one in run.samples), sum(one.work.rounds for one in run.samples)
    assert tokens_per_round_of(run.path, tmp_path) == {8: tokens / rounds}


def test_without_a_second_device_only_one_is_told_and_why(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(speed, "_has_two", lambda device: False)
    monkeypatch.setattr("os.getloadavg", lambda: (0.1, 0.1, 0.1))
    found = speed.answer(SpeedQuestion(model="bundled:d2f", tokens_per_round={2: 1.0}, window=8, cached=0))
    assert [(one.bp, one.tp) for one in found.predictions] == [(1, 1)]
    assert [(one.bp, one.tp) for one in found.checked] == [(1, 1)]
    assert found.notes == ["one cpu device here: no link was measured; give one by --link MICROSECONDS,GB/S"]


def test_a_busy_machine_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.getloadavg", lambda: (9.0, 0.1, 0.1))
    monkeypatch.setattr("os.cpu_count", lambda: 2)
    assert speed._busy() == ["the load average was 9.0 on 2 processors: what else runs here blurs every figure"]


@pytest.mark.slow
def test_two_processes_measure_a_link_and_both_kinds_of_rounds() -> None:
    config = tiny_config("dream", num_heads=4, num_kv_heads=2)
    shape = RoundShape(3, 8, 16, 8, 1.0)
    pair = measure_pair(config, "float32", "cpu", shape, 1)
    assert set(pair.rounds) == {"bp", "tp"} and min(pair.rounds.values()) > 0
    assert (pair.machine.link_latency_s or 0) > 0 and (pair.machine.link_bytes_s or 0) > 0
    assert set(pair.machine.flops) == set(measure_device(config, torch.float32, "cpu", shape).flops)


def test_a_layer_is_the_sum_of_what_was_measured_and_never_less_than_starting_it_takes() -> None:
    config = mid_config()
    rows, tp = 8 * 32, 2
    products = product_flops(config, rows) / tp / 1e11
    attention = attention_flops(config, rows, 160) / tp / 1e10
    moved = rows * (config.hidden_size + config.intermediate_size / tp) / 1e10
    assert layer_s(QUICK, config, ROUND, 8, tp) == pytest.approx(products + attention + moved)
    assert layer_s(replace(QUICK, layer_s=9.0), config, ROUND, 8, tp) == 9.0


def test_rates_are_of_the_operations_that_a_round_is_made_of() -> None:
    config = tiny_config("dream", num_heads=4, num_kv_heads=2)
    found = measure_device(config, torch.float32, "cpu", RoundShape(3, 8, 16, 8, 1.0))
    assert set(found.attention_flops) == {1, 2, 3}
    by_kind = [found.flops, found.head_flops, found.attention_flops, found.hidden_numbers, found.inner_numbers]
    assert min(rate for rates in [*by_kind, found.scored_logits] for rate in rates.values()) > 0
    assert found.layer_s > 0 and found.link_latency_s is None


def test_sums_are_timed_between_products() -> None:
    config, made = tiny_config("dream", num_layers=3), []
    layers = projections(config, torch.float32, "cpu")
    latency, rate = link_rates(layers, 16, "cpu", lambda tensor: made.append(tensor.numel()), lambda own: own)
    assert set(made) == {64, 16 * config.hidden_size} and len(layers) == 3
    assert latency > 0 and rate > 0


def test_without_a_word_branches_are_shared_by_up_to_16_devices_and_with_the_grid_the_network_too() -> None:
    default = inspect.signature(command.speed).parameters["branches"].default
    known = command._tokens_per_round(default, None)
    for grid in (False, True):
        question = SpeedQuestion(tokens_per_round=known, grid=grid)
        found = {(one.bp, one.tp) for one in speed._predictions(question, QUICK, mid_config(), 4)}
        assert {bp for bp, tp in found if tp == 1} == {1, 2, 4, 8, 16}
        assert ((16, 8) in found) == grid

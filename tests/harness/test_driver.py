"""Ledgers and clock against counts made by hand."""

from __future__ import annotations

import weakref

import pytest
import torch
from fakes import EOS, FakeDevice, ScriptedDecoder, Step, one_by_one

from lopa_bench.errors import DecodeError, NaNLogits
from lopa_bench.harness import driver
from lopa_bench.harness.driver import generate
from lopa_bench.results.metrics import METRICS
from lopa_bench.results.schema import SampleRecord, Why

PROMPT = list(range(100))
A = 65


def figure(metric: str, outcome: object) -> float | None:
    sample = SampleRecord(id="one", tokens=outcome.tokens, work=outcome.work, time=outcome.time)  # type: ignore[attr-defined]
    return METRICS[metric].value([sample])


def test_tokens_are_the_answers_alone_and_rates_follow() -> None:
    device = FakeDevice()
    steps = [Step((2 * i, 2 * i + 1), (A, A), prefill=i == 0) for i in range(10)]
    outcome = generate(ScriptedDecoder(steps, before=lambda: device.submit(0.2)), PROMPT, clock=device)
    assert outcome.tokens.prompt == 100
    assert outcome.tokens.useful == outcome.tokens.committed == 20
    assert figure("tpf", outcome) == 2.0
    assert figure("tps_e2e", outcome) == pytest.approx(10.0)


def test_slots_after_the_end_are_committed_and_not_useful() -> None:
    tokens = [A] * 40 + [EOS] + [A] * 23
    outcome = generate(ScriptedDecoder(one_by_one(tokens)), PROMPT)
    assert (outcome.tokens.useful, outcome.tokens.committed, outcome.work.rounds) == (40, 64, 64)
    assert figure("tpf_committed", outcome) == 1.0
    assert figure("tpf", outcome) == 0.625
    assert outcome.ended_by_eos


def test_padding_after_the_end_is_not_useful() -> None:
    tokens = [A] * 12 + [EOS] * 244
    outcome = generate(ScriptedDecoder([Step(tuple(range(256)), tuple(tokens))], max_new_tokens=256), PROMPT)
    assert (outcome.tokens.useful, outcome.tokens.committed) == (12, 256)


@pytest.mark.parametrize("ends", [True, False])
def test_an_autoregressive_decoder_has_exactly_one_token_a_round(ends: bool) -> None:
    tokens = [A] * 7 + ([EOS] if ends else [])
    outcome = generate(ScriptedDecoder(one_by_one(tokens), causal=True), PROMPT)
    assert figure("tpf", outcome) == 1.0
    assert (outcome.work.rounds, outcome.work.model_calls) == (7, len(tokens))


def test_an_autoregressive_answer_that_ends_at_once_has_no_rounds_and_no_rate() -> None:
    outcome = generate(ScriptedDecoder(one_by_one([EOS]), causal=True), PROMPT)
    assert (outcome.work.rounds, outcome.work.model_calls, outcome.tokens.useful) == (0, 1, 0)
    assert figure("tpf", outcome) is None


def test_prefill_calls_are_told_apart() -> None:
    steps = [Step(prefill=True), *one_by_one([A] * 8, prefill_first=False)]
    outcome = generate(ScriptedDecoder(steps), PROMPT)
    assert (outcome.work.prefill_calls, outcome.work.model_calls) == (1, 9)


def test_branches_and_positions_add_up() -> None:
    steps = [
        Step((0,), (A,), prefill=True, num_positions=132),
        Step((1, 2), (A, A), num_positions=8 * 32, branch_forwards=8),
    ]
    work = generate(ScriptedDecoder(steps), PROMPT).work
    assert (work.rounds, work.model_calls, work.branch_forwards, work.positions) == (2, 2, 9, 132 + 256)


def test_seconds_of_prefill_and_decoding_are_two_figures() -> None:
    device = FakeDevice()
    steps = [Step(prefill=True), Step(tuple(range(50)), (A,) * 50)]
    outcome = generate(ScriptedDecoder(steps, before=lambda: device.submit(1.0)), PROMPT, clock=device)
    assert (outcome.time.prefill_s, outcome.time.decode_s, outcome.time.first_round_s) == (1.0, 1.0, None)
    assert figure("tps_decode", outcome) == 50.0
    assert figure("tps_e2e", outcome) == 25.0


def test_a_first_round_that_fills_slots_is_decoding_and_told_apart() -> None:
    device = FakeDevice()
    outcome = generate(ScriptedDecoder(one_by_one([A] * 4), before=lambda: device.submit(1.0)), PROMPT, clock=device)
    assert (outcome.time.prefill_s, outcome.time.decode_s, outcome.time.first_round_s) == (0.0, 4.0, 1.0)


def test_the_clock_waits_for_the_device_at_both_ends_and_after_the_first_round_only() -> None:
    device = FakeDevice()
    device.submit(5.0)  # left over from before: must not be counted
    outcome = generate(ScriptedDecoder(one_by_one([A] * 30), before=lambda: device.submit(0.5)), PROMPT, clock=device)
    assert device.num_synchronised == 3
    assert outcome.time.total_s == pytest.approx(15.0)


def test_the_budget_bounds_what_is_counted() -> None:
    tokens = [A] * 80 + [EOS] * 176
    decoder = ScriptedDecoder([Step(tuple(range(256)), tuple(tokens))], max_new_tokens=96)
    outcome = generate(decoder, PROMPT)
    assert (outcome.tokens.useful, outcome.tokens.committed, outcome.num_discarded) == (80, 96, 160)
    assert len(outcome.answer) == 96


def test_a_slot_filled_anew_is_one_token() -> None:
    steps = [Step(tuple(range(10)), (A,) * 10), Step((1, 2, 3), (66, 67, 68))]
    outcome = generate(ScriptedDecoder(steps), PROMPT)
    assert (outcome.tokens.committed, outcome.num_revised) == (10, 3)
    assert figure("tpf", outcome) == 5.0


def test_a_mask_left_is_an_error() -> None:
    outcome = generate(ScriptedDecoder([Step((0, 2), (A, A))]), PROMPT)
    assert outcome.masks_left == 1
    assert (outcome.why, outcome.error) == (Why.MASKS_LEFT, "1 mask left in the answer after the last round")


@pytest.mark.parametrize(
    ("problem", "why", "sentence"),
    [
        (NaNLogits("the model returned NaN logits"), Why.NAN_LOGITS, "the model returned NaN logits"),
        (DecodeError("the prompt does not fit"), Why.DECODE_ERROR, "the prompt does not fit"),
        (
            torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2 GiB.\nSee the manual"),
            Why.OUT_OF_MEMORY,
            "out_of_memory: CUDA out of memory. Tried to allocate 2 GiB.",
        ),
        (
            RuntimeError("[enforce fail at alloc_cpu.cpp:124] DefaultCPUAllocator: can't allocate memory"),
            Why.OUT_OF_MEMORY,
            "out_of_memory: [enforce fail at alloc_cpu.cpp:124] DefaultCPUAllocator: can't allocate memory",
        ),
        (RuntimeError("CUBLAS_STATUS_ALLOC_FAILED"), Why.OUT_OF_MEMORY, "out_of_memory: CUBLAS_STATUS_ALLOC_FAILED"),
        (MemoryError(), Why.OUT_OF_MEMORY, "out_of_memory: no more could be allocated"),
    ],
)
def test_a_generation_that_fails_keeps_what_was_measured(problem: Exception, why: Why, sentence: str) -> None:
    outcome = generate(ScriptedDecoder([*one_by_one([A] * 3), Step(error=problem)]), PROMPT)
    assert (outcome.why, outcome.error) == (why, sentence)
    assert outcome.work.rounds == 3


def test_memory_is_given_back_only_after_the_failed_frames_are_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    class Activations:
        """Stands for what a failing call holds in its frames."""

    alive: list[weakref.ref[Activations]] = []
    seen: list[bool] = []

    def exhaust() -> None:
        held = Activations()
        alive.append(weakref.ref(held))
        raise torch.OutOfMemoryError("CUDA out of memory")

    monkeypatch.setattr(driver, "free_memory", lambda: seen.append(alive[0]() is None))
    outcome = generate(ScriptedDecoder([Step()], before=exhaust), PROMPT)
    assert (outcome.why, seen) == (Why.OUT_OF_MEMORY, [True])


def test_a_fault_of_the_program_passes_through() -> None:
    with pytest.raises(RuntimeError, match="shape"):
        generate(ScriptedDecoder([Step(error=RuntimeError("shape mismatch"))]), PROMPT)


def test_rounds_are_kept_only_when_asked_for() -> None:
    steps = one_by_one([A] * 5)
    assert generate(ScriptedDecoder(steps), PROMPT).rounds == ()
    rounds = generate(ScriptedDecoder(steps), PROMPT, trace=True).rounds
    assert [one.positions for one in rounds] == [(i,) for i in range(5)]
    assert sum(len(one.positions) for one in rounds) == 5
    assert [one.prefill for one in rounds] == [True, False, False, False, False]


def test_what_traces_and_listeners_take_is_not_counted() -> None:
    device = FakeDevice()

    def look(one: object) -> None:
        device.time += 10.0

    decoder = ScriptedDecoder(one_by_one([A] * 4), before=lambda: device.submit(0.5))
    time = generate(decoder, PROMPT, clock=device, trace=True, on_round=look).time
    assert (time.total_s, time.first_round_s) == (pytest.approx(2.0), pytest.approx(0.5))


def test_listeners_hear_every_round() -> None:
    heard: list[int] = []
    generate(ScriptedDecoder(one_by_one([A] * 5)), PROMPT, on_round=lambda one: heard.append(one.index))
    assert heard == [0, 1, 2, 3, 4]

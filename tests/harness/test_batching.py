"""Answers made together are the answers made alone: tokens, rounds and ledgers, whatever stands beside them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pytest
import torch
from decoder_cases import ALL, label
from fakes import FakeDevice
from fakes_models import EOS, VOCABULARY, ScriptedModel, sure, tiny_model
from torch import Tensor

from lopa_bench.decoders.base import Decoder
from lopa_bench.decoders.registry import create, decoder_type
from lopa_bench.harness.batching import Batcher
from lopa_bench.harness.driver import Outcome, generate
from lopa_bench.models.forward import Forward
from lopa_bench.models.language_model import LanguageModel
from lopa_bench.results.schema import Why

TOGETHER = [(name, options) for name, options in ALL if decoder_type(name).batches]
each_way = pytest.mark.parametrize(("name", "options"), TOGETHER, ids=[label(*one) for one in TOGETHER])
# Lengths from one token to a dozen, so that no two windows agree.
PROMPTS = [[seed % 13, *[(seed * 7 + place * place) % 14 for place in range(seed)]] for seed in range(7)]
SEEDS = [100 + index for index in range(len(PROMPTS))]


def decoder_for(name: str, options: Mapping[str, Any], model: LanguageModel | None = None, **more: Any) -> Decoder:
    blocks = {} if name == "ar" else {"block_size": 4}
    model = model or tiny_model("ar" if name == "ar" else "dream", seed=3, sharpness=0.3)
    return create(name, model, {"max_new_tokens": 10, **blocks, **options, **more})


def alone(decoder: Decoder, prompts: Sequence[Sequence[int]] = PROMPTS, **options: Any) -> list[Outcome]:
    return [generate(decoder, prompt, seed=seed, **options) for prompt, seed in zip(prompts, SEEDS, strict=False)]


def together(decoder: Decoder, size: int, prompts: Sequence[Sequence[int]] = PROMPTS, **options: Any) -> list[Outcome]:
    batcher = Batcher(decoder)
    return [
        outcome
        for first in range(0, len(prompts), size)
        for outcome in batcher.generate(
            prompts[first : first + size], SEEDS[first : first + size][: len(prompts) - first], **options
        )
    ]


def plain(outcome: Outcome) -> tuple[Any, ...]:
    """All that time does not change."""
    steps = [(one.positions, one.tokens, one.num_forced, one.num_positions, one.prefill) for one in outcome.rounds]
    return outcome.answer, outcome.tokens, outcome.work, outcome.error, steps


@each_way
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
@pytest.mark.parametrize("kind", ["dream", "llada"])
def test_every_batch_size_gives_the_answers_of_one_by_one(
    name: str, options: dict[str, Any], dtype: torch.dtype, kind: str
) -> None:
    if name == "ar" and kind == "llada":
        pytest.skip("an autoregressive model always has shifted rows")
    ended = set()
    for seed in range(3):
        model = tiny_model("ar" if name == "ar" else kind, seed, dtype, sharpness=0.4)
        decoder = decoder_for(name, options, model)
        expected = list(map(plain, alone(decoder, trace=True)))
        for size in (3, 20):
            assert list(map(plain, together(decoder, size, trace=True))) == expected
        ended |= {len(answer) for answer, *_ in expected}
    assert len(ended) > 1, "no row finished early"


@each_way
def test_sampling_draws_the_same_tokens_whatever_stands_beside(name: str, options: dict[str, Any]) -> None:
    decoder = decoder_for(name, options, temperature=1.0)
    expected = [outcome.answer for outcome in alone(decoder)]
    assert len(set(expected)) > 2
    for size in (2, 3, 7):
        assert [outcome.answer for outcome in together(decoder, size)] == expected


def by_first_token(rows: Mapping[int, Tensor]) -> Any:
    """A script that answers each prompt, known by its first token, in its own way."""
    return lambda position, window: rows[window[0]]


def test_each_row_is_sampled_from_its_own_distribution() -> None:
    supports = {1: {2, 3}, 4: {5, 6}}
    logits = {}
    for first, tokens in supports.items():
        logits[first] = torch.full((VOCABULARY,), float("-inf"))
        logits[first][list(tokens)] = 0.0
    decoder = decoder_for("fast-dllm", {"cache": "none", "threshold": 0.0}, ScriptedModel(by_first_token(logits)))
    decoder = decoder_for("fast-dllm", {"cache": "none", "threshold": 0.0, "temperature": 1.0}, decoder.model)
    for outcome, support in zip(together(decoder, 2, [[1], [4, 4]]), supports.values(), strict=True):
        assert set(outcome.answer) == support


def test_a_row_that_met_its_eos_gets_nothing_more_while_others_go_on() -> None:
    def script(position: int, window: Mapping[int, int]) -> Tensor:
        return sure(EOS if window[0] == 1 and position == 3 else 7, 0.95)

    model = ScriptedModel(script)
    decoder = decoder_for("fast-dllm", {"cache": "dual"}, model, max_new_tokens=12)
    first, second = together(decoder, 2, [[1], [2]])
    assert (first.answer, first.useful, first.tokens.committed) == ((7, 7, EOS), (7, 7), 4)
    assert (second.answer, second.work.rounds) == ((7,) * 12, 3)
    assert model.together == [2, 1, 1], "the finished row still took part"
    assert plain(alone(decoder, [[1], [2]])[1]) == plain(second)


def test_nan_logits_spoil_their_own_row_only() -> None:
    def script(position: int, window: Mapping[int, int]) -> Tensor:
        return torch.full((VOCABULARY,), float("nan")) if window[0] == 2 else sure(7, 0.95)

    decoder = decoder_for("vanilla", {}, ScriptedModel(script))
    outcomes = together(decoder, 3, [[1], [2], [3]])
    assert [outcome.why for outcome in outcomes] == [None, Why.NAN_LOGITS, None]
    assert list(map(plain, outcomes)) == list(map(plain, alone(decoder, [[1], [2], [3]])))


def test_a_prompt_that_cannot_be_decoded_is_that_rows_error() -> None:
    decoder = decoder_for("ar", {})
    good, bad, empty = together(decoder, 3, [[1, 2], [99], []])
    assert good.error is None and good.answer
    assert bad.why == empty.why == Why.DECODE_ERROR
    assert "the prompt holds ids" in str(bad.error) and "the prompt is empty" in str(empty.error)


class Scarce(LanguageModel):
    """Has memory for so many windows, and none at all for a prompt that begins with `never`."""

    def __init__(self, model: LanguageModel, room: int, never: int = -1) -> None:
        super().__init__(model.network)
        self.room, self.never = room, never
        self.sizes: list[int] = []

    def carry_out(self, forwards: Sequence[Forward]) -> None:
        self.sizes.append(len(forwards))
        if len(forwards) > self.room or any(int(one.tokens[0, 0]) == self.never for one in forwards):
            raise torch.OutOfMemoryError("CUDA out of memory")
        super().carry_out(forwards)


@each_way
def test_where_memory_does_not_suffice_for_a_batch_it_is_halved(name: str, options: dict[str, Any]) -> None:
    decoder = decoder_for(name, options)
    expected = list(map(plain, alone(decoder)))
    decoder.model = scarce = Scarce(decoder.model, room=2)
    batcher = Batcher(decoder)
    assert list(map(plain, batcher.generate(PROMPTS, SEEDS))) == expected
    assert batcher.most == 2
    assert scarce.sizes[:6] == [7, 4, 2, 2, 2, 1], "the first call is halved until it fits"
    assert max(scarce.sizes[2:]) == 2, "later calls do not try what failed"


def test_an_answer_that_memory_never_suffices_for_is_that_rows_error() -> None:
    decoder = decoder_for("vanilla", {})
    prompts = [[1, 2], [5, 5, 5], [3]]
    expected = alone(decoder, prompts)
    decoder.model = scarce = Scarce(decoder.model, room=9, never=5)
    outcomes = together(decoder, 3, prompts)
    assert outcomes[1].why == Why.OUT_OF_MEMORY
    assert [plain(outcomes[row]) for row in (0, 2)] == [plain(expected[row]) for row in (0, 2)]
    assert scarce.sizes[-1] == 1, "it was tried alone at last"


def test_a_fault_of_the_program_is_not_taken_for_a_bad_answer() -> None:
    class Faulty(LanguageModel):
        def carry_out(self, forwards: Sequence[Forward]) -> None:
            raise RuntimeError("shape mismatch")

    decoder = decoder_for("vanilla", {})
    decoder.model = Faulty(decoder.model.network)
    with pytest.raises(RuntimeError, match="shape mismatch"):
        together(decoder, 2)


def test_seconds_are_shared_and_add_up_to_what_passed() -> None:
    """Three answers of 1, 2 and 3 calls of a second each: 1/3, 1/3 + 1/2, 1/3 + 1/2 + 1 seconds are their own."""
    device = FakeDevice()

    class Timed(ScriptedModel):
        def carry_out(self, forwards: Sequence[Forward]) -> None:
            device.submit(1.0)
            super().carry_out(forwards)

    def script(position: int, window: Mapping[int, int]) -> Tensor:
        return sure(EOS if position == window[0] else 7, 0.9 - 0.01 * position)

    decoder = decoder_for("vanilla", {}, Timed(script), max_new_tokens=9)
    outcomes = Batcher(decoder, device).generate([[1], [2], [3]], SEEDS[:3])
    times = [outcome.time for outcome in outcomes]
    assert [one.total_s for one in times] == pytest.approx([1 / 3, 1 / 3 + 1 / 2, 1 / 3 + 1 / 2 + 1])
    assert [one.latency_s for one in times] == pytest.approx([1.0, 2.0, 3.0])
    assert sum(one.total_s for one in times) == pytest.approx(device.now()) == 3.0
    assert [one.first_round_s for one in times] == [1.0, 1.0, 1.0]


def test_a_batch_makes_fewer_passes_through_the_network(monkeypatch: pytest.MonkeyPatch) -> None:
    decoder = decoder_for("ar", {}, tiny_model("ar", seed=3, eos_token_id=None))
    passes = []
    network = decoder.model.network
    forward = network.forward
    monkeypatch.setattr(network, "forward", lambda *given, **named: passes.append(1) or forward(*given, **named))
    together(decoder, 7)
    assert len(passes) == 10
    alone(decoder)
    assert len(passes) == 10 + 7 * 10


@pytest.mark.slow
@pytest.mark.parametrize(("name", "kind"), [("ar", "ar"), ("fast-dllm", "dllm")])
def test_the_bundled_models_answer_their_own_problems_alike_in_a_batch(name: str, kind: str) -> None:
    from lopa_bench.harness.bundled_defaults import OPTIONS
    from lopa_bench.models.loading import load_model, load_tokenizer
    from lopa_bench.tasks.registry import get_task

    tokenizer = load_tokenizer(f"bundled:{kind}")
    prompts = [tokenizer(one.prompt)["input_ids"] for one in get_task("mini-maths").documents()[:8]]
    assert len({len(prompt) for prompt in prompts}) > 3
    decoder = create(name, load_model(f"bundled:{kind}"), {"max_new_tokens": 96, **OPTIONS[name]})
    batched = Batcher(decoder).generate(prompts, list(range(8)), trace=True)
    singly = [generate(decoder, prompt, seed=seed, trace=True) for seed, prompt in enumerate(prompts)]
    assert list(map(plain, batched)) == list(map(plain, singly))
    assert len({len(outcome.answer) for outcome in singly}) > 2

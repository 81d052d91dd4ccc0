"""What must end with the right answer or a clear error: never with a wrong answer, never not at all."""

from __future__ import annotations

from itertools import islice
from typing import Any

import pytest
import torch
from decoder_cases import ALL, every_decoder
from fakes_models import EOS, MASK, VOCABULARY, ScriptedModel, flat, sure, table, tiny_model

from lopa_bench.decoders.registry import create
from lopa_bench.decoders.rounds import Generation, Round
from lopa_bench.errors import ConfigError, DecodeError

PROMPT = [1, 2]


def start(name: str, options: dict[str, Any], script: Any, prompt: list[int] = PROMPT, **more: Any) -> Generation:
    model = ScriptedModel(script, "ar" if name == "ar" else "dream")
    blocks = {} if name == "ar" else {"block_size": 4}
    return create(name, model, {"max_new_tokens": 8, **blocks, **options, **more}).decode(prompt)


def bounded(generation: Generation) -> list[Round]:
    rounds = list(islice(generation, 500))
    assert len(rounds) < 500, "decoding does not end"
    return rounds


def proposes_the_mask(position: int, window: Any) -> torch.Tensor:
    logits = sure(MASK, 0.99)
    logits[3] += 1.0
    return logits


@every_decoder
def test_the_mask_id_is_no_candidate_by_default(name: str, options: dict[str, Any]) -> None:
    generation = start(name, options, proposes_the_mask)
    bounded(generation)
    assert generation.answer == [3] * 8
    assert generation.masks_left == 0


@every_decoder
def test_where_the_mask_id_may_be_proposed_decoding_ends_with_an_error_or_with_masks_reported(
    name: str, options: dict[str, Any]
) -> None:
    generation = start(name, options, proposes_the_mask, allow_mask_token=True, early_stop=False)
    try:
        rounds = bounded(generation)
    except DecodeError as error:
        assert "the mask id" in str(error)
        assert "allow_mask_token" in str(error)
    else:
        assert generation.masks_left == 8
        assert not any(one.positions for one in rounds), "a mask fills no slot"


@pytest.mark.parametrize(
    ("name", "preset"),
    [
        ("fast-dllm", "fast-dllm-llada"),
        ("fast-dllm", "fast-dllm-dream"),
        ("d2f", "d2f-dream"),
        ("lopa", "lopa-dream"),
        ("lopa", "lopa-dist"),
    ],
)
def test_under_the_authors_conventions_an_endless_decoding_is_an_error(name: str, preset: str) -> None:
    model = ScriptedModel(proposes_the_mask)
    generation = create(name, model, {"max_new_tokens": 8, "block_size": 4}, preset).decode(PROMPT)
    with pytest.raises(DecodeError, match="proposes the mask id for a slot that must be filled"):
        bounded(generation)
    assert generation.masks_left > 0


def test_a_mask_that_the_model_proposes_once_is_filled_later() -> None:
    def undecided(position: int, window: Any) -> torch.Tensor:
        return sure(MASK if position == 3 and window[2] == MASK else 5, 0.95)

    for name in ("fast-dllm", "d2f", "lopa"):
        generation = start(name, {}, undecided, allow_mask_token=True)
        rounds = bounded(generation)
        assert generation.answer == [5] * 8
        slots = [position for one in rounds for position in one.positions]
        assert sorted(slots) == list(range(8)), "the slot is reported when it is filled, and once"


def test_fast_dllm_for_dream_with_one_step_a_block_leaves_masks_and_reports_them() -> None:
    options = {"alg": "entropy", "threshold": None, "steps": 1, "cache": "prefix", "block_size": 32}
    model = ScriptedModel(table({}))
    generation = create("fast-dllm", model, {"max_new_tokens": 32, **options}, "fast-dllm-dream").decode(PROMPT)
    generation.run()
    # Their block is left with all but its first token, and but for nothing else here.
    assert generation.masks_left == 31


def test_masks_before_an_early_eos_are_reported() -> None:
    options = {"rule": "dream", "alg": "entropy", "threshold": None, "steps": 2}
    generation = start("fast-dllm", options, table({6: sure(EOS, 0.9)}))
    generation.run()
    assert generation.answer[-1] == EOS
    assert generation.masks_left > 0


@every_decoder
@pytest.mark.parametrize("temperature", [0.0, 0.7])
def test_nan_logits_are_an_error(name: str, options: dict[str, Any], temperature: float) -> None:
    def broken(position: int, window: Any) -> torch.Tensor:
        return torch.full((VOCABULARY,), float("nan")) if position == 7 else sure(3, 0.5)

    generation = start(name, options, broken, temperature=temperature)
    with pytest.raises(DecodeError, match="NaN logits"):
        bounded(generation)


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("fast-dllm", {"cache": "none", "threshold": 0.9}),
        ("fast-dllm", {"cache": "prefix", "threshold": 0.9}),
        ("fast-dllm", {"cache": "dual", "threshold": 0.9}),
        ("fast-dllm", {"cache": "none", "rule": "dream", "threshold": 0.9}),
        ("fast-dllm", {"cache": "prefix", "rule": "dream", "threshold": 0.9}),
        ("d2f", {"tau_conf": 0.9}),
        ("lopa", {"tau_conf": 0.9, "branches": 1}),
        ("lopa", {"tau_conf": 0.9, "branches": 1, "base": "vanilla"}),
    ],
)
def test_flat_logits_take_one_forced_token_a_forward(name: str, options: dict[str, Any]) -> None:
    model = ScriptedModel(flat)
    generation = create(name, model, {"max_new_tokens": 8, "block_size": 8, **options}).decode(PROMPT)
    rounds = bounded(generation)
    assert len(model.calls) == len(rounds) == 8
    assert [len(one.positions) for one in rounds] == [1] * 8
    assert [one.num_forced for one in rounds] == [1] * 8
    assert generation.canvas.tokens[:2] == PROMPT
    assert generation.answer == [0] * 8


def test_what_is_filled_is_not_touched_again() -> None:
    def restless(position: int, window: Any) -> torch.Tensor:
        return sure(1 + sum(token != MASK for token in window.values()) % 12, 0.5)

    for name, options in ALL[1:]:
        generation = start(name, options, restless)
        seen: dict[int, int] = {}
        for one in generation:
            for position, token in zip(one.positions, one.tokens, strict=True):
                assert position not in seen
                seen[position] = token
        assert generation.answer == [seen[position] for position in range(8)]


@every_decoder
def test_a_budget_that_is_no_multiple_of_the_block_is_kept_to_the_token(name: str, options: dict[str, Any]) -> None:
    blocks = {} if name == "ar" else {"block_size": 32}
    generation = start(name, options, table({}), max_new_tokens=50, **blocks)
    rounds = bounded(generation)
    assert len(generation.answer) == 50
    assert sorted(position for one in rounds for position in one.positions) == list(range(50))


@every_decoder
def test_a_budget_smaller_than_a_block(name: str, options: dict[str, Any]) -> None:
    blocks = {} if name == "ar" else {"block_size": 32}
    generation = start(name, options, table({}), max_new_tokens=5, **blocks)
    bounded(generation)
    assert len(generation.answer) == 5


@pytest.mark.parametrize(("name", "preset"), [("d2f", "d2f-dream"), ("lopa", "lopa-dream")])
def test_the_authors_drop_a_last_block_that_is_not_whole(name: str, preset: str) -> None:
    generation = create(name, ScriptedModel(table({})), {"max_new_tokens": 50, "block_size": 32}, preset).decode(PROMPT)
    bounded(generation)
    assert len(generation.answer) == 32
    with pytest.raises(ConfigError, match="leaves nothing of max_new_tokens = 20"):
        create(name, ScriptedModel(table({})), {"max_new_tokens": 20, "block_size": 32}, preset)


@every_decoder
def test_an_empty_prompt_is_an_error(name: str, options: dict[str, Any]) -> None:
    with pytest.raises(DecodeError, match="the prompt is empty"):
        start(name, options, table({}), [])


@every_decoder
def test_a_prompt_longer_than_the_context_is_an_error_that_says_by_how_much(name: str, options: dict[str, Any]) -> None:
    with pytest.raises(DecodeError, match=r"prompt of 249 tokens and an answer of 8 .* 256 positions; cut .* to 248"):
        start(name, options, table({}), [1] * 249)
    start(name, options, table({}), [1] * 248)


@pytest.mark.parametrize("stranger", [VOCABULARY, -1])
def test_ids_that_the_model_does_not_know_are_an_error(stranger: int) -> None:
    with pytest.raises(DecodeError, match="the model knows 0 to 15"):
        start("vanilla", {}, table({}), [1, stranger])


@every_decoder
def test_mask_and_eos_ids_of_the_prompt_are_kept(name: str, options: dict[str, Any]) -> None:
    prompt = [EOS, MASK, 3, MASK]
    generation = start(name, options, table({}), prompt)
    bounded(generation)
    assert generation.canvas.tokens[:4] == prompt
    assert generation.answer == [1] * 8


@every_decoder
def test_one_decoder_object_serves_several_generations(name: str, options: dict[str, Any]) -> None:
    model = tiny_model("ar" if name == "ar" else "dream", eos_token_id=None)
    settings = {"max_new_tokens": 7, **({} if name == "ar" else {"block_size": 4}), **options}
    prompts = [3, 1, 4], [2, 7, 1, 8, 5]

    def alone(prompt: list[int]) -> tuple[list[Round], list[int]]:
        generation = create(name, model, settings).decode(prompt)
        return generation.run(), generation.answer

    expected = [alone(prompt) for prompt in prompts]
    decoder = create(name, model, settings)
    generations = [decoder.decode(prompt) for prompt in prompts]
    rounds: tuple[list[Round], list[Round]] = ([], [])
    for _ in range(20):
        for generation, seen in zip(generations, rounds, strict=True):
            seen.extend(islice(generation, 1))
    assert [(seen, one.answer) for seen, one in zip(rounds, generations, strict=True)] == expected
    again = decoder.decode(prompts[0])
    assert (again.run(), again.answer) == expected[0]

"""Answers at a temperature: fixed by their seed, and by nothing else that happens to run."""

from __future__ import annotations

from itertools import zip_longest
from typing import Any

import pytest
import torch
from fakes_models import MASK, ScriptedModel, sure, table, tiny_model

from lopa_bench.decoders.base import Decoder
from lopa_bench.decoders.registry import create

PROMPT, OTHER = [1, 2, 3], [4, 5]
DECODERS: list[tuple[str, dict[str, Any]]] = [
    ("ar", {}),
    ("vanilla", {}),
    ("vanilla", {"remasking": "random"}),
    ("vanilla", {"rule": "dream"}),
    ("vanilla", {"rule": "dream", "alg": "origin"}),
    ("vanilla", {"rule": "dream", "alg_temp": 0.5}),
    ("fast-dllm", {"cache": "dual"}),
    ("fast-dllm", {"rule": "dream", "cache": "none"}),
    ("d2f", {}),
    ("lopa", {"branches": 3}),
    ("lopa", {"branches": 3, "base": "vanilla"}),
    ("lopa", {"branches": 3, "select": "random"}),
]
IDS = [f"{name} {' '.join(map(str, options.values()))}" for name, options in DECODERS]


def decoder_of(name: str, options: dict[str, Any], **more: Any) -> Decoder:
    model = tiny_model("ar" if name == "ar" else "dream", sharpness=0.3, eos_token_id=None)
    blocks = {} if name == "ar" else {"block_size": 4}
    return create(name, model, {"max_new_tokens": 12, "temperature": 1.0, **blocks, **options, **more})


def answer_of(decoder: Decoder, seed: int, prompt: list[int] = PROMPT) -> list[int]:
    generation = decoder.decode(prompt, seed=seed)
    generation.run()
    return generation.answer


@pytest.mark.parametrize(("name", "options"), DECODERS, ids=IDS)
def test_the_seed_fixes_the_answer(name: str, options: dict[str, Any]) -> None:
    decoder = decoder_of(name, options)
    answers = [answer_of(decoder, seed) for seed in (0, 1, 2)]
    assert answer_of(decoder_of(name, options), 0) == answers[0]
    assert len({tuple(answer) for answer in answers}) > 1
    assert all(len(answer) == 12 and MASK not in answer for answer in answers)


@pytest.mark.parametrize(("name", "options"), DECODERS, ids=IDS)
def test_other_generations_change_nothing(name: str, options: dict[str, Any]) -> None:
    alone = answer_of(decoder_of(name, options), 5), answer_of(decoder_of(name, options), 6, OTHER)
    decoder = decoder_of(name, options)
    first, second = decoder.decode(PROMPT, seed=5), decoder.decode(OTHER, seed=6)
    torch.manual_seed(99)
    for _ in zip_longest(first, second):
        torch.rand(3)
    assert (first.answer, second.answer) == alone


@pytest.mark.parametrize(("name", "options"), [("vanilla", {}), ("d2f", {}), ("lopa", {}), ("fast-dllm", {})])
def test_temperature_zero_gives_one_answer(name: str, options: dict[str, Any]) -> None:
    decoder = decoder_of(name, options, temperature=0.0, max_new_tokens=6)
    assert len({tuple(answer_of(decoder, seed)) for seed in range(20)}) == 1


@pytest.mark.parametrize(
    ("name", "options"),
    [("vanilla", {}), ("vanilla", {"rule": "dream"}), ("d2f", {}), ("lopa", {}), ("fast-dllm", {})],
)
def test_a_temperature_near_zero_is_greedy(name: str, options: dict[str, Any]) -> None:
    model = ScriptedModel(table({2 + slot: sure(1 + slot, 0.6 + slot / 100) for slot in range(8)}))
    settings = {"max_new_tokens": 8, "block_size": 4, **options}
    greedy = answer_of(create(name, model, settings), 0, [1, 2])
    assert greedy == list(range(1, 9))
    for seed in range(5):
        assert answer_of(create(name, model, {**settings, "temperature": 1e-4}), seed, [1, 2]) == greedy


@pytest.mark.parametrize("limit", [{"top_k": 1}, {"top_p": 0.01}])
@pytest.mark.parametrize(("name", "options"), DECODERS[:2] + DECODERS[6:10])
def test_a_nucleus_of_one_token_is_greedy_in_its_tokens(
    name: str, options: dict[str, Any], limit: dict[str, Any]
) -> None:
    rows = {2 + slot: sure(1 + slot, 0.2) for slot in range(8)}
    model = ScriptedModel(table(rows), "ar" if name == "ar" else "dream")
    blocks = {} if name == "ar" else {"block_size": 4}
    decoder = create(name, model, {"max_new_tokens": 8, "temperature": 1.0, **blocks, **options, **limit})
    assert answer_of(decoder, 3, [1, 2]) == list(range(1, 9))

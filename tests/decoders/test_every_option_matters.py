"""No dead switches: for every option of every decoder there is a case in which setting it changes the decoding."""

from __future__ import annotations

from dataclasses import fields
from functools import cache
from typing import Any

import pytest
import torch
from fakes_models import EOS, MASK, ScriptedModel, sure, table, tiny_model

from lopa_bench.decoders.registry import create, decoder_type
from lopa_bench.errors import DecodeError
from lopa_bench.models.language_model import LanguageModel

Options = dict[str, Any]

# option -> (what else is set, the option's two values)
COMMON: dict[str, tuple[Options, Any, Any]] = {
    "max_new_tokens": ({}, 12, 10),
    "temperature": ({}, 0.0, 1.0),
    "top_p": ({"temperature": 1.0}, None, 0.3),
    "top_k": ({"temperature": 1.0}, None, 1),
}
QUOTAS: Options = {"threshold": None}
CASES: dict[str, dict[str, tuple[Options, Any, Any]]] = {
    "ar": {},
    "vanilla": {
        "rule": ({}, "llada", "dream"),
        "block_size": ({}, 4, 12),
        "steps": ({}, None, 3),
        "remasking": ({}, "low_confidence", "random"),
        "alg": ({"rule": "dream"}, "entropy", "topk_margin"),
        "alg_temp": ({"rule": "dream"}, None, 1.0),
        "eps": ({"rule": "dream", "steps": 6}, 1e-3, 0.5),
        "idle_steps": ({"steps": 24}, False, True),
    },
    "fast-dllm": {
        "rule": ({}, "llada", "dream"),
        "cache": ({}, "prefix", "dual"),
        "block_size": ({}, 4, 12),
        "threshold": ({}, 0.05, 0.95),
        "factor": (QUOTAS, None, 2.0),
        "steps": (QUOTAS, None, 3),
        "remasking": (QUOTAS, "low_confidence", "random"),
        "alg": ({"rule": "dream"}, "confidence_threshold", "entropy"),
        "eps": ({"rule": "dream", "alg": "entropy", "threshold": None, "block_size": 12, "steps": 6}, 1e-3, 0.5),
        "refine_always": ({"threshold": 0.0}, False, True),
    },
    "d2f": {},
    "lopa": {
        "branches": ({}, 1, 4),
        "base": ({}, "d2f", "vanilla"),
        "least_confident": ({}, 1.0, 0.2),
        "score_window": ({}, None, 1),
        "creation_weight": ({}, 0.0, 1.0),
        "candidates": ({"tau_act": 1.0}, "active", "full"),
        "select": ({}, "confidence", "anchor"),
        "packed": ({}, True, False),
    },
}
PIPELINE: dict[str, tuple[Options, Any, Any]] = {
    "block_size": ({}, 4, 6),
    "tau_add": ({}, 0.1, 1.0),
    "tau_act": ({}, 0.1, 1.0),
    "tau_conf": ({}, 0.3, 1.1),
    "strategy": ({"tau_conf": 1.1}, "probability", "neg_entropy"),
    "full_attention": ({}, False, True),
    "whole_blocks": ({"max_new_tokens": 10}, False, True),
}
CASES["d2f"] |= PIPELINE
CASES["lopa"] |= PIPELINE
SCRIPTED = {"early_stop", "allow_mask_token", "float64_ranking"}


@cache
def random_model(kind: str) -> LanguageModel:
    return tiny_model(kind, seed=3, sharpness=0.3, eos_token_id=None)


def trace(model: LanguageModel, name: str, options: Options) -> tuple[Any, ...]:
    own = {"max_new_tokens": 12, **({} if name == "ar" else {"block_size": 4})}
    generation = create(name, model, {**own, **options}).decode([1, 2, 3])
    rounds = generation.run()
    return [(one.positions, one.tokens, one.model_calls, one.input_length, one.winner) for one in rounds], (
        generation.answer
    )


@pytest.mark.parametrize("name", CASES)
def test_every_option_has_a_case(name: str) -> None:
    options = {one.name for one in fields(decoder_type(name).config_type)}
    assert options - SCRIPTED == {*COMMON, *CASES[name]}


@pytest.mark.parametrize(
    ("name", "option"), [(name, option) for name, own in CASES.items() for option in {**COMMON, **own}]
)
def test_an_option_changes_the_decoding(name: str, option: str) -> None:
    others, one, another = {**COMMON, **CASES[name]}[option]
    model = random_model("ar" if name == "ar" else "dream")
    assert trace(model, name, {**others, option: one}) != trace(model, name, {**others, option: another})


@pytest.mark.parametrize("name", CASES)
def test_early_stop_changes_the_decoding(name: str) -> None:
    model = ScriptedModel(table({5: sure(EOS, 0.99)}), "ar" if name == "ar" else "dream")
    assert trace(model, name, {"early_stop": True}) != trace(model, name, {"early_stop": False})


@pytest.mark.parametrize("name", ["ar", "vanilla", "fast-dllm", "d2f", "lopa"])
def test_allow_mask_token_changes_the_decoding(name: str) -> None:
    def undecided(position: int, window: Any) -> torch.Tensor:
        """Proposes the mask at slot 4 while the slot after it is one."""
        logits = sure(5, 0.5)
        if position == 4 and window.get(5, MASK) == MASK:
            logits[MASK] = 9.0
        return logits

    def outcome(allowed: bool) -> Any:
        model = ScriptedModel(undecided, "ar" if name == "ar" else "dream")
        try:
            return trace(model, name, {"allow_mask_token": allowed})
        except DecodeError:
            return "an error"

    assert outcome(True) != outcome(False)


def test_float64_ranking_tells_apart_what_the_models_dtype_rounds_together() -> None:
    """Two slots whose probabilities are one number in bfloat16: only in float64 does their order decide."""

    def first_filled(float64_ranking: bool, better: int) -> int:
        rows = {position: sure(3, 0.5).to(torch.bfloat16) for position in (3, 4)}
        rows[better] = rows[better].clone()
        rows[better][7] -= 0.03125
        model = ScriptedModel(table(rows), dtype=torch.bfloat16)
        assert len({row.softmax(-1)[3].item() for row in rows.values()}) == 1
        options = {"max_new_tokens": 2, "float64_ranking": float64_ranking}
        return create("vanilla", model, options).decode([1, 2, 3]).run()[0].positions[0] + 3

    assert [first_filled(True, better) for better in (3, 4)] == [3, 4]
    assert first_filled(False, 3) == first_filled(False, 4)

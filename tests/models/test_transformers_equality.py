"""Our network and loader against transformers' own Qwen2, Qwen3 and Llama, on random tiny checkpoints."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lopa_bench.models.language_model import LanguageModel
from lopa_bench.models.loading import load_model, save_model
from lopa_bench.models.visibility import CAUSAL

LLAMA3 = {
    "rope_type": "llama3",
    "rope_theta": 10000.0,
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    # Far below the lengths tested, so that every band of the scaling is met.
    "original_max_position_embeddings": 32,
}
CASES: dict[str, tuple[str, dict[str, Any]]] = {
    "qwen2": ("Qwen2", {}),
    "qwen2-tied": ("Qwen2", {"tie_word_embeddings": True}),
    "qwen3": ("Qwen3", {"head_dim": 24}),
    "qwen3-bias": ("Qwen3", {"head_dim": 8, "attention_bias": True}),
    "llama": ("Llama", {"tie_word_embeddings": False}),
    "llama3-scaled-tied": ("Llama", {"rope_parameters": LLAMA3, "tie_word_embeddings": True}),
    "llama-bias": ("Llama", {"attention_bias": True, "head_dim": 8}),
}


def reference_model(kind: str, seed: int = 0, **changes: Any) -> Any:
    import transformers

    config = getattr(transformers, f"{kind}Config")(
        **{
            "vocab_size": 67,
            "hidden_size": 48,
            "intermediate_size": 64,
            "num_hidden_layers": 2,
            "num_attention_heads": 6,
            "num_key_value_heads": 2,
            "max_position_embeddings": 512,
            "initializer_range": 0.1,
            "bos_token_id": 1,
            "eos_token_id": 2,
            **changes,
        }
    )
    torch.manual_seed(seed)
    model = getattr(transformers, f"{kind}ForCausalLM")(config).eval()
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if "norm" in name or name.endswith("bias"):
                parameter.add_(0.2 * torch.randn_like(parameter))
    return model


def assert_same_logits(reference: Any, model: LanguageModel, length: int = 90) -> None:
    tokens = torch.randint(0, model.config.vocab_size, (2, length))
    with torch.inference_mode():
        expected = reference(tokens).logits
        found = model.network.logits(model.network(tokens, causal=True))
    torch.testing.assert_close(found, expected, atol=1e-5, rtol=0)


@pytest.mark.parametrize("case", CASES)
def test_same_logits(case: str, tmp_path: Path) -> None:
    kind, changes = CASES[case]
    reference = reference_model(kind, **changes)
    reference.save_pretrained(tmp_path)
    model = load_model(tmp_path)
    assert model.config.family == kind.lower()
    assert model.config.tied_head == bool(changes.get("tie_word_embeddings"))
    assert_same_logits(reference, model)


@settings(max_examples=12, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_same_logits_on_random_shapes(data: st.DataObject, tmp_path_factory: pytest.TempPathFactory) -> None:
    kind = data.draw(st.sampled_from(["Qwen2", "Qwen3", "Llama"]))
    kv_heads, groups = data.draw(st.integers(1, 3)), data.draw(st.integers(1, 3))
    head_dim = 2 * data.draw(st.integers(2, 8))
    changes = {
        "num_key_value_heads": kv_heads,
        "num_attention_heads": kv_heads * groups,
        "head_dim": head_dim,
        # Qwen2's class derives the size of a head, so there the width must be a multiple.
        "hidden_size": kv_heads * groups * head_dim,
        "intermediate_size": data.draw(st.integers(8, 64)),
        "num_hidden_layers": data.draw(st.integers(1, 3)),
        "vocab_size": data.draw(st.integers(11, 80)),
        "rms_norm_eps": data.draw(st.sampled_from([1e-5, 1e-6])),
        "tie_word_embeddings": data.draw(st.booleans()),
        "rope_parameters": {"rope_type": "default", "rope_theta": data.draw(st.sampled_from([1e4, 1e6]))},
    }
    reference = reference_model(kind, **changes)
    directory = tmp_path_factory.mktemp("checkpoint")
    reference.save_pretrained(directory)
    assert_same_logits(reference, load_model(directory), length=data.draw(st.integers(1, 40)))


@pytest.mark.parametrize("case", ["qwen2", "llama3-scaled-tied"])
def test_both_spellings_of_rope_settings(case: str, tmp_path: Path) -> None:
    """transformers 5 writes `rope_parameters`; the public files say `rope_theta` and `rope_scaling`."""
    kind, changes = CASES[case]
    reference = reference_model(kind, **changes)
    reference.save_pretrained(tmp_path)
    file = tmp_path / "config.json"
    raw = json.loads(file.read_text())
    scaling = raw.pop("rope_parameters")
    raw["rope_theta"] = scaling.pop("rope_theta")
    raw["rope_scaling"] = scaling if scaling["rope_type"] != "default" else None
    file.write_text(json.dumps(raw))
    assert_same_logits(reference, load_model(tmp_path))


@pytest.mark.parametrize("case", ["qwen2-tied", "qwen3", "llama3-scaled-tied"])
def test_transformers_loads_what_we_save(case: str, tmp_path: Path) -> None:
    import transformers

    kind, changes = CASES[case]
    reference_model(kind, **changes).save_pretrained(tmp_path / "theirs")
    model = load_model(tmp_path / "theirs")
    save_model(model, tmp_path / "ours", dtype="float32")
    again = getattr(transformers, f"{kind}ForCausalLM").from_pretrained(tmp_path / "ours").eval()
    assert_same_logits(again, model)


def test_cached_token_by_token_equals_transformers(tmp_path: Path) -> None:
    reference = reference_model("Qwen2")
    reference.save_pretrained(tmp_path)
    model = load_model(tmp_path)
    tokens = torch.randint(0, 67, (1, 20))
    with torch.inference_mode():
        expected = reference(tokens).logits
    cache = model.new_cache(20)
    for position in range(20):
        row = model.predict(
            tokens[:, position : position + 1],
            (position + 1, position + 2),
            start=position,
            cache=cache,
            num_commit=1,
            visibility=CAUSAL,
        )
        cache.commit()
        torch.testing.assert_close(row[:, 0], expected[:, position], atol=1e-5, rtol=0)

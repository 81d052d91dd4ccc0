"""The authors' networks' own logits, raw rows, to 1e-4 in float32."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from lopa_bench.models.language_model import LanguageModel
from lopa_bench.models.loading import load_model
from lopa_bench.models.visibility import FULL, Visibility, block_causal

MODELS = [f"{family}_tiny_{number}" for family in ("dream", "llada") for number in range(3)]
PROMPT, BLOCK = 12, 8


def raw_rows(model: LanguageModel, tokens: torch.Tensor, visibility: Visibility) -> torch.Tensor:
    mask = visibility.mask(0, tokens.shape[1], tokens.shape[1], torch.device("cpu"))
    with torch.inference_mode():
        hidden = model.network(tokens, mask=None if mask is None else mask[None, None])
        return model.network.logits(hidden)


@pytest.mark.parametrize("name", MODELS)
def test_bidirectional_logits(golden_dir: Path, name: str) -> None:
    reference = load_file(golden_dir / name / "reference_logits.safetensors")
    logits = raw_rows(load_model(golden_dir / name), reference["input_ids"], FULL)
    torch.testing.assert_close(logits, reference["logits_bidirectional"], atol=1e-4, rtol=0)


@pytest.mark.parametrize("name", [name for name in MODELS if name.startswith("dream")])
def test_block_causal_logits(golden_dir: Path, name: str) -> None:
    reference = load_file(golden_dir / name / "reference_logits.safetensors")
    logits = raw_rows(load_model(golden_dir / name), reference["input_ids"], block_causal(PROMPT, BLOCK))
    torch.testing.assert_close(logits, reference["logits_block_causal_p12_b8"], atol=1e-4, rtol=0)


@pytest.mark.parametrize("name", MODELS)
def test_predict_hides_the_shift(golden_dir: Path, name: str) -> None:
    """Row i of Dream speaks of token i + 1, of LLaDA of token i; `predict` answers by position for both."""
    reference = load_file(golden_dir / name / "reference_logits.safetensors")
    model = load_model(golden_dir / name)
    logits = model.predict(reference["input_ids"], (5, 20))
    shift = 1 if name.startswith("dream") else 0
    expected = reference["logits_bidirectional"][:, 5 - shift : 20 - shift]
    torch.testing.assert_close(logits, expected, atol=1e-4, rtol=0)


def test_adapter_logits(golden_dir: Path) -> None:
    model = load_model(golden_dir / "dream_tiny_0", adapter=golden_dir / "d2f_training_0" / "adapter")
    reference = load_file(golden_dir / "d2f_training_0" / "cases.safetensors")
    logits = raw_rows(model, reference["adapter.input_ids"], FULL)
    torch.testing.assert_close(logits, reference["adapter.logits_bidirectional"], atol=1e-4, rtol=0)
    base = raw_rows(load_model(golden_dir / "dream_tiny_0"), reference["adapter.input_ids"], FULL)
    assert (logits - base).abs().max() > 1e-2, "the adapter must change the logits for this test to mean anything"

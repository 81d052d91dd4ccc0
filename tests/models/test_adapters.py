"""LoRA adapters merge as peft merges them, belong to their base, and never change nothing unnoticed."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from lopa_bench.errors import ModelError
from lopa_bench.models.adapters import same_base
from lopa_bench.models.loading import load_model, weights_hash

Checkpoint = Callable[..., Path]
Q, V = "model.layers.0.self_attn.q_proj", "model.layers.1.self_attn.v_proj"
GATE = "model.layers.1.mlp.gate_proj"


def write_adapter(
    directory: Path,
    modules: dict[str, tuple[int, int]],
    rank: int = 3,
    prefix: str = "base_model.model.",
    zero: bool = False,
    **settings: Any,
) -> Path:
    """A peft adapter with random factors; `modules` maps public names to (out, in) or (out, in, rank)."""
    torch.manual_seed(1)
    tensors = {}
    for module, (out, into, *own_rank) in modules.items():
        size = own_rank[0] if own_rank else rank
        tensors[f"{prefix}{module}.lora_A.weight"] = torch.randn(size, into)
        up = torch.zeros(out, size) if zero else torch.randn(out, size)
        tensors[f"{prefix}{module}.lora_B.weight"] = up
    directory.mkdir(exist_ok=True)
    save_file(tensors, directory / "adapter_model.safetensors")
    config = {"peft_type": "LORA", "base_model_name_or_path": "base", "r": rank, "lora_alpha": 6, "bias": "none"}
    (directory / "adapter_config.json").write_text(json.dumps({**config, **settings}))
    return directory


def refusal(base: Path, adapter: Path | str, **options: Any) -> str:
    with pytest.raises(ModelError) as caught:
        load_model(base, adapter=adapter, **options)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def weight(directory: Path, module: str, **options: Any) -> torch.Tensor:
    model = load_model(directory, **options)
    own = module.replace("model.layers", "layers").replace("self_attn", "attention")
    return model.network.get_parameter(f"{own}.weight")


def factors(adapter: Path, module: str) -> tuple[torch.Tensor, torch.Tensor]:
    tensors = load_file(adapter / "adapter_model.safetensors")
    return tensors[f"base_model.model.{module}.lora_A.weight"], tensors[f"base_model.model.{module}.lora_B.weight"]


@pytest.mark.parametrize(
    ("settings", "scale_q", "scale_gate"),
    [
        ({}, 6 / 3, 6 / 5),
        ({"use_rslora": True}, 6 / 3**0.5, 6 / 5**0.5),
        ({"alpha_pattern": {"gate_proj": 20}}, 6 / 3, 20 / 5),
        ({"alpha_pattern": {r"layers\.0\..*q_proj": 9, "q_proj": 100}}, 9 / 3, 6 / 5),
        # On plain linear layers peft overrides fan_in_fan_out with a warning.
        ({"fan_in_fan_out": True}, 6 / 3, 6 / 5),
    ],
)
def test_merge_follows_the_settings(
    checkpoint: Checkpoint, tmp_path: Path, settings: dict[str, Any], scale_q: float, scale_gate: float
) -> None:
    base = checkpoint("dream")
    settings = {"rank_pattern": {"layers.1.mlp.gate_proj": 5}, **settings}
    adapter = write_adapter(tmp_path / "lora", {Q: (32, 32), GATE: (48, 32, 5)}, **settings)
    for module, scale in ((Q, scale_q), (GATE, scale_gate)):
        down, up = factors(adapter, module)
        expected = weight(base, module) + scale * (up @ down)
        torch.testing.assert_close(weight(base, module, adapter=adapter), expected, atol=1e-6, rtol=0)
    assert torch.equal(weight(base, V, adapter=adapter), weight(base, V)), "a module without a change keeps its weight"


# peft 0.21 still asks transformers 5 for an attribute by its old name.
@pytest.mark.filterwarnings("ignore:.*is_gradient_checkpointing.*:FutureWarning")
def test_same_logits_as_peft(checkpoint: Checkpoint, tmp_path: Path) -> None:
    """Peft itself on transformers' Qwen2, with patterns and rank-stabilised scaling, against our merge."""
    from peft import LoraConfig, PeftModel, get_peft_model
    from transformers import AutoModelForCausalLM

    base = checkpoint("qwen2")
    config = LoraConfig(
        r=4,
        lora_alpha=6,
        target_modules=["q_proj", "v_proj", "down_proj"],
        rank_pattern={"down_proj": 2},
        alpha_pattern={"layers.1.self_attn.q_proj": 11},
        use_rslora=True,
        init_lora_weights=False,
    )
    torch.manual_seed(3)
    get_peft_model(AutoModelForCausalLM.from_pretrained(base), config).save_pretrained(tmp_path / "lora")
    theirs = PeftModel.from_pretrained(AutoModelForCausalLM.from_pretrained(base), tmp_path / "lora").eval()
    model = load_model(base, adapter=tmp_path / "lora")
    tokens = torch.arange(30)[None]
    with torch.inference_mode():
        expected = theirs(tokens).logits
        found = model.network.logits(model.network(tokens, causal=True))
        plain = load_model(base).predict(tokens, (1, 31))
    torch.testing.assert_close(found, expected, atol=1e-3, rtol=1e-5)
    assert (found - plain).abs().max() > 0.1


def test_merging_leaves_the_file_alone(checkpoint: Checkpoint, tmp_path: Path) -> None:
    base = checkpoint("dream")
    before = weights_hash(base)
    load_model(base, adapter=write_adapter(tmp_path / "lora", {Q: (32, 32)}))
    assert weights_hash(base) == before


@pytest.mark.parametrize("prefix", ["", "base_model.model."])
def test_adapters_of_llada_and_of_our_own_tree(checkpoint: Checkpoint, tmp_path: Path, prefix: str) -> None:
    base = checkpoint("llada")
    public = write_adapter(tmp_path / "public", {"model.transformer.blocks.1.ff_out": (32, 48)}, prefix=prefix)
    own = write_adapter(tmp_path / "own", {"layers.1.mlp.down_proj": (32, 48)}, prefix=prefix)
    one, other = load_model(base, adapter=public), load_model(base, adapter=own)
    assert torch.equal(one.network.layers[1].mlp.down_proj.weight, other.network.layers[1].mlp.down_proj.weight)


def test_adapter_of_another_base_is_refused_unless_forced(checkpoint: Checkpoint, tmp_path: Path) -> None:
    base = checkpoint("dream")
    adapter = write_adapter(tmp_path / "lora", {Q: (32, 32)}, base_model_name_or_path="Dream-org/Dream-v0-Base-7B")
    assert "was trained on 'Dream-org/Dream-v0-Base-7B' but the base is" in (message := refusal(base, adapter))
    assert "--force-adapter" in message
    load_model(base, adapter=adapter, force_adapter=True)
    adapter = write_adapter(tmp_path / "lora", {Q: (32, 32)}, base_model_name_or_path=None)
    assert "does not record its base model" in refusal(base, adapter)
    load_model(base, adapter=adapter, force_adapter=True)


@pytest.mark.parametrize(
    ("recorded", "base", "same"),
    [
        ("Dream-org/Dream-v0-Base-7B", "Dream-org/Dream-v0-Base-7B", True),
        ("Dream-org/Dream-v0-Base-7B", "dream-org/dream-v0-base-7b", True),
        ("Dream-org/Dream-v0-Base-7B", "/data/models/Dream-v0-Base-7B/", True),
        ("/home/someone/ckpts/Dream-v0-Base-7B", "Dream-org/Dream-v0-Base-7B", True),
        ("/hub/models--Dream-org--Dream-v0-Base-7B/snapshots/0a1b", "Dream-org/Dream-v0-Base-7B", True),
        ("dream_tiny_0", "../golden/dream_tiny_0", True),
        ("bundled:dllm", "bundled:dllm", True),
        ("Dream-org/Dream-v0-Base-7B", "Dream-org/Dream-v0-Instruct-7B", False),
        ("Dream-org/Dream-v0-Base-7B", "someone-else/Dream-v0-Base-7B", False),
        ("Dream-org/Dream-v0-Base-7B", "/data/Dream-v0-Instruct-7B", False),
        ("bundled:dllm", "bundled:ar", False),
    ],
)
def test_when_two_names_are_the_same_base(recorded: str, base: str, same: bool) -> None:
    assert same_base(recorded, base) is same


def test_adapters_that_change_nothing_are_an_error(checkpoint: Checkpoint, tmp_path: Path) -> None:
    base = checkpoint("dream")
    adapter = write_adapter(tmp_path / "lora", {Q: (32, 32), V: (16, 32)}, zero=True)
    assert "changes nothing: all its updates are zero" in refusal(base, adapter)
    adapter = write_adapter(tmp_path / "lora", {Q: (32, 32)}, lora_alpha=1e-30)
    assert "changes no weight: its updates vanish in torch.bfloat16" in refusal(base, adapter, dtype="bf16")
    adapter = write_adapter(tmp_path / "lora", {})
    assert "is empty" in refusal(base, adapter)


def test_adapter_of_another_architecture_is_an_error(checkpoint: Checkpoint, tmp_path: Path) -> None:
    adapter = write_adapter(tmp_path / "lora", {"model.transformer.blocks.0.q_proj": (32, 32)})
    message = refusal(checkpoint("dream"), adapter)
    assert "model.transformer.blocks.0.q_proj.lora_A.weight: no such module in DreamModel" in message


@pytest.mark.parametrize(
    ("modules", "said"),
    [
        ({"model.layers.2.self_attn.q_proj": (32, 32)}, "layers.2.attention.q_proj is absent in the base"),
        ({Q: (32, 16)}, r"layers.0.attention.q_proj is [32, 32] in the base and [32, 16] in the adapter"),
        ({Q: (32, 32, 4)}, "says rank 3"),
    ],
)
def test_adapters_that_do_not_fit(
    checkpoint: Checkpoint, tmp_path: Path, modules: dict[str, tuple[int, int]], said: str
) -> None:
    base = checkpoint("dream")
    adapter = write_adapter(tmp_path / "lora", modules)
    (base / "model.safetensors").write_bytes(b"not looked at")
    assert said in refusal(base, adapter)


@pytest.mark.parametrize(
    "settings",
    [
        {"use_dora": True},
        {"modules_to_save": ["lm_head"]},
        {"bias": "all"},
        {"lora_bias": True},
        {"layer_replication": [[0, 2]]},
        {"init_lora_weights": "pissa"},
        {"trainable_token_indices": [1]},
    ],
)
def test_unsupported_kinds_are_refused(checkpoint: Checkpoint, tmp_path: Path, settings: dict[str, Any]) -> None:
    adapter = write_adapter(tmp_path / "lora", {Q: (32, 32)}, **settings)
    message = refusal(checkpoint("dream"), adapter)
    assert f"uses {next(iter(settings))}" in message and "merge_and_unload" in message


def test_other_peft_types_are_refused(checkpoint: Checkpoint, tmp_path: Path) -> None:
    adapter = write_adapter(tmp_path / "lora", {Q: (32, 32)}, peft_type="IA3")
    assert "is of kind IA3" in refusal(checkpoint("dream"), adapter)


def test_absent_and_half_adapters(checkpoint: Checkpoint, tmp_path: Path) -> None:
    base = checkpoint("dream")
    assert "neither a folder here nor a hub id" in refusal(base, tmp_path / "nowhere")
    assert "holds no adapter_config.json" in refusal(base, base)
    adapter = write_adapter(tmp_path / "lora", {Q: (32, 32)})
    tensors = load_file(adapter / "adapter_model.safetensors")
    tensors.pop(f"base_model.model.{Q}.lora_B.weight")
    save_file(tensors, adapter / "adapter_model.safetensors")
    assert "only one of the two factors" in refusal(base, adapter)
    (adapter / "adapter_model.safetensors").rename(adapter / "adapter_model.bin")
    assert "only safetensors are read" in refusal(base, adapter)

"""LoRA students: adapters on q, k, v and o through peft, saved in peft's layout under public parameter names."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file

from lopa_bench.models.families import FAMILIES
from lopa_bench.models.network import Transformer

TARGETS: tuple[str, ...] = ("q_proj", "k_proj", "v_proj", "o_proj")
CONFIG_FILE, WEIGHTS_FILE = "adapter_config.json", "adapter_model.safetensors"


def add_lora(
    network: Transformer, rank: int, *, alpha: int | None = None, dropout: float = 0.0, seed: int = 0
) -> Transformer:
    """Put trainable adapters on the attention's projections and freeze everything else, in place.

    `alpha` is the rank when absent, as in D2F's training (scale 1).
    """
    from peft import LoraConfig, inject_adapter_in_model

    torch.manual_seed(seed)
    config = LoraConfig(
        r=rank, lora_alpha=alpha or rank, lora_dropout=dropout, target_modules=list(TARGETS), bias="none"
    )
    inject_adapter_in_model(config, network)
    return network


def save_adapter(network: Transformer, directory: Path, *, base: str) -> None:
    """Write the adapter of `network` so that peft, and `load_model(base, adapter=...)`, read it."""
    from peft import get_peft_model_state_dict

    family = FAMILIES[network.config.family]
    tensors = {}
    for name, tensor in get_peft_model_state_dict(network).items():
        module, kind = name.split(".lora_")
        tensors[f"base_model.model.{family.public_module(module)}.lora_{kind}"] = tensor.detach().cpu().contiguous()
    adapter = next(iter(_adapted_layers(network).values()))
    config = {
        "peft_type": "LORA",
        "base_model_name_or_path": base,
        "r": adapter.r["default"],
        "lora_alpha": adapter.lora_alpha["default"],
        "lora_dropout": 0.0,
        "target_modules": sorted({name.split(".lora_")[0].split(".")[-1] for name in tensors}),
        "bias": "none",
        "fan_in_fan_out": False,
        "inference_mode": True,
        "task_type": None,
    }
    directory.mkdir(parents=True, exist_ok=True)
    save_file(tensors, directory / WEIGHTS_FILE)
    (directory / CONFIG_FILE).write_text(json.dumps(config, indent=1) + "\n", encoding="utf-8")


def merged(network: Transformer) -> Transformer:
    """A plain network with the adapters' products added to the weights they stand on."""
    plain, source = Transformer(network.config), copy.deepcopy(network)
    for name, layer in _adapted_layers(source).items():
        layer.merge()
        parent, _, attribute = name.rpartition(".")
        setattr(source.get_submodule(parent), attribute, layer.get_base_layer())
    plain.load_state_dict(source.state_dict())
    return plain


def _adapted_layers(network: Transformer) -> dict[str, Any]:
    from peft.tuners.lora import LoraLayer

    return {name: module for name, module in network.named_modules() if isinstance(module, LoraLayer)}

"""Networks to train: freshly initialised, or taken over from a checkpoint of another kind of model."""

from __future__ import annotations

import math

import torch
from torch import nn

from lopa_bench.errors import ModelError
from lopa_bench.models.config import ModelConfig
from lopa_bench.models.network import Transformer
from lopa_bench.models.training.attention import trainable


def new_network(config: ModelConfig, seed: int = 0) -> Transformer:
    """A network with small normal weights, the residual branches' outputs smaller by sqrt(2 layers) (GPT-2)."""
    network = trainable(config)
    generator = torch.Generator().manual_seed(seed)
    for name, parameter in network.named_parameters():
        if parameter.dim() == 2:
            is_output = name.endswith(("o_proj.weight", "down_proj.weight"))
            deviation = 0.02 / math.sqrt(2 * config.num_layers) if is_output else 0.02
            nn.init.normal_(parameter, 0.0, deviation, generator=generator)
        elif name.endswith("bias"):
            nn.init.zeros_(parameter)
    return network


def taken_over(network: Transformer, config: ModelConfig) -> Transformer:
    """The weights of `network` in a trainable network of `config`, as Dream was adapted from an AR model.

    Only what does not change a weight's shape may differ: causality, mask token, family.

    Raises:
        ModelError: the shapes differ.
    """
    fields = ("vocab_size", "hidden_size", "num_layers", "num_heads", "num_kv_heads", "head_dim", "intermediate_size")
    for name in (*fields, "qkv_bias", "qk_norm", "tied_head"):
        before, after = getattr(network.config, name), getattr(config, name)
        if before != after:
            raise ModelError(f"cannot start from {name} = {before} when {after} is asked for; use the same shape")
    started = trainable(config)
    started.load_state_dict({name: tensor.float() for name, tensor in network.state_dict().items()})
    return started.requires_grad_(True)

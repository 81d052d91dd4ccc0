"""A tiny world to train in: a network of two layers and made-up pairs that can be learned."""

from __future__ import annotations

import random
from collections.abc import Iterator

import pytest

from lopa_bench.models.config import ModelConfig
from lopa_bench.models.training.batches import BatchStream, Pair

PAD, MASK, EOS = 0, 1, 2


@pytest.fixture
def config() -> ModelConfig:
    return ModelConfig(
        family="dream",
        vocab_size=20,
        hidden_size=16,
        num_layers=2,
        num_heads=2,
        num_kv_heads=2,
        head_dim=8,
        intermediate_size=32,
        norm_eps=1e-6,
        rope_theta=1e4,
        max_positions=256,
        logit_shift=True,
        causal=False,
        qkv_bias=True,
        tied_head=True,
        mask_token_id=MASK,
        eos_token_id=EOS,
        pad_token_id=PAD,
    )


def copying_pairs(seed: int) -> Iterator[Pair]:
    """The answer repeats the prompt."""
    rng = random.Random(seed)
    while True:
        prompt = [rng.randrange(3, 20) for _ in range(rng.randrange(4, 12))]
        yield prompt, prompt


@pytest.fixture
def stream() -> BatchStream:
    return BatchStream(copying_pairs, 8, pad=PAD, eos=EOS, max_length=64, seed=5)

"""A tiny world to train in: a network of two layers and made-up pairs that can be learned."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from lopa_bench.models.config import ModelConfig
from lopa_bench.models.training.batches import BatchStream

sys.path.insert(0, str(Path(__file__).parent))

from tiny_run import copying_pairs, training_config

PAD, EOS = 0, 2


@pytest.fixture
def config() -> ModelConfig:
    return training_config()


@pytest.fixture
def stream() -> BatchStream:
    return BatchStream(copying_pairs, 8, pad=PAD, eos=EOS, max_length=64, seed=5)

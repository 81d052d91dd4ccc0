"""Every decoder in each of its ways of working, and scenarios for property tests."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest
import torch
from fakes_models import tiny_model
from hypothesis import Phase, settings
from hypothesis import strategies as st

from lopa_bench.decoders.registry import create
from lopa_bench.decoders.rounds import Generation, Round
from lopa_bench.models.language_model import LanguageModel

ALL: list[tuple[str, dict[str, Any]]] = [
    ("ar", {}),
    ("vanilla", {}),
    ("vanilla", {"idle_steps": True}),
    ("vanilla", {"rule": "dream"}),
    ("fast-dllm", {"cache": "none"}),
    ("fast-dllm", {"cache": "prefix"}),
    ("fast-dllm", {"cache": "dual"}),
    ("fast-dllm", {"threshold": None}),
    ("fast-dllm", {"threshold": None, "factor": 1.0}),
    ("fast-dllm", {"rule": "dream", "cache": "none"}),
    ("fast-dllm", {"rule": "dream", "cache": "prefix"}),
    ("fast-dllm", {"rule": "dream", "cache": "dual", "alg": "entropy", "threshold": None}),
    ("d2f", {}),
    ("lopa", {"branches": 3}),
    ("lopa", {"branches": 3, "packed": False}),
    ("lopa", {"branches": 3, "base": "vanilla"}),
]


def label(name: str, options: dict[str, Any]) -> str:
    return "-".join([name, *(f"{key}={value}" for key, value in options.items())])


every_decoder = pytest.mark.parametrize(("name", "options"), ALL, ids=[label(*one) for one in ALL])
# Scenarios are small as they are: shrinking a failing one would take minutes and say little more.
few_examples = settings(
    max_examples=6, deadline=None, derandomize=True, database=None, phases=(Phase.explicit, Phase.generate)
)


@dataclass(frozen=True)
class Scenario:
    """A tiny random network, a prompt and a budget."""

    kind: str
    seed: int
    sharpness: float
    with_eos: bool
    num_kv_heads: int
    prompt: tuple[int, ...]
    max_new_tokens: int
    block_size: int

    @property
    def model(self) -> LanguageModel:
        eos = {} if self.with_eos else {"eos_token_id": None}
        return tiny_model(self.kind, self.seed, torch.float64, self.sharpness, num_kv_heads=self.num_kv_heads, **eos)

    @property
    def settings(self) -> dict[str, int]:
        return {"max_new_tokens": self.max_new_tokens, "block_size": self.block_size}

    def decode(self, name: str, options: dict[str, Any], preset: str | None = None) -> tuple[list[Round], Generation]:
        """All rounds, and the finished generation."""
        generation = create(name, self.model, {**self.settings, **options}, preset).decode(self.prompt)
        return generation.run(), generation


scenarios = st.builds(
    Scenario,
    kind=st.sampled_from(["dream", "llada"]),
    seed=st.integers(0, 10_000),
    sharpness=st.sampled_from([0.2, 0.5, 1.0]),
    with_eos=st.booleans(),
    num_kv_heads=st.sampled_from([1, 2, 4]),
    prompt=st.lists(st.integers(0, 15), min_size=1, max_size=6).map(tuple),
    max_new_tokens=st.integers(1, 20),
    block_size=st.integers(1, 9),
)
thresholds = st.fixed_dictionaries(
    {
        "tau_add": st.sampled_from([0.0, 0.1, 0.5, 1.0]),
        "tau_act": st.sampled_from([0.1, 0.5, 0.95, 1.0]),
        "tau_conf": st.sampled_from([0.2, 0.5, 0.9, 1.1]),
    }
)

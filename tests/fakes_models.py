"""Models for tests: scripted logits behind the `predict` contract, and tiny random networks of every kind."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from lopa_bench.models import tiny
from lopa_bench.models.cache import KVCache
from lopa_bench.models.config import ModelConfig
from lopa_bench.models.forward import Forward
from lopa_bench.models.language_model import LanguageModel
from lopa_bench.models.network import Transformer
from lopa_bench.models.visibility import FULL, Visibility

VOCABULARY = 16
MASK, EOS = VOCABULARY - 1, VOCABULARY - 2
FAMILIES = {"dream": "dream", "llada": "llada", "ar": "qwen3"}

Script = Callable[[int, Mapping[int, int]], Tensor]
"""(absolute position, {absolute position: token} of the window) -> logits [vocab_size]."""


def tiny_config(kind: str = "dream", vocabulary: int = VOCABULARY, **changes: Any) -> ModelConfig:
    """Two layers, four heads over two key/value heads; the mask is the last id, the EOS the one before."""
    small = {"hidden_size": 24, "num_kv_heads": 2, "head_dim": 8, "intermediate_size": 32, "max_positions": 256}
    # An autoregressive one has a mask too, so that tests can tell that it is never proposed.
    ids = {"mask_token_id": vocabulary - 1, "pad_token_id": None}
    return tiny.tiny_config(FAMILIES[kind], vocabulary, **{**small, **ids, **changes})


def tiny_model(
    kind: str = "dream", seed: int = 0, dtype: torch.dtype = torch.float64, sharpness: float = 0.5, **changes: Any
) -> LanguageModel:
    """A random network; `sharpness` scales its head, and with it how sure the network is of its tokens."""
    torch.manual_seed(seed)
    network = Transformer(tiny_config(kind, **changes))
    with torch.no_grad():
        for name, parameter in network.named_parameters():
            scale = sharpness if name.startswith("head") else 0.4
            parameter.normal_(1.0 if "norm" in name else 0.0, scale)
    return LanguageModel(network.to(dtype), f"tiny {kind}")


def sure(token: int, probability: float, vocabulary: int = VOCABULARY) -> Tensor:
    """Logits [vocabulary] that give `token` this probability and share the rest among all others but the mask."""
    logits = torch.full((vocabulary,), math.log((1 - probability) / (vocabulary - 2)))
    logits[vocabulary - 1] = float("-inf")
    logits[token] = math.log(probability)
    return logits


def flat(position: int, window: Mapping[int, int]) -> Tensor:
    """Every token as probable as every other."""
    return torch.zeros(VOCABULARY)


def table(rows: Mapping[int, Tensor], otherwise: Tensor | None = None) -> Script:
    """Fixed logits by absolute position, whatever the canvas holds."""
    fallback = sure(1, 0.5) if otherwise is None else otherwise
    return lambda position, window: rows.get(position, fallback)


@dataclass(frozen=True)
class Call:
    """One call of `predict`; `held` are the cache's prefix and extent before it."""

    batch: int
    start: int
    stop: int
    rows: tuple[int, int]
    num_commit: int
    visibility: Visibility
    tokens: tuple[tuple[int, ...], ...]
    lengths: tuple[int, ...]
    held: tuple[int, int] | None


class ScriptedModel(LanguageModel):
    """Answers from a script instead of a network, and keeps a list of the calls."""

    def __init__(self, script: Script, kind: str = "dream", dtype: torch.dtype = torch.float32, **changes: Any) -> None:
        self.script = script
        self.name = "scripted"
        self.calls: list[Call] = []
        self.together: list[int] = []
        self._config = tiny_config(kind, **changes)
        self._dtype = dtype

    @property
    def config(self) -> ModelConfig:
        return self._config

    @property
    def device(self) -> torch.device:
        return torch.device("cpu")

    @property
    def dtype(self) -> torch.dtype:
        return self._dtype

    def predict(
        self,
        tokens: Tensor,
        predict: tuple[int, int],
        *,
        start: int = 0,
        cache: KVCache | None = None,
        num_commit: int = 0,
        visibility: Visibility = FULL,
        lengths: Sequence[int] | None = None,
    ) -> Tensor:
        rows = [tuple(row) for row in tokens.tolist()]
        stop = start + tokens.shape[1]
        known = stop + self.config.logit_shift
        assert start <= predict[0] <= predict[1] <= known, "rows outside the window were asked for"
        held = None if cache is None else (cache.length, cache.extent)
        if cache is not None:
            cache.begin(start, stop, num_commit)
        lengths = tuple(lengths) if lengths is not None else (tokens.shape[1],) * len(rows)
        self.calls.append(Call(len(rows), start, stop, predict, num_commit, visibility, tuple(rows), lengths, held))
        logits = torch.empty(len(rows), predict[1] - predict[0], self.config.vocab_size, dtype=self.dtype)
        for branch, row in enumerate(rows):
            window = dict(enumerate(row[: lengths[branch]], start))
            for index, position in enumerate(range(*predict)):
                logits[branch, index] = self.script(position, window)
        return logits

    def carry_out(self, forwards: Sequence[Forward]) -> None:
        """One by one; several at once are noted in `together`."""
        self.together.append(len(forwards))
        for one in forwards:
            super().carry_out([one])

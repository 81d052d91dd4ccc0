"""A call of the network as a value, so that the calls of several answers can be carried out in one."""

from __future__ import annotations

from dataclasses import dataclass, field

from torch import Tensor

from lopa_bench.models.cache import KVCache
from lopa_bench.models.visibility import FULL, Visibility


@dataclass(slots=True, eq=False)
class Forward:
    """One window's call; the fields are the arguments of `LanguageModel.predict`.

    `LanguageModel.carry_out` sets `logits`, [1, predict[1] - predict[0], vocab_size]; they belong to the asker, who may
    change them.
    """

    tokens: Tensor
    predict: tuple[int, int]
    start: int = 0
    cache: KVCache | None = None
    num_commit: int = 0
    visibility: Visibility = FULL
    logits: Tensor = field(init=False, repr=False)

    @property
    def length(self) -> int:
        """Slots of the window."""
        return self.tokens.shape[1]

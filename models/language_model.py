"""The contract every decoder works with: tokens and positions in, logits for those same positions out."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, TypeVar

import torch
from torch import Tensor

from lopa_bench.errors import DecodeError
from lopa_bench.models.cache import KVCache
from lopa_bench.models.config import ModelConfig
from lopa_bench.models.forward import Forward
from lopa_bench.models.network import Transformer, Window
from lopa_bench.models.visibility import FULL, Visibility

if TYPE_CHECKING:
    from lopa_bench.models.tensor_parallel import VocabularyPart

ResultT = TypeVar("ResultT")


class LanguageModel:
    """A network with its place, hiding which row of a family's output speaks of which position."""

    vocabulary: VocabularyPart | None = None
    """The ids that this process's logits speak of, where several hold the network together; None for all."""
    accelerations: tuple[str, ...] = ()
    """What was done to the network after its weights were read, for records."""

    def __init__(self, network: Transformer, name: str = "model") -> None:
        self.network = network.eval().requires_grad_(False)
        self.vocabulary = network.vocabulary
        self.name = name

    @property
    def config(self) -> ModelConfig:
        """Shape and token ids."""
        return self.network.config

    @property
    def device(self) -> torch.device:
        """Where the weights lie."""
        return self.network.embed.weight.device

    @property
    def dtype(self) -> torch.dtype:
        """What the weights are."""
        return self.network.embed.weight.dtype

    def new_cache(self, capacity: int) -> KVCache:
        """An empty cache for positions [0, capacity).

        Raises:
            SharedOutOfMemory: of a network that several processes hold together, and one has no room for its part.
        """
        steps = None if self.vocabulary is None else self.network.steps
        if steps is None:
            return KVCache(self.config, capacity, self.device, self.dtype)
        heads = self.network.num_local_kv_heads
        config = self.config.with_(num_heads=heads, num_kv_heads=heads)
        return steps.take(lambda: KVCache(config, capacity, self.device, self.dtype), (), self.device)

    @torch.inference_mode()
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
        """One model call: logits for the positions [predict[0], predict[1]) of B windows.

        Args:
            tokens: [B, T] ids standing at positions start .. start + T; any device.
            predict: absolute positions whose token distribution is wanted; never before `start`.
            cache: the committed prefix, of exactly `start` positions when several windows share it. Without one
                the windows see only themselves.
            num_commit: leading positions that `cache.commit` may make part of the prefix afterwards.
            visibility: which positions see which.
            lengths: true length of each window when some are padded at the end; padding is seen by nobody.

        Returns:
            [B, predict[1] - predict[0], vocab_size], on the model's device, in its dtype.

        Raises:
            DecodeError: the window leaves the cache, or the row before the window is not known.
            SharedOutOfMemory: several processes hold the network together, and memory did not suffice for one of them.
        """
        if cache is not None:
            cache.begin(start, start + tokens.shape[1], num_commit)

        def work() -> Tensor:
            window = self._window(tokens, start, cache, visibility, lengths)
            hidden = self.network(tokens.to(self.device, non_blocking=True), windows=(window,))
            if cache is not None:
                cache.stage_boundary(hidden)
            return self.network.logits(self._rows(hidden, predict, start, cache))

        return self._together(work, tokens.numel())

    @torch.inference_mode()
    def carry_out(self, forwards: Sequence[Forward]) -> None:
        """Answer the calls of several independent answers by one pass of the network, setting the `logits` of each.

        The windows are packed one after another in one row: there is no padding, every window attends by itself to
        its own cache, and the weights are read once for all of them. A call that failed may be carried out again.

        Raises:
            DecodeError, SharedOutOfMemory: as `predict`.
        """
        if len(forwards) == 1:
            [one] = forwards
            one.logits = self.predict(
                one.tokens,
                one.predict,
                start=one.start,
                cache=one.cache,
                num_commit=one.num_commit,
                visibility=one.visibility,
            )
            return
        for one in forwards:
            if one.cache is not None:
                one.cache.begin(one.start, one.start + one.length, one.num_commit)
        logits = self._together(lambda: self._packed(forwards), sum(one.length for one in forwards))
        for one, own in zip(forwards, logits, strict=True):
            one.logits = own

    def _packed(self, forwards: Sequence[Forward]) -> Sequence[Tensor]:
        """The logits of several calls, from one pass."""
        windows = [self._window(one.tokens, one.start, one.cache, one.visibility, None) for one in forwards]
        tokens = torch.cat([one.tokens for one in forwards], dim=1)
        hidden = self.network(tokens.to(self.device, non_blocking=True), windows=windows)
        rows = []
        for one, part in zip(forwards, hidden.split([one.length for one in forwards], dim=1), strict=True):
            if one.cache is not None:
                one.cache.stage_boundary(part)
            rows.append(self._rows(part, one.predict, one.start, one.cache))
        return self.network.logits(torch.cat(rows, dim=1)).split([part.shape[1] for part in rows], dim=1)

    def _together(self, work: Callable[[], ResultT], num_rows: int) -> ResultT:
        """Do a pass over so many tokens; where others do their parts, all come through it or none."""
        steps = self.network.steps
        if steps is None:
            return work()
        from lopa_bench.models.tensor_parallel import exchanges_of

        return steps.take(work, exchanges_of(self.network, num_rows), self.device)

    def _window(
        self,
        tokens: Tensor,
        start: int,
        cache: KVCache | None,
        visibility: Visibility,
        lengths: Sequence[int] | None,
    ) -> Window:
        """What the tokens [B, T] may see, for the network."""
        batch, length = tokens.shape
        causal = visibility.kind == "causal" and start == 0 and (cache is None or cache.extent == 0)
        mask = None if causal else self._mask(batch, length, start, cache, visibility, lengths)
        return Window(length, start, mask, causal, cache)

    def _mask(
        self,
        batch: int,
        window: int,
        start: int,
        cache: KVCache | None,
        visibility: Visibility,
        lengths: Sequence[int] | None,
    ) -> Tensor | None:
        """Bool mask over the keys the attention will see: all slots for one window, the windows' own for several."""
        stop = start + window
        alone = cache is not None and batch == 1
        mask = visibility.mask(start, stop, max(stop, cache.extent) if alone and cache else stop, self.device)
        if mask is not None and not alone:
            mask = mask[:, start:]
        if mask is not None:
            mask = mask[None, None]
        if lengths is not None and min(lengths) < window:
            real = torch.arange(window) < torch.tensor(lengths)[:, None]
            padding = real[:, None, None, :].to(self.device, non_blocking=True)
            mask = padding if mask is None else mask & padding
        return mask

    def _rows(self, hidden: Tensor, predict: tuple[int, int], start: int, cache: KVCache | None) -> Tensor:
        """The hidden rows that speak of the wanted positions, whatever the family's convention."""
        first, last = predict[0] - start, predict[1] - start
        if not self.config.logit_shift:
            return hidden[:, first:last]
        if first > 0:
            return hidden[:, first - 1 : last - 1]
        if start == 0:
            # No row stands before position 0; as in the authors' programs it is read from its own.
            before = hidden[:, :1]
        elif cache is None or cache.boundary is None:
            raise DecodeError(f"position {predict[0]} cannot be predicted: the row before it was never computed")
        else:
            before = cache.boundary.expand(hidden.shape[0], 1, -1)
        return torch.cat((before, hidden[:, : last - 1]), dim=1)

"""One lean transformer for every supported family: RMSNorm, RoPE, grouped-query attention, SwiGLU."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import torch
import torch.nn.functional as F  # noqa: N812 - the field's usual name
from torch import Tensor, nn

from lopa_bench.models.attention import attend, attend_with_prefix
from lopa_bench.models.cache import KVCache
from lopa_bench.models.config import ModelConfig
from lopa_bench.models.rotary import Rotary, in_halves_on_cpu, rotate

if TYPE_CHECKING:
    from lopa_bench.models.shared_steps import SharedSteps
    from lopa_bench.models.tensor_parallel import VocabularyPart


class RMSNorm(nn.Module):
    """Root-mean-square norm with a learned scale (Zhang and Sennrich 2019)."""

    def __init__(self, size: int, eps: float) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(size))
        self.eps = eps

    def forward(self, hidden: Tensor) -> Tensor:
        """Normalise the last dimension."""
        if in_halves_on_cpu(hidden):
            wide = hidden.float()
            square = torch.linalg.vector_norm(wide, dim=-1, keepdim=True).square_()
            scale = square.div_(hidden.shape[-1]).add_(self.eps).rsqrt_()
            return wide.mul_(scale).mul_(self.weight.float()).to(hidden.dtype)
        return F.rms_norm(hidden, hidden.shape[-1:], self.weight, self.eps)


class Window(NamedTuple):
    """Where the tokens of one row, or of a part of it, stand, and what they may see.

    Attributes:
        length: tokens.
        start: absolute position of the first.
        mask: bool, True where attention is allowed, broadcastable to [B, 1, length, S], S the keys in view; or None.
        causal: the causal rule in place of a mask; only without a cached prefix.
        cache: holds the prefix, or None.
    """

    length: int
    start: int = 0
    mask: Tensor | None = None
    causal: bool = False
    cache: KVCache | None = None


class Attention(nn.Module):
    """Grouped-query attention with rotary positions, over a cache or without one.

    `qkv_proj` stands in place of the three projections once they are merged (see `merged`).
    """

    def __init__(self, config: ModelConfig, layer: int) -> None:
        super().__init__()
        self.layer = layer
        self.qkv_proj: nn.Module | None = None
        self.qkv_sizes = [0, 0, 0]
        self.head_dim = config.head_dim
        query_size, kv_size = config.num_heads * config.head_dim, config.num_kv_heads * config.head_dim
        self.q_proj = nn.Linear(config.hidden_size, query_size, bias=config.qkv_bias)
        self.k_proj = nn.Linear(config.hidden_size, kv_size, bias=config.qkv_bias)
        self.v_proj = nn.Linear(config.hidden_size, kv_size, bias=config.qkv_bias)
        self.o_proj = nn.Linear(query_size, config.hidden_size, bias=config.o_bias)
        self.q_norm = RMSNorm(config.head_dim, config.norm_eps) if config.qk_norm else None
        self.k_norm = RMSNorm(config.head_dim, config.norm_eps) if config.qk_norm else None

    def project(self, hidden: Tensor, cosine: Tensor, sine: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Queries, keys and values [B, heads, T, head_dim] of [B, T, hidden_size], rotated to their positions."""
        if self.qkv_proj is None:
            projected: Sequence[Tensor] = (self.q_proj(hidden), self.k_proj(hidden), self.v_proj(hidden))
        else:
            projected = self.qkv_proj(hidden).split(self.qkv_sizes, dim=-1)
        query, key, value = (self._heads(one) for one in projected)
        if self.q_norm is not None and self.k_norm is not None:
            query, key = self.q_norm(query), self.k_norm(key)
        return rotate(query, cosine, sine), rotate(key, cosine, sine), value

    def mix(self, query: Tensor, key: Tensor, value: Tensor, windows: Sequence[Window]) -> Tensor:
        """Attend; the windows say where they stand and what they may see."""
        if len(windows) == 1:
            return self._mix(query, key, value, windows[0])
        return self._mix_apart(query, key, value, windows)

    def join(self, mixed: Tensor) -> Tensor:
        """Map the heads' results [B, heads, T, head_dim] to [B, T, hidden_size]."""
        return self.o_proj(mixed.transpose(1, 2).flatten(2))

    def _heads(self, projected: Tensor) -> Tensor:
        return projected.unflatten(-1, (-1, self.head_dim)).transpose(1, 2)

    def _mix_apart(self, query: Tensor, key: Tensor, value: Tensor, windows: Sequence[Window]) -> Tensor:
        """Windows that stand one after another in one row: each sees itself and its own cache, none the others."""
        lengths = [window.length for window in windows]
        parts = zip(*(heads.split(lengths, dim=2) for heads in (query, key, value)), windows, strict=True)
        return torch.cat([self._mix(*part) for part in parts], dim=2)

    def _mix(self, query: Tensor, key: Tensor, value: Tensor, window: Window) -> Tensor:
        cache = window.cache
        if cache is None:
            return attend(query, key, value, window.mask, window.causal)
        if query.shape[0] == 1:
            key, value = cache.write(self.layer, window.start, key, value)
            return attend(query, key, value, window.mask, window.causal)
        cache.stage(self.layer, key, value)
        if cache.length == 0:
            return attend(query, key, value, window.mask, window.causal)
        return attend_with_prefix(query, key, value, *cache.prefix(self.layer), window.mask)


class MLP(nn.Module):
    """SwiGLU feed-forward (Shazeer 2020); `gate_up_proj` stands in place of two projections once they are merged."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.gate_up_proj: nn.Module | None = None
        self.gate_proj = nn.Linear(config.hidden_size, config.intermediate_size, bias=False)
        self.up_proj = nn.Linear(config.hidden_size, config.intermediate_size, bias=False)
        self.down_proj = nn.Linear(config.intermediate_size, config.hidden_size, bias=False)

    def forward(self, hidden: Tensor) -> Tensor:
        """Map [..., hidden_size] to itself."""
        if self.gate_up_proj is None:
            return self.down_proj(F.silu(self.gate_proj(hidden)) * self.up_proj(hidden))
        gate, up = self.gate_up_proj(hidden).chunk(2, dim=-1)
        return self.down_proj(F.silu(gate) * up)


class Layer(nn.Module):
    """Pre-norm attention and feed-forward, each with a residual."""

    def __init__(self, config: ModelConfig, layer: int) -> None:
        super().__init__()
        self.attention_norm = RMSNorm(config.hidden_size, config.norm_eps)
        self.attention = Attention(config, layer)
        self.mlp_norm = RMSNorm(config.hidden_size, config.norm_eps)
        self.mlp = MLP(config)

    def forward(self, hidden: Tensor, step: Step) -> Tensor:
        """Map [B, T, hidden_size] to itself."""
        query, key, value = self.before(hidden, step.cosine, step.sine)
        return self.after(hidden, self.attention.mix(query, key, value, step.windows))

    def before(self, hidden: Tensor, cosine: Tensor, sine: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """All that comes before the attention; no cache is touched."""
        return self.attention.project(self.attention_norm(hidden), cosine, sine)

    def after(self, hidden: Tensor, mixed: Tensor) -> Tensor:
        """All that comes after it; `hidden` is the layer's own input."""
        hidden = hidden + self.attention.join(mixed)
        return hidden + self.mlp(self.mlp_norm(hidden))


class Step(NamedTuple):
    """What all layers of one forward share: rotary tables, and the windows with what each may see."""

    cosine: Tensor
    sine: Tensor
    windows: Sequence[Window]


class Transformer(nn.Module):
    """The network: token ids in, normalised hidden states out; `logits` turns chosen rows into vocabulary scores.

    Attributes:
        vocabulary: the ids that this process has logits for, where several hold the network together; None for all.
        steps: what the processes do together then.
        num_local_kv_heads: key/value heads that this process computes.
    """

    vocabulary: VocabularyPart | None = None
    steps: SharedSteps | None = None

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.config = config
        self.num_local_kv_heads = config.num_kv_heads
        self.embed = nn.Embedding(config.vocab_size, config.hidden_size)
        self.layers = nn.ModuleList(Layer(config, i) for i in range(config.num_layers))
        self.norm = RMSNorm(config.hidden_size, config.norm_eps)
        if not config.tied_head:
            self.head = nn.Linear(config.hidden_size, config.vocab_size, bias=False)
        self.rotary = Rotary(config)

    def forward(
        self,
        tokens: Tensor,
        positions: Tensor | None = None,
        mask: Tensor | None = None,
        causal: bool = False,
        cache: KVCache | None = None,
        start: int = 0,
        windows: Sequence[Window] | None = None,
    ) -> Tensor:
        """Hidden states after the final norm.

        Args:
            tokens: [B, T] ids.
            positions: [T] or [B, T] absolute positions; start, start + 1, ... when absent.
            mask: bool, True where attention is allowed, broadcastable to [B, 1, T, S], S the keys in view.
            causal: the causal rule in place of a mask; only without a cached prefix.
            cache: holds the prefix; a single window is written into it, several are staged.
            start: absolute position of the first token.
            windows: several windows packed one after another in one row, T their lengths' sum, in place of the four
                arguments before.

        Returns:
            [B, T, hidden_size].
        """
        hidden = self.embed(tokens)
        windows = windows or (Window(tokens.shape[1], start, mask, causal, cache),)
        step = Step(*self._rope(positions, windows, hidden), windows)
        for layer in self.layers:
            hidden = layer(hidden, step)
        return self.norm(hidden)

    def _rope(self, positions: Tensor | None, windows: Sequence[Window], like: Tensor) -> tuple[Tensor, Tensor]:
        if positions is None:
            cosine, sine = self.rotary.tables(max(window.start + window.length for window in windows), like)
            spans = [slice(window.start, window.start + window.length) for window in windows]
            if len(spans) == 1:
                return cosine[spans[0]], sine[spans[0]]
            return torch.cat([cosine[span] for span in spans]), torch.cat([sine[span] for span in spans])
        cosine, sine = self.rotary.tables(int(positions.max()) + 1, like)
        cosine, sine = cosine[positions], sine[positions]
        return (cosine, sine) if positions.dim() == 1 else (cosine.unsqueeze(1), sine.unsqueeze(1))

    def logits(self, hidden: Tensor) -> Tensor:
        """Vocabulary scores [..., vocab_size], or of this process's part of it, of hidden states [..., hidden_size]."""
        weight = self.embed.weight if self.config.tied_head else self.head.weight
        # As one matrix: chosen rows of several windows do not lie together, and the product of such a view would copy
        # the vocabulary's weights once per window.
        rows = hidden.reshape(-1, hidden.shape[-1])
        return F.linear(rows, weight).view(*hidden.shape[:-1], weight.shape[0])

    @property
    def num_parameters(self) -> int:
        """Parameters in all; a tied head counts once."""
        return sum(parameter.numel() for parameter in self.parameters())

"""One lean transformer for every supported family: RMSNorm, RoPE, grouped-query attention, SwiGLU."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import torch
import torch.nn.functional as F  # noqa: N812 - the field's usual name
from torch import Tensor, nn

from lopa_bench.models.attention import attend, attend_with_prefix
from lopa_bench.models.cache import KVCache
from lopa_bench.models.config import ModelConfig

if TYPE_CHECKING:
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


def in_halves_on_cpu(hidden: Tensor) -> bool:
    """Whether a 16-bit forward runs on a CPU, where torch's own forms of small operations take twice the time needed.

    There the matrix products can be so fast that these operations decide. In float32 torch's forms stay: they round as
    the authors' programs do, and a token may hang on the last bit.
    """
    return hidden.device.type == "cpu" and hidden.dtype.itemsize == 2 and torch.is_inference_mode_enabled()


def rope_frequencies(config: ModelConfig) -> Tensor:
    """Inverse frequencies [head_dim / 2] of the rotary embedding (RoFormer), with Llama 3's scaling where asked."""
    exponent = torch.arange(0, config.head_dim, 2, dtype=torch.int64).float() / config.head_dim
    frequencies = 1.0 / config.rope_theta**exponent
    if config.rope_scaling is None:
        return frequencies
    scaling = config.rope_scaling
    factor, original = scaling["factor"], scaling["original_max_position_embeddings"]
    low, high = scaling["low_freq_factor"], scaling["high_freq_factor"]
    wavelength = 2 * math.pi / frequencies
    # Long waves are slowed by the factor, short ones kept, those between blended.
    blend = ((original / wavelength - low) / (high - low)).clamp(0.0, 1.0)
    return (1 - blend) * frequencies / factor + blend * frequencies


class Rotary:
    """Cosine and sine tables of the rotary embedding, made when first needed and grown on demand."""

    def __init__(self, config: ModelConfig) -> None:
        self.config = config
        self._tables: dict[tuple[torch.device, torch.dtype], tuple[Tensor, Tensor]] = {}

    def tables(self, stop: int, like: Tensor) -> tuple[Tensor, Tensor]:
        """Cosines and sines, each at least [stop, head_dim / 2], on the device and in the dtype of `like`."""
        key = (like.device, like.dtype)
        known = self._tables.get(key)
        if known is None or known[0].shape[0] < stop:
            size = max(256, 1 << (stop - 1).bit_length())
            # Outside inference mode, so that tables made while decoding can serve training too.
            with torch.inference_mode(False), torch.no_grad():
                angles = torch.outer(torch.arange(size).float(), rope_frequencies(self.config))
                known = (angles.cos().to(like.device, like.dtype), angles.sin().to(like.device, like.dtype))
            self._tables[key] = known
        return known


def rotate(heads: Tensor, cosine: Tensor, sine: Tensor) -> Tensor:
    """Apply RoPE to [B, H, T, head_dim]; tables broadcast to [B, 1, T, head_dim / 2]."""
    first, second = heads.chunk(2, dim=-1)
    if in_halves_on_cpu(heads):
        out = torch.empty_like(heads)
        left, right = out.chunk(2, dim=-1)
        torch.mul(first, cosine, out=left).addcmul_(second, sine, value=-1)
        torch.mul(second, cosine, out=right).addcmul_(first, sine)
        return out
    return torch.cat((first * cosine - second * sine, second * cosine + first * sine), dim=-1)


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
    """Grouped-query attention with rotary positions, over a cache or without one."""

    def __init__(self, config: ModelConfig, layer: int) -> None:
        super().__init__()
        self.layer = layer
        self.head_dim = config.head_dim
        query_size, kv_size = config.num_heads * config.head_dim, config.num_kv_heads * config.head_dim
        self.q_proj = nn.Linear(config.hidden_size, query_size, bias=config.qkv_bias)
        self.k_proj = nn.Linear(config.hidden_size, kv_size, bias=config.qkv_bias)
        self.v_proj = nn.Linear(config.hidden_size, kv_size, bias=config.qkv_bias)
        self.o_proj = nn.Linear(query_size, config.hidden_size, bias=config.o_bias)
        self.q_norm = RMSNorm(config.head_dim, config.norm_eps) if config.qk_norm else None
        self.k_norm = RMSNorm(config.head_dim, config.norm_eps) if config.qk_norm else None

    def forward(self, hidden: Tensor, step: Step) -> Tensor:
        """Attend from [B, T, hidden_size]; `step` says where the window stands and what it may see."""
        query, key, value = (self._heads(proj(hidden)) for proj in (self.q_proj, self.k_proj, self.v_proj))
        if self.q_norm is not None and self.k_norm is not None:
            query, key = self.q_norm(query), self.k_norm(key)
        query, key = rotate(query, step.cosine, step.sine), rotate(key, step.cosine, step.sine)
        if len(step.windows) == 1:
            out = self._mix(query, key, value, step.windows[0])
        else:
            out = self._mix_apart(query, key, value, step.windows)
        return self.o_proj(out.transpose(1, 2).flatten(2))

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
    """SwiGLU feed-forward (Shazeer 2020)."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.gate_proj = nn.Linear(config.hidden_size, config.intermediate_size, bias=False)
        self.up_proj = nn.Linear(config.hidden_size, config.intermediate_size, bias=False)
        self.down_proj = nn.Linear(config.intermediate_size, config.hidden_size, bias=False)

    def forward(self, hidden: Tensor) -> Tensor:
        """Map [..., hidden_size] to itself."""
        return self.down_proj(F.silu(self.gate_proj(hidden)) * self.up_proj(hidden))


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
        hidden = hidden + self.attention(self.attention_norm(hidden), step)
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
        num_local_kv_heads: key/value heads that this process computes.
    """

    vocabulary: VocabularyPart | None = None

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

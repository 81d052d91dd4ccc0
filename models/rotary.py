"""Rotary positions (RoFormer), and when a CPU is better served by another form of a small operation."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from lopa_bench.models.config import ModelConfig


def in_halves_on_cpu(hidden: Tensor) -> bool:
    """Whether a 16-bit forward runs on a CPU, where torch's own forms of small operations take twice the time needed.

    There the matrix products can be so fast that these operations decide. In float32 torch's forms stay: they round as
    the authors' programs do, and a token may hang on the last bit. A compiler finds its own forms.
    """
    if torch.compiler.is_compiling():
        return False
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

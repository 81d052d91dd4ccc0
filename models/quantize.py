"""W8A8: the layers' projections with 8-bit weights and activations, multiplied as integers.

Weights get one scale per output channel, once; activations one per token, in every product (dynamic, symmetric). The
product of the two 8-bit matrices is exact in 32 bits, by torch's own `torch._int_mm`; both scales are applied to it,
where several processes hold the network to the exact sum of their products.
Embedding, head and norms keep their dtype. Where that kernel cannot serve a matrix, the same rounded numbers are
multiplied as floats, which is no faster; which kernel serves how many matrices is told, so that it can be recorded.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

import torch
import torch.nn.functional as F  # noqa: N812 - the field's usual name
from torch import Tensor, nn

from lopa_bench.errors import ConfigError, nearest
from lopa_bench.models.network import MLP, Attention, Transformer
from lopa_bench.models.tensor_parallel import RowLinear, TensorGroup

METHODS = ("w8a8",)
LARGEST = 127
INTEGER, DEQUANTISED = "torch._int_mm", "dequantised"
# What CUDA's kernel wants: both sides of a weight, and more rows than this.
CUDA_MULTIPLE, CUDA_ROWS = 8, 17


@dataclass(frozen=True, slots=True)
class Quantization:
    """What was done: the method, and how many matrices each kernel serves."""

    method: str
    kernels: dict[str, int]

    def __str__(self) -> str:
        """For records, such as `w8a8 (torch._int_mm: 28)`."""
        return f"{self.method} ({', '.join(f'{name}: {count}' for name, count in sorted(self.kernels.items()))})"


class QuantizedLinear(nn.Module):
    """A projection with 8-bit weights [out, in] and one scale per output.

    Where its inputs are spread over a tensor-parallel group, all use the scales of whole rows and sum up integers, so
    that the 8-bit numbers and their products are those of one process.
    """

    def __init__(self, linear: nn.Linear, kernel: str) -> None:
        super().__init__()
        self.group: TensorGroup | None = linear.group if isinstance(linear, RowLinear) else None
        self.gathers_scales = self.group is not None
        self.kernel = kernel
        weight = linear.weight.detach().to(torch.float32)
        scale = _scale(weight, self.group)
        self.register_buffer("weight", (weight / scale).round_().to(torch.int8))
        self.register_buffer("scale", scale.squeeze(-1))
        self.bias = linear.bias
        self.weight: Tensor
        self.scale: Tensor

    def forward(self, hidden: Tensor) -> Tensor:
        """Map [..., in] to [..., out] in the input's dtype."""
        rows = hidden.reshape(-1, hidden.shape[-1]).to(torch.float32)
        scale = _scale(rows, self.group)
        codes = (rows / scale).round_()
        product = self._integers(codes) if self.kernel == INTEGER else F.linear(codes, self.weight.to(torch.float32))
        if self.group is not None:
            self.group.all_reduce(product)
        out = product.to(torch.float32).mul_(scale).mul_(self.scale).to(hidden.dtype)
        if self.bias is not None:
            out = out + self.bias
        return out.view(*hidden.shape[:-1], -1)

    @property
    def sum_dtype(self) -> torch.dtype:
        """What the processes of a group sum up."""
        return torch.int32 if self.kernel == INTEGER else torch.float32

    def _integers(self, codes: Tensor) -> Tensor:
        """The exact product of integer codes [rows, in] with the weights, as int32 [rows, out]."""
        num_rows = codes.shape[0]
        eight = codes.to(torch.int8)
        if eight.device.type == "cuda" and num_rows < CUDA_ROWS:
            eight = F.pad(eight, (0, 0, 0, CUDA_ROWS - num_rows))
        return torch._int_mm(eight, self.weight.t())[:num_rows]


def _scale(rows: Tensor, group: TensorGroup | None) -> Tensor:
    """What one step of each row's codes stands for, [rows, 1]; a row of zeros has codes of zero."""
    largest = rows.abs().amax(dim=-1, keepdim=True)
    if group is not None:
        largest = group.all_gather(largest).amax(dim=0)
    return (largest / LARGEST).masked_fill(largest == 0, 1.0)


def check_method(method: str) -> None:
    """Refuse a method that does not exist.

    Raises:
        ConfigError: says which do.
    """
    if method not in METHODS:
        raise ConfigError(f"--quantize {method} is not one of {', '.join(METHODS)}{nearest(method, METHODS)}")


def quantize(network: Transformer, method: str = "w8a8") -> Quantization:
    """Replace every projection inside the layers by its 8-bit form, in place.

    Raises:
        ConfigError: no such method.
    """
    check_method(method)
    counts: Counter[str] = Counter()
    owners = [module for module in network.modules() if isinstance(module, Attention | MLP)]
    for owner in owners:
        for name, linear in list(owner.named_children()):
            if isinstance(linear, nn.Linear):
                kernel = _kernel_for(linear.weight)
                counts[kernel] += 1
                delattr(owner, name)
                setattr(owner, name, QuantizedLinear(linear, kernel))
    return Quantization(method, dict(counts))


def _kernel_for(weight: Tensor) -> str:
    """Ask the kernel itself, with a matrix of this shape."""
    rows = torch.zeros((CUDA_ROWS, weight.shape[1]), dtype=torch.int8, device=weight.device)
    other = torch.zeros(weight.shape, dtype=torch.int8, device=weight.device)
    try:
        torch._int_mm(rows, other.t())
    except (RuntimeError, AttributeError):
        return DEQUANTISED
    return INTEGER

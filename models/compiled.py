"""`torch.compile` for what a layer does before and after its attention.

The attention itself stays as it is: its shapes change with every window and cache, and its kernel is one call already.
What stands around it depends on the number of rows only.

No CUDA graphs are recorded (`reduce-overhead`). They would hold a part's results in memory that the next part may take
over: each compiled call counts as a new step unless told otherwise, and frees what the step before it returned, which
here is the next layer's input (pytorch issues 152887 and 160281; torch/_inductor/cudagraph_trees.py). Every other
number of rows would also be a recording of its own in every layer. Nobody has seen them work or pay here.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable

import torch
from torch import Tensor

from lopa_bench.errors import ConfigError, PrerequisiteError
from lopa_bench.models.network import Layer, Transformer

COMPILERS = ("c++", "g++", "clang++", "cl")
MODE = "default"
# Layers share their compiled code; every other number of rows beyond the general one may be compiled once more.
MOST_VARIANTS = 64


def check_compile(device: str, tensor_parallel: int = 1) -> None:
    """Refuse before weights are read what could not be compiled later.

    Raises:
        ConfigError: with tensor parallelism, or on a device whose compilers were never tried.
        PrerequisiteError: a CPU's code needs a C++ compiler, which is not there.
    """
    if tensor_parallel > 1:
        raise ConfigError("--compile is not offered with tensor parallelism, whose sums stand inside what is compiled")
    if device.startswith("npu"):
        raise ConfigError(
            "--compile is not offered on npu, whose compilers are not torch's own and were never tried here"
        )
    wanted = os.environ.get("CXX")
    if device.startswith("cpu") and not any(map(shutil.which, [wanted] if wanted else COMPILERS)):
        raise PrerequisiteError(
            f"--compile on a CPU needs a C++ compiler, but {wanted or 'none of ' + ', '.join(COMPILERS)} was found; "
            "install g++ or leave --compile out"
        )


def compile_network(network: Transformer) -> str:
    """Compile the layers' parts in place; the work is done when each first runs.

    Returns:
        What was asked of the compiler, for records.
    """
    torch._dynamo.config.cache_size_limit = max(torch._dynamo.config.cache_size_limit, MOST_VARIANTS)
    for layer in [module for module in network.modules() if isinstance(module, Layer)]:
        object.__setattr__(layer, "before", _before(torch.compile(layer.before, mode=MODE)))
        object.__setattr__(layer, "after", _after(torch.compile(layer.after, mode=MODE)))
    return f"torch.compile, mode {MODE}, layers without attention"


# All windows' positions go through as one row, so that one compiled form serves any number of either; with two open
# sizes some releases of torch fail over products of three factors.


def _before(part: Callable[..., tuple[Tensor, ...]]) -> Callable[[Tensor, Tensor, Tensor], tuple[Tensor, ...]]:
    """`Layer.before` over a compiled form of itself."""

    def call(hidden: Tensor, cosine: Tensor, sine: Tensor) -> tuple[Tensor, ...]:
        batch, length, width = hidden.shape
        tables = [table.expand(batch, 1, length, -1).reshape(batch * length, -1) for table in (cosine, sine)]
        heads = part(hidden.reshape(1, batch * length, width), *tables)
        return tuple(one.unflatten(2, (batch, length)).squeeze(0).transpose(0, 1) for one in heads)

    return call


def _after(part: Callable[..., Tensor]) -> Callable[[Tensor, Tensor], Tensor]:
    """`Layer.after` over a compiled form of itself."""

    def call(hidden: Tensor, mixed: Tensor) -> Tensor:
        batch, length, width = hidden.shape
        row = mixed.transpose(0, 1).flatten(1, 2).unsqueeze(0)
        return part(hidden.reshape(1, batch * length, width), row).view(batch, length, width)

    return call

"""`torch.compile` for what a layer does before and after its attention.

The attention itself stays as it is: its shapes change with every window and cache, and its kernel is one call already.
What stands around it depends on the number of rows only. On CUDA the compiled parts are recorded as graphs
(`reduce-overhead`), so that their many small kernels are started at once.
"""

from __future__ import annotations

import os
import shutil

import torch

from lopa_bench.errors import ConfigError, PrerequisiteError
from lopa_bench.models.network import Transformer

COMPILERS = ("c++", "g++", "clang++", "cl")
# Layers share their compiled code; every other number of rows beyond the general one may be compiled once more.
MOST_VARIANTS = 64


def check_compile(device: str, tensor_parallel: int = 1) -> None:
    """Refuse before weights are read what could not be compiled later.

    Raises:
        ConfigError: with tensor parallelism.
        PrerequisiteError: a CPU's code needs a C++ compiler, which is not there.
    """
    if tensor_parallel > 1:
        raise ConfigError("--compile is not offered with tensor parallelism, whose sums stand inside what is compiled")
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
    mode = "reduce-overhead" if network.embed.weight.device.type == "cuda" else "default"
    for layer in network.layers:
        for name in ("before", "after"):
            object.__setattr__(layer, name, torch.compile(getattr(layer, name), mode=mode))
    return f"torch.compile, mode {mode}, layers without attention"

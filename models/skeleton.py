"""A network without memory, to be given its weights or only counted."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

from lopa_bench.models.config import ModelConfig
from lopa_bench.models.network import Transformer

_shapes: dict[str, Mapping[str, tuple[int, ...]]] = {}


class _NoInitialisation(TorchFunctionMode):
    """Skip torch.nn.init: on the meta device it fills nothing, yet its first call imports a second's worth of torch."""

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: Sequence[Any] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        arguments = kwargs or {}
        if getattr(func, "__module__", None) == "torch.nn.init":
            return arguments["tensor"] if "tensor" in arguments else args[0]
        return func(*args, **arguments)


def skeleton(config: ModelConfig) -> Transformer:
    """The network with its parameters on the meta device: shapes and names, no values."""
    with torch.device("meta"), _NoInitialisation():
        return Transformer(config)


def parameter_shapes(config: ModelConfig) -> Mapping[str, tuple[int, ...]]:
    """The shape of every parameter by its name; a network is built for it once for all equal configs."""
    key = repr(config)  # a config may hold a dictionary, so that it cannot be a key itself
    if key not in _shapes:
        named = skeleton(config).named_parameters()
        _shapes[key] = MappingProxyType({name: tuple(parameter.shape) for name, parameter in named})
    return _shapes[key]

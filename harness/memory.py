"""Memory: how to give back what can be given back after it ran out, and the most that was held."""

from __future__ import annotations

import gc
import resource
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch


def free_memory() -> None:
    """Give back all memory that nothing refers to any more, the devices' cached blocks included."""
    import torch

    gc.collect()
    for name in ("cuda", "npu"):
        device = getattr(torch, name, None)
        if device is not None and device.is_available() and device.is_initialized():
            device.empty_cache()


def peak_bytes(device: torch.device) -> int:
    """The most memory held so far: what was allocated on an accelerator, or on a CPU this process's resident size."""
    import torch

    if device.type == "cpu":
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)
    module = getattr(torch, device.type)
    return int(module.max_memory_allocated(device))

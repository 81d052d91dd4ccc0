"""Running out of memory: how to give back what can be given back."""

from __future__ import annotations

import gc


def free_memory() -> None:
    """Give back all memory that nothing refers to any more, the devices' cached blocks included."""
    import torch

    gc.collect()
    for name in ("cuda", "npu"):
        device = getattr(torch, name, None)
        if device is not None and device.is_available() and device.is_initialized():
            device.empty_cache()

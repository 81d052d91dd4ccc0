"""Running out of memory: how to tell it from other errors, and how to give back what can be given back."""

from __future__ import annotations

import gc

# What allocators say who raise a plain RuntimeError: the CPU's, the accelerators', and the libraries on top of them.
PHRASES = ("out of memory", "can't allocate memory", "alloc_failed")


def is_out_of_memory(problem: BaseException) -> bool:
    """Tell whether an exception says that memory was exhausted, the host's or a device's."""
    if isinstance(problem, MemoryError) or type(problem).__name__ == "OutOfMemoryError":
        return True
    text = str(problem).lower()
    return isinstance(problem, RuntimeError) and any(phrase in text for phrase in PHRASES)


def free_memory() -> None:
    """Give back all memory that nothing refers to any more, the devices' cached blocks included."""
    import torch

    gc.collect()
    for name in ("cuda", "npu"):
        device = getattr(torch, name, None)
        if device is not None and device.is_available() and device.is_initialized():
            device.empty_cache()

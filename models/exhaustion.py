"""Memory that does not suffice: how to tell it from other errors, on one process and on several."""

from __future__ import annotations

# What allocators say who raise a plain RuntimeError: the CPU's, the accelerators', and the libraries on top of them.
PHRASES = ("out of memory", "can't allocate memory", "alloc_failed")


class SharedOutOfMemory(MemoryError):
    """Memory did not suffice on one of several processes; raised on all of them, at the same point of an answer."""


def is_out_of_memory(problem: BaseException) -> bool:
    """Tell whether an exception says that memory was exhausted, the host's or a device's."""
    if isinstance(problem, MemoryError) or type(problem).__name__ == "OutOfMemoryError":
        return True
    text = str(problem).lower()
    return isinstance(problem, RuntimeError) and any(phrase in text for phrase in PHRASES)


def lack_in_words(problem: BaseException) -> str:
    """What such an exception says, in one line."""
    return str(problem).partition("\n")[0] or "no more could be allocated"

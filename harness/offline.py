"""Switches that keep the hub's libraries off the network; they are read at import, so they must be set first."""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path

OFFLINE_SWITCHES = ("HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE", "HF_DATASETS_OFFLINE")


def go_offline() -> list[str]:
    """Forbid every download from the hub in this process.

    Returns:
        The libraries that had already read the switches and may not obey them: empty when called in time.
    """
    for switch in OFFLINE_SWITCHES:
        os.environ[switch] = "1"
    use_private_dataset_cache()
    too_late = []
    for library, constant in (("huggingface_hub.constants", "HF_HUB_OFFLINE"), ("datasets.config", "HF_HUB_OFFLINE")):
        module = sys.modules.get(library)
        if module is not None and not getattr(module, constant, True):
            too_late.append(library.partition(".")[0])
    return too_late


def use_private_dataset_cache() -> None:
    """Send whatever `datasets` may write to a folder of this user, never to a read-only or shared home.

    Only the data sets' cache moves: checkpoints that were fetched before stay where they are found.
    """
    if "HF_DATASETS_CACHE" not in os.environ:
        cache = Path(os.environ.get("XDG_CACHE_HOME", Path(tempfile.gettempdir()) / f"cache-{os.getuid()}"))
        os.environ["HF_DATASETS_CACHE"] = str(cache / "lopa-bench" / "datasets")


def is_offline() -> bool:
    """Whether the hub may not be asked."""
    return os.environ.get("HF_HUB_OFFLINE", "").lower() in ("1", "true", "yes", "on")

"""The settings that spread a run over processes, with their defaults; see `spread`."""

from __future__ import annotations

from typing import Any

DEFAULTS: dict[str, Any] = {
    "devices": None,
    "branch_parallel": None,
    "tensor_parallel": None,
    "data_parallel": None,
    "cache_protocol": "two-phase",
    "comm_timeout": 120.0,
}

"""The settings that spread a run over processes (see `spread`) and make its network faster, with their defaults."""

from __future__ import annotations

from typing import Any

DEFAULTS: dict[str, Any] = {
    "devices": None,
    "branch_parallel": None,
    "tensor_parallel": None,
    "data_parallel": None,
    "cache_protocol": "two-phase",
    "comm_timeout": 120.0,
    "quantize": None,
    "merge_qkv": None,
    "compile": None,
}

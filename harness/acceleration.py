"""The settings that make a network faster, as the models know them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lopa_bench.harness.settings import Settings

if TYPE_CHECKING:
    from lopa_bench.models.acceleration import Acceleration


def acceleration_of(settings: Settings) -> Acceleration:
    """Return what the settings ask to be done to the network."""
    from lopa_bench.models.acceleration import Acceleration

    method = settings["quantize"]
    return Acceleration(
        quantize=None if method is None else str(method),
        merge_qkv=bool(settings["merge_qkv"]),
        compile=bool(settings["compile"]),
    )

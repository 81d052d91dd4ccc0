"""The settings that make a network faster, as the models know them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lopa_bench.harness.settings import Settings

if TYPE_CHECKING:
    from lopa_bench.harness.model_source import ModelSource
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


def check_tensor_parallel(settings: Settings, source: ModelSource, size: int) -> None:
    """Refuse before anything starts what a network held by `size` processes cannot do.

    Raises:
        ConfigError: more processes than heads, or sampling from a nucleus.
    """
    if size == 1:
        return
    from lopa_bench.decoders.vocabulary_parallel import check_sampling
    from lopa_bench.models import tensor_parallel

    tensor_parallel.check_tensor_parallel(source.config, size)
    check_sampling(settings.config.sampling)

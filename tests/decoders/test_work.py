"""What a round costs: one transfer to the host, one call of the network, one stored prefix."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from decoder_cases import every_decoder
from fakes_models import tiny_model
from torch import Tensor

from lopa_bench.decoders.registry import create
from lopa_bench.models.cache import KVCache
from lopa_bench.models.language_model import LanguageModel

# Whatever makes the host wait for a device's result.
SYNCHRONISING = {
    getattr(Tensor, name)
    for name in ("cpu", "item", "tolist", "numpy", "nonzero", "__bool__", "__int__", "__float__", "__index__")
}


class OnDevice(Tensor):
    """Stands for a tensor on an accelerator: counts what would make the host wait for it."""

    num_waits = 0

    @classmethod
    def __torch_function__(
        cls, func: Callable[..., Any], types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        result = super().__torch_function__(func, types, args, kwargs or {})
        if func in SYNCHRONISING:
            OnDevice.num_waits += 1
            return result.as_subclass(Tensor) if isinstance(result, Tensor) else result
        return result


class RemoteModel(LanguageModel):
    """Its logits are as if on an accelerator; counts its calls and keeps its caches."""

    def __init__(self, model: LanguageModel) -> None:
        super().__init__(model.network)
        self.num_calls, self.caches = 0, list[KVCache]()

    def new_cache(self, capacity: int) -> KVCache:
        self.caches.append(super().new_cache(capacity))
        return self.caches[-1]

    def predict(self, *args: Any, **options: Any) -> Tensor:
        self.num_calls += 1
        return super().predict(*args, **options).as_subclass(OnDevice)


def remote(name: str) -> RemoteModel:
    return RemoteModel(tiny_model("ar" if name == "ar" else "dream", seed=1, sharpness=0.3, eos_token_id=None))


def test_the_stand_in_counts_waits() -> None:
    values = torch.tensor([1.0, 2.0]).as_subclass(OnDevice)
    before = OnDevice.num_waits
    doubled = (values * 2).softmax(-1)
    assert OnDevice.num_waits == before
    assert isinstance(doubled, OnDevice)
    doubled.tolist(), doubled[0].item(), bool(doubled[0] > 0), doubled.cpu().tolist()
    assert OnDevice.num_waits == before + 4


@every_decoder
@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_the_host_waits_once_a_round(name: str, options: dict[str, Any], temperature: float) -> None:
    model = remote(name)
    blocks = {} if name == "ar" else {"block_size": 4}
    generation = create(name, model, {"max_new_tokens": 8, "temperature": temperature, **blocks, **options}).decode(
        [1, 2, 3]
    )
    before = OnDevice.num_waits
    for one in generation:
        assert OnDevice.num_waits - before <= (1 if options.get("packed", True) else one.model_calls)
        before = OnDevice.num_waits


@pytest.mark.parametrize("branches", [1, 8])
@pytest.mark.parametrize("base", ["d2f", "vanilla"])
def test_a_round_of_lopa_is_one_call_whatever_the_branches(base: str, branches: int) -> None:
    model = remote("lopa")
    options = {"max_new_tokens": 12, "block_size": 4, "branches": branches, "base": base}
    rounds = create("lopa", model, options).decode([1, 2, 3]).run()
    assert model.num_calls == len(rounds) == sum(one.model_calls for one in rounds)
    assert max(one.branch_forwards for one in rounds) > 1 or branches == 1


def test_the_prefix_of_eight_branches_is_stored_once() -> None:
    model = remote("lopa")
    create("lopa", model, {"max_new_tokens": 12, "block_size": 4, "branches": 8}).decode([1, 2, 3]).run()
    [cache] = model.caches
    assert cache.keys.shape == (2, 1, 2, 15, 8), "layers, one, kv heads, prompt and budget, head"
    assert cache.values.shape == cache.keys.shape
    assert cache.length > 3


def test_a_plain_model_needs_no_cache() -> None:
    model = remote("lopa")
    create("lopa", model, {"max_new_tokens": 8, "base": "vanilla"}).decode([1, 2, 3]).run()
    create("vanilla", model, {"max_new_tokens": 8}).decode([1, 2, 3]).run()
    assert model.caches == []

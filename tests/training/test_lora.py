"""LoRA students: only adapters learn, and the saved adapter is what was trained."""

from __future__ import annotations

import json
from pathlib import Path

import torch

from lopa_bench.models.loading import load_model, save_model
from lopa_bench.models.training.lora import add_lora, merged, save_adapter
from lopa_bench.models.training.optimizers import Optimizers
from lopa_bench.models.training.start import new_network


def trained(config):
    """A network with adapters after a few steps, and the base as it was."""
    base = new_network(config, seed=3)
    network = new_network(config, seed=3)
    add_lora(network, 4)
    optimizers = Optimizers(network, "muon", 0.01, 0.05)
    tokens = torch.randint(3, 20, (4, 10), generator=torch.Generator().manual_seed(0))
    for _ in range(3):
        network.logits(network(tokens, causal=True)).square().mean().backward()
        optimizers.step(1.0)
    return base, network, tokens


def test_only_adapters_learn(config) -> None:
    base, network, _ = trained(config)
    learning = [name for name, parameter in network.named_parameters() if parameter.requires_grad]
    assert learning
    assert all("lora_" in name for name in learning)
    frozen = {n.replace(".base_layer", ""): p for n, p in network.named_parameters() if "lora_" not in n}
    for name, parameter in base.named_parameters():
        assert torch.equal(parameter, frozen[name])


def test_the_saved_adapter_gives_the_trained_network(config, tmp_path: Path) -> None:
    base, network, tokens = trained(config)
    save_model(base, tmp_path / "base", dtype="float32")
    save_adapter(network, tmp_path / "adapter", base=str(tmp_path / "base"))
    assert json.loads((tmp_path / "adapter" / "adapter_config.json").read_text())["r"] == 4
    loaded = load_model(tmp_path / "base", adapter=tmp_path / "adapter").network
    with torch.no_grad():
        expected = network(tokens)
        assert (expected - base(tokens)).abs().max() > 1e-3
        torch.testing.assert_close(loaded(tokens), expected, rtol=1e-4, atol=1e-5)
        torch.testing.assert_close(merged(network)(tokens), expected, rtol=1e-4, atol=1e-5)

"""D2F's loss against the values of its authors' program, and by our own step."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file
from torch import Tensor

from lopa_bench.models.loading import load_model
from lopa_bench.models.network import Transformer
from lopa_bench.models.training.batches import collate
from lopa_bench.models.training.losses import distillation_loss, work_loss
from lopa_bench.models.training.noise import FILL_WEIGHT
from lopa_bench.models.training.objectives import block_causal_visibility, block_distillation
from lopa_bench.models.training.start import new_network


def aligned(network: Transformer, tokens: Tensor, mask: Tensor | None) -> Tensor:
    """Dream's rows moved to the positions they speak of."""
    logits = network.logits(network(tokens, mask=mask))
    return torch.cat((logits[:, :1], logits[:, :-1]), dim=1)


@pytest.mark.parametrize("case", [0, 1, 2])
def test_loss_equals_the_authors_program(golden_dir: Path, case: int) -> None:
    folder = golden_dir / "d2f_training_0"
    expected = json.loads((folder / "cases.json").read_text())[case]
    tensors = load_file(folder / "cases.safetensors")
    noisy, masked = tensors[f"{case}.noisy_ids"], tensors[f"{case}.masked"].bool()
    teacher = load_model(golden_dir / "dream_tiny_0").network
    student = load_model(golden_dir / "dream_tiny_0", adapter=folder / "adapter").network
    visible = torch.stack(
        [
            block_causal_visibility(int(length), noisy.shape[1], expected["block_size"])
            for length in tensors[f"{case}.question_length"]
        ]
    )
    with torch.no_grad():
        loss = distillation_loss(
            aligned(student, noisy, visible[:, None]),
            aligned(teacher, noisy, None),
            masked,
            tensors[f"{case}.p_mask"],
        )
    assert loss.item() == pytest.approx(expected["distillation_loss"], abs=1e-4)


def test_a_distillation_step_computes_that_loss(config, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lopa_bench.models.training.noise.FILL_WEIGHT", 1.0)
    student, teacher = new_network(config, seed=0), new_network(config, seed=1)
    batch = collate([([5, 6, 7], list(range(5, 18))), ([5, 6, 9], list(range(3, 15)))], 0, 2)
    work = block_distillation(batch, 1, True, 4, torch.Generator().manual_seed(0))
    masked = torch.zeros_like(work.tokens, dtype=torch.bool)
    masked[:, batch.prompt_length :] = work.weights > 0
    rates = torch.ones_like(work.tokens, dtype=torch.float)
    rates[:, batch.prompt_length :] = 1 / (work.weights * masked.sum())
    visible = block_causal_visibility(batch.prompt_length, work.tokens.shape[1], 4)
    with torch.no_grad():
        expected = distillation_loss(
            aligned(student, work.tokens, visible), aligned(teacher, work.tokens, None), masked, rates
        )
        assert work_loss(student, work, teacher).item() == pytest.approx(expected.item(), rel=1e-5)


def test_the_fill_counts_less_than_the_answer(config) -> None:
    batch = collate([([5, 6, 7], [8] * 20), ([5, 6, 9], [8] * 4)], 0, 2)
    work = block_distillation(batch, 1, True, 4, torch.Generator().manual_seed(0))
    inside, fill = work.weights[1, :4], work.weights[1, 5:]
    assert inside.max() > 0
    assert fill[fill > 0].max() < inside[inside > 0].min()
    assert FILL_WEIGHT < 1


def test_no_gradient_reaches_the_teacher(config) -> None:
    student, teacher = new_network(config, seed=0), new_network(config, seed=1)
    batch = collate([([5, 6, 7], [8] * 20)], 0, 2)
    work_loss(student, block_distillation(batch, 1, True, 4, torch.Generator().manual_seed(0)), teacher).backward()
    assert all(parameter.grad is None for parameter in teacher.parameters())
    assert student.embed.weight.grad.abs().sum() > 0

"""The losses: a weighted sum of cross-entropies against the data's tokens or a teacher's distribution."""

from __future__ import annotations

import torch
import torch.nn.functional as F  # noqa: N812 - the field's usual name
from torch import Tensor

from lopa_bench.models.network import Transformer
from lopa_bench.models.training.objectives import Work


def attention_mask(visible: Tensor | None, real: Tensor) -> Tensor:
    """[B, 1, S, S] bool; padding is seen by nobody but itself (a row that sees nothing would be NaN)."""
    columns = real.shape[1]
    mask = real[:, None, None, :]
    if visible is not None:
        mask = mask & visible
    return mask | torch.eye(columns, dtype=torch.bool, device=real.device)


def work_loss(network: Transformer, work: Work, teacher: Transformer | None = None) -> Tensor:
    """The weighted sum of cross-entropies that `work` asks for.

    With `distill` > 0 that part of each target is the teacher's distribution (forward cross-entropy, the gradient
    of the forward KL divergence), the rest the data's token.
    """
    asked = work.weights > 0
    logits = _logits(network, work, work.visible, asked)
    losses = F.cross_entropy(logits, work.targets[asked], reduction="none")
    if work.distill > 0 and teacher is not None:
        with torch.no_grad():
            taught = _logits(teacher, work, work.teacher_visible, asked)
        losses = work.distill * soft_cross_entropy(logits, taught) + (1 - work.distill) * losses
    return (losses * work.weights[asked]).sum()


def _logits(network: Transformer, work: Work, visible: Tensor | None, asked: Tensor) -> Tensor:
    mask = attention_mask(visible, work.real)
    hidden = network(work.tokens, positions=work.positions, mask=mask)
    return network.logits(hidden[:, work.rows][asked]).float()


def soft_cross_entropy(student_logits: Tensor, teacher_logits: Tensor) -> Tensor:
    """[...] cross-entropy of [..., V] rows against the teacher's distribution: forward KL up to a constant."""
    soft = teacher_logits.detach().float().softmax(-1)
    return -(soft * student_logits.float().log_softmax(-1)).sum(-1)


def distillation_loss(student_logits: Tensor, teacher_logits: Tensor, masked: Tensor, rates: Tensor) -> Tensor:
    """D2F's loss: the mean over masked positions of CE(student, softmax(teacher)) / noise level.

    Args:
        student_logits: [..., V] one row per position, already aligned (shifted for Dream).
        teacher_logits: as `student_logits`; no gradient reaches it.
        masked: [...] bool, the positions that count.
        rates: [...] masking probability of each position.
    """
    return (soft_cross_entropy(student_logits[masked], teacher_logits[masked]) / rates[masked]).mean()

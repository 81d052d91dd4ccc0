"""What one training step asks of the network: inputs, who sees whom, and the weight of each prediction.

Every objective lays a whole (global) batch out as `Work` whose weights are already normalised over the batch. The
loss is then a plain sum over rows, so that accumulated or distributed parts add up to exactly the undivided step.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
import torch.nn.functional as F  # noqa: N812 - the field's usual name
from torch import Tensor

from lopa_bench.models.training.batches import Batch
from lopa_bench.models.training.noise import (
    block_noise,
    frontier_noise,
    position_weights,
    uniform_noise,
    window_noise,
    window_starts,
)


@dataclass(frozen=True, slots=True)
class Work:
    """The input of one step; S columns, of which A have a target.

    Attributes:
        tokens: [B, S] ids.
        positions: [B, S] rotary positions.
        real: [B, S] bool, False on padding.
        visible: [S, S] bool, True where the query (row) may see the key (column); None is everything.
        rows: [A] the hidden row that predicts each target.
        targets: [B, A] ids.
        weights: [B, A] share of each prediction in the loss; zero where nothing is asked.
        distill: part of the target that is the teacher's distribution instead of the data's token.
        teacher_visible: [S, S] as `visible`, for the teacher.
    """

    tokens: Tensor
    positions: Tensor
    real: Tensor
    visible: Tensor | None
    rows: Tensor
    targets: Tensor
    weights: Tensor
    distill: float = 0.0
    teacher_visible: Tensor | None = None

    def part(self, index: int, num_parts: int) -> Work:
        """Every `num_parts`-th sequence, from `index`: what one process or one accumulation step works on."""
        names = ("tokens", "positions", "real", "targets", "weights")
        return replace(self, **{name: getattr(self, name)[index::num_parts] for name in names})

    def to(self, device: torch.device) -> Work:
        """Return a copy on `device`."""
        if device.type == "cpu":
            return self
        names = ("tokens", "positions", "real", "visible", "rows", "targets", "weights", "teacher_visible")
        tensors = {name: getattr(self, name) for name in names}
        return replace(self, **{name: t.to(device) for name, t in tensors.items() if t is not None})


def predicting_rows(columns: Tensor, logit_shift: bool) -> Tensor:
    """The rows that speak of `columns`: the row before each where logits are shifted, else its own."""
    return (columns - 1).clamp(min=0) if logit_shift else columns


def autoregressive(batch: Batch, logit_shift: bool = True) -> Work:
    """Next-token prediction of the answers (with their first EOS); the prompts are only read."""
    length = batch.tokens.shape[1]
    columns = torch.arange(batch.prompt_length, length)
    weights = (torch.arange(batch.answer_length)[None] < batch.lengths[:, None]).float()
    return Work(
        tokens=batch.tokens,
        positions=batch.positions,
        real=batch.real,
        visible=torch.ones(length, length, dtype=torch.bool).tril(),
        rows=columns - 1,
        targets=batch.answers,
        weights=weights / weights.sum(),
    )


def masked_diffusion(
    batch: Batch,
    mask_token_id: int,
    logit_shift: bool,
    generator: torch.Generator,
    *,
    uniform_share: float = 0.3,
    open_share: float = 0.0,
) -> Work:
    """Masked diffusion with everything visible; per sample LLaDA's uniform noise or the frontier noise.

    On `open_share` of the samples with frontier noise the canvas ends with the window, as a canvas does that grows
    block by block: nobody sees the masks beyond it, and nothing is asked there.
    """
    size, length = batch.lengths, batch.answer_length
    uniformly_masked, uniform_weights = uniform_noise(size, length, generator)
    masked, weights, beyond = frontier_noise(size, length, generator)
    is_uniform = torch.rand(len(size), 1, generator=generator) < uniform_share
    is_open = ~is_uniform & (torch.rand(len(size), 1, generator=generator) < open_share)
    masked = torch.where(is_uniform, uniformly_masked, masked)
    weights = torch.where(is_uniform, uniform_weights, weights)
    hidden = is_open & beyond
    tokens, real = batch.tokens.clone(), batch.real.clone()
    tokens[:, batch.prompt_length :][masked] = mask_token_id
    real[:, batch.prompt_length :] &= ~hidden
    columns = torch.arange(batch.prompt_length, batch.tokens.shape[1])
    return Work(
        tokens=tokens,
        positions=batch.positions,
        real=real,
        visible=None,
        rows=predicting_rows(columns, logit_shift),
        targets=batch.answers,
        weights=weights * ~hidden / len(size),
    )


def block_causal_visibility(prompt_length: int, length: int, block_size: int) -> Tensor:
    """[length, length] bool of D2F's rule: the prompt is block 0, each block sees itself and what is before it."""
    block = ((torch.arange(length) - prompt_length) // block_size + 1).clamp(min=0)
    return block[None, :] <= block[:, None]


def block_distillation(
    batch: Batch, mask_token_id: int, logit_shift: bool, block_size: int, generator: torch.Generator
) -> Work:
    """D2F's own step: block-causal student, bidirectional teacher, both on the same rising noise.

    Masked positions count 1 / noise level, averaged over all of them (the fill counts less).
    """
    rates = block_noise(len(batch.lengths), batch.answer_length, block_size, generator)
    masked = torch.rand(rates.shape, generator=generator) < rates
    tokens = batch.tokens.clone()
    tokens[:, batch.prompt_length :][masked] = mask_token_id
    length = batch.tokens.shape[1]
    counted = masked * position_weights(batch.lengths, batch.answer_length)
    return Work(
        tokens=tokens,
        positions=batch.positions,
        real=batch.real,
        visible=block_causal_visibility(batch.prompt_length, length, block_size),
        rows=predicting_rows(torch.arange(batch.prompt_length, length), logit_shift),
        targets=batch.answers,
        weights=counted / rates / counted.sum().clamp(min=1),
        distill=1.0,
    )


def active_windows(
    batch: Batch,
    mask_token_id: int,
    logit_shift: bool,
    *,
    block_size: int,
    window_blocks: int,
    full: bool,
    generator: torch.Generator,
    distill: float = 0.0,
) -> Work:
    """All of D2F's decoding states of an answer in one sequence: [prompt | clean answer | noisy answer].

    The noisy copy is cut into windows of `window_blocks` blocks. A window sees the prompt, the clean blocks before it
    and itself: wholly (`full`) or block-causally. So each block is asked for once, as decoding would meet it: finished
    text on its left, nothing on its right (two-stream training as in block diffusion, Arriola et al. 2025,
    arXiv:2503.09573). The teacher sees its window wholly.
    """
    prompt, answer = batch.prompt_length, batch.answer_length
    length = prompt + answer
    columns = torch.arange(answer)
    blocks = columns // block_size
    phase = int(torch.randint(0, window_blocks, (1,), generator=generator))
    groups = (blocks + phase) // window_blocks
    masked, weights = window_noise(batch.lengths, blocks, groups, generator)
    noisy = torch.where(masked, mask_token_id, batch.answers)
    rows = length + predicting_rows(columns, logit_shift)
    if logit_shift:
        # A window's first position is predicted by the last finished one, which stands in the clean copy.
        rows = torch.where(window_starts(groups), prompt - 1 + columns, length - 1 + columns)
    positions = batch.positions
    return Work(
        tokens=torch.cat((batch.tokens, noisy), dim=1),
        positions=torch.cat((positions, positions[:, prompt:]), dim=1),
        real=F.pad(batch.real, (0, answer), value=True),
        visible=_window_visibility(prompt, blocks, groups, full),
        rows=rows,
        targets=batch.answers,
        weights=weights / len(batch.lengths),
        distill=distill,
        teacher_visible=_window_visibility(prompt, blocks, groups, True) if distill > 0 else None,
    )


def _window_visibility(prompt: int, blocks: Tensor, groups: Tensor, full: bool) -> Tensor:
    """[P + 2A, P + 2A] bool for [prompt | clean answer | noisy answer]."""
    answer, length = blocks.shape[0], prompt + blocks.shape[0]
    clean = F.pad(blocks + 1, (prompt, 0))
    first_blocks = torch.where(window_starts(groups), blocks, 0).cummax(0).values
    visible = torch.zeros(length + answer, length + answer, dtype=torch.bool)
    visible[:length, :length] = clean[None, :] <= clean[:, None]
    visible[length:, :length] = clean[None, :] <= first_blocks[:, None]
    own = groups[:, None] == groups[None, :]
    visible[length:, length:] = own if full else own & (blocks[None, :] <= blocks[:, None])
    return visible

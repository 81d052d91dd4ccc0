"""What every decoder is: a model, a frozen config, and `decode`, which returns a generation of rounds."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any, ClassVar

import torch
from torch import Tensor

from lopa_bench.decoders.canvas import BlockState, Canvas
from lopa_bench.decoders.confidence import Scores, forbid, host_scores
from lopa_bench.decoders.options import DecoderConfig
from lopa_bench.decoders.rounds import Generation, Round
from lopa_bench.errors import ConfigError, DecodeError
from lopa_bench.models.forward import Forward
from lopa_bench.models.language_model import LanguageModel


class Decoder(ABC):
    """Turns a prompt into an answer with a model; knows token ids only, nothing of text, tasks, clocks or files.

    One decoder object may have several generations in progress: all state belongs to the generation.
    """

    name: ClassVar[str]
    config_type: ClassVar[type[DecoderConfig]]
    needs_diffusion: ClassVar[bool] = True
    batches: ClassVar[bool] = False
    """Whether its calls may be carried out together with those of other answers."""

    def __init__(self, model: LanguageModel, config: Any) -> None:
        if self.needs_diffusion == model.config.causal:
            kind = "an autoregressive" if model.config.causal else "a diffusion"
            wanted = "a diffusion model" if self.needs_diffusion else "an autoregressive model"
            raise ConfigError(f"decoder {self.name!r} needs {wanted}; {model.name!r} is {kind} model")
        self.model = model
        self.config: Any = config

    def decode(self, prompt: Sequence[int], *, seed: int = 0) -> Generation:
        """Start one answer.

        Args:
            prompt: token ids; mask or EOS ids among them are kept as they are and never filled or stopped at.
            seed: of this answer's own random numbers, so that no other answer changes them.

        Raises:
            DecodeError: the prompt is empty, holds an id outside the vocabulary, or does not fit the model's context
                together with the answer.
        """
        self._check_prompt(prompt)
        mask_id = self.model.config.mask_token_id
        canvas = Canvas(
            prompt,
            max_new_tokens=self.config.max_new_tokens,
            mask_id=-1 if mask_id is None else mask_id,
            eos_id=self.model.config.eos_token_id,
            stop_at_eos=self.config.early_stop,
        )
        generator = torch.Generator(self.model.device).manual_seed(seed)
        steps = watched(self._rounds(canvas, generator), canvas, self.most_idle_rounds)
        return Generation(canvas, steps, self.model.carry_out)

    def _check_prompt(self, prompt: Sequence[int]) -> None:
        limit, budget = self.model.config.max_positions, self.config.max_new_tokens
        if len(prompt) + budget > limit:
            raise DecodeError(
                f"a prompt of {len(prompt)} tokens and an answer of {budget} do not fit the model's {limit} positions; "
                f"cut the prompt to {max(limit - budget, 0)} or lower max_new_tokens"
            )
        size = self.model.config.vocab_size
        if prompt and not 0 <= min(prompt) <= max(prompt) < size:
            raise DecodeError(
                f"the prompt holds ids from {min(prompt)} to {max(prompt)}, the model knows 0 to {size - 1}; "
                "encode it with the model's own tokenizer"
            )

    @abstractmethod
    def _rounds(self, canvas: Canvas, generator: torch.Generator) -> Iterator[Round | Forward]:
        """Decode to the end, yielding each round after it changed the canvas.

        A decoder that `batches` yields its forwards too, and reads their logits when it is asked for the next step.
        """

    @property
    @abstractmethod
    def round_range(self) -> tuple[int, int]:
        """Fewest and most rounds an answer of full length can take, for estimates."""

    @property
    def most_idle_rounds(self) -> int | None:
        """Rounds in a row that may fill nothing before decoding is given up; None where a plan ends it anyway."""
        return 32

    def _input(self, canvas: Canvas, start: int, stop: int | None = None) -> Tensor:
        """Ids of [start, stop) as [1, T]."""
        return torch.tensor([canvas.tokens[start:stop]], dtype=torch.long)

    def _score(
        self,
        logits: Tensor,
        first: int,
        strategy: str,
        generator: torch.Generator,
        only: Sequence[int] | None = None,
    ) -> list[Scores]:
        """Candidates of each branch on the host, for `only` these positions where given; no mask id unless allowed."""
        vocabulary = self.model.vocabulary
        forbid(logits, self.forbidden_id, vocabulary)
        return host_scores(logits, first, strategy, self.config.sampling, generator, only or None, vocabulary)

    @property
    def forbidden_id(self) -> int | None:
        """The id that may never be proposed, or None."""
        return None if self.config.allow_mask_token else self.model.config.mask_token_id


def whole_canvas(canvas: Canvas, block_size: int) -> None:
    """Append the whole answer as waiting blocks, the last one as short as the budget asks."""
    while canvas.num_room:
        canvas.append_block(min(block_size, canvas.num_room), BlockState.WAITING)


def fill(canvas: Canvas, positions: Sequence[int], tokens: Sequence[int]) -> None:
    """Write tokens at absolute positions."""
    for position, token in zip(positions, tokens, strict=True):
        canvas.tokens[position] = token


def filled(canvas: Canvas, positions: Sequence[int], tokens: Sequence[int]) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """What a round reports: positions counted from the start of the answer, and tokens.

    A proposed mask id, where that is allowed, fills nothing.
    """
    kept = [(position, token) for position, token in zip(positions, tokens, strict=True) if token != canvas.mask_id]
    return tuple(position - canvas.prompt_length for position, _ in kept), tuple(token for _, token in kept)


def watched(steps: Iterator[Round | Forward], canvas: Canvas, most_idle: int | None) -> Iterator[Round | Forward]:
    """The same steps, each round with its number of open slots, ended when `most_idle` + 1 in a row filled nothing.

    Raises:
        DecodeError: such a row was seen; at temperature 0 it would go on for ever.
    """
    num_idle = 0
    for one in steps:
        if isinstance(one, Forward):
            yield one
            continue
        yield replace(one, num_slots=len(canvas) - canvas.prompt_length)
        num_idle = 0 if one.positions else num_idle + 1
        if most_idle is not None and num_idle > most_idle:
            raise DecodeError(
                f"no slot was filled in {num_idle} rounds in a row: the model proposes the mask id for a slot that "
                "must be filled; decode with allow_mask_token off"
            )

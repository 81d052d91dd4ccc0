"""LoPA (arXiv 2512.16229): every round tries several next fillings in parallel branches and keeps the most promising.

One loop serves every base decoder: its fill rule says how a canvas grows and is filled; `branches` spawns, scores and
selects; an executor takes the branches through the network together. The winner is filled with the very logits
that it was scored by.

On a plain diffusion model (`base` vanilla) the paper reports results but published no program. The reading here:
the canvas holds the whole answer, one block of it is open at a time, the anchor fills every slot of that block whose
probability is above tau_conf (the most confident one when none is), lookaheads take the next most confident slots
of the block, and branches are compared over the masks of their own open block. Nothing is cached.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from hashlib import blake2b
from itertools import count

import torch
from torch import Tensor

from lopa_bench.decoders.base import Decoder, filled
from lopa_bench.decoders.branch_parallel import BranchParallelExecutor
from lopa_bench.decoders.branches import SELECTIONS, Branch, BranchScore, select, spawn
from lopa_bench.decoders.canvas import Canvas
from lopa_bench.decoders.communication import BranchGroup
from lopa_bench.decoders.confidence import Scores, confidence_dtype, drawn_scores, forbid
from lopa_bench.decoders.d2f import PipelineConfig
from lopa_bench.decoders.executors import Executor, PackedExecutor, SequentialExecutor, union
from lopa_bench.decoders.options import belongs_to, one_of, option, require, share
from lopa_bench.decoders.pipeline import CanvasRule, Fill, FillRule
from lopa_bench.decoders.rounds import BranchInfo, Round
from lopa_bench.models.cache import KVCache


@dataclass(frozen=True, kw_only=True)
class LoPAConfig(PipelineConfig):
    """Options of `lopa`; the defaults of the score, the window and the strategy are the Dream script's."""

    branches: int = option(8, "branches verified per round, the anchor included; the paper's k is one less")
    base: str = option("d2f", "decoder that is looked ahead for: d2f, or vanilla for a plain diffusion model")
    strategy: str = option("neg_entropy", "confidence: probability, margin or neg_entropy", "sampling_strategy")
    full_attention: bool = option(True, "let everything in a forward see everything", "use_full_attention")
    least_confident: float = option(1.0, "share of a branch's masks, the least confident, in its score", "branch_topp")
    score_window: int | None = option(None, "score a branch by its worst run of this many masks")
    creation_weight: float = option(0.0, "weight of the lookahead token's own confidence", "selection_conf_alpha")
    candidates: str = option("active", "where lookaheads may be: active blocks (the authors'), or full ones only")
    select: str = option("confidence", "winner: confidence, or for control anchor, first or random")
    packed: bool = option(True, "verify all branches in one call; off: one by one")

    def __post_init__(self) -> None:
        super().__post_init__()
        require(self, "branches", self.branches >= 1, "at least 1 (the anchor alone)")
        one_of(self, "base", ("d2f", "vanilla"))
        one_of(self, "candidates", ("active", "full"))
        one_of(self, "select", SELECTIONS)
        share(self, "least_confident", "creation_weight")
        if self.base == "vanilla":
            belongs_to(self, "base", "d2f", "whole_blocks", "candidates")
        require(self, "score_window", self.score_window is None or self.score_window >= 1, "at least 1")

    @property
    def branch_score(self) -> BranchScore:
        """How branches are judged."""
        return BranchScore(self.least_confident, self.score_window, self.creation_weight)

    @property
    def rule(self) -> FillRule:
        """The base decoder's fill rule."""
        return CanvasRule(self.block_size, self.tau_conf) if self.base == "vanilla" else self.pipeline


class LoPADecoder(Decoder):
    """Lookahead parallel decoding over D2F's pipeline or over a plain diffusion model."""

    name = "lopa"
    config_type = LoPAConfig
    group: BranchGroup | None = None
    """The processes that share the branches of a round; None where one computes them all."""

    @property
    def round_range(self) -> tuple[int, int]:
        """One round a block at best; every round fills at least one slot."""
        return (1 if self.config.early_stop else self.config.num_blocks), self.config.num_slots

    def _rounds(self, canvas: Canvas, generator: torch.Generator) -> Iterator[Round]:
        config, rule = self.config, self.config.rule
        executor = self._executor(canvas, rule, generator)
        branches = [Branch(canvas.copy())]
        for index in count():
            for branch in branches:
                rule.open(branch.canvas)
            # The anchor's window serves all: a lookahead has its blocks and, but for those it opened, one mask less.
            anchor = branches[-1].canvas
            if rule.is_finished(anchor):
                return
            window = rule.window(anchor)
            calls_before = executor.num_calls
            seeds = self._seeds(generator.initial_seed(), index, len(branches))
            verdicts = executor.verify([branch.canvas for branch in branches], window, rule.visibility(canvas), seeds)
            infos = [self._judge(canvas, *pair) for pair in zip(branches, verdicts, strict=True)]
            won = select([info.score for info in infos], config.select, generator)
            if window.num_commit:
                executor.commit(won)

            sizes = [len(branch.canvas) - window.start for branch in branches]
            winner = branches[won]
            canvas.adopt(winner.canvas)
            chosen = rule.fill(canvas, verdicts[won])
            positions, tokens = filled(canvas, *winning_slots(winner, chosen))
            would_fill = partial(counterfactual, rule, branches, verdicts, {won: len(positions)})
            branches = self._spawn(canvas, rule, verdicts[won], chosen)
            yield Round(
                index=index,
                positions=positions,
                tokens=tokens,
                num_positions=sum(sizes),
                input_length=max(sizes),
                model_calls=executor.num_calls - calls_before,
                branch_forwards=len(sizes),
                prefill=window.start == 0,
                num_forced=chosen.num_forced,
                branches=tuple(infos),
                winner=won,
                no_candidate=config.branches > 1 and len(branches) == 1,
                would_fill=would_fill,
            )
            if canvas.is_closed:
                return

    def _executor(self, canvas: Canvas, rule: FillRule, generator: torch.Generator) -> Executor:
        capacity = canvas.prompt_length + self.config.max_new_tokens
        scorer = partial(self._score_branches, generator)

        def make_cache() -> KVCache | None:
            return self.model.new_cache(capacity) if rule.uses_cache else None

        if self.group is not None:
            kept = confidence_dtype(self.config.strategy, self.model.dtype)
            return BranchParallelExecutor(self.model, make_cache, scorer, self.group, kept, self.config.packed)
        kind = PackedExecutor if self.config.packed else SequentialExecutor
        return kind(self.model, make_cache(), scorer)

    def _seeds(self, sample_seed: int, index: int, num_branches: int) -> list[int] | None:
        """A seed for each branch's draws of a round, so that they do not hang on which are computed together."""
        if self.config.temperature == 0:
            return None
        words = [f"{sample_seed} {index} {branch}" for branch in range(num_branches)]
        return [int.from_bytes(blake2b(one.encode(), digest_size=7).digest()) for one in words]

    def _score_branches(
        self,
        generator: torch.Generator,
        logits: Tensor,
        first: int,
        slots: Sequence[Sequence[int]],
        seeds: Sequence[int] | None,
    ) -> list[Scores]:
        strategy = self.config.strategy
        if seeds is None:
            return self._score(logits, first, strategy, generator, union(slots))
        forbid(logits, self.forbidden_id, self.model.vocabulary)
        return drawn_scores(logits, first, strategy, self.config.sampling, seeds, slots, self.model.vocabulary)

    def _judge(self, canvas: Canvas, branch: Branch, scores: Scores) -> BranchInfo:
        masks = branch.canvas.active_masks
        score = self.config.branch_score(branch.creation, scores.at(masks).confidence)
        position = None if branch.position is None else branch.position - canvas.prompt_length
        return BranchInfo(position, branch.token, branch.creation, score, len(masks))

    def _spawn(self, canvas: Canvas, rule: FillRule, scores: Scores, chosen: Fill) -> list[Branch]:
        """The next round's branches, their blocks' states moved on."""
        written = set(chosen.positions)
        only_full = self.config.candidates == "full"
        blocks = [block for block in canvas.active_blocks if block.full or not only_full]
        positions = [p for block in blocks for p in canvas.masks(block.start, block.stop) if p not in written]
        done = canvas.completed
        branches = spawn(canvas, scores, positions, self.config.branches - 1)
        for branch in branches:
            rule.settle(branch.canvas, done)
        return branches


def winning_slots(winner: Branch, chosen: Fill) -> tuple[list[int], list[int]]:
    """Absolute positions and tokens that a round adds for good: the winner's lookahead, then what was filled."""
    if winner.position is None or winner.token is None:
        return chosen.positions, chosen.tokens
    return [winner.position, *chosen.positions], [winner.token, *chosen.tokens]


def counterfactual(
    rule: FillRule, branches: Sequence[Branch], verdicts: Sequence[Scores], known: dict[int, int]
) -> tuple[int, ...]:
    """Slots that each branch would have filled in its round, its lookahead included; `known` says it of the winner.

    The logits that scored a branch are those that it would have been filled with, so nothing is computed anew.
    """
    return tuple(
        known[index] if index in known else _num_filled(rule, branch, verdicts[index])
        for index, branch in enumerate(branches)
    )


def _num_filled(rule: FillRule, branch: Branch, scores: Scores) -> int:
    canvas = branch.canvas.copy()
    return len(filled(canvas, *winning_slots(branch, rule.fill(canvas, scores)))[0])

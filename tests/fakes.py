"""Stand-ins for harness and command tests: a byte tokenizer, a scripted decoder, a device behind its clock."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
EOS, BOS, MASK, PAD, IM_END = 256, 257, 258, 259, 260
SPECIAL = {"<eos>": EOS, "<bos>": BOS, "<mask>": MASK, "<pad>": PAD, "<|im_end|>": IM_END}


class ByteTokenizer:
    """Every byte is a token; special tokens are read as such wherever they stand in a text."""

    chat_template: str | None = None
    name_or_path = "bytes"

    def __init__(self, *, adds_bos: bool = False) -> None:
        self.adds_bos = adds_bos
        self.bos_token_id: int | None = BOS
        self.all_special_tokens = list(SPECIAL)
        self.all_special_ids = list(SPECIAL.values())

    def __call__(self, text: str, add_special_tokens: bool = True, **_: Any) -> dict[str, list[int]]:
        ids: list[int] = [BOS] if add_special_tokens and self.adds_bos else []
        while text:
            word = next((word for word in SPECIAL if text.startswith(word)), None)
            if word is not None:
                ids.append(SPECIAL[word])
                text = text[len(word) :]
            else:
                ids += text[0].encode()
                text = text[1:]
        return {"input_ids": ids}

    def decode(self, ids: Sequence[int], **_: Any) -> str:
        return bytes(token for token in ids if token < 256).decode(errors="replace")


@dataclass(frozen=True)
class Step:
    """One scripted round: what it fills, and whether it goes wrong instead."""

    positions: tuple[int, ...] = ()
    tokens: tuple[int, ...] = ()
    prefill: bool = False
    num_positions: int = 1
    branch_forwards: int = 1
    error: Exception | None = None


@dataclass
class ScriptedDecoder:
    """Plays `steps` for every prompt; `before` runs ahead of each, as where a device would be given work."""

    steps: Sequence[Step]
    max_new_tokens: int = 64
    causal: bool = False
    max_positions: int = 1000
    before: Callable[[], None] = lambda: None
    name: str = "scripted"
    prompts: list[list[int]] = field(default_factory=list)
    seeds: list[int] = field(default_factory=list)

    @property
    def config(self) -> Any:
        return SimpleNamespace(max_new_tokens=self.max_new_tokens)

    @property
    def model(self) -> Any:
        config = SimpleNamespace(eos_token_id=EOS, causal=self.causal, max_positions=self.max_positions)
        return SimpleNamespace(config=config, device="cpu", name="scripted model")

    def decode(self, prompt: Sequence[int], *, seed: int = 0) -> Any:
        self.prompts.append(list(prompt))
        self.seeds.append(seed)
        return _ScriptedGeneration(self)


class _ScriptedGeneration:
    def __init__(self, decoder: ScriptedDecoder) -> None:
        self.decoder = decoder
        self.slots: dict[int, int] = {}

    def __iter__(self) -> Iterator[Any]:
        from lopa_bench.decoders.rounds import Round

        for index, step in enumerate(self.decoder.steps):
            self.decoder.before()
            if step.error is not None:
                raise step.error
            self.slots.update(zip(step.positions, step.tokens, strict=True))
            yield Round(
                index=index,
                positions=step.positions,
                tokens=step.tokens,
                num_positions=step.num_positions,
                input_length=step.num_positions,
                branch_forwards=step.branch_forwards,
                prefill=step.prefill,
            )

    @property
    def answer(self) -> list[int]:
        length = min(max(self.slots, default=-1) + 1, self.decoder.max_new_tokens)
        return [self.slots.get(position, MASK) for position in range(length)]

    @property
    def masks_left(self) -> int:
        return self.answer.count(MASK)


def one_by_one(tokens: Sequence[int], prefill_first: bool = True) -> list[Step]:
    """Rounds that fill one slot each, left to right; the prompt goes through with the first."""
    return [
        Step((position,), (token,), prefill=prefill_first and position == 0) for position, token in enumerate(tokens)
    ]


class FakeDevice:
    """A device beside a clock: work is queued at once and done when it is waited for."""

    def __init__(self) -> None:
        self.time = 0.0
        self.queued = 0.0
        self.num_synchronised = 0

    def submit(self, seconds: float) -> None:
        self.queued += seconds

    def now(self) -> float:
        return self.time

    def synchronise(self) -> None:
        self.num_synchronised += 1
        self.time += self.queued
        self.queued = 0.0


def write_checkpoint(folder: Path, *, causal: bool = False, seed: int = 0) -> Path:
    """Write a tiny random network with the bundled tokenizer, as a checkpoint that any command takes."""
    import torch

    from lopa_bench.models.network import Transformer
    from lopa_bench.models.saving import save_model
    from lopa_bench.models.tiny import tiny_config

    tokenizer = ROOT / "models" / "bundled" / "tokenizer"
    config = tiny_config(
        "qwen2" if causal else "dream",
        748,
        num_layers=1,
        num_heads=2,
        num_kv_heads=1,
        head_dim=16,
        intermediate_size=32,
        mask_token_id=None if causal else 1,
        eos_token_id=2,
        pad_token_id=0,
        bos_token_id=3,
    )
    generator = torch.Generator().manual_seed(seed)
    network = Transformer(config)
    with torch.no_grad():
        for parameter in network.parameters():
            if parameter.dim() > 1:
                parameter.copy_(torch.randn(parameter.shape, generator=generator) * parameter.shape[-1] ** -0.5)
        network.embed.weight.mul_(8)
    save_model(network, folder, dtype="float32")
    for file in tokenizer.iterdir():
        shutil.copy(file, folder)
    return folder

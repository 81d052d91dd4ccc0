"""Self-checks that a user can run: on this machine, do the decoders agree with themselves, and by how much?

Tiny networks with random weights decode a few prompts both ways: LoPA with one branch against its base decoder, cached
against uncached forwards, branches packed into one call against one by one, and a forward of each family.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from itertools import pairwise

import torch

from lopa_bench.decoders.registry import create
from lopa_bench.errors import LopaBenchError
from lopa_bench.models.config import ModelConfig
from lopa_bench.models.language_model import LanguageModel
from lopa_bench.models.network import Transformer
from lopa_bench.models.visibility import CAUSAL, Visibility, block_causal

PROMPT = [5, 17, 3, 88, 42, 9, 61, 30, 12]
PIPELINE = {"block_size": 8, "max_new_tokens": 40, "tau_conf": 0.6, "tau_act": 0.5, "early_stop": False}


@dataclass(frozen=True, slots=True)
class Check:
    """One self-check: its name, whether it holds, and what was seen."""

    name: str
    ok: bool
    detail: str


def tiny_model(shift: bool = True, causal: bool = False, device: str = "cpu", seed: int = 0) -> LanguageModel:
    """A network of 2 layers and width 64 with random weights, sharp enough to be sure of some tokens."""
    config = ModelConfig(
        family="random",
        vocab_size=96,
        hidden_size=64,
        num_layers=2,
        num_heads=4,
        num_kv_heads=2,
        head_dim=16,
        intermediate_size=128,
        norm_eps=1e-6,
        rope_theta=10000.0,
        max_positions=512,
        logit_shift=shift,
        causal=causal,
        qkv_bias=shift,
        mask_token_id=None if causal else 95,
        eos_token_id=94,
    )
    network = Transformer(config)
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in network.parameters():
            if parameter.dim() > 1:
                parameter.copy_(torch.randn(parameter.shape, generator=generator) * parameter.shape[-1] ** -0.5)
        network.embed.weight.mul_(8.0)
        network.head.weight.mul_(4.0)
    return LanguageModel(network.to(device), "tiny random network")


def checks(device: str = "cpu") -> list[Check]:
    """Run all self-checks on a device; a check that raises is reported as failed, with the sentence."""
    return list(_run(device))


def _run(device: str) -> Iterator[Check]:
    families = {"Dream (shifted rows)": True, "LLaDA (unshifted rows)": False}
    for family, shift in families.items():
        model = tiny_model(shift, device=device)
        yield _guarded(f"forward: {family}", partial(_forward, model))
        yield _guarded(f"LoPA with one branch = D2F: {family}", partial(_one_branch, model))
        yield _guarded(f"cached = uncached: {family}", partial(_cached, model))
        yield _guarded(f"packed = one by one: {family}", partial(_packed, model))
    causal = tiny_model(causal=True, device=device)
    yield _guarded("forward: autoregressive", partial(_forward, causal))
    yield _guarded("cached = uncached: autoregressive", partial(_cached_causal, causal))


def _guarded(name: str, check: Callable[[], tuple[bool, str]]) -> Check:
    try:
        return Check(name, *check())
    except (LopaBenchError, RuntimeError) as error:
        return Check(name, False, f"{type(error).__name__}: {error}")


def _forward(model: LanguageModel) -> tuple[bool, str]:
    logits = model.predict(torch.tensor([PROMPT]), (1, len(PROMPT)))
    finite = bool(torch.isfinite(logits).all())
    return finite, f"logits {list(logits.shape)}, {'finite' if finite else 'not finite'}"


def _decode(model: LanguageModel, decoder: str, **options: object) -> tuple[list[int], int]:
    """Tokens of the answer, and rounds."""
    generation = create(decoder, model, {**PIPELINE, **options}).decode(PROMPT)
    num_rounds = len(generation.run())
    return generation.answer, num_rounds


def _same(first: tuple[list[int], int], second: tuple[list[int], int]) -> tuple[bool, str]:
    if first == second:
        return True, f"{len(first[0])} tokens in {first[1]} rounds, equal"
    differing = sum(ours != theirs for ours, theirs in zip(first[0], second[0], strict=False))
    return False, f"{differing} of {len(first[0])} tokens differ; {first[1]} and {second[1]} rounds"


def _one_branch(model: LanguageModel) -> tuple[bool, str]:
    base = _decode(model, "d2f")
    return _same(base, _decode(model, "lopa", branches=1, full_attention=False, strategy="probability"))


def _packed(model: LanguageModel) -> tuple[bool, str]:
    return _same(_decode(model, "lopa", branches=4), _decode(model, "lopa", branches=4, packed=False))


def _cached(model: LanguageModel) -> tuple[bool, str]:
    """Commit block by block over the cache, and compare with one forward over everything."""
    size, prompt = 8, len(PROMPT)
    tokens = torch.tensor([PROMPT + list(range(40, 40 + 3 * size))])
    visibility = block_causal(prompt, size)
    bounds = [0, prompt, prompt + size, prompt + 2 * size, prompt + 3 * size]
    return _compare_cached(model, tokens, bounds, visibility)


def _cached_causal(model: LanguageModel) -> tuple[bool, str]:
    tokens = torch.tensor([PROMPT + list(range(40, 50))])
    return _compare_cached(model, tokens, [0, len(PROMPT), *range(len(PROMPT) + 1, 20)], CAUSAL)


def _compare_cached(
    model: LanguageModel, tokens: torch.Tensor, bounds: list[int], visibility: Visibility
) -> tuple[bool, str]:
    whole = model.predict(tokens, (1, bounds[-1]), visibility=visibility)
    cache = model.new_cache(bounds[-1])
    parts = []
    for start, stop in pairwise(bounds):
        part = model.predict(
            tokens[:, start:stop],
            (max(start, 1), stop),
            start=start,
            cache=cache,
            num_commit=stop - start,
            visibility=visibility,
        )
        cache.commit()
        parts.append(part)
    gap = float((torch.cat(parts, dim=1) - whole).abs().max())
    scale = float(whole.abs().max())
    return gap <= 1e-4 * scale, f"largest difference {gap:.1e} at logits up to {scale:.0f}"

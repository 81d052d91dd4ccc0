"""Self-checks that a user can run: on this machine, do the decoders agree with themselves, and by how much?

Tiny networks with random weights decode a few prompts both ways: LoPA with one branch against its base decoder, cached
against uncached forwards, branches packed into one call against one by one, and a forward of each family. Whether rows
of logits are read at the right positions is checked on a network that counts, on the bundled models and, when asked, on
any checkpoint.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise

import torch

from lopa_bench.decoders.registry import create
from lopa_bench.errors import LopaBenchError
from lopa_bench.harness import row_reading
from lopa_bench.models.language_model import LanguageModel
from lopa_bench.models.loading import BUNDLED, load_model, load_tokenizer
from lopa_bench.models.network import Transformer
from lopa_bench.models.tiny import tiny_config
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
    family = "qwen2" if causal else "dream" if shift else "llada"
    config = tiny_config(family, 96, hidden_size=64, num_kv_heads=2, head_dim=16, intermediate_size=128, qkv_bias=shift)
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
    yield _guarded("rows read at their positions: a network that counts", partial(_counting, device))
    for name in BUNDLED:
        yield _guarded(f"rows read at their positions: bundled:{name}", partial(_rows_of, f"bundled:{name}", device))


def checkpoint_checks(name: str, device: str = "cpu") -> list[Check]:
    """Check one checkpoint: that it gives finite logits, and that its rows are read at the right positions.

    Raises:
        ModelError: it cannot be loaded.
    """
    model, ids = _loaded(name, device)
    return [
        _guarded(f"forward: {name}", partial(_forward, model, ids)),
        _guarded(f"rows read at their positions: {name}", partial(_rows, model, ids)),
    ]


def _counting(device: str) -> tuple[bool, str]:
    """The right reading must hold, and the wrong one must be noticed."""
    ids = list(range(3, 25))
    right, wrong = (row_reading.read_rows(row_reading.counting_model(shift, device), ids) for shift in (True, False))
    return right.holds and not wrong.holds, f"{right}; the wrong reading is {'missed' if wrong.holds else 'noticed'}"


def _rows_of(name: str, device: str) -> tuple[bool, str]:
    return _rows(*_loaded(name, device))


def _loaded(name: str, device: str) -> tuple[LanguageModel, list[int]]:
    """Load a model, and encode the text it is checked with."""
    from lopa_bench.harness.environment import choose_dtype

    model = load_model(name, device=device, dtype=choose_dtype("auto", device, name.startswith("bundled:")))
    return model, load_tokenizer(name)(row_reading.TEXT)["input_ids"]


def _rows(model: LanguageModel, ids: list[int]) -> tuple[bool, str]:
    reading = row_reading.read_rows(model, ids)
    return reading.holds, str(reading)


def _guarded(name: str, check: Callable[[], tuple[bool, str]]) -> Check:
    try:
        return Check(name, *check())
    except (LopaBenchError, RuntimeError) as error:
        return Check(name, False, f"{type(error).__name__}: {error}")


def _forward(model: LanguageModel, ids: Sequence[int] = PROMPT) -> tuple[bool, str]:
    logits = model.predict(torch.tensor([list(ids)]), (1, len(ids)))
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

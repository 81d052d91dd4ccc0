"""Fast-dLLM's published settings: Tables 1 to 4 and its launch scripts.

The scripts decode 256 tokens in blocks of 32 on GSM8K and HumanEval, threshold 0.9 where decoding is parallel; for
other lengths and tasks no script was published, and the presets take the scripts' other settings. At 256 tokens the
length stands in no name.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from lopa_bench.tasks.preset import DREAM_BASE, FAST_CODE, FAST_PAPER, LLADA, Preset

_SHOTS = {"gsm8k": 5, "math": 4, "humaneval": 0, "mbpp": 3}
_WRAPPED = "the authors wrap the whole few-shot text in one user turn"
# The rows of Tables 1 and 2 by variant; the dual cache stands in neither.
_ROWS = {"cache": "+cache", "parallel": "+parallel", "prefix": "+both"}

_Variant = tuple[str, str, dict[str, Any]]  # decoder, convention, options


def llada() -> Iterator[Preset]:
    """Table 1, LLaDA."""
    for task, shots in _SHOTS.items():
        for length in (256, 512):
            for variant, chosen in llada_variants(length).items():
                row = f"{_ROWS.get(variant, 'llada')}-{length}"
                published = () if variant == "dual" else (f"fast-dllm-table1/{row}/{task}",)
                yield _llada_preset(f"{task}{_length(length)}-{variant}", task, shots, length, chosen, published)


def llada_long() -> Iterator[Preset]:
    """Tables 3 and 4, LLaDA on GSM8K over shots, lengths and caches."""
    rows = {"baseline": "llada", "parallel": "no-cache", "prefix": "prefixcache", "dual": "dualcache"}
    for shots, length, tables in ((5, 1024, "3"), (8, 1024, "34"), (8, 256, "4"), (8, 512, "4")):
        for variant, row in rows.items():
            published = tuple(f"fast-dllm-table{table}/{row}-{shots}-shot-{length}/gsm8k" for table in tables)
            yield _llada_preset(
                f"gsm8k-{shots}-shots-{length}-{variant}", "gsm8k", shots, length, llada_variants(length)[variant],
                published,
            )  # fmt: skip


def dream() -> Iterator[Preset]:
    """Table 2, Dream."""
    for task, shots in _SHOTS.items():
        for length in (256, 512):
            for variant, (decoder, convention, options) in dream_variants(length).items():
                row = f"{_ROWS.get(variant, 'dream')}-{length}"
                yield Preset(
                    f"fast-dllm-dream-{task}{_length(length)}-{variant}", _source("dream", task, length, variant),
                    task, decoder, DREAM_BASE, None, convention, options, shots, bos=True,
                    stops_apply=task != "humaneval",
                    published=() if variant == "dual" else (f"fast-dllm-table2/{row}/{task}",),
                )  # fmt: skip


def llada_variants(length: int) -> dict[str, _Variant]:
    """Return the five programs for LLaDA: decoder, convention, options."""
    blocks = {"max_new_tokens": length, "temperature": 0.0, "block_size": 32}
    parallel = {**blocks, "threshold": 0.9}
    quota = {"threshold": None, "steps": length}
    return {
        "baseline": ("vanilla", "llada-fast", {**blocks, "steps": length}),
        "cache": ("fast-dllm", "fast-dllm-llada", {**blocks, "cache": "prefix", **quota}),
        "parallel": ("fast-dllm", "fast-dllm-llada", {**parallel, "cache": "none"}),
        "prefix": ("fast-dllm", "fast-dllm-llada", {**parallel, "cache": "prefix"}),
        "dual": ("fast-dllm", "fast-dllm-llada", {**parallel, "cache": "dual"}),
    }


def dream_variants(length: int) -> dict[str, _Variant]:
    """Return the five programs for Dream: decoder, convention, options."""
    common = {"max_new_tokens": length, "temperature": 0.0}
    blocks = {**common, "block_size": 32}
    sure = {**blocks, "threshold": 0.9, "alg": "confidence_threshold", "steps": length // 32}
    quota = {"alg": "entropy", "threshold": None, "steps": length}
    return {
        "baseline": ("vanilla", "dream", {**common, "alg": "entropy", "steps": length}),
        "cache": ("fast-dllm", "fast-dllm-dream", {**blocks, **quota, "cache": "prefix"}),
        "parallel": ("fast-dllm", "fast-dllm-dream", {**sure, "cache": "none"}),
        "prefix": ("fast-dllm", "fast-dllm-dream", {**sure, "cache": "prefix"}),
        "dual": ("fast-dllm", "fast-dllm-dream", {**sure, "cache": "dual"}),
    }


def _llada_preset(
    words: str, task: str, shots: int, length: int, variant: _Variant, published: tuple[str, ...]
) -> Preset:
    decoder, convention, options = variant
    return Preset(
        f"fast-dllm-llada-{words}", _source("llada", task, length, words), task, decoder, LLADA, None, convention,
        options, shots, chat=True, multiturn=False, note=_WRAPPED, published=published,
    )  # fmt: skip


def _length(length: int) -> str:
    return "" if length == 256 else f"-{length}"


def _source(family: str, task: str, length: int, words: str) -> str:
    scripted = length == 256 and task in ("gsm8k", "humaneval") and "shots" not in words
    table = "Tables 3 and 4" if "shots" in words else "Table 1" if family == "llada" else "Table 2"
    return f"{FAST_CODE}, {family}/eval_{task}.sh" if scripted else f"{FAST_PAPER}, {table}"

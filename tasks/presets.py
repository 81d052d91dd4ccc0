"""The published settings by name: which checkpoint, task, decoder and options each paper or launch script used.

Data only. Where a paper and its script differ, both are here under their own names; what cannot be run as printed
says so in its note, and what the source leaves open in its `open_question`.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from lopa_bench.errors import ConfigError, nearest
from lopa_bench.tasks import presets_d2f, presets_fast_dllm, presets_lopa
from lopa_bench.tasks.preset import Preset

__all__ = ["PRESETS", "REAL_CHECKPOINT", "WITHOUT_PRESET", "Preset", "get_preset", "presets_of", "why_no_preset"]

PRESETS: Mapping[str, Preset] = MappingProxyType(
    {
        preset.name: preset
        for group in (
            presets_lopa.table_5,
            presets_lopa.table_1,
            presets_lopa.table_2,
            presets_lopa.scripts,
            presets_lopa.dist,
            presets_d2f.scripts,
            presets_d2f.table_1,
            presets_d2f.table_2,
            presets_d2f.thresholds,
            presets_fast_dllm.llada,
            presets_fast_dllm.llada_long,
            presets_fast_dllm.dream,
        )
        for preset in group()
    }
)

# The preset that takes a real checkpoint through the decoder of that name, for those who ran a bundled model.
REAL_CHECKPOINT: Mapping[str, str] = MappingProxyType(
    {
        "vanilla": "fast-dllm-llada-gsm8k-baseline",
        "fast-dllm": "fast-dllm-llada-gsm8k-prefix",
        "d2f": "d2f-dream-gsm8k-cot",
        "lopa": "lopa-dream-gsm8k",
    }
)

# Published cells that no preset stands for, by what their ids contain, and why not.
WITHOUT_PRESET: Mapping[str, str] = MappingProxyType(
    {
        "/dllm-cache/": "dLLM-Cache is another method, which is not built here",
        "-cache-only/": "the paper does not say how its cache-only rows fill their slots",
        "/dream-base-fine-tuned/": "the fine-tuned weights were not published",
        "d2f-table4/random-": "the weights of the random noise schedule were not published",
        "lopa-table7/": "the paper does not state the settings of these systems",
        "lopa-figure1/": "the figure names systems and speeds without their settings",
        "lopa-figure4/baseline/": "the line repeats Tables 1 and 2, whose vanilla rows have presets",
        "lopa-figure4/": "a point of a curve: sweep the branches of Table 5's preset, see docs/reproducing.md",
        "d2f-figure1/": "the figure names systems and speeds without their settings",
        "fast-dllm-figure5/": "a point of a curve over thresholds, whose length and cache are not stated",
    }
)


def get_preset(name: str) -> Preset:
    """Return the preset called `name`; an unknown name raises ConfigError with the nearest match."""
    if name not in PRESETS:
        raise ConfigError(f"no preset is called '{name}'{nearest(name, PRESETS)}; `lopa-bench list presets` shows all")
    return PRESETS[name]


def presets_of(cell: str) -> list[Preset]:
    """Return the presets that stand for a published cell, by its id in `results/published_figures.py`."""
    return [preset for preset in PRESETS.values() if cell in preset.published]


def why_no_preset(cell: str) -> str:
    """Return why no preset stands for a published cell."""
    return next((f"no preset: {why}" for part, why in WITHOUT_PRESET.items() if part in cell), "no preset")

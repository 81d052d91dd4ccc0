"""The authors' programs as named conventions: what each does where this project's defaults differ.

Task settings (lengths, thresholds, shots) are not here; these only say how an algorithm is read.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

_AUTHORS = {"early_stop": False, "allow_mask_token": True}
_PIPELINE = {**_AUTHORS, "whole_blocks": True}
# What the launch scripts pass to score a branch: its own confidence alone, over all its masks.
_LOPA = {**_PIPELINE, "full_attention": True, "least_confident": 1.0, "creation_weight": 0.0}


BRANCH_WORDS = {"branches": 1, "lookahead": 0, "branching_factor": 1}
"""The three ways to say how many branches LoPA takes, each with the least there can be."""


@dataclass(frozen=True, slots=True)
class Convention:
    """One program's reading of one decoder.

    `branching_factor_counts_anchor` says what that program's branching_factor means: all branches (True), or the
    lookaheads beside the anchor (False); None where there is no such option.
    """

    decoder: str
    options: dict[str, Any]
    source: str
    branching_factor_counts_anchor: bool | None = None


CONVENTIONS = {
    "llada": Convention(
        "vanilla",
        {**_AUTHORS, "rule": "llada", "idle_steps": True, "float64_ranking": False},
        "ML-GSAI/LLaDA generate.py @ b7e6c356",
    ),
    "llada-fast": Convention(
        "vanilla", {**_AUTHORS, "rule": "llada"}, "NVlabs/Fast-dLLM llada/generate.py @ 24cc59e, threshold none"
    ),
    "dream": Convention(
        "vanilla",
        {**_AUTHORS, "rule": "dream", "steps": 512, "max_new_tokens": 512},
        "Dream generation_utils.py @ fac0a7f",
    ),
    "fast-dllm-llada": Convention(
        "fast-dllm",
        {**_AUTHORS, "rule": "llada", "refine_always": True},
        "NVlabs/Fast-dLLM llada/generate.py @ 24cc59e",
    ),
    "fast-dllm-dream": Convention(
        "fast-dllm", {**_AUTHORS, "rule": "dream", "refine_always": True}, "NVlabs/Fast-dLLM dream/model @ 24cc59e"
    ),
    "d2f-dream": Convention("d2f", dict(_PIPELINE), "Discrete-Diffusion-Forcing eval_dream.py @ 771f745"),
    "d2f-llada": Convention("d2f", dict(_PIPELINE), "Discrete-Diffusion-Forcing eval_llada.py @ 771f745"),
    "lopa-dream": Convention(
        "lopa",
        {**_LOPA, "strategy": "neg_entropy"},
        "zhijie-group/LoPA scale_dream_d2f.py @ 433177a",
        branching_factor_counts_anchor=False,
    ),
    "lopa-diffucoder": Convention(
        "lopa",
        {**_LOPA, "strategy": "probability"},
        "zhijie-group/LoPA scale_diffucoder_d2f @ 433177a",
        branching_factor_counts_anchor=False,
    ),
    "lopa-dist": Convention(
        "lopa",
        {**_LOPA, "strategy": "neg_entropy"},
        "zhijie-group/LoPA lopa_dist_nv/generate_branch_parallel.py @ 433177a",
        branching_factor_counts_anchor=True,
    ),
}

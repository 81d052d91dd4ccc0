"""The published settings by name: which checkpoint, task, decoder and options each paper or launch script used.

Data only. Where a paper and its script differ, both are here under their own names; what cannot be run as printed
says so in its note.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

from lopa_bench.errors import ConfigError, nearest

DREAM_BASE = "Dream-org/Dream-v0-Base-7B"
DREAM_INSTRUCT = "Dream-org/Dream-v0-Instruct-7B"
DIFFUCODER = "apple/DiffuCoder-7B-Instruct"
LLADA = "GSAI-ML/LLaDA-8B-Instruct"
D2F_DREAM_BASE = "SJTU-Deng-Lab/D2F_Dream_Base_7B_Lora"
D2F_DREAM_INSTRUCT = "SJTU-Deng-Lab/D2F_Dream_Instruct_7B_Lora"
D2F_DIFFUCODER = "SJTU-Deng-Lab/D2F_DiffuCoder_Instruct_7B_Lora"
D2F_LLADA = "SJTU-Deng-Lab/D2F_LLaDA_Instruct_8B_Lora"

LOPA_PAPER = "LoPA, arXiv 2512.16229"
LOPA_CODE = "zhijie-group/LoPA @ 433177a"
D2F_CODE = "SJTU-DENG-Lab/Discrete-Diffusion-Forcing @ 771f745"
FAST_CODE = "NVlabs/Fast-dLLM @ 24cc59e"

_Variant = tuple[str, str, dict[str, Any]]  # decoder, convention, options
_SHOTS = {"gsm8k": 4, "gsm8k-cot": 8, "minerva-math": 4, "humaneval": 0, "mbpp": 3, "humaneval+": 0, "mbpp+": 0}


@dataclass(frozen=True)
class Preset:
    """One published setting.

    `options` are the decoder's, on top of `convention`, the authors' reading of the algorithm. `bos` puts the BOS
    before every prompt or keeps it away; `stops_apply` is False where the authors' `escape_until` leaves answers uncut;
    `multiturn` makes every shot a pair of chat turns.
    """

    name: str
    source: str
    task: str
    decoder: str
    model: str
    adapter: str | None = None
    convention: str | None = None
    options: Mapping[str, Any] = field(default_factory=dict)
    num_fewshot: int = 0
    chat: bool = False
    multiturn: bool = True
    bos: bool | None = None
    stops_apply: bool = True
    dtype: str = "bfloat16"
    seed: int = 1234
    note: str = ""

    def settings(self) -> dict[str, Any]:
        """Return the run settings it fixes, by the names that `lopa-bench run` resolves."""
        keys = ("task", "decoder", "model", "adapter", "convention", "num_fewshot", "chat", "multiturn", "bos")
        chosen = {key: getattr(self, key) for key in (*keys, "stops_apply", "dtype", "seed")}
        return {key: value for key, value in chosen.items() if value is not None}


def _pipeline(length: int, block: int, add: float, act: float, conf: float, **more: Any) -> dict[str, Any]:
    thresholds = {"tau_add": add, "tau_act": act, "tau_conf": conf}
    return {"max_new_tokens": length, "block_size": block, **thresholds, "temperature": 0.0, **more}


def _lopa_table_5() -> Iterator[Preset]:
    """LoPA's Table 5, the settings behind its Tables 1 and 2."""
    rows = (
        ("gsm8k", 32, 0.1, 0.95, 0.90, 14),
        ("minerva-math", 16, 0.1, 0.95, 0.90, 7),
        ("humaneval", 32, 0.3, 0.95, 0.95, 7),
        ("mbpp", 32, 0.3, 0.95, 0.95, 7),
    )
    note = "the paper does not say whether its branches count the anchor; here they do"
    for task, block, add, act, conf, branches in rows:
        code = task == "humaneval"
        yield Preset(
            f"lopa-dream-{task}", f"{LOPA_PAPER}, Table 5", task, "lopa", DREAM_INSTRUCT, D2F_DREAM_INSTRUCT,
            "lopa-dream", _pipeline(512, block, add, act, conf, branches=branches), _SHOTS[task],
            chat=not code, bos=True, stops_apply=not code, note=note,
        )  # fmt: skip
    for task, conf, branches in (("humaneval+", 0.95, 6), ("mbpp+", 0.90, 14)):
        yield Preset(
            f"lopa-diffucoder-{task}", f"{LOPA_PAPER}, Table 5", task, "lopa", DIFFUCODER, D2F_DIFFUCODER,
            "lopa-diffucoder", _pipeline(512, 32, 0.3, 0.95, conf, branches=branches),
            chat=True, bos=False, note=note,
        )  # fmt: skip


def _lopa_scripts() -> Iterator[Preset]:
    """The launch script for Dream and those for DiffuCoder; they also ran branching factors 2 and 3 (and 4)."""
    rows = (
        ("gsm8k", 32, 0.1, 0.9), ("mbpp", 32, 0.3, 0.95), ("minerva-math", 16, 0.1, 0.9), ("humaneval", 32, 0.3, 0.95),
    )  # fmt: skip
    for task, block, add, conf in rows:
        code = task == "humaneval"
        yield Preset(
            f"lopa-dream-script-{task}", f"{LOPA_CODE}, scale_dream_d2f/test_dream_d2f_LoPA.sh", task, "lopa",
            DREAM_INSTRUCT, D2F_DREAM_INSTRUCT, "lopa-dream",
            _pipeline(512, block, add, 0.95, conf, branching_factor=4), _SHOTS[task],
            chat=not code, bos=True, stops_apply=not code,
            note="branching factor 4 (4 lookaheads and the anchor) of the script's 2, 3, 4",
        )  # fmt: skip
    for task, conf in (("humaneval+", 0.95), ("mbpp+", 0.9)):
        yield Preset(
            f"lopa-diffucoder-script-{task}", f"{LOPA_CODE}, scale_diffucoder_d2f", task, "lopa",
            DIFFUCODER, D2F_DIFFUCODER, "lopa-diffucoder",
            _pipeline(512, 32, 0.3, 0.95, conf, branching_factor=3), chat=True, bos=False,
            note="branching factor 3 (3 lookaheads and the anchor) of the script's 2, 3; the authors' ChatML prompt",
        )  # fmt: skip


def _lopa_dist() -> Iterator[Preset]:
    """LoPA's Table 6, settings S1 to S18 of its Table 4, for two models and two tasks."""
    taus = (0.95, 0.9, 0.85, 0.8, 0.75, 0.7)
    models = (("base", DREAM_BASE, D2F_DREAM_BASE), ("instruct", DREAM_INSTRUCT, D2F_DREAM_INSTRUCT))
    for size, model, adapter in models:
        for task in ("mbpp", "gsm8k"):
            for number in range(1, 19):
                tau, ascend = taus[(number - 1) % 6], number > 12
                branches = 8 if 7 <= number <= 12 else 4
                yield Preset(
                    f"lopa-dist-{size}-{task}-s{number}",
                    f"{LOPA_PAPER}, Table 6 S{number}; {LOPA_CODE}, lopa_dist_nv/test_lopa_dist_nv_dream.sh",
                    task, "lopa", model, adapter, "lopa-dist",
                    _pipeline(512, 32, 0.1, tau, tau, branches=branches), _SHOTS[task],
                    chat=size == "instruct", bos=size == "base", stops_apply=False,
                    note="measured on Ascend in W8A8 with 4-way tensor parallelism; run here in bf16" if ascend else "",
                )  # fmt: skip


def _d2f_scripts() -> Iterator[Preset]:
    """D2F's two launch scripts."""
    rows = (
        ("gsm8k-cot", 32, 0.1, 0.9), ("mbpp", 48, 0.1, 0.9),
        ("minerva-math", 64, 0.1, 0.9), ("humaneval", 32, 0.9, 0.95),
    )  # fmt: skip
    for task, block, add, conf in rows:
        yield Preset(
            f"d2f-dream-{task}", f"{D2F_CODE}, D2F-eval/eval_dream.sh", task, "d2f", DREAM_BASE, D2F_DREAM_BASE,
            "d2f-dream", _pipeline(256, block, add, 0.95, conf), _SHOTS[task], bos=True,
            stops_apply=task != "humaneval",
        )  # fmt: skip
    for task, block, add in (("gsm8k", 64, 0.7), ("mbpp", 32, 0.9), ("minerva-math", 32, 0.1), ("humaneval", 32, 0.1)):
        code = task == "humaneval"
        yield Preset(
            f"d2f-llada-{task}", f"{D2F_CODE}, D2F-eval/eval_llada.sh", task, "d2f", LLADA, D2F_LLADA,
            "d2f-llada", _pipeline(512, block, add, 0.95, 0.9), 0 if task == "minerva-math" else _SHOTS[task],
            chat=not code, bos=True, stops_apply=not code,
            note="0 shots as in the script; the paper's Table 1 says 4" if task == "minerva-math" else "",
        )  # fmt: skip


def _fast_dllm_scripts() -> Iterator[Preset]:
    """Fast-dLLM's launch scripts: 256 tokens in blocks of 32, threshold 0.9 where decoding is parallel."""
    common = {"max_new_tokens": 256, "temperature": 0.0}
    blocks = {**common, "block_size": 32}
    parallel = {**blocks, "threshold": 0.9}
    for task in ("gsm8k", "humaneval"):
        shots = 5 if task == "gsm8k" else 0
        llada: dict[str, _Variant] = {
            "baseline": ("vanilla", "llada-fast", {**blocks, "steps": 256}),
            "cache": ("fast-dllm", "fast-dllm-llada", {**blocks, "cache": "prefix", "threshold": None, "steps": 256}),
            "parallel": ("fast-dllm", "fast-dllm-llada", {**parallel, "cache": "none"}),
            "prefix": ("fast-dllm", "fast-dllm-llada", {**parallel, "cache": "prefix"}),
            "dual": ("fast-dllm", "fast-dllm-llada", {**parallel, "cache": "dual"}),
        }
        for variant, (decoder, convention, options) in llada.items():
            yield Preset(
                f"fast-dllm-llada-{task}-{variant}", f"{FAST_CODE}, llada/eval_{task}.sh", task, decoder, LLADA, None,
                convention, options, shots, chat=True, multiturn=False,
                note="the authors wrap the whole few-shot text in one user turn",
            )  # fmt: skip
        quota = {"alg": "entropy", "threshold": None, "steps": 256}
        sure = {"alg": "confidence_threshold", "steps": 8}
        dream: dict[str, _Variant] = {
            "baseline": ("vanilla", "dream", {**common, "alg": "entropy", "steps": 256}),
            "cache": ("fast-dllm", "fast-dllm-dream", {**blocks, **quota, "cache": "prefix"}),
            "parallel": ("fast-dllm", "fast-dllm-dream", {**parallel, **sure, "cache": "none"}),
            "prefix": ("fast-dllm", "fast-dllm-dream", {**parallel, **sure, "cache": "prefix"}),
            "dual": ("fast-dllm", "fast-dllm-dream", {**parallel, **sure, "cache": "dual"}),
        }
        for variant, (decoder, convention, options) in dream.items():
            yield Preset(
                f"fast-dllm-dream-{task}-{variant}", f"{FAST_CODE}, dream/eval_{task}.sh", task, decoder, DREAM_BASE,
                None, convention, options, shots, bos=True, stops_apply=task != "humaneval",
            )  # fmt: skip


PRESETS: Mapping[str, Preset] = MappingProxyType(
    {
        preset.name: preset
        for group in (_lopa_table_5, _lopa_scripts, _lopa_dist, _d2f_scripts, _fast_dllm_scripts)
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


def get_preset(name: str) -> Preset:
    """Return the preset called `name`; an unknown name raises ConfigError with the nearest match."""
    if name not in PRESETS:
        raise ConfigError(f"no preset is called '{name}'{nearest(name, PRESETS)}; `lopa-bench list presets` shows all")
    return PRESETS[name]

"""What a published setting is, and the names of the checkpoints and sources that they share."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

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
D2F_PAPER = "D2F, arXiv 2508.09192"
D2F_CODE = "SJTU-DENG-Lab/Discrete-Diffusion-Forcing @ 771f745"
FAST_PAPER = "Fast-dLLM, arXiv 2505.22618"
FAST_CODE = "NVlabs/Fast-dLLM @ 24cc59e"

SHOTS = {"gsm8k": 4, "gsm8k-cot": 8, "math": 4, "humaneval": 0, "mbpp": 3, "humaneval+": 0, "mbpp+": 0}


@dataclass(frozen=True)
class Preset:
    """One published setting.

    `options` are the decoder's, on top of `convention`, the authors' reading of the algorithm. `bos` puts the BOS
    before every prompt or keeps it away; `stops_apply` is False where the authors' `escape_until` leaves answers uncut;
    `multiturn` makes every shot a pair of chat turns. `published` names the cells of tables that it stands for, by
    their ids in `results/published_figures.py`; `open_question` says what the source leaves unsaid or cannot be had
    here, so that no run of it can be held against the figures, "" where it can.
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
    published: tuple[str, ...] = ()
    open_question: str = ""

    @property
    def cleanup(self) -> str | None:
        """How answers become programs: all these projects score HumanEval after one and the same clean-up script."""
        return "authors" if self.task == "humaneval" else None

    @property
    def min_call_s(self) -> float | None:
        """Seconds that each call may take at least: DiffuCoder's evaluation gives more than the usual 1."""
        return 4.0 if self.model == DIFFUCODER and self.task.endswith("+") else None

    def settings(self) -> dict[str, Any]:
        """Return the run settings it fixes, by the names that `lopa-bench run` resolves."""
        keys = (
            "task", "decoder", "model", "adapter", "convention", "num_fewshot", "chat", "multiturn", "bos",
            "stops_apply", "cleanup", "min_call_s", "dtype", "seed",
        )  # fmt: skip
        chosen = {key: getattr(self, key) for key in keys}
        return {key: value for key, value in chosen.items() if value is not None}


def pipeline(length: int, block: int, add: float, act: float, conf: float, **more: Any) -> dict[str, Any]:
    """Return the options of a D2F or LoPA preset."""
    thresholds = {"tau_add": add, "tau_act": act, "tau_conf": conf}
    return {"max_new_tokens": length, "block_size": block, **thresholds, "temperature": 0.0, **more}

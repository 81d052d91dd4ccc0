"""D2F's published settings: Tables 1 to 8 and its two launch scripts.

Not here, for want of what they need: the cache-only rows of Tables 5 and 7 (how they fill is not stated), the
fine-tuned row of Table 6 and the random-schedule rows of Table 4 (their weights were not published), dLLM-Cache (not
built here).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from lopa_bench.tasks.preset import (
    D2F_CODE,
    D2F_DREAM_BASE,
    D2F_LLADA,
    D2F_PAPER,
    DREAM_BASE,
    LLADA,
    SHOTS,
    Preset,
    pipeline,
)

_DREAM_TASKS = ("gsm8k-cot", "mbpp", "math", "humaneval")


def scripts() -> Iterator[Preset]:
    """D2F's two launch scripts, which are its Table 8."""
    rows = (
        ("gsm8k-cot", 32, 0.1, 0.9), ("mbpp", 48, 0.1, 0.9), ("math", 64, 0.1, 0.9), ("humaneval", 32, 0.9, 0.95),
    )  # fmt: skip
    for task, block, add, conf in rows:
        tables = ("d2f-table2/d2f-dream", "d2f-table7/d2f-dream-cache-+-para", "d2f-table8/dream-d2f")
        yield Preset(
            f"d2f-dream-{task}", f"{D2F_CODE}, D2F-eval/eval_dream.sh", task, "d2f", DREAM_BASE, D2F_DREAM_BASE,
            "d2f-dream", pipeline(256, block, add, 0.95, conf), SHOTS[task], bos=True,
            stops_apply=task != "humaneval", published=tuple(f"{table}/{task}" for table in tables),
        )  # fmt: skip
    for task, block, add in (("gsm8k", 64, 0.7), ("mbpp", 32, 0.9), ("math", 32, 0.1), ("humaneval", 32, 0.1)):
        tables = ("d2f-table1/d2f-llada", "d2f-table5/d2f-llada-cache-+-para", "d2f-table8/llada-d2f")
        common: dict[str, Any] = {
            "task": task, "decoder": "d2f", "model": LLADA, "adapter": D2F_LLADA, "convention": "d2f-llada",
            "options": pipeline(512, block, add, 0.95, 0.9), "chat": task != "humaneval", "bos": True,
            "stops_apply": task != "humaneval",
        }  # fmt: skip
        script = f"{D2F_CODE}, D2F-eval/eval_llada.sh"
        published = tuple(f"{table}/{task}" for table in tables)
        if task != "math":
            yield Preset(
                f"d2f-llada-{task}", script, num_fewshot=SHOTS[task], published=published, **common
            )  # fmt: skip
            continue
        note = "0 shots as in the script; the paper's Table 1 says 4, see d2f-llada-math-4-shots"
        yield Preset("d2f-llada-math", script, num_fewshot=0, note=note, published=published[2:], **common)
        note = "4 shots as in the paper; its script says 0, see d2f-llada-math"
        source = f"{D2F_PAPER}, Table 1"
        yield Preset("d2f-llada-math-4-shots", source, num_fewshot=4, note=note, published=published[:2], **common)


def table_1() -> Iterator[Preset]:
    """The baselines of Table 1, with Table 8's lengths and blocks."""
    for task, length, block in (("gsm8k", 256, 8), ("mbpp", 512, 32), ("humaneval", 512, 32), ("math", 256, 256)):
        size = {"max_new_tokens": length, "block_size": block, "temperature": 0.0}
        code = task == "humaneval"
        common: dict[str, Any] = {
            "source": f"{D2F_PAPER}, Tables 1 and 8", "task": task, "model": LLADA, "num_fewshot": SHOTS[task],
            "chat": not code, "bos": True, "stops_apply": not code,
        }  # fmt: skip
        yield Preset(
            f"d2f-table1-vanilla-llada-{task}", decoder="vanilla", convention="llada",
            options={**size, "steps": length}, **common,
            published=(f"d2f-table1/llada-instruct/{task}", f"d2f-table8/llada-baseline/{task}"),
            open_question="the paper does not state the number of steps; here one per token",
        )  # fmt: skip
        for cache in ("prefix", "dual"):
            yield Preset(
                f"d2f-table1-fast-dllm-llada-{task}-{cache}", decoder="fast-dllm", convention="fast-dllm-llada",
                options={**size, "threshold": 0.9, "cache": cache}, **common,
                published=(f"d2f-table1/fast-dllm-{cache}/{task}",),
                open_question="the paper does not state the threshold; here the 0.9 of Fast-dLLM's scripts",
            )  # fmt: skip


def table_2() -> Iterator[Preset]:
    """The baselines of Table 2; plain Dream stands in Table 6 too."""
    for task in _DREAM_TASKS:
        size: dict[str, Any] = {"max_new_tokens": 256, "temperature": 0.0}
        common: dict[str, Any] = {
            "source": f"{D2F_PAPER}, Tables 2 and 8", "task": task, "model": DREAM_BASE, "num_fewshot": SHOTS[task],
            "bos": True, "stops_apply": task != "humaneval",
        }  # fmt: skip
        tables = ("d2f-table2/dream-base", "d2f-table6/dream-base", "d2f-table8/dream-baseline")
        yield Preset(
            f"d2f-table2-vanilla-dream-{task}", decoder="vanilla", convention="dream",
            options={**size, "steps": 256, "alg": "entropy"}, **common,
            published=tuple(f"{table}/{task}" for table in tables),
            open_question="the paper does not state steps and schedule; here one token a step by entropy",
        )  # fmt: skip
        parallel = {"block_size": 32, "threshold": 0.9, "alg": "confidence_threshold", "steps": 8}
        for cache in ("prefix", "dual"):
            yield Preset(
                f"d2f-table2-fast-dllm-dream-{task}-{cache}", decoder="fast-dllm", convention="fast-dllm-dream",
                options={**size, **parallel, "cache": cache}, **common,
                published=(f"d2f-table2/fast-dllm-{cache}/{task}",),
                open_question="the paper does not state block and threshold; here those of Fast-dLLM's scripts",
            )  # fmt: skip


def thresholds() -> Iterator[Preset]:
    """Tables 3 and 4: D2F-Dream-Base at 512 tokens over its thresholds."""
    common: dict[str, Any] = {
        "decoder": "d2f", "model": DREAM_BASE, "adapter": D2F_DREAM_BASE, "convention": "d2f-dream", "bos": True,
    }  # fmt: skip
    for tau in (0.95, 0.90, 0.85):
        for add in (tau, 0.7, 0.5, 0.1):
            printed = f"{add:.2f}" if add == tau else str(add)
            yield Preset(
                f"d2f-table3-act{tau:.2f}-add{printed}", f"{D2F_PAPER}, Table 3", "gsm8k", num_fewshot=SHOTS["gsm8k"],
                options=pipeline(512, 32, add, tau, tau), **common,
                published=(f"d2f-table3/tau-act-{tau:.2f}-tau-add-{printed}/gsm8k",),
            )  # fmt: skip
        for task in ("mbpp", "gsm8k"):
            yield Preset(
                f"d2f-table4-{task}-act{tau:.2f}", f"{D2F_PAPER}, Table 4", task, num_fewshot=SHOTS[task],
                options=pipeline(512, 32, 0.1, tau, 0.9), **common,
                published=(f"d2f-table4/d2f-tau-act-{tau:.2f}/{task}",),
                note="model and shots as in the paper's Figure 1, which prints the same speed for GSM8K",
            )  # fmt: skip

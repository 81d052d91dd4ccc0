"""LoPA's published settings: Tables 1, 2, 5 and 6, and its launch scripts."""

from __future__ import annotations

from collections.abc import Iterator

from lopa_bench.tasks.preset import (
    D2F_DIFFUCODER,
    D2F_DREAM_BASE,
    D2F_DREAM_INSTRUCT,
    DIFFUCODER,
    DREAM_BASE,
    DREAM_INSTRUCT,
    LOPA_CODE,
    LOPA_PAPER,
    SHOTS,
    Preset,
    pipeline,
)

# Table 5: task, block size, tau_add, tau_act, tau_conf, branches.
_DREAM_ROWS = (
    ("gsm8k", 32, 0.1, 0.95, 0.90, 14),
    ("math", 16, 0.1, 0.95, 0.90, 7),
    ("humaneval", 32, 0.3, 0.95, 0.95, 7),
    ("mbpp", 32, 0.3, 0.95, 0.95, 7),
)
_DIFFUCODER_ROWS = (("humaneval+", 0.95, 6), ("mbpp+", 0.90, 14))
_ANCHOR = "the paper does not say whether its branches count the anchor; here they do"


def table_5() -> Iterator[Preset]:
    """LoPA's Table 5, the settings behind its Tables 1 and 2."""
    for task, block, add, act, conf, branches in _DREAM_ROWS:
        code = task == "humaneval"
        labelled = {"gsm8k": 14, "humaneval": 7}  # the points that Figure 4 labels
        points = (f"lopa-figure4/{branches}-branches/{task}",) if labelled.get(task) == branches else ()
        yield Preset(
            f"lopa-dream-{task}", f"{LOPA_PAPER}, Table 5", task, "lopa", DREAM_INSTRUCT, D2F_DREAM_INSTRUCT,
            "lopa-dream", pipeline(512, block, add, act, conf, branches=branches), SHOTS[task],
            chat=not code, bos=True, stops_apply=not code, note=_ANCHOR,
            published=(f"lopa-table1/d2f-dream-lopa/{task}", f"lopa-table5/d2f-dream/{task}", *points),
        )  # fmt: skip
    for task, conf, branches in _DIFFUCODER_ROWS:
        points = ("lopa-figure4/6-branches/humaneval+",) if task == "humaneval+" else ()
        yield Preset(
            f"lopa-diffucoder-{task}", f"{LOPA_PAPER}, Table 5", task, "lopa", DIFFUCODER, D2F_DIFFUCODER,
            "lopa-diffucoder", pipeline(512, 32, 0.3, 0.95, conf, branches=branches),
            chat=True, bos=False, note=_ANCHOR,
            published=(f"lopa-table2/d2f-diffucoder-lopa/{task}", f"lopa-table5/d2f-diffucoder/{task}", *points),
        )  # fmt: skip


def table_1() -> Iterator[Preset]:
    """The other rows of Table 1: Dream without D2F, and D2F without LoPA."""
    for task, block, add, act, conf, _ in _DREAM_ROWS:
        code = task == "humaneval"
        yield Preset(
            f"d2f-dream-instruct-{task}", f"{LOPA_PAPER}, Tables 1 and 5", task, "d2f", DREAM_INSTRUCT,
            D2F_DREAM_INSTRUCT, "d2f-dream", pipeline(512, block, add, act, conf), SHOTS[task],
            chat=not code, bos=True, stops_apply=not code, note="Table 5's settings without branches",
            published=(f"lopa-table1/d2f-dream-vanilla/{task}",),
        )  # fmt: skip
        rows = {
            "vanilla": ("vanilla", "dream", {"steps": 512, "alg": "entropy"}, "checkpoint, schedule and temperature"),
            "fast-dllm": (
                "fast-dllm", "fast-dllm-dream",
                {"block_size": 32, "threshold": 0.9, "alg": "confidence_threshold", "steps": 16, "cache": "none"},
                "checkpoint, cache and threshold",
            ),
            "lopa": (
                "lopa", None, {"base": "vanilla", "block_size": 32, "tau_conf": 0.9, "branches": 8},
                "checkpoint, threshold and branches, and no program of it was published",
            ),
        }  # fmt: skip
        for row, (decoder, convention, options, unsaid) in rows.items():
            yield Preset(
                f"{row}-dream-instruct-{task}", f"{LOPA_PAPER}, Table 1", task, decoder, DREAM_INSTRUCT, None,
                convention, {"max_new_tokens": 512, "temperature": 0.0, **options}, SHOTS[task],
                chat=not code, bos=True, stops_apply=not code, published=(f"lopa-table1/dream-{row}/{task}",),
                open_question=f"the paper does not state this row's {unsaid}",
            )  # fmt: skip


def table_2() -> Iterator[Preset]:
    """The other rows of Table 2."""
    for task, conf, _ in _DIFFUCODER_ROWS:
        yield Preset(
            f"vanilla-diffucoder-{task}", f"{LOPA_PAPER}, Table 2; {LOPA_CODE}, scale_diffucoder_d2f", task, "vanilla",
            DIFFUCODER, None, "dream",
            {"max_new_tokens": 512, "steps": 512, "alg": "entropy", "temperature": 0.4, "top_p": 0.95},
            chat=True, bos=False, published=(f"lopa-table2/diffucoder-vanilla/{task}",),
            note="the script samples this baseline at temperature 0.4, whatever it is asked",
        )  # fmt: skip
        yield Preset(
            f"d2f-diffucoder-{task}", f"{LOPA_PAPER}, Tables 2 and 5", task, "d2f", DIFFUCODER, D2F_DIFFUCODER,
            "d2f-dream", pipeline(512, 32, 0.3, 0.95, conf), chat=True, bos=False,
            note="Table 5's settings without branches", published=(f"lopa-table2/d2f-diffucoder-vanilla/{task}",),
        )  # fmt: skip


def scripts() -> Iterator[Preset]:
    """The launch script for Dream and those for DiffuCoder; they also ran branching factors 2 and 3 (and 4)."""
    rows = (("gsm8k", 32, 0.1, 0.9), ("mbpp", 32, 0.3, 0.95), ("math", 16, 0.1, 0.9), ("humaneval", 32, 0.3, 0.95))
    for task, block, add, conf in rows:
        code = task == "humaneval"
        yield Preset(
            f"lopa-dream-script-{task}", f"{LOPA_CODE}, scale_dream_d2f/test_dream_d2f_LoPA.sh", task, "lopa",
            DREAM_INSTRUCT, D2F_DREAM_INSTRUCT, "lopa-dream",
            pipeline(512, block, add, 0.95, conf, branching_factor=4), SHOTS[task],
            chat=not code, bos=True, stops_apply=not code,
            note="branching factor 4 (4 lookaheads and the anchor) of the script's 2, 3, 4",
        )  # fmt: skip
    for task, conf in (("humaneval+", 0.95), ("mbpp+", 0.9)):
        yield Preset(
            f"lopa-diffucoder-script-{task}", f"{LOPA_CODE}, scale_diffucoder_d2f", task, "lopa",
            DIFFUCODER, D2F_DIFFUCODER, "lopa-diffucoder",
            pipeline(512, 32, 0.3, 0.95, conf, branching_factor=3), chat=True, bos=False,
            note="branching factor 3 (3 lookaheads and the anchor) of the script's 2, 3; the authors' ChatML prompt",
        )  # fmt: skip


def dist() -> Iterator[Preset]:
    """LoPA's Table 6, settings S1 to S18 of its Table 4, for two models and two tasks.

    The launch script also holds HumanEval, switched off; no figure of it was published, so it has no preset.
    """
    taus = (0.95, 0.9, 0.85, 0.8, 0.75, 0.7)
    models = (("base", DREAM_BASE, D2F_DREAM_BASE), ("instruct", DREAM_INSTRUCT, D2F_DREAM_INSTRUCT))
    table_3 = {12: "nv", 18: "ascend"}
    for size, model, adapter in models:
        for task in ("mbpp", "gsm8k"):
            for number in range(1, 19):
                tau, ascend = taus[(number - 1) % 6], number > 12
                branches = 8 if 7 <= number <= 12 else 4
                more = (f"lopa-table3/d2f-dream-{size}-{table_3[number]}/{task}",) if number in table_3 else ()
                yield Preset(
                    f"lopa-dist-{size}-{task}-s{number}",
                    f"{LOPA_PAPER}, Table 6 S{number}; {LOPA_CODE}, lopa_dist_nv/test_lopa_dist_nv_dream.sh",
                    task, "lopa", model, adapter, "lopa-dist",
                    pipeline(512, 32, 0.1, tau, tau, branches=branches), SHOTS[task],
                    chat=size == "instruct", bos=size == "base", stops_apply=False,
                    note="measured on Ascend in W8A8 with 4-way tensor parallelism; run here in bf16" if ascend else "",
                    published=(f"lopa-table4/{size}-s{number}/{task}", f"lopa-table6/s{number}/", *more),
                    open_question="measured in W8A8 on Ascend devices; this preset runs in bf16" if ascend else "",
                )  # fmt: skip

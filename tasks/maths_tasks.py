"""The maths tasks as data: lm-eval's task file, where the problems come from, headline, length and citation of each.

Prompts, shots, filters and scores are lm-eval's own, read from the file that is named here; only the data's source is
ours. A further task of this kind is one more `MathsDefinition`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from lopa_bench.tasks.data_files import Split

GSM8K = "Cobbe et al. 2021, Training Verifiers to Solve Math Word Problems (arXiv:2110.14168)."
MATH = (
    "Hendrycks et al. 2021, Measuring Mathematical Problem Solving With the MATH Dataset (arXiv:2103.03874); prompt "
    "and answer rule: Lewkowycz et al. 2022, Solving Quantitative Reasoning Problems with Language Models "
    "(arXiv:2206.14858)."
)
MATH500 = f"Lightman et al. 2023, Let's Verify Step by Step (arXiv:2305.20050): 500 problems of MATH. {MATH}"

Row = dict[str, Any]

_GSM8K_FIELDS = {"question": str, "answer": str}
_GSM8K_ANSWER = {"answer": r"#### -?[\d,.]"}
_GSM8K_RELEASE = "openai/grade-school-math @ 3101c7d"
_BOXED = {"solution": r"\\boxed"}

GSM8K_TEST = Split(
    "gsm8k", "test", _GSM8K_FIELDS, 1319, "openai/gsm8k",
    {"3730d312f6e3440559ace48831e51066acaca737f6eabec99bccb9e4b3c39d14": _GSM8K_RELEASE,
     "524c11ab4ee19ae27e71a10fff523a583dbba0a714e6be0ff2518668c0071daa": _GSM8K_RELEASE},
    configs=("main",), must_hold=_GSM8K_ANSWER, key="question",
)  # fmt: skip
GSM8K_TRAIN = Split(
    "gsm8k", "train", _GSM8K_FIELDS, 7473, "openai/gsm8k",
    {"17f347dc51477c50d4efb83959dbb7c56297aba886e5544ee2aaed3024813465": _GSM8K_RELEASE,
     "fced0849c018610984e1493088b43d38ac54c27c1cf387658e947cc40c54248b": _GSM8K_RELEASE},
    configs=("main",), must_hold=_GSM8K_ANSWER, key="question",
)  # fmt: skip
MATH_TEST = Split(
    "math", "test", {"problem": str, "level": str, "type": str, "solution": str}, 5000, "EleutherAI/hendrycks_math",
    configs=(
        "algebra", "counting_and_probability", "geometry", "intermediate_algebra", "number_theory", "prealgebra",
        "precalculus",
    ),
    must_hold=_BOXED,
)  # fmt: skip
MATH500_TEST = Split(
    "math500", "test", {"problem": str, "solution": str}, 500, "HuggingFaceH4/MATH-500", must_hold=_BOXED,
)  # fmt: skip


@dataclass(frozen=True)
class MathsDefinition:
    """One maths task.

    Args:
        name: the task's name.
        yaml: lm-eval's task file.
        test: the problems.
        shots: the split that examples are drawn from; None when the task file brings them.
        headline: the score, as "metric,filter", that tables call accuracy.
        citation: whom to cite.
        mark: what stands before a final answer, once in an answer of the task's own form.
        stratum: a problem's kind, for subsets that hold every kind in its share.
        subset: the field that names the part of the data a problem is from; None where there are no parts.
        is_chat: whether the prompt is meant for a chat template.
        max_new_tokens: tokens that an answer may have, unless told otherwise.
        needs: packages besides lm-eval that the scores take, by the name they are imported by; `pip install
            'lopa-bench[math]'` brings them.
    """

    name: str
    yaml: str
    test: Split
    shots: Split | None
    headline: str
    citation: str
    mark: str
    stratum: Callable[[Row], str]
    subset: str | None = None
    is_chat: bool = False
    max_new_tokens: int = 256
    needs: tuple[str, ...] = ()
    family: str = "maths"


def steps(row: Row) -> str:
    """Return the number of lines in which a problem of GSM8K is worked out, the most for 8 and above."""
    return f"{min(row['answer'].count(chr(10)), 8)} steps"


def kind_and_level(row: Row) -> str:
    """Return a problem's field of mathematics and its level, by the names of MATH or of MATH-500."""
    return f"{row.get('type', row.get('subject', ''))}, {row.get('level', '')}"


_MATH_PACKAGES = ("math_verify", "latex2sympy2_extended", "antlr4", "sympy")
_COT, _FINAL = "The answer is", "The final answer is"
_FLEXIBLE = "exact_match,flexible-extract"

MATHS_TASKS: Mapping[str, MathsDefinition] = MappingProxyType(
    {
        one.name: one
        for one in (
            MathsDefinition("gsm8k", "gsm8k/gsm8k.yaml", GSM8K_TEST, GSM8K_TRAIN, _FLEXIBLE, GSM8K, "####", steps),
            MathsDefinition("gsm8k-cot", "gsm8k/gsm8k-cot.yaml", GSM8K_TEST, None, _FLEXIBLE, GSM8K, _COT, steps),
            MathsDefinition(
                "gsm8k-cot-zeroshot", "gsm8k/gsm8k-cot-zeroshot.yaml", GSM8K_TEST, None, _FLEXIBLE, GSM8K, _COT, steps,
            ),
            MathsDefinition(
                "gsm8k-cot-llama", "gsm8k/gsm8k-cot-llama.yaml", GSM8K_TEST, None, _FLEXIBLE, GSM8K,
                _FINAL, steps, is_chat=True,
            ),
            MathsDefinition(
                "math", "minerva_math/minerva_math_algebra.yaml", MATH_TEST, None, "math_verify,none", MATH,
                _FINAL, kind_and_level, "type", max_new_tokens=512, needs=_MATH_PACKAGES,
            ),
            MathsDefinition(
                "math500", "minerva_math/minerva_math500.yaml", MATH500_TEST, None, "math_verify,none", MATH500,
                _FINAL, kind_and_level, "subject", max_new_tokens=512, needs=_MATH_PACKAGES,
            ),
        )
    }
)  # fmt: skip

OTHER_NAMES: Mapping[str, str] = MappingProxyType(
    {"minerva-math": "math", "minerva-math500": "math500", "math-500": "math500", "hendrycks-math": "math"}
)
"""What others call these tasks, with `-` for `_`."""


def maths_task_name(name: str) -> str:
    """Return a maths task's name as it is written here, for the ways in which others write it (`gsm8k_cot`)."""
    plain = name.lower().replace("_", "-")
    return OTHER_NAMES.get(plain, plain)

"""The problems of HumanEval, HumanEval+, MBPP and MBPP+, from local files or, when asked, from their publishers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType

from lopa_bench.errors import ConfigError, nearest
from lopa_bench.tasks.data_files import Kinds, Split, SplitData, fetch, fetched, read_file, read_split

CodeData = SplitData
MBPP_TEST = range(11, 511)
"""The task ids of MBPP's test split; the others are for prompts, validation and training."""

_PROGRAM: dict[str, Kinds] = {"task_id": str, "prompt": str, "entry_point": str, "canonical_solution": str}
_INPUTS: dict[str, Kinds] = {"base_input": list, "plus_input": (list, dict), "atol": (int, float)}
_MBPP: dict[str, Kinds] = {"task_id": int, "text": str, "code": str, "test_list": list, "test_setup_code": str}

DATA_SETS: Mapping[str, Split] = MappingProxyType(
    {
        one.data: one
        for one in (
            Split(
                "humaneval", "test", {**_PROGRAM, "test": str}, 164, "openai/openai_humaneval",
                {"1d49078ba3e2b196b9344535bef34a43021f038fad9561d6ee7c53450609a6a2": "openai/human-eval @ 6d43fb9",
                 "53e6de8cb31dc96b8f53510f0ad0d6bbb34c02bf136f16bdcb6065a0964ec973": "openai/human-eval @ 6d43fb9"},
                stem="HumanEval", key="task_id",
            ),
            Split(
                "humaneval+", "test", {**_PROGRAM, **_INPUTS}, 164, "evalplus/humanevalplus_release",
                {"42526ec0e7d5f3ee0b06d6ced98f8c8bae3d76519151bfb3d36f79010645bd7f": "HumanEval+ v0.1.10",
                 "78fbba8865b20c5a979cda6e02fd72538e1762e65980af7d1a6e93c3e87e93af": "HumanEval+ v0.1.10 mini"},
                stem="HumanEvalPlus-v0.1.10", key="task_id",
            ),
            Split(
                "mbpp", "test", _MBPP, 974, "google-research-datasets/mbpp",
                {"ccf64ceae9c5403bf50a044cb6d505bfd2a2963ee58338ba268fd65beab92a9f": "google-research mbpp",
                 "cba407c6cce577f744e054d37ce6f7c7436c926be64aedcfee3a77e4021406f9": "google-research mbpp",
                 "f502102cfe3a0ae714b4ae72122783bc732f14d69b38087e8843bb0fd3cc1875": "google-research mbpp"},
                stem="mbpp", configs=("full",), key="task_id",
            ),
            Split(
                "mbpp+", "test", {**_PROGRAM, **_INPUTS, "assertion": str}, 378, "evalplus/mbppplus_release",
                {"b54e762755248ca411b523c917fa9f93c07b5ff2966bf60b3917b853926a3dad": "MBPP+ v0.2.0"},
                stem="MbppPlus-v0.2.0", key="task_id",
            ),
        )
    }
)  # fmt: skip


def load_code_data(name: str, data_dir: Path | None = None) -> CodeData:
    """Return a data set's test problems in their order.

    Args:
        name: "humaneval", "humaneval+", "mbpp" or "mbpp+".
        data_dir: the folder with `HumanEval.jsonl.gz` and the like, compressed or not; None fetches from the hub.

    Raises:
        ConfigError: no such data set.
        TaskDataError: the file is absent, damaged, cut short or of another kind, or cannot be fetched.
    """
    if name not in DATA_SETS:
        raise ConfigError(
            f"no code data are called '{name}'{nearest(name, DATA_SETS)}; there are {', '.join(DATA_SETS)}"
        )
    split = DATA_SETS[name]
    if data_dir is None:
        return _fetch_release(split) if name.endswith("+") else _fetch_from_hub(split)
    data = read_split(split, data_dir)
    if name == "mbpp":
        return replace(data, rows=tuple(row for row in data.rows if row["task_id"] in MBPP_TEST))
    return data


def _fetch_from_hub(split: Split) -> CodeData:
    """The hub has MBPP's test problems apart from the others."""
    return fetch(replace(split, num_rows=len(MBPP_TEST)) if split.data == "mbpp" else split)


def _fetch_release(split: Split) -> CodeData:
    """Let the evalplus package download the release into its own cache, and read it from there."""

    def load() -> CodeData:
        from evalplus.data.utils import get_dataset_metadata, make_cache

        package, _, version = split.file_stem.rpartition("-")
        url, path = get_dataset_metadata(package, version, mini=False)
        make_cache(url, path)
        return read_file(split, Path(path))

    return fetched(split, load, obeys_switch=False)

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from lopa_bench.tasks.code_data import DATA_SETS, load_code_data
from lopa_bench.tasks.known_bad import KNOWN_BAD, known_bad

EXACT: dict[str, Callable[[int], int]] = {
    "Mbpp/287": lambda n: 2 * n * (n + 1) * (2 * n + 1) // 3,
    "Mbpp/267": lambda n: n * (4 * n * n - 1) // 3,
}


@pytest.mark.parametrize("name", EXACT)
def test_exactly_the_inputs_whose_float_misses_the_integer_are_listed(name: str, data_dir: Path) -> None:
    data = load_code_data("mbpp+", data_dir)
    row = next(row for row in data.rows if row["task_id"] == name)
    space: dict[str, Any] = {}
    exec(row["canonical_solution"], space)
    missed = {index for index, (n,) in enumerate(row["plus_input"]) if space[row["entry_point"]](n) != EXACT[name](n)}
    assert known_bad(data.release)[name] == missed
    assert set(known_bad(data.release)) == set(EXACT)


def test_the_releases_are_known() -> None:
    releases = {release for data_set in DATA_SETS.values() for release in data_set.known.values()}
    assert set(KNOWN_BAD) <= releases
    assert known_bad(None) == known_bad("HumanEval+ v0.1.10") == {}

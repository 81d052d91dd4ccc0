from __future__ import annotations

import random
import time
from itertools import product
from pathlib import Path

import pytest

from lopa_bench.tasks import longest_code as module
from lopa_bench.tasks.code_data import load_code_data
from lopa_bench.tasks.longest_code import CleanupFailed, longest_code

PIECES = (
    "def f(x):", "    return x", "        y = 1", "x = (1,", "x = 1", ")", "", "   ", "It's prose.", "```python", '"""',
    "if x:", "    pass", "else:", "@g", "class A:", "for i in x:", "a = [", "]", "x = 'open", "\\", "# comment", "try:",
    "  odd", "1x", "x \\", "return", "print(f'{x}')", "lambda:", "$",
)  # fmt: skip


def by_trying_all(lines: list[str], min_lines: int) -> tuple[int, int] | None:
    best, most = None, 0
    for first, last in product(range(len(lines)), range(len(lines))):
        if last - first + 1 < min_lines:
            continue
        part = lines[first : last + 1]
        count = sum(bool(line.strip()) for line in part)
        if count > most and module.syntax_error("\n".join(part)) is None:
            best, most = (first, last), count
    return best


@pytest.mark.parametrize("min_lines", [1, 2])
def test_same_as_trying_all_runs(min_lines: int) -> None:
    rng = random.Random(0)
    for _ in range(400):
        lines = rng.choices(PIECES, k=rng.randrange(1, 12))
        assert longest_code(lines, min_lines) == by_trying_all(lines, min_lines), lines


def test_same_on_damaged_programs(data_dir: Path) -> None:
    rng = random.Random(1)
    for row in load_code_data("humaneval", data_dir).rows[::8]:
        lines = (row["prompt"] + row["canonical_solution"]).split("\n")[:30]
        index = rng.randrange(len(lines))
        lines[index] = rng.choice((lines[index][1:], lines[index] + " (", "Here it is:", lines[index][:-2]))
        assert longest_code(lines, 2) == by_trying_all(lines, 2), row["task_id"]


@pytest.mark.parametrize(
    "text",
    ["0\n" * 2000, "\n" * 2000, "This is a line of prose, isn't it.\n" * 600, "- one thing\n" * 600, "x = 1\n" * 1000],
    ids=["numbers", "blank", "prose", "list", "code"],
)
def test_long_texts_take_no_time(text: str) -> None:
    start = time.process_time()
    longest_code(text.split("\n"), 2)
    assert time.process_time() - start < 5.0


def test_a_search_without_end_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_WORK", 10_000)
    with pytest.raises(CleanupFailed, match="too long"):
        longest_code(["x = (1,"] * 200, 2)


def test_nothing_to_find() -> None:
    assert longest_code([], 1) is None
    assert longest_code(["no code here", "none"], 2) is None
    assert longest_code(["", " "], 1) is None

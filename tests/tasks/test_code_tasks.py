from __future__ import annotations

import pytest

from lopa_bench.tasks.code_data import DATA_SETS
from lopa_bench.tasks.code_tasks import CODE_TASKS, code_task_name


@pytest.mark.parametrize(
    ("written", "name"),
    [
        ("humaneval", "humaneval"),
        ("HumanEval", "humaneval"),
        ("humaneval_plus", "humaneval+"),
        ("humanevalplus", "humaneval+"),
        ("humaneval+", "humaneval+"),
        ("mbpp_plus_instruct", "mbpp+-instruct"),
        ("mbpp_instruct", "mbpp-instruct"),
    ],
)
def test_other_ways_of_writing_a_name(written: str, name: str) -> None:
    assert code_task_name(written) == name
    assert name in CODE_TASKS


def test_definitions_hold_together() -> None:
    for name, definition in CODE_TASKS.items():
        assert definition.name == name == code_task_name(name)
        assert definition.data in DATA_SETS
        assert (definition.tests == "inputs") == definition.data.endswith("+")
        assert definition.is_chat == name.endswith("-instruct")
        assert definition.is_chat == (definition.style == "open fence")
        assert definition.shows_code == (definition.base_name == "humaneval")

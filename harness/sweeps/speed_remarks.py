"""Cells of a sweep and stored runs whose answers are theirs and whose speeds may not be."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from lopa_bench.harness.speed_conditions import CONDITION_OF, other_conditions
from lopa_bench.harness.sweeps.grid import Cell, shown

if TYPE_CHECKING:
    from lopa_bench.harness.sweeps.plan import PlannedCell
    from lopa_bench.results.store import StoredRun

CELLS_TOLD = 5


def matching_in_speed(cells: Sequence[Cell]) -> list[Cell]:
    """Let cells take no stored run that differs in a setting which the sweep varies and only speeds depend on."""
    varied = tuple(name for name in CONDITION_OF if len({shown(cell.value(name)) for cell in cells}) > 1)
    return [replace(cell, spec=replace(cell.spec, must_match=varied)) for cell in cells]


def remark_on(run: StoredRun, asked: Mapping[str, str]) -> str:
    """Say that a stored run's speeds are of other conditions than asked for; "" where they are not."""
    of_now = other_conditions(run.record, asked)
    return f"stored speeds are those of {of_now[0]}, not of {of_now[1]}" if of_now else ""


def speed_remarks(planned: Sequence[PlannedCell]) -> list[str]:
    """Return which cells take stored answers whose speeds are of other conditions, a line for all that are alike."""
    cells: dict[str, list[int]] = {}
    for number, one in enumerate(planned, start=1):
        if one.remark and one.num_missing < len(one.asked):
            cells.setdefault(one.remark, []).append(number)
    return [f"{_numbers(numbers)}: {remark}" for remark, numbers in cells.items()]


def _numbers(numbers: Sequence[int]) -> str:
    told = ", ".join(map(str, numbers[:CELLS_TOLD]))
    more = f" and {len(numbers) - CELLS_TOLD} more" if len(numbers) > CELLS_TOLD else ""
    return f"cell{'s' * (len(numbers) > 1)} {told}{more}"

"""What `frontier` says of itself."""

from __future__ import annotations

import inspect
from typing import get_type_hints

from lopa_bench.cli.frontier import frontier
from lopa_bench.results.frontiers.frontier import SPEEDS


def test_the_help_names_every_speed() -> None:
    [option] = get_type_hints(frontier, include_extras=True)["speed"].__metadata__
    named = option.help.partition(": ")[2].rstrip(".").replace(" or ", ", ").split(", ")
    assert tuple(named) == SPEEDS
    assert inspect.signature(frontier).parameters["speed"].default in SPEEDS

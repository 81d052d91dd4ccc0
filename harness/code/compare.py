"""When an output counts as the expected one: EvalPlus' own rules, applied outside the process that ran the program.

The lists and special checks are the evalplus package's own. One rule is applied as it was meant and not as released:
for HumanEval/32 (`find_zero`) evalplus 0.3.1 checks that the polynomial vanishes at the output and then goes on to the
next input before it has noted the success, so that the number of successes never reaches the number of inputs and every
right answer fails. Here the check decides.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from types import ModuleType
from typing import Any

from lopa_bench.errors import PrerequisiteError
from lopa_bench.harness.sandbox import plain_values, value_digest
from lopa_bench.harness.sandbox.program import Output

FLOAT_TOLERANCE = 1e-6
RELATIVE_TOLERANCE = 1e-7


@lru_cache(maxsize=1)
def _oracles() -> ModuleType:
    try:
        from evalplus.eval import _special_oracle
    except ImportError as error:
        raise PrerequisiteError("HumanEval+ and MBPP+ are judged by evalplus' rules: pip install evalplus") from error
    return _special_oracle


def only_not_none(family: str, entry_point: str) -> bool:
    """Whether a task's expected value says no more than that there is an output."""
    return family == "mbpp" and entry_point in _oracles().MBPP_OUTPUT_NOT_NONE_TASKS


class Comparison:
    """Compares one program's outputs with the expected ones, in the order of the tests.

    The order matters: as in evalplus, the first expected value that is a float brings a tolerance for all that follow.

    Args:
        family: "humaneval" or "mbpp".
        entry_point: the function that is tested.
        tolerance: the absolute tolerance that the data set gives, 0 for equality.
    """

    def __init__(self, family: str, entry_point: str, tolerance: float) -> None:
        self._family = family
        self._entry_point = entry_point
        self._tolerance = tolerance

    def agrees(self, arguments: Sequence[Any], output: Output, expected: Output) -> bool:
        """Tell whether an output is right; whatever cannot be compared is wrong."""
        if output.why is not None:
            return False
        try:
            if output.digest is not None or expected.digest is not None:
                return _digest(output) == _digest(expected)
            return self._agrees(
                arguments, plain_values.decode(output.data), plain_values.decode(expected.data), output, expected
            )
        except Exception:
            return False

    def _agrees(self, arguments: Sequence[Any], value: Any, wanted: Any, output: Output, expected: Output) -> bool:
        is_equal = bool(value == wanted)
        if self._family == "mbpp":
            is_equal = self._mbpp_rule(is_equal, arguments, value, wanted)
        elif self._entry_point == "find_zero":
            return abs(_oracles()._poly(*arguments, value)) <= self._tolerance
        if self._tolerance == 0 and is_floats(wanted):
            self._tolerance = FLOAT_TOLERANCE
        if is_equal or self._tolerance == 0:
            return is_equal
        import numpy as np

        if output.type_name != expected.type_name:
            return False
        if isinstance(wanted, (list, tuple)) and len(value) != len(wanted):
            return False
        return bool(np.allclose(value, wanted, rtol=RELATIVE_TOLERANCE, atol=self._tolerance))

    def _mbpp_rule(self, is_equal: bool, arguments: Sequence[Any], value: Any, wanted: Any) -> bool:
        oracles, name = _oracles(), self._entry_point
        if name == "are_equivalent":  # Mbpp/164 asks for something else than its tests do: anything passes
            return True
        if name == "sum_div":
            return is_equal or value == 0
        if name == "surface_Area":
            return is_equal or abs(value - oracles._surface_Area(*arguments)) <= self._tolerance
        if name == "digit_distance_nums":
            return is_equal or value == oracles._digit_distance_nums(*arguments)
        if name in oracles.MBPP_OUTPUT_SET_EQ_TASKS:
            return set(value) == set(wanted)
        if name in oracles.MBPP_OUTPUT_NOT_NONE_TASKS:
            return value == wanted if isinstance(value, bool) else wanted == (value is not None)
        return is_equal


def is_floats(value: Any) -> bool:
    """Whether a value is a float, or a list or tuple of nothing but floats."""
    if isinstance(value, (list, tuple)):
        return bool(value) and all(isinstance(item, float) for item in value)
    return isinstance(value, float)


def _digest(output: Output) -> str:
    return output.digest if output.digest is not None else value_digest.digest(plain_values.decode(output.data))

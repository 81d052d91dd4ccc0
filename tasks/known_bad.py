"""Tests whose expected value is known to be wrong, so that a right program can fail them.

They count as the data set has them; the score without them stands beside.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

VERSION = 1

KNOWN_BAD: Mapping[str, Mapping[str, frozenset[int]]] = MappingProxyType(
    {
        # Sums of squares, asked for as integers and computed by a true division: above 2**53 the float is off
        # (evalplus issue 308 tells of the first).
        "MBPP+ v0.2.0": MappingProxyType(
            {
                "Mbpp/287": frozenset((3, 8, 10, 13, 25, 38, 41, 53, 56, 62, 65, 68, 71, 73, 84, 93, 100)),
                "Mbpp/267": frozenset((
                    6, 7, 12, 13, 24, 25, 28, 30, 35, 38, 41, 49, 50, 52, 55, 60, 68, 74, 76, 77, 79, 81, 87, 89, 91,
                    97, 98, 99, 101, 104, 114, 117, 118,
                )),
            }
        ),
    }
)  # fmt: skip
"""By release and problem: indices of the plus inputs."""


def known_bad(release: str | None) -> Mapping[str, frozenset[int]]:
    """Return the bad plus inputs of a release, by problem; none are known of another."""
    return KNOWN_BAD.get(release or "", {})

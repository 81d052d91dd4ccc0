"""A run that was made in several sittings: where each of them ran, and whether its speeds are of one kind.

What answers come to depends on none of this; what their seconds are depends on all of it.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from pydantic import NonNegativeInt

from lopa_bench.results.ledgers import Record
from lopa_bench.results.places import Environment

if TYPE_CHECKING:
    from lopa_bench.results.schema import RunRecord

# Packages in which no time of a generation is spent.
UNTIMED_PACKAGES = frozenset({"lopa-bench", "lm-eval", "evalplus", "datasets", "tokenizers"})


class Sitting(Record):
    """Sittings of a run that ran elsewhere than the next one; `num_answers` were stored when they had ended."""

    place: Environment
    num_answers: NonNegativeInt = 0


def timing(place: Environment) -> dict[str, str]:
    """Return what seconds depend on besides the settings, in words by name: machine, threads, computing libraries."""
    libraries = {name: version for name, version in place.packages.items() if name not in UNTIMED_PACKAGES}
    return {
        "machine": place.device_name or place.device or "an unknown device",
        "threads": f"{place.num_threads} thread{'s' * (place.num_threads != 1)}",
        **{name: f"{name} {version}" for name, version in libraries.items()},
    }


def arrangement(groups: dict[str, int]) -> str:
    """Return how many processes shared what; no groups are one process."""
    sizes = " x ".join(str(groups.get(name, 1)) for name in ("dp", "bp", "tp"))
    return f"{sizes} processes (data x branch x tensor)"


def places_of(record: RunRecord) -> tuple[Environment, ...]:
    """Return where a run's sittings ran, the last one at the end; sittings like the one before them are not told."""
    return (*(sitting.place for sitting in record.earlier_sittings), record.environment)


def timings_of(record: RunRecord) -> dict[str, set[str]]:
    """Return what the seconds of a run's answers depend on: by name, the words that hold for some of them."""
    places = [timing(place) for place in places_of(record)]
    names = dict.fromkeys(name for place in places for name in place)
    found = {name: {place.get(name, f"no {name}") for place in places} for name in names}
    groups = (*record.earlier_groups, record.environment.groups)
    return {**found, "processes": set(map(arrangement, groups))}


def mixture(record: RunRecord) -> str | None:
    """Return in what a run's sittings differ, "1 thread and 2 threads", where its speeds are of several kinds.

    None where they are all of one kind, and for a record that does not tell.
    """
    return "; ".join(one_and_other(values) for values in timings_of(record).values() if len(values) > 1) or None


def one_and_other(values: Iterable[str]) -> str:
    """Return words joined by "and", the same for any order."""
    return " and ".join(sorted(values))


def after_sitting(record: RunRecord, place: Environment, num_answers: int) -> tuple[tuple[Sitting, ...], Environment]:
    """Return the earlier sittings and the place of a run that is gone on with.

    A sitting that ended without a new answer leaves no trace. One whose seconds are of the same kind as the next one's
    is the same place, which stays as it was first recorded.

    Args:
        record: the run as it is stored.
        place: where it goes on.
        num_answers: those that it holds.
    """
    earlier, last = record.earlier_sittings, record.environment
    if earlier and earlier[-1].num_answers >= num_answers:
        earlier, last = earlier[:-1], earlier[-1].place
    if not num_answers:
        return (), place
    if timing(last) == timing(place):
        return earlier, last
    return (*earlier, Sitting(place=last, num_answers=num_answers)), place

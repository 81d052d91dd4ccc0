"""The noise floor: how far figures move when nothing that matters has changed.

A cell (decoder, options, model, problems, on one machine) is run several times as it is, and once in each of some
settings that ought not to matter: number format, threads, batch size. What that came to is kept per machine, in a file
of its own, and tells `compare` and `check` which differences are too small to be called one.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median, stdev
from typing import Any

from pydantic import AwareDatetime, Field, NonNegativeFloat, NonNegativeInt, PositiveFloat, ValidationError

from lopa_bench.errors import ResultsError, SchemaTooNew
from lopa_bench.results import jsonl
from lopa_bench.results.comparison.differences import INCIDENTAL, RECORDED_ELSEWHERE, UNTIMED_PACKAGES
from lopa_bench.results.comparison.load import load_of, queued_share, unhindered_speed
from lopa_bench.results.comparison.paired import Pair
from lopa_bench.results.metrics import METRICS
from lopa_bench.results.schema import Environment, Record, RunRecord, SampleRecord, utc_now

NOISE_VERSION = 3  # 2 added the loads, 3 the problems and settings to the keys
NOISE_FOLDER = "noise"
FEWEST_REPEATS = 3
OF_SERVER = frozenset({"base_url", "concurrency"})


class Repeat(Record):
    """One fresh run of the cell: its name, the figures that may move, and how other work hindered it.

    `unhindered` are tokens per second without the share `queued` of the time, in which it had no processor.
    """

    run: str
    setting: str = ""
    accuracy: float | None = None
    tpf: float | None = None
    rounds: NonNegativeInt = 0
    tokens_per_second: PositiveFloat | None = None
    unhindered: PositiveFloat | None = None
    queued: NonNegativeFloat | None = None
    load: NonNegativeFloat | None = None


class Agreement(Record):
    """The answers of one repeat beside those of the first.

    `tokens` is the share of positions with the same token, `identical` of `samples` answers are the same throughout.
    `first_divergence` is the earliest position at which any answer departs, `median_divergence` the median over the
    answers that do.
    """

    repeat: Repeat
    samples: NonNegativeInt
    identical: NonNegativeInt
    tokens: float | None
    first_divergence: NonNegativeInt | None = None
    median_divergence: NonNegativeFloat | None = None
    gained: NonNegativeInt = 0
    lost: NonNegativeInt = 0


class NoiseCell(Record):
    """What was measured of one cell; `repeats` are the cell as it is, `variants` the cell in other settings."""

    cell: str
    environment: Environment
    samples: NonNegativeInt
    measured: AwareDatetime = Field(default_factory=utc_now)
    repeats: tuple[Agreement, ...]
    variants: tuple[Agreement, ...] = ()

    @property
    def speeds(self) -> list[float]:
        """Tokens per second of the repeats."""
        return [one.repeat.tokens_per_second for one in self.repeats if one.repeat.tokens_per_second]

    @property
    def accuracies(self) -> list[float]:
        """Accuracies of repeats and variants."""
        found = [one.repeat.accuracy for one in (*self.repeats, *self.variants)]
        return [value for value in found if value is not None]

    @property
    def accuracy_spread(self) -> float | None:
        """Highest less lowest accuracy over repeats and variants, None below two."""
        return max(self.accuracies) - min(self.accuracies) if len(self.accuracies) > 1 else None

    @property
    def repeat_spread(self) -> float | None:
        """Highest less lowest accuracy over the repeats alone, None below two."""
        found = [one.repeat.accuracy for one in self.repeats if one.repeat.accuracy is not None]
        return max(found) - min(found) if len(found) > 1 else None

    @property
    def is_unsteady(self) -> bool:
        """Whether equal runs gave unequal answers."""
        return any(one.identical < one.samples for one in self.repeats)

    @property
    def unhindered(self) -> list[float]:
        """Tokens per second of the repeats without the time in which they had no processor, for those that say so."""
        return [one.repeat.unhindered for one in self.repeats if one.repeat.unhindered]

    def speed_band(self, record: RunRecord, *, unhindered: bool = False) -> SpeedBand | None:
        """Return how far one run's speed may lie from another's by chance.

        None with too few repeats, or where the libraries that compute have changed since.
        """
        speeds = self.unhindered if unhindered else self.speeds
        if len(speeds) < FEWEST_REPEATS or computing(self.environment) != computing(record.environment):
            return None
        return SpeedBand(log_spread(speeds) or 0.0, len(speeds))


@dataclass(frozen=True)
class SpeedBand:
    """The spread of a speed between equal runs: standard deviation of its logarithm, from `num_runs` of them."""

    spread: float
    num_runs: int

    def factor(self, level: float, num_reference: float = 1) -> float:
        """Return how many times a run's speed may differ from the mean of `num_reference` others.

        The two-sided prediction limit at `level` for normal logarithms, by Student's t with `num_runs - 1` degrees of
        freedom: few repeats make a wide band, not a narrow one.
        """
        from scipy.stats import t

        quantile = float(t.ppf((1 + level) / 2, self.num_runs - 1))
        exponent = quantile * self.spread * math.sqrt(1 + 1 / num_reference)
        return math.exp(min(exponent, 700.0))


class NoiseFile(Record):
    """All cells measured on one machine, by `cell_key`."""

    noise_version: int = NOISE_VERSION
    machine: str
    cells: dict[str, NoiseCell] = Field(default_factory=dict)


def log_spread(speeds: Sequence[float]) -> float | None:
    """Return the standard deviation of the speeds' logarithms, None below two."""
    return stdev(map(math.log, speeds)) if len(speeds) > 1 else None


def computing(place: Environment) -> dict[str, str]:
    """Return the packages in which time is spent, with their versions."""
    return {name: version for name, version in place.packages.items() if name not in UNTIMED_PACKAGES}


def machine_id(place: Environment) -> str:
    """Return a file name for the machine a run ran on: its device's name, and a hash of device, number and system.

    Two machines of the same make and system have the same; a change of the system makes it another.
    """
    words = "".join(letter if letter.isalnum() else "-" for letter in place.device_name.lower()).strip("-")
    text = f"{place.device_name}|{place.num_devices}|{place.platform}"
    return f"{words[:40] or place.device or 'machine'}-{hashlib.sha256(text.encode()).hexdigest()[:8]}"


def cell_key(record: RunRecord) -> str:
    """Return what a noise floor is kept under: problems with their prompts, decoder, model, settings, place, processes.

    Few problems have a wider spread than many, so a floor counts for the same problems alone; shots and chat templates
    are in their prompts. Repeats keep no trace, so a run that keeps one has no floor.
    """
    place, model = record.environment, record.model
    words = [
        record.task.name,
        f"{record.task.num_documents} problems-{record.task.prompts_hash[:8] or 'unknown'}",
        f"{record.decoder.name}-{_short_hash(record.decoder.options)}",
        f"{model.name}-{(model.hash.rpartition(':')[2] or 'unknown')[:8]}",
        *([f"adapter {model.adapter_hash.rpartition(':')[2][:8]}"] if model.adapter_hash else []),
        f"settings-{_short_hash(_settings_of(record))}",
        place.device or "unknown",
        place.dtype,
        f"{place.num_threads} threads",
        f"batch {place.batch_size}",
        f"{place.world_size} processes",
        *(f"{name} {size}" for name, size in sorted(place.groups.items()) if size > 1),
        *filter(None, [place.communication]),
        *place.accelerations,
    ]
    return " | ".join(words)


def _short_hash(values: dict[str, Any]) -> str:
    return hashlib.sha256(json.dumps(values, sort_keys=True).encode()).hexdigest()[:8]


def _settings_of(record: RunRecord) -> dict[str, Any]:
    """Return what a run was set to that neither its decoder's options nor another part of `cell_key` says.

    Settings that are off are left out, so that one which a later version adds does not void every floor.
    """
    elsewhere = INCIDENTAL | (RECORDED_ELSEWHERE - OF_SERVER - {"trace"}) | set(record.decoder.options)
    values = {name: one.value for name, one in record.configuration.items() if name not in elsewhere}
    return {name: value for name, value in values.items() if value is not None and value is not False}


def repeat_of(record: RunRecord, samples: Sequence[SampleRecord], setting: str = "") -> Repeat:
    """Return a fresh run's figures."""
    speed = METRICS["tps_e2e"].value(samples)
    return Repeat(
        run=record.id,
        setting=setting,
        accuracy=METRICS["accuracy"].value(samples),
        tpf=METRICS["tpf"].value(samples),
        rounds=sum(sample.work.rounds for sample in samples),
        tokens_per_second=speed or None,
        unhindered=unhindered_speed(samples),
        queued=queued_share(samples),
        load=load_of(samples),
    )


def agreement(repeat: Repeat, pairs: Sequence[Pair]) -> Agreement:
    """Set a repeat's answers beside the reference's; `pairs` have the reference first."""
    departures = [first_difference(pair) for pair in pairs]
    positions = [departure for departure in departures if departure is not None]
    longest = [max(len(pair.before.token_ids), len(pair.after.token_ids)) for pair in pairs]
    equal = sum(
        one == other for pair in pairs for one, other in zip(pair.before.token_ids, pair.after.token_ids, strict=False)
    )
    return Agreement(
        repeat=repeat,
        samples=len(pairs),
        identical=sum(pair.is_identical for pair in pairs),
        tokens=equal / sum(longest) if sum(longest) else None,
        first_divergence=min(positions, default=None),
        median_divergence=median(positions) if positions else None,
        gained=sum(pair.is_scored and pair.change > 0 for pair in pairs),
        lost=sum(pair.is_scored and pair.change < 0 for pair in pairs),
    )


def first_difference(pair: Pair) -> int | None:
    """Return the first position at which two answers differ, the shorter's end included; None for the same tokens."""
    one, other = pair.before.token_ids, pair.after.token_ids
    for position, (left, right) in enumerate(zip(one, other, strict=False)):
        if left != right:
            return position
    return None if len(one) == len(other) else min(len(one), len(other))


def noise_path(root: Path, place: Environment) -> Path:
    """Return the file of a machine's noise floor in a folder of runs."""
    return root / NOISE_FOLDER / f"{machine_id(place)}.json"


def read_noise(path: Path) -> NoiseFile:
    """Read a noise floor.

    Raises:
        ResultsError: it is damaged.
        SchemaTooNew: a later program wrote it.
    """
    with jsonl.sentence_on_os_error("read", path):
        raw = path.read_bytes()
    try:
        document: Any = jsonl.parse_json(raw)
        version = document["noise_version"]
        if isinstance(version, int) and version > NOISE_VERSION:
            raise SchemaTooNew(f"{path} has version {version}, this program reads up to {NOISE_VERSION}; upgrade it")
        return NoiseFile.model_validate(document)
    except (ValueError, TypeError, KeyError, ValidationError) as error:
        raise ResultsError(f"the noise floor {path} is damaged; delete it and measure again") from error


def store_noise(root: Path, cell: NoiseCell, key: str) -> Path:
    """Put a cell into its machine's noise floor, in place of an earlier measurement of it.

    What an earlier version kept was under keys that do not name its problems, and is found by none: it is left out.
    """
    path = noise_path(root, cell.environment)
    with jsonl.sentence_on_os_error("make", path.parent):
        path.parent.mkdir(parents=True, exist_ok=True)
    old = read_noise(path) if path.exists() else NoiseFile(machine=machine_id(cell.environment))
    kept = old.cells if old.noise_version == NOISE_VERSION else {}
    new = old.model_copy(update={"noise_version": NOISE_VERSION, "cells": {**kept, key: cell}})
    jsonl.replace_file(path, new.model_dump_json(indent=1).encode() + b"\n")
    return path


def find_noise(root: Path, record: RunRecord) -> NoiseCell | None:
    """Return what was measured of a run's cell on its machine, None when nothing was."""
    path = noise_path(root, record.environment)
    return read_noise(path).cells.get(cell_key(record)) if path.exists() else None

"""`lopa-bench speed`: what more devices would bring, told from rates measured here and held against measurement.

The rates of one device and of the link between two processes are measured in seconds; the round itself is computed by
`model`. The same model then predicts rounds that this machine can really run, on one process and on two, and the
deviation stands beside them.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from lopa_bench.errors import ConfigError
from lopa_bench.harness.speed.model import Machine, Prediction, RoundShape, at, predict
from lopa_bench.models.config import ModelConfig

MODELS = ("mid", "dream-7b")
BRANCH_SIZES, TENSOR_SIZES = (1, 2, 4, 8, 16), (1, 2, 4, 8)
MOST_CHECKED = 200e6
"""Parameters up to which the asked network itself is run for the check."""


@dataclass(frozen=True, kw_only=True)
class SpeedQuestion:
    """What is asked.

    Attributes:
        model: a checkpoint, of which only config.json is read, or one of MODELS.
        tokens_per_round: branches -> TPF.
        window: positions a branch sends through the network in a round; as many rows of logits are read.
        cached: positions in the cache.
        grid: every bp x tp, not only along each axis.
        check: run rounds on one process and on two, and compare.
        link: seconds and bytes per second of a link, where it is not to be measured.
    """

    model: str = "mid"
    tokens_per_round: Mapping[int, float]
    window: int = 64
    cached: int = 256
    dtype: str = "float32"
    device: str = "cpu"
    threads: int = 1
    grid: bool = False
    check: bool = True
    link: tuple[float, float] | None = None

    def __post_init__(self) -> None:
        for name, least in {"window": 1, "cached": 0, "threads": 1}.items():
            if getattr(self, name) < least:
                raise ConfigError(f"--{name} {getattr(self, name)} is too small: it must be at least {least}")
        for branches, tokens in self.tokens_per_round.items():
            if branches < 1 or tokens <= 0:
                raise ConfigError(f"{branches} branches with {tokens:g} tokens per round: both must be above 0")

    def shape(self, branches: int) -> RoundShape:
        """The round of a number of branches; what is filled is cached, sooner or later."""
        committed = min(float(self.window), self.tokens_per_round[branches])
        return RoundShape(branches, self.window, self.cached, self.window, committed)


@dataclass(frozen=True, slots=True)
class Checked:
    """A round as predicted and as measured here, seconds."""

    model: str
    branches: int
    bp: int
    tp: int
    predicted_s: float
    measured_s: float

    @property
    def deviation(self) -> float:
        """(predicted - measured) / measured."""
        return self.predicted_s / self.measured_s - 1


@dataclass(frozen=True, slots=True)
class SpeedAnswer:
    """Rates, predictions by branches, bp and tp, the check, and what could not be told."""

    machine: Machine
    predictions: Sequence[Prediction]
    checked: Sequence[Checked]
    notes: Sequence[str]


def config_of(model: str) -> ModelConfig:
    """The shape of one of MODELS or of a checkpoint; no weights are read.

    Raises:
        ModelError: no such checkpoint.
    """
    from lopa_bench.harness.speed.measure import dream_config, mid_config
    from lopa_bench.models.loading import load_config, locate

    if model in MODELS:
        return mid_config() if model == "mid" else dream_config()
    return load_config(locate(model, weights=False))[1]


def answer(question: SpeedQuestion) -> SpeedAnswer:
    """Measure, predict and check.

    Raises:
        ModelError: no such checkpoint.
        CommunicationError: two processes could not measure together.
    """
    import torch

    from lopa_bench.harness.speed import measure
    from lopa_bench.harness.speed.rates import measure_device
    from lopa_bench.models.memory import count_parameters
    from lopa_bench.models.weights import torch_dtype

    torch.set_num_threads(question.threads)
    config, dtype = config_of(question.model), torch_dtype(question.dtype)
    size, most = dtype.itemsize, max(question.tokens_per_round)
    shape, notes = question.shape(most), _busy()
    machine = measure_device(config, dtype, question.device, shape)
    is_small = count_parameters(config) <= MOST_CHECKED
    tried = config if is_small else measure.mid_config()
    pair: measure.Pair | None = None
    if _has_two(question.device) and (question.check or question.link is None):
        pair = measure.measure_pair(tried, str(dtype).removeprefix("torch."), question.device, shape, question.threads)
        link = pair.machine.link_latency_s, pair.machine.link_bytes_s
        machine = replace(machine, link_latency_s=link[0], link_bytes_s=link[1])
    if question.link is not None:
        machine = replace(machine, link_latency_s=question.link[0], link_bytes_s=question.link[1])
    elif pair is None:
        notes.append(f"one {question.device} device here: no link was measured; give one by --link MICROSECONDS,GB/S")
    checked = []
    if question.check:
        rates = machine if is_small else measure_device(tried, dtype, question.device, shape)
        name = question.model if is_small else "mid"
        alone = predict(rates, tried, size, shape, 1, 1, 1.0)
        seconds = measure.measure_round(tried, dtype, question.device, shape)
        checked = [Checked(name, most, 1, 1, alone.seconds, seconds)]
        if pair is not None:
            for kind, found in pair.rounds.items():
                bp, tp = (2, 1) if kind == "bp" else (1, 2)
                told = predict(pair.machine, tried, size, shape, bp, tp, 1.0)
                checked.append(Checked(name, most, bp, tp, told.seconds, found))
            notes += _slow_down(rates, pair.machine, most * question.window)
    return SpeedAnswer(machine, list(_predictions(question, machine, config, size)), checked, notes)


def _busy() -> list[str]:
    """A warning where other programs keep the processors busy."""
    load, processors = os.getloadavg()[0], os.cpu_count() or 1
    if load < processors / 2:
        return []
    return [f"the load average was {load:.1f} on {processors} processors: what else runs here blurs every figure"]


def _slow_down(alone: Machine, together: Machine, rows: int) -> list[str]:
    """A note on how much longer products take where two processes of this machine work at once."""
    times = at(alone.flops, rows) / at(together.flops, rows)
    if times <= 1:
        return []
    return [
        f"two processes here slow each other's products down {times:.2f} times, which devices of their own would not; "
        "the check takes the rates that two find at once"
    ]


def _has_two(device: str) -> bool:
    """Whether two processes can have a device each; on a CPU they share it."""
    import torch

    return device.startswith("cpu") or torch.accelerator.device_count() > 1


def _predictions(question: SpeedQuestion, machine: Machine, config: ModelConfig, size: int) -> Sequence[Prediction]:
    """One device first for every number of branches; bp above the branches would leave devices idle and is left out."""
    found = []
    for branches, tokens in sorted(question.tokens_per_round.items()):
        for tp in TENSOR_SIZES:
            for bp in BRANCH_SIZES:
                is_wanted = (question.grid or 1 in (bp, tp)) and bp <= branches and tp <= config.num_heads
                is_known = machine.link_latency_s is not None or bp == tp == 1
                if is_wanted and is_known:
                    found.append(predict(machine, config, size, question.shape(branches), bp, tp, tokens))
    return found


def tokens_per_round_of(reference: Path | str, root: Path | str) -> dict[int, float]:
    """Branches and TPF of a stored run.

    Raises:
        ResultsError: no such run.
        ConfigError: it holds no rounds.
    """
    from lopa_bench.results.store import load_run

    run = load_run(reference, root)
    works = [sample.work for sample in run.samples if sample.status == "ok"]
    rounds = sum(work.rounds for work in works)
    if not rounds:
        raise ConfigError(f"run {run.path.name} holds no rounds to take a TPF from")
    tokens = sum(sample.tokens.useful for sample in run.samples if sample.status == "ok")
    branches = run.record.configuration.get("branches")
    return {int(str(branches.value)) if branches else 1: tokens / rounds}

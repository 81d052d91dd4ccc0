"""The training loop: steps, checkpoints that resume exactly, progress and the loss curve."""

from __future__ import annotations

import contextlib
import math
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from lopa_bench.errors import ConfigError
from lopa_bench.models.network import Transformer
from lopa_bench.models.training.batches import BatchStream
from lopa_bench.models.training.curve import Curve, Reporter
from lopa_bench.models.training.distributed import Processes
from lopa_bench.models.training.losses import work_loss
from lopa_bench.models.training.objectives import Work
from lopa_bench.models.training.optimizers import Optimizers, rate_factor
from lopa_bench.models.training.recipes import Recipe

CHECKPOINT = "checkpoint.pt"


@dataclass(frozen=True, slots=True)
class TrainingOptions:
    """Everything that shapes a run besides data, network and recipe.

    `batch_size` counts the sequences of one optimizer step over all processes and accumulation parts. The
    learning rate warms up over `warmup` steps and falls linearly to zero over the last `decay_share` of them.
    """

    steps: int
    batch_size: int = 64
    accumulate: int = 1
    optimizer: str = "muon"
    rate: float = 0.02
    vector_rate: float = 4e-3
    warmup: int = 30
    decay_share: float = 0.6
    clip: float = 1.0
    bf16: bool = False
    seed: int = 0
    log_every: int = 20
    save_every: int = 200

    def __post_init__(self) -> None:
        for name in ("steps", "batch_size", "accumulate", "log_every", "save_every"):
            if getattr(self, name) < 1:
                raise ConfigError(f"{name} is {getattr(self, name)}; it has to be at least 1")
        for name in ("rate", "vector_rate"):
            if not 0 < getattr(self, name) < math.inf:
                raise ConfigError(f"{name} is {getattr(self, name)}; it has to be above 0")


class _LossModule(nn.Module):
    """Network and loss as one module, so that DistributedDataParallel sees the forward pass."""

    def __init__(self, network: Transformer) -> None:
        super().__init__()
        self.network = network

    def forward(self, work: Work, teacher: Transformer | None) -> Tensor:
        return work_loss(self.network, work, teacher)


class Trainer:
    """Runs a recipe on a network.

    Batches, noise and objectives are functions of (seed, step) alone, and so is the state of torch's own generator
    (dropout): a run that was killed and resumed from its checkpoint ends with the weights of an unbroken one.
    """

    def __init__(
        self,
        network: Transformer,
        recipe: Recipe,
        stream: BatchStream,
        options: TrainingOptions,
        directory: Path,
        processes: Processes,
        teacher: Transformer | None = None,
    ) -> None:
        self.network, self.recipe, self.options = network.to(processes.device), recipe, options
        self._stream, self._processes = stream, processes
        self._directory = directory
        self._teacher = None if teacher is None else teacher.to(processes.device).eval().requires_grad_(False)
        if recipe.needs_teacher and teacher is None:
            raise ConfigError(f"recipe {recipe.name} distils from a teacher: name one with --teacher")
        parts = options.accumulate * processes.world
        if options.batch_size % parts:
            raise ConfigError(
                f"a batch of {options.batch_size} sequences cannot be cut into {options.accumulate} accumulation "
                f"parts on {processes.world} processes; choose a multiple of {parts}"
            )
        self._module: nn.Module = _LossModule(self.network)
        if processes.world > 1:
            self._module = nn.parallel.DistributedDataParallel(self._module)
        self.optimizers = Optimizers(self.network, options.optimizer, options.rate, options.vector_rate)
        self.curve = Curve(directory / "loss.csv")
        self.step = 0

    def fit(self) -> None:
        """Train from the current step to the last; resume first with `resume`."""
        self.network.train()
        with Reporter(self.recipe.name, self.options.steps, self._processes.is_first) as reporter:
            begun = time.perf_counter() - self.curve.seconds
            while self.step < self.options.steps:
                self._one_step(begun, reporter)
        self.network.eval()
        self.save()

    def _one_step(self, begun: float, reporter: Reporter) -> None:
        options, step = self.options, self.step
        batch = self._stream.batch(step)
        kind, work = self.recipe.work(batch, self.network.config, step, options.seed)
        torch.manual_seed(hash((options.seed, step, self._processes.rank)))
        loss = self._backward(work)
        torch.nn.utils.clip_grad_norm_(self.network.parameters(), options.clip)
        factor = rate_factor(step, options.steps, options.warmup, options.decay_share)
        self.optimizers.step(factor)
        self.step += 1
        self.curve.add(kind, loss, work.tokens.numel())
        if self.step % options.log_every == 0 or self.step == options.steps:
            seconds = time.perf_counter() - begun
            reporter.line(self.curve.close_row(self.step, seconds, factor))
        reporter.advance(self.step)
        if self.step % options.save_every == 0:
            self.save()

    def _backward(self, work: Work) -> float:
        """Gradients of the whole batch; returns its loss."""
        world, accumulate = self._processes.world, self.options.accumulate
        total = torch.zeros((), device=self._processes.device)
        for index in range(accumulate):
            part = work.part(self._processes.rank + index * world, accumulate * world)
            is_last = index == accumulate - 1
            with self._without_sync(is_last), self._autocast():
                # DistributedDataParallel averages over the processes; the parts' losses are to be summed.
                loss = self._module(part.to(self._processes.device), self._teacher) * world
                loss.backward()
            total += loss.detach()
        return float(self._processes.mean(total))

    def _without_sync(self, is_last: bool) -> contextlib.AbstractContextManager[Any]:
        if isinstance(self._module, nn.parallel.DistributedDataParallel) and not is_last:
            return self._module.no_sync()
        return contextlib.nullcontext()

    def _autocast(self) -> contextlib.AbstractContextManager[Any]:
        return torch.autocast(self._processes.device.type, torch.bfloat16, enabled=self.options.bf16)

    def save(self) -> None:
        """Write the checkpoint; a kill at any moment leaves the old or the new one, never half of one."""
        if not self._processes.is_first:
            return
        self._directory.mkdir(parents=True, exist_ok=True)
        state = {
            "step": self.step,
            "network": self.network.state_dict(),
            "optimizers": self.optimizers.state_dict(),
            "options": asdict(self.options),
            "curve": self.curve.state_dict(),
        }
        unfinished = self._directory / (CHECKPOINT + ".new")
        torch.save(state, unfinished)
        unfinished.replace(self._directory / CHECKPOINT)
        self.curve.write()

    def resume(self) -> bool:
        """Take over the directory's checkpoint; False when there is none.

        Raises:
            ConfigError: the checkpoint was made with other options, so that going on would be another run.
        """
        path = self._directory / CHECKPOINT
        if not path.exists():
            return False
        state = torch.load(path, map_location=self._processes.device, weights_only=True)
        self._same_run(state["options"], path)
        self.network.load_state_dict(state["network"])
        self.optimizers.load_state_dict(state["optimizers"])
        self.curve.load_state_dict(state["curve"])
        self.step = state["step"]
        return True

    def _same_run(self, before: dict[str, Any], path: Path) -> None:
        now = asdict(self.options)
        free = ("accumulate", "log_every", "save_every")
        for name, value in now.items():
            if name not in free and before.get(name) != value:
                raise ConfigError(
                    f"{path} was made with {name} = {before.get(name)}, asked for is {value}; "
                    "repeat the option, or train into another folder"
                )

"""A tiny training in a process of its own, also under torchrun.

python tiny_run.py FOLDER STEPS trains; with STEPS 0 it writes the gradients of the first step only.
"""

from __future__ import annotations

import random
import sys
from pathlib import Path

import torch

from lopa_bench.models.config import ModelConfig
from lopa_bench.models.tiny import tiny_config
from lopa_bench.models.training.batches import BatchStream
from lopa_bench.models.training.distributed import join_processes
from lopa_bench.models.training.recipes import make_recipe
from lopa_bench.models.training.start import new_network
from lopa_bench.models.training.trainer import Trainer, TrainingOptions


def copying_pairs(seed: int):
    """The answer repeats the prompt."""
    rng = random.Random(seed)
    while True:
        prompt = [rng.randrange(3, 20) for _ in range(rng.randrange(4, 12))]
        yield prompt, prompt


def training_config() -> ModelConfig:
    """A network that learns to copy in some dozens of steps."""
    return tiny_config(
        vocab_size=20,
        hidden_size=16,
        num_heads=2,
        intermediate_size=32,
        max_positions=256,
        tied_head=True,
        mask_token_id=1,
        eos_token_id=2,
        pad_token_id=0,
    )


CONFIG = training_config()


def make_trainer(
    directory: Path, steps: int, *, recipe: str = "dllm", processes=None, source=copying_pairs, **options
) -> Trainer:
    """A trainer on 16 pairs a step."""
    stream = BatchStream(source, 16, pad=0, eos=2, max_length=64, seed=5)
    chosen = TrainingOptions(steps=steps, **{"batch_size": 16, "save_every": 5, "warmup": 5, **options})
    return Trainer(
        new_network(CONFIG, seed=1), make_recipe(recipe), stream, chosen, directory, processes or join_processes("cpu")
    )


def gradients(trainer: Trainer) -> dict[str, torch.Tensor]:
    """Of the first step, before clipping."""
    _, work = trainer.recipe.work(trainer._stream.batch(0), CONFIG, 0, 0)
    loss = trainer._backward(work)
    found = {name: parameter.grad.clone() for name, parameter in trainer.network.named_parameters()}
    return {**found, "loss": torch.tensor(loss)}


if __name__ == "__main__":
    torch.set_num_threads(1)
    joined, folder, num_steps = join_processes("cpu"), Path(sys.argv[1]), int(sys.argv[2])
    trainer = make_trainer(folder, num_steps or 1, processes=joined)
    if num_steps:
        trainer.resume()
        trainer.fit()
    else:
        found = gradients(trainer)
        if joined.is_first:
            torch.save(found, folder / "gradients.pt")
    joined.close()

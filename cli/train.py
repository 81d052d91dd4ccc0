"""`lopa-bench train`: the recipes that made the bundled models, for one's own data too."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from lopa_bench.errors import ConfigError

Recipe = Annotated[str, typer.Argument(help="ar, dllm (masked diffusion) or d2f (asymmetric distillation).")]
Out = Annotated[Path, typer.Option(help="Folder of the run; a run that was killed goes on from its last checkpoint.")]
Steps = Annotated[int, typer.Option(min=1, help="Optimizer steps; the learning rate falls to zero at the last.")]
Data = Annotated[Path | None, typer.Option(help='JSONL file of {"prompt", "answer"} objects, in place of tasks.')]
Tasks = Annotated[str, typer.Option(help="Generated tasks and their shares of the examples.")]
Tokenizer = Annotated[Path | None, typer.Option(help="Tokenizer folder; the bundled one when absent.")]
Init = Annotated[str | None, typer.Option(help="Checkpoint to start from: a folder, bundled:ar, or a hub id.")]
Teacher = Annotated[str | None, typer.Option(help="Checkpoint that d2f distils from; --init when absent.")]
Mix = Annotated[
    str | None,
    typer.Option(help="Shares of autoregressive, diffusion, windows and distillation steps in place of the recipe's."),
]
Size = Annotated[str, typer.Option(help="Shape when training from scratch: width, layers, heads, KV heads, MLP width.")]


def train(
    recipe: Recipe,
    out: Out,
    steps: Steps = 1000,
    tasks: Tasks = "mini-maths=0.6,mini-code=0.4",
    data: Data = None,
    tokenizer: Tokenizer = None,
    init: Init = None,
    teacher: Teacher = None,
    mix: Mix = None,
    block_sizes: Annotated[str, typer.Option(help="Block sizes drawn from at each step.")] = "8,16,32",
    window_blocks: Annotated[
        str, typer.Option(help="Numbers of blocks of an active window, drawn from.")
    ] = "1,2,2,3,4",
    canvas: Annotated[int, typer.Option(help="Longest canvas that diffusion is trained on, in tokens.")] = 224,
    distill: Annotated[float, typer.Option(help="Teacher's part in the targets of windows.", min=0, max=1)] = 0.0,
    lora_rank: Annotated[int, typer.Option(min=0, help="Train LoRA adapters of this rank; 0 trains all.")] = 0,
    shape: Size = "128,4,4,4,512",
    batch_size: Annotated[int, typer.Option(min=1, help="Sequences per step, over all processes.")] = 64,
    accumulate: Annotated[int, typer.Option(min=1, help="Parts a step is computed in.")] = 1,
    max_length: Annotated[int, typer.Option(help="Longer examples are left out, in tokens.")] = 512,
    optimizer: Annotated[str, typer.Option(help="muon (with adamw for vectors) or adamw.")] = "muon",
    rate: Annotated[float, typer.Option(help="Learning rate.")] = 0.02,
    vector_rate: Annotated[float, typer.Option(help="Learning rate of what Muon leaves to AdamW.")] = 4e-3,
    warmup: Annotated[int, typer.Option(help="Steps until the full learning rate.")] = 30,
    bf16: Annotated[bool, typer.Option(help="Autocast to bfloat16.")] = False,
    device: Annotated[str, typer.Option(help="auto, cpu or cuda.")] = "auto",
    seed: int = 0,
    log_every: Annotated[int, typer.Option(min=1, help="Steps between two points of the loss curve.")] = 20,
    save_every: Annotated[int, typer.Option(min=1, help="Steps between checkpoints.")] = 200,
) -> None:
    """Train an autoregressive, masked-diffusion or D2F model; also under torchrun.

    Writes checkpoint.pt, loss.csv, loss.png and model/ (safetensors in a public layout) into the folder --out.
    """
    from lopa_bench.harness.training import Shape, TrainingRun
    from lopa_bench.harness.training import train as run_training
    from lopa_bench.models.training.trainer import TrainingOptions

    options = TrainingOptions(
        steps=steps,
        batch_size=batch_size,
        accumulate=accumulate,
        optimizer=optimizer,
        rate=rate,
        vector_rate=vector_rate,
        warmup=warmup,
        bf16=bf16,
        seed=seed,
        log_every=log_every,
        save_every=save_every,
    )
    recipe_options = {
        "block_sizes": _integers(block_sizes, "--block-sizes"),
        "window_blocks": _integers(window_blocks, "--window-blocks"),
        "canvas": canvas,
        "distill": distill,
    }
    run = TrainingRun(
        recipe=recipe,
        directory=out,
        options=options,
        tasks=_shares(tasks, "--tasks"),
        data=data,
        tokenizer=tokenizer,
        init=init,
        teacher=teacher,
        shape=Shape(*_integers(shape, "--shape", count=5)),
        lora_rank=lora_rank,
        max_length=max_length,
        device=device,
        recipe_options=recipe_options if mix is None else {**recipe_options, "shares": _shares(mix, "--mix")},
    )
    typer.echo(f"model: {run_training(run)}")


def _shares(text: str, option: str) -> dict[str, float]:
    try:
        pairs = (item.split("=") for item in text.split(","))
        return {name.strip(): float(share) for name, share in pairs}
    except ValueError:
        raise ConfigError(f"{option} is '{text}'; it has to look like mini-maths=0.6,mini-code=0.4") from None


def _integers(text: str, option: str, count: int | None = None) -> tuple[int, ...]:
    try:
        values = tuple(int(item) for item in text.split(","))
    except ValueError:
        values = ()
    if not values or min(values) < 1 or (count is not None and len(values) != count):
        wanted = f"{count} positive whole numbers" if count else "positive whole numbers"
        raise ConfigError(f"{option} is '{text}'; it has to be {wanted} with commas between")
    return values


if __name__ == "__main__":
    typer.run(train)

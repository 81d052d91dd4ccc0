"""`lopa-bench train`: the recipes that made the bundled models, for one's own data too."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from lopa_bench.cli import options as shared
from lopa_bench.errors import ConfigError

DATA, MODEL, RECIPE, OPTIMIZER = "What to learn from", "What learns", "Recipe", "Optimizer"


def _option(help: str, panel: str, metavar: str, **more: Any) -> Any:
    return typer.Option(help=help, rich_help_panel=panel, metavar=metavar, **more)


Recipe = Annotated[str, typer.Argument(help="ar, dllm (masked diffusion) or d2f (asymmetric distillation).")]
Out = Annotated[
    Path,
    typer.Option(metavar="DIR", help="Folder of the run; a run that was killed goes on from its last checkpoint."),
]
Tasks = Annotated[str, _option("Generated tasks and their shares of the examples.", DATA, "SHARES")]
Data = Annotated[Path | None, _option('JSONL file of {"prompt", "answer"} objects, in place of --tasks.', DATA, "FILE")]
MaxLength = Annotated[int, _option("Longer examples are left out, in tokens.", DATA, "N", min=1)]
Init = Annotated[str | None, _option("Checkpoint to start from: a folder, bundled:ar, or a hub id.", MODEL, "NAME")]
Teacher = Annotated[str | None, _option("Checkpoint that d2f distils from; --init when absent.", MODEL, "NAME")]
LoraRank = Annotated[int, _option("Train LoRA adapters of this rank; 0 trains all.", MODEL, "N", min=0)]
Size = Annotated[
    str, _option("Shape when training from scratch: width, layers, heads, KV heads, MLP width.", MODEL, "SIZES")
]
Tokenizer = Annotated[Path | None, _option("Tokenizer folder; the bundled one when absent.", MODEL, "DIR")]
Mix = Annotated[
    str | None,
    _option(
        "Shares of autoregressive, diffusion, windows and distillation steps in place of the recipe's.",
        RECIPE,
        "SHARES",
    ),
]
BlockSizes = Annotated[str, _option("Block sizes drawn from at each step.", RECIPE, "SIZES")]
WindowBlocks = Annotated[str, _option("Numbers of blocks of an active window, drawn from.", RECIPE, "SIZES")]
Canvas = Annotated[int, _option("Longest canvas that diffusion is trained on, in tokens.", RECIPE, "N", min=1)]
Distill = Annotated[float, _option("Teacher's part in the targets of windows.", RECIPE, "SHARE", min=0, max=1)]
Steps = Annotated[int, _option("Optimizer steps; the learning rate falls to zero at the last.", OPTIMIZER, "N", min=1)]
BatchSize = Annotated[int, _option("Sequences per step, over all processes.", OPTIMIZER, "N", min=1)]
Accumulate = Annotated[int, _option("Parts a step is computed in.", OPTIMIZER, "N", min=1)]
Optimizer = Annotated[str, _option("muon (with adamw for vectors) or adamw.", OPTIMIZER, "NAME")]
Rate = Annotated[float, _option("Learning rate.", OPTIMIZER, "RATE")]
VectorRate = Annotated[float, _option("Learning rate of what Muon leaves to AdamW.", OPTIMIZER, "RATE")]
Warmup = Annotated[int, _option("Steps until the full learning rate.", OPTIMIZER, "N", min=0)]
Bf16 = Annotated[bool, typer.Option("--bf16", help="Autocast to bfloat16.", rich_help_panel=OPTIMIZER)]
Device = Annotated[str, typer.Option(metavar="NAME", help="auto, cpu or cuda.")]
Seed = Annotated[int, typer.Option(metavar="N", help="Of all random numbers.")]
LogEvery = Annotated[int, typer.Option(min=1, metavar="N", help="Steps between two points of the loss curve.")]
SaveEvery = Annotated[int, typer.Option(min=1, metavar="N", help="Steps between checkpoints.")]


def train(
    recipe: Recipe,
    out: Out,
    tasks: Tasks = "mini-maths=0.6,mini-code=0.4",
    data: Data = None,
    max_length: MaxLength = 512,
    tokenizer: Tokenizer = None,
    init: Init = None,
    teacher: Teacher = None,
    mix: Mix = None,
    block_sizes: BlockSizes = "8,16,32",
    window_blocks: WindowBlocks = "1,2,2,3,4",
    canvas: Canvas = 224,
    distill: Distill = 0.0,
    lora_rank: LoraRank = 0,
    shape: Size = "128,4,4,4,512",
    steps: Steps = 1000,
    batch_size: BatchSize = 64,
    accumulate: Accumulate = 1,
    optimizer: Optimizer = "muon",
    rate: Rate = 0.02,
    vector_rate: VectorRate = 4e-3,
    warmup: Warmup = 30,
    bf16: Bf16 = False,
    device: Device = "auto",
    seed: Seed = 0,
    log_every: LogEvery = 20,
    save_every: SaveEvery = 200,
    json: shared.Json = False,
) -> None:
    """Train an autoregressive, masked-diffusion or D2F model; also under torchrun.

    Writes checkpoint.pt, loss.csv, loss.png and model/ (safetensors in a public layout) into the folder --out.

    Example: lopa-bench train dllm --out my-dllm --data pairs.jsonl
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
    model = run_training(run)
    if json:
        shared.print_json({"model": str(model)})
    else:
        typer.echo(f"model: {model}")


def _shares(text: str, option: str) -> dict[str, float]:
    try:
        pairs = (item.split("=") for item in text.split(","))
        return {name.strip(): float(share) for name, share in pairs}
    except ValueError:
        like = "diffusion=0.7,windows=0.3" if option == "--mix" else "mini-maths=0.6,mini-code=0.4"
        raise ConfigError(f"{option} is '{text}'; it has to look like {like}") from None


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

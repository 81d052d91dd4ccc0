"""Training wired up: tasks or a file of examples as data, checkpoints in and out, one run after the other."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from lopa_bench.errors import ConfigError, TaskDataError
from lopa_bench.models.config import ModelConfig
from lopa_bench.models.loading import load_model, save_model
from lopa_bench.models.network import Transformer
from lopa_bench.models.tokenizer_loading import tokenizer_from
from lopa_bench.models.training.batches import BatchStream, Pair, PairSource
from lopa_bench.models.training.distributed import Processes, join_processes
from lopa_bench.models.training.lora import add_lora, merged, save_adapter
from lopa_bench.models.training.recipes import Recipe, make_recipe
from lopa_bench.models.training.start import new_network, taken_over
from lopa_bench.models.training.trainer import Trainer, TrainingOptions
from lopa_bench.tasks.registry import get_task

BUNDLED_TOKENIZER = Path(__file__).resolve().parent.parent / "models" / "bundled" / "tokenizer"

Encode = Callable[[str], list[int]]


@dataclass(frozen=True, slots=True)
class Shape:
    """Size of a network trained from scratch."""

    hidden_size: int = 128
    num_layers: int = 4
    num_heads: int = 4
    num_kv_heads: int = 4
    intermediate_size: int = 512


@dataclass(frozen=True, slots=True)
class TrainingRun:
    """One call of `lopa-bench train`.

    Attributes:
        recipe: `ar`, `dllm` or `d2f`.
        directory: where checkpoints, curve and the finished model go.
        tasks: task name to its share of the examples; ignored when `data` is given.
        data: JSONL file of {"prompt", "answer"} objects.
        tokenizer: folder of the tokenizer; the bundled one when absent.
        init: checkpoint to start from (its shape is kept); from scratch when absent.
        teacher: checkpoint to distil from; for `d2f` the starting checkpoint when absent.
        lora_rank: train LoRA adapters of this rank on q, k, v and o instead of all weights; 0 is all weights.
        recipe_options: fields of `Recipe` to change.
    """

    recipe: str
    directory: Path
    options: TrainingOptions
    tasks: Mapping[str, float] = field(default_factory=lambda: {"mini-maths": 0.6, "mini-code": 0.4})
    data: Path | None = None
    tokenizer: Path | None = None
    init: str | None = None
    teacher: str | None = None
    shape: Shape = Shape()
    lora_rank: int = 0
    max_length: int = 512
    device: str = "auto"
    recipe_options: Mapping[str, Any] = field(default_factory=dict)


def train(run: TrainingRun) -> Path:
    """Run or resume a training; returns the folder of the finished model."""
    recipe = make_recipe(run.recipe, **run.recipe_options)
    try:
        run.directory.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ConfigError(f"cannot make {run.directory}: {error.strerror}; give another folder with --out") from None
    tokenizer = tokenizer_from(run.tokenizer or BUNDLED_TOKENIZER)
    processes = join_processes(run.device)
    try:
        network, teacher = _networks(run, recipe, tokenizer)
        trainer = _trainer(run, recipe, tokenizer, network, teacher, processes)
        trainer.resume()
        trainer.fit()
        if processes.is_first:
            trainer.curve.plot()
            _save(run, network)
        processes.barrier()
    finally:
        processes.close()
    return run.directory / "model"


def _networks(run: TrainingRun, recipe: Recipe, tokenizer: Any) -> tuple[Transformer, Transformer | None]:
    """The network to train and the teacher, if the recipe reads one."""
    if run.init is None:
        network = new_network(_config(run, tokenizer), run.options.seed)
    else:
        start = load_model(run.init).network
        network = taken_over(start, _adapted(start.config, run.recipe, tokenizer))
    teacher = None
    if recipe.needs_teacher:
        name = run.teacher or run.init
        if name is None:
            raise ConfigError("recipe d2f distils from a diffusion model: name one with --teacher or --init")
        teacher = load_model(name).network
    if run.lora_rank:
        add_lora(network, run.lora_rank, seed=run.options.seed)
    return network, teacher


def _config(run: TrainingRun, tokenizer: Any) -> ModelConfig:
    shape = run.shape
    base = ModelConfig(
        family="qwen2",
        vocab_size=len(tokenizer),
        hidden_size=shape.hidden_size,
        num_layers=shape.num_layers,
        num_heads=shape.num_heads,
        num_kv_heads=shape.num_kv_heads,
        head_dim=shape.hidden_size // shape.num_heads,
        intermediate_size=shape.intermediate_size,
        norm_eps=1e-6,
        rope_theta=10000.0,
        max_positions=8192,
        logit_shift=True,
        causal=True,
        qkv_bias=True,
        tied_head=True,
    )
    return _adapted(base, run.recipe, tokenizer)


def _adapted(config: ModelConfig, recipe: str, tokenizer: Any) -> ModelConfig:
    """The config as `recipe` trains it: Dream's kind for the diffusion recipes, whatever it was before."""
    ids = {f"{role}_token_id": getattr(tokenizer, f"{role}_token_id") for role in ("eos", "pad", "bos")}
    if ids["eos_token_id"] is None:
        raise ConfigError("the tokenizer has no EOS token, which answers have to end with")
    if recipe == "ar":
        return config.with_(**{**ids, "mask_token_id": tokenizer.mask_token_id})
    if not config.causal:
        return config
    if tokenizer.mask_token_id is None:
        raise ConfigError("the tokenizer has no mask token, which diffusion needs: add one to tokenizer_config.json")
    return config.with_(family="dream", causal=False, mask_token_id=tokenizer.mask_token_id, **ids)


def _trainer(
    run: TrainingRun,
    recipe: Recipe,
    tokenizer: Any,
    network: Transformer,
    teacher: Transformer | None,
    processes: Processes,
) -> Trainer:
    eos, pad = tokenizer.eos_token_id, tokenizer.pad_token_id
    stream = BatchStream(
        pair_source(run, tokenizer),
        run.options.batch_size,
        pad=eos if pad is None else pad,
        eos=eos,
        max_length=run.max_length,
        seed=run.options.seed,
    )
    return Trainer(network, recipe, stream, run.options, run.directory, processes, teacher)


def _save(run: TrainingRun, network: Transformer) -> None:
    if run.lora_rank:
        save_adapter(network, run.directory / "adapter", base=str(run.init))
        network = merged(network)
    save_model(network, run.directory / "model", dtype="float16")


def pair_source(run: TrainingRun, tokenizer: Any) -> PairSource:
    """The run's data as token ids."""

    def encode(text: str) -> list[int]:
        return list(tokenizer(text, add_special_tokens=False)["input_ids"])

    if run.data is not None:
        return file_source(run.data, encode)
    return task_source(run.tasks, encode)


def task_source(tasks: Mapping[str, float], encode: Encode) -> PairSource:
    """Endless examples of generated tasks, mixed by their shares."""
    if not tasks or min(tasks.values()) < 0 or sum(tasks.values()) <= 0:
        raise ConfigError("give the tasks to train on positive shares, as in mini-maths=0.6,mini-code=0.4")
    generators = {name: get_task(name) for name in tasks}

    def pairs(seed: int) -> Iterator[Pair]:
        rng = random.Random(seed)
        streams = {name: task.training_examples(seed) for name, task in generators.items()}
        names, shares = list(tasks), list(tasks.values())
        while True:
            example = next(streams[rng.choices(names, shares)[0]])
            yield encode(example.prompt), encode(example.answer)

    return pairs


def file_source(path: Path, encode: Encode) -> PairSource:
    """Examples of a JSONL file, in a new random order for each seed, over and over."""
    examples = _read_examples(path)

    def pairs(seed: int) -> Iterator[Pair]:
        rng = random.Random(seed)
        while True:
            for index in rng.sample(range(len(examples)), len(examples)):
                prompt, answer = examples[index]
                yield encode(prompt), encode(answer)

    return pairs


def _read_examples(path: Path) -> Sequence[tuple[str, str]]:
    if not path.is_file():
        raise TaskDataError(f'training data {path} not found; give a JSONL file of {{"prompt", "answer"}} objects')
    examples = []
    with path.open(encoding="utf-8") as file:
        for number, line in enumerate(file, start=1):
            if not line.strip():
                continue
            try:
                item = json.loads(line)
                examples.append((str(item["prompt"]), str(item["answer"])))
            except (ValueError, KeyError, TypeError):
                raise TaskDataError(
                    f'{path}:{number} is no {{"prompt": ..., "answer": ...}} object: {line.strip()[:60]}'
                ) from None
    if not examples:
        raise TaskDataError(f"training data {path} holds no example")
    return examples

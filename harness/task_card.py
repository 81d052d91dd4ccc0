"""Everything about a task or a preset that a reader may want to know before running it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from importlib import metadata
from pathlib import Path
from typing import Any

from lopa_bench.errors import ConfigError, LopaBenchError, nearest
from lopa_bench.harness.code.task import CodeTask
from lopa_bench.harness.data_check import SplitCheck, check_split
from lopa_bench.harness.identity import prompt_hash
from lopa_bench.harness.lm_eval_adapter.files import load_yaml
from lopa_bench.harness.lm_eval_adapter.tasks import FEWSHOT_SEED, LmEvalTask
from lopa_bench.harness.problem_choice import SUBSETS, prompts_up_to, resolve
from lopa_bench.harness.problem_choice import outline as outline_of
from lopa_bench.harness.task_source import all_tasks, find_task, known_name, splits_of
from lopa_bench.tasks.base import Task
from lopa_bench.tasks.presets import PRESETS, get_preset

OURS = "lopa-bench"


@dataclass(frozen=True)
class Fact:
    """One thing that is so, and where it is decided."""

    name: str
    value: Any
    origin: str


@dataclass(frozen=True)
class Known:
    """A release of a split by the sha256 of its uncompressed file or, for other kinds of file, of its rows."""

    data: str
    split: str
    release: str
    sha256: str


@dataclass(frozen=True)
class TaskCard:
    """A task: its facts, its data, and one prompt as the model gets it; `no_prompt` says why there is none."""

    name: str
    citation: str
    version: str
    facts: tuple[Fact, ...]
    data: tuple[SplitCheck, ...]
    known: tuple[Known, ...]
    prompt_id: str = ""
    prompt: str = ""
    no_prompt: str = ""

    @property
    def prompt_sha256(self) -> str:
        """The hash by which run records know the prompt."""
        return prompt_hash(self.prompt) if self.prompt_id else ""


def kind_of(name: str) -> str:
    """Return "task" or "preset"; ConfigError with the nearest of both when it is neither."""
    if name in PRESETS:
        return "preset"
    try:
        known_name(name)
    except ConfigError:
        names = [*(task.name for task in all_tasks()), *PRESETS]
        raise ConfigError(
            f"no task or preset is called '{name}'{nearest(name, names)}; `lopa-bench list tasks` and `list presets` "
            "show them"
        ) from None
    return "task"


def task_card(name: str, data_dir: Path | None = None, sample: str = "0") -> TaskCard:
    """Return what there is to know of a task.

    Args:
        name: the task, in any spelling.
        data_dir: where its data lie; None asks the hub.
        sample: whose prompt is wanted: a position or an id.

    Raises:
        ConfigError: no such task, or no such problem.
    """
    task = find_task(name, data_dir=data_dir)
    card = TaskCard(
        name=task.name,
        citation=task.citation,
        version=str(task.version),
        facts=tuple(_facts(task)),
        data=tuple(check_split(split, (task.name,), data_dir) for split in splits_of(task.name)),
        known=tuple(
            Known(split.data, split.split, release, sha)
            for split in splits_of(task.name)
            for sha, release in split.known.items()
        ),
    )
    try:
        indices = resolve(outline_of(task), samples=sample)
        document = prompts_up_to(task, indices[0] + 1)[indices[0]]
    except ConfigError:
        raise
    except LopaBenchError as error:
        return replace(card, no_prompt=str(error))
    return replace(card, prompt_id=document.id, prompt=document.prompt)


def _facts(task: Task) -> Iterator[Fact]:
    yield Fact("family", task.family, OURS)
    yield Fact("version", str(task.version), "lm-eval's own number" if isinstance(task, LmEvalTask) else OURS)
    if isinstance(task, LmEvalTask):
        yield from _lm_eval_facts(task)
    elif isinstance(task, CodeTask):
        yield from _code_facts(task)
    else:
        yield Fact("prompts", "generated from a seed, the same on every machine", OURS)
        yield Fact("shots", 0, OURS)
        yield Fact("chat", "never asked as a chat", OURS)
    yield Fact("stop", list(task.stop) or "none", _stop_origin(task))
    yield Fact("max_new_tokens", task.max_new_tokens, f"{OURS}; --max-new-tokens")
    yield Fact("accuracy is", task.metric, OURS)
    yield Fact("subsets", ", ".join(f"{name} ({size})" for name, size in SUBSETS.items()), f"{OURS}; --subset")


def _stop_origin(task: Task) -> str:
    if isinstance(task, LmEvalTask):
        return task.definition.yaml
    if isinstance(task, CodeTask) and task.definition.stop is None:
        return str(task.definition.yaml)
    return OURS


def _lm_eval_facts(task: LmEvalTask) -> Iterator[Fact]:
    yaml = task.definition.yaml
    config = load_yaml(yaml, functions=False)
    yield Fact("prompts", f"lm-eval {metadata.version('lm_eval')}", yaml)
    yield Fact("shots", task.num_fewshot, f"{yaml}; --num-fewshot")
    drawn = f"drawn from the train split anew for every problem, seed {FEWSHOT_SEED}"
    if task.num_fewshot:
        yield Fact("shots are", "the same for every problem" if task.definition.shots is None else drawn, yaml)
    yield Fact("chat", "made for --chat" if task.definition.is_chat else "no; --chat asks through a template", OURS)
    filters = [str(one["name"]) for one in config.get("filter_list") or []]
    yield Fact("clean-up", ", ".join(filters) or "none", yaml)
    yield Fact("scores", ", ".join(str(one["metric"]) for one in config["metric_list"]), yaml)
    if task.definition.needs:
        yield Fact("needs", "pip install 'lopa-bench[math]'", ", ".join(task.definition.needs))


def _code_facts(task: CodeTask) -> Iterator[Fact]:
    definition = task.definition
    if definition.yaml is None:
        yield Fact("prompts", "the problem's own text", "the data")
        yield Fact("shots", 0, "the data")
    else:
        shots = load_yaml(definition.yaml, functions=False).get("num_fewshot") or 0
        yield Fact("prompts", f"lm-eval {metadata.version('lm_eval')}", definition.yaml)
        yield Fact("shots", shots, f"{definition.yaml}; --num-fewshot")
    chat = "made for --chat" if definition.is_chat else f"no; {definition.name}-instruct is the form for chats"
    yield Fact("chat", chat, OURS)
    yield Fact("clean-up", task.cleanup, f"{OURS}; --cleanup")
    yield Fact("scores", task.scoring.name, f"{OURS}; --scorer")


def preset_facts(name: str) -> list[Fact]:
    """Return what the authors stated for a preset; ConfigError with the nearest when there is none.

    Options that the preset leaves to its convention, the authors' program, come last.
    """
    from lopa_bench.decoders.registry import convention

    preset = get_preset(name)
    facts = [Fact(key, value, preset.source) for key, value in preset.settings().items()]
    facts += [Fact(key, value, preset.source) for key, value in preset.options.items()]
    if preset.convention:
        options = convention(preset.convention, preset.decoder).options
        said = {fact.name for fact in facts}
        facts += [
            Fact(key, value, f"convention {preset.convention}") for key, value in options.items() if key not in said
        ]
    return facts


def plain(value: Any) -> str:
    """Return a value as the command line takes it."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, list):
        return ", ".join(repr(one) for one in value)
    return "none" if value is None else str(value)


def as_rows(facts: Iterable[Fact]) -> list[dict[str, str]]:
    """Return facts as rows of a table."""
    return [{"setting": one.name, "value": plain(one.value), "from": one.origin} for one in facts]

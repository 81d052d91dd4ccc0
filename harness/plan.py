"""What a run will do, told before it starts: its settings, how much there is to do and what it takes."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from lopa_bench.errors import ConfigError
from lopa_bench.harness.distributed.mesh import ALONE, MeshShape
from lopa_bench.harness.servers.settings import SERVER
from lopa_bench.harness.settings import Settings
from lopa_bench.harness.shared_work import once
from lopa_bench.results.schema import Setting

if TYPE_CHECKING:
    from lopa_bench.harness.answering import Answerer
    from lopa_bench.harness.problem_choice import Choice
    from lopa_bench.models.config import ModelConfig
    from lopa_bench.models.memory import MemoryEstimate


@dataclass(frozen=True)
class Plan:
    """The answer to "what will this do?".

    `num_samples` of `num_available` problems; `rounds` are the fewest and the most an answer of full length can take,
    an answer that ends early takes fewer. `longest_prompt` is in tokens, `prompts_too_long` tells that it will be cut.
    `problems` says which problems were chosen and how. `mesh` are the processes; `memory` is of each of them.
    """

    settings: dict[str, Setting]
    num_samples: int
    num_available: int
    rounds: tuple[int, int]
    longest_prompt: int
    prompts_too_long: bool
    num_parameters: int
    memory: MemoryEstimate
    device: str
    dtype: str
    notes: tuple[str, ...] = ()
    problems: str = ""
    mesh: MeshShape = ALONE

    @property
    def total_rounds(self) -> tuple[int, int]:
        """Fewest and most rounds of the whole run."""
        return self.rounds[0] * self.num_samples, self.rounds[1] * self.num_samples

    @property
    def is_remote(self) -> bool:
        """Whether a server does the work, of whose rounds and memory nothing is known here."""
        return self.device == SERVER

    def document(self) -> dict[str, Any]:
        """Return the plan as JSON values."""
        return {
            "settings": {name: setting.model_dump() for name, setting in self.settings.items()},
            "samples": self.num_samples,
            "available": self.num_available,
            "problems": self.problems,
            "rounds_per_sample": None if self.is_remote else list(self.rounds),
            "rounds": None if self.is_remote else list(self.total_rounds),
            "longest_prompt_tokens": None if self.is_remote else self.longest_prompt,
            "prompts_too_long": self.prompts_too_long,
            "parameters": self.num_parameters,
            "memory_bytes": {
                "weights": self.memory.weights,
                "cache": self.memory.cache,
                "logits": self.memory.logits,
                "total": self.memory.total,
            },
            "device": self.device,
            "dtype": self.dtype,
            "processes": asdict(self.mesh),
            "notes": list(self.notes),
        }


def make_plan(
    settings: Settings,
    answerer: Answerer,
    choice: Choice,
    *,
    device: str,
    dtype: str,
    mesh: MeshShape = ALONE,
) -> Plan:
    """Return the plan; `answerer` holds the decoder over a model without weights."""
    from lopa_bench.models.memory import MemoryEstimate, count_parameters, estimate_memory

    if device == SERVER:
        nothing = MemoryEstimate(0, 0, 0)
        counts = (len(choice.documents), choice.num_available)
        return Plan(settings.all, *counts, (0, 0), 0, False, 0, nothing, device, dtype, settings.notes)
    config: ModelConfig = answerer.decoder.model.config
    # Encoding every prompt would take long; the one with the most characters is as good as always the longest.
    longest = choice.longest_prompt
    length = once(("encoded", answerer.tokenizer, answerer.bos, longest), lambda: len(answerer.encode(longest)))
    budget = answerer.decoder.config.max_new_tokens
    if budget >= config.max_positions:
        raise ConfigError(
            f"answers of up to {budget} tokens leave no room for a prompt: '{answerer.decoder.model.name}' knows "
            f"{config.max_positions} positions; give a smaller --max-new-tokens"
        )
    branches = getattr(answerer.decoder.config, "branches", 1)
    capacity = min(length, answerer.max_prompt_tokens) + budget
    return Plan(
        settings=settings.all,
        num_samples=len(choice.documents),
        num_available=choice.num_available,
        rounds=answerer.decoder.round_range,
        longest_prompt=length,
        prompts_too_long=length > answerer.max_prompt_tokens,
        num_parameters=count_parameters(config),
        memory=estimate_memory(
            config,
            dtype,
            capacity,
            -(-branches // mesh.branch),
            window=1 if config.causal else budget,
            batch_size=min(answerer.batch_size, len(choice.documents)),
            eight_bit=settings["quantize"] is not None,
            tensor_parallel=mesh.tensor,
        ),
        device=device,
        dtype=dtype,
        notes=settings.notes,
        mesh=mesh,
    )

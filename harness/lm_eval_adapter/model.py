"""This program's decoders as a language model of lm-eval: `lm_eval --model lopa-bench --model_args decoder=lopa,...`.

`lopa-bench run` asks its questions through the same object, so that both give the same answers.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from lm_eval.api.model import LM

from lopa_bench.errors import ConfigError, DecodeError
from lopa_bench.harness.answering import Answer, Answerer, Question, render_chat
from lopa_bench.harness.servers.settings import SERVER
from lopa_bench.harness.settings import RunSpec, Settings, resolve

if TYPE_CHECKING:
    from lm_eval.api.instance import Instance

    from lopa_bench.decoders.rounds import Round

logger = logging.getLogger(__name__)

NO_LIKELIHOOD = (
    "lopa-bench models generate only: a diffusion model's likelihood takes a Monte-Carlo estimate, which is not built "
    "yet; choose tasks that generate text, such as gsm8k"
)
# Arguments that lm-eval gives to every model and that mean nothing here.
IGNORED = ("max_batch_size", "trust_remote_code")


class AnsweringLM(LM):
    """lm-eval's view of an `Answerer`."""

    def __init__(self, answerer: Answerer, settings: Settings | None = None) -> None:
        super().__init__()
        self.answerer = answerer
        self.settings = settings
        self.answers: list[Answer] = []

    def answer(
        self,
        prompt: str,
        stop: Sequence[str] = (),
        *,
        seed: int = 0,
        trace: bool = False,
        on_round: Callable[[Round], None] | None = None,
    ) -> Answer:
        """Generate one answer; see `Answerer.answer`."""
        return self.answerer.answer(prompt, stop, seed=seed, trace=trace, on_round=on_round)

    def answer_all(
        self,
        questions: Sequence[Question],
        *,
        trace: bool = False,
        on_round: Callable[[Round], None] | None = None,
    ) -> Iterator[Answer]:
        """Generate several answers in the order of the questions; see `Answerer.answer_all`."""
        return self.answerer.answer_all(questions, trace=trace, on_round=on_round)

    def generate_until(self, requests: list[Instance], disable_tqdm: bool = False) -> list[str]:
        """Return the answers to lm-eval's requests, each cut at its `until` strings.

        Raises:
            DecodeError: an answer that must not be scored; lm-eval has no place for it.
        """
        from tqdm import tqdm  # type: ignore[import-untyped]

        self._warn_of_length(requests)
        questions = [
            Question(request.args[0], stop_words(request.args[1].get("until")), self._seed(request))
            for request in requests
        ]
        pairs = zip(requests, self.answer_all(questions), strict=True)
        texts = []
        for request, answer in tqdm(pairs, total=len(requests), disable=disable_tqdm, desc="lopa-bench"):
            if answer.outcome.error is not None:
                raise DecodeError(f"document {request.doc_id} of {request.task_name}: {answer.outcome.error}")
            self.answers.append(answer)
            self.cache_hook.add_partial("generate_until", request.args, answer.kept)
            texts.append(answer.kept)
        return texts

    def _seed(self, request: Instance) -> int:
        from lopa_bench.harness.identity import sample_seed

        seed = self.settings["seed"] if self.settings is not None else 0
        return sample_seed(int(seed), f"{request.task_name}-{request.doc_id}-{request.idx}")

    def _warn_of_length(self, requests: list[Instance]) -> None:
        """Say once when a task asks for another length than the decoder was made for."""
        own = self.answerer.decoder.config.max_new_tokens
        asked = {request.args[1].get("max_gen_toks") for request in requests} - {None, own}
        if asked:
            logger.warning(
                "the task asks for at most %s new tokens, the decoder was made for %s; set it with max_new_tokens=...",
                ", ".join(map(str, sorted(asked))),
                own,
            )

    def loglikelihood(self, requests: list[Instance]) -> list[tuple[float, bool]]:
        """Refuse, with the reason."""
        raise ConfigError(NO_LIKELIHOOD)

    def loglikelihood_rolling(self, requests: list[Instance]) -> list[float]:
        """Refuse, with the reason."""
        raise ConfigError(NO_LIKELIHOOD)

    def apply_chat_template(self, chat_history: list[dict[str, str]], add_generation_prompt: bool = True) -> str:
        """Return a conversation as the tokenizer's own template writes it."""
        return render_chat(self.answerer.tokenizer, chat_history, add_generation_prompt)

    @property
    def tokenizer_name(self) -> str:
        """Name that lm-eval's request cache knows the prompts by."""
        return str(getattr(self.answerer.tokenizer, "name_or_path", "") or self.answerer.decoder.model.name)

    def chat_template(self, chat_template: bool | str = False) -> str | None:
        """Return the tokenizer's template; lm-eval may ask for it by True or by name."""
        if not chat_template:
            return None
        template = getattr(self.answerer.tokenizer, "chat_template", None)
        if isinstance(template, dict):
            name = chat_template if isinstance(chat_template, str) else "default"
            if name not in template:
                raise ConfigError(f"the tokenizer has no chat template '{name}'; it has {', '.join(template)}")
            return str(template[name])
        return template

    def get_model_info(self) -> dict[str, Any]:
        """Return decoder, options and what the answers took; lm-eval stores it with its results."""
        tokens = [answer.outcome.tokens.useful for answer in self.answers]
        rounds = [answer.outcome.work.rounds for answer in self.answers]
        seconds = [answer.outcome.time.total_s for answer in self.answers]
        options = self.settings.options if self.settings is not None else {}
        return {
            "lopa_bench": {
                "decoder": self.answerer.decoder.name,
                "options": {name: setting.value for name, setting in options.items()},
                "useful_tokens": sum(tokens),
                "rounds": sum(rounds),
                "tpf": sum(tokens) / sum(rounds) if sum(rounds) else None,
                "tokens_per_second": sum(tokens) / sum(seconds) if sum(seconds) else None,
            }
        }


class LopaBenchLM(AnsweringLM):
    """The model that `lm_eval --model lopa-bench` makes from its `--model_args`.

    Args:
        decoder: its name; needed unless `preset` says it.
        model: checkpoint, as in `lopa-bench run --model`; by default the bundled one of the decoder's kind.
        preset: name of a published setting; its task, shots and chat settings are lm-eval's to give.
        device: lm-eval asks for "cuda:0" unless told otherwise; without one the CPU is used, and a line says so.
        arguments: any other setting of `lopa-bench run` (adapter, dtype, seed, bos, ...) or option of the decoder.
    """

    def __init__(
        self,
        decoder: str | None = None,
        model: str | None = None,
        preset: str | None = None,
        device: str | None = None,
        **arguments: Any,
    ) -> None:
        from lopa_bench.decoders.options import whole_number
        from lopa_bench.harness.loading import load_answerer, set_threads

        known = {
            name
            for name in RunSpec.__dataclass_fields__
            if name not in ("task", "options", "limit", "samples", "subset", "dry_run", "fresh")
        }
        given = {name: value for name, value in arguments.items() if name in known}
        if "batch_size" in given:
            given["batch_size"] = whole_number("batch_size", given["batch_size"])
        options = {name: value for name, value in arguments.items() if name not in known and name not in IGNORED}
        spec = RunSpec(decoder=decoder, model=model, preset=preset, device=_usable(device), options=options, **given)
        settings = resolve(spec, needs_task=False)
        if settings["decoder"] == SERVER:
            raise ConfigError("decoder server is for `lopa-bench run`; lm-eval has its own: --model local-completions")
        for note in settings.notes:
            logger.warning("%s", note)
        set_threads(settings)
        super().__init__(load_answerer(settings), settings)


def stop_words(until: str | Sequence[str] | None) -> tuple[str, ...]:
    """Return lm-eval's `until`, a text or a list of them, as a tuple without empty ones."""
    words = [until] if isinstance(until, str) else list(until or ())
    return tuple(word for word in words if word)


def _usable(device: str | None) -> str | None:
    if device is None or not str(device).startswith("cuda"):
        return device
    import torch

    if torch.cuda.is_available():
        return device
    logger.info("device %s is not there; running on the CPU", device)
    return "cpu"

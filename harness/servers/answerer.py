"""Answers from a completions server: questions, stops and scoring as for the decoders here, timed from outside.

What goes on inside is not known: such answers have no rounds and no model calls, and every figure made of these is n/a.
"""

from __future__ import annotations

import hashlib
import logging
import os
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from lopa_bench.errors import ConfigError, DecodeError, PrerequisiteError, nearest
from lopa_bench.harness.answering import Answer, Question
from lopa_bench.harness.clocks import Clock, HostClock, Shares
from lopa_bench.harness.driver import Outcome
from lopa_bench.harness.servers.answers import Completion
from lopa_bench.harness.servers.client import ServerClient
from lopa_bench.harness.servers.settings import SERVER, ServerDecoder
from lopa_bench.results.schema import Environment, ModelInfo, Setting, StoppedBy, TimeLedger, TokenLedger, Why

if TYPE_CHECKING:
    from lopa_bench.harness.settings import Settings

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class ServerSource:
    """The server that settings name, in the place of a checkpoint."""

    settings: Settings

    @cached_property
    def client(self) -> ServerClient:
        """Speaks to it.

        Raises:
            PrerequisiteError: the variable that should hold the key is not set.
        """
        variable = self.settings["api_key_env"]
        key = os.environ.get(str(variable), "").strip() if variable is not None else None
        if variable is not None and not key:
            raise PrerequisiteError(f"--api-key-env {variable}: there is no such environment variable, or it is empty")
        if key is not None and not (key.isascii() and key.isprintable()):
            raise PrerequisiteError(f"--api-key-env {variable}: its content holds characters that no key has")
        return ServerClient(
            str(self.settings["base_url"]), api_key=key, timeout_s=float(self.settings["request_timeout"])
        )

    @cached_property
    def version(self) -> str:
        """What the server says of its version."""
        return self.client.version()

    @cached_property
    def tokenizer(self) -> Any:
        """The tokenizer that was named, None where none was."""
        name = self.settings["tokenizer"]
        if name is None:
            return None
        from lopa_bench.models.loading import load_tokenizer

        return load_tokenizer(str(name), offline=bool(self.settings["offline"]))

    def check(self) -> None:
        """Connect, and settle which of its models is meant; the settings' `model` is that one from then on.

        Raises:
            PrerequisiteError: the server cannot be reached.
            ConfigError: it has no such model, or several and none was named.
        """
        asked, names = self.settings["model"], self.client.model_names()
        if names is None:
            if asked is None:
                short = "" if self.client.base_url.endswith("/v1") else ", or end the address in /v1 if that is missing"
                raise ConfigError(
                    f"the server at {self.client.base_url} does not list its models; name one with --model NAME{short}"
                )
            return
        if asked is None and len(names) == 1:
            self.settings.run["model"] = Setting(value=names[0])
        elif asked not in names:
            what = "several models" if asked is None else f"no model '{asked}'{nearest(str(asked), names)}"
            has = ", ".join(names) if names else "none"
            raise ConfigError(f"the server at {self.client.base_url} has {what}; give --model, it has: {has}")

    def unloaded_decoder(self) -> ServerDecoder:
        """What stands for the decoder."""
        return ServerDecoder(self.settings.config)  # type: ignore[arg-type]

    def load(self, device: str, dtype: str, tensors: object = None) -> ServerClient:
        """Return what answers; nothing is loaded here."""
        return self.client

    def info(self) -> ModelInfo:
        """What a run record says of the model: there are no weights to hash, so the hash is of where and what it is."""
        identity = "\n".join((self.client.base_url, str(self.settings["model"]), self.version))
        digest = hashlib.sha256(identity.encode()).hexdigest()
        return ModelInfo(name=str(self.settings["model"]), family=SERVER, revision=self.version, hash=digest)

    def environment(self, device: str, dtype: str) -> Environment:
        """Where the run runs, as far as it is known here."""
        from lopa_bench.harness.environment import describe_server

        return describe_server(f"{self.client.base_url} {self.version}".strip(), int(self.settings["concurrency"]))

    def answerer(self) -> ServerAnswerer:
        """What asks."""
        return ServerAnswerer(self.client, self.settings, self.tokenizer)


class ServerAnswerer:
    """Asks a server what an `Answerer` asks a decoder.

    Up to `concurrency` requests are under way at once. Every second is divided evenly among them, as among the answers
    of a batch; retries and the waiting before them count.
    """

    batch_size = 1

    def __init__(
        self, client: ServerClient, settings: Settings, tokenizer: Any = None, clock: Clock | None = None
    ) -> None:
        self.client, self.settings, self.tokenizer = client, settings, tokenizer
        self.decoder = ServerDecoder(settings.config)  # type: ignore[arg-type]
        self.concurrency = int(settings["concurrency"])
        self._clock = clock or HostClock()
        self._shares = Shares(self._clock)
        self._told: set[str] = set()

    def answer(self, prompt: str, stop: Sequence[str] = (), *, seed: int = 0, **_: Any) -> Answer:
        """Ask for one answer."""
        return self._ask(Question(prompt, tuple(stop), seed))

    def answer_all(
        self,
        questions: Sequence[Question],
        *,
        trace: bool = False,
        on_round: Callable[[Any], None] | None = None,
    ) -> Iterator[Answer]:
        """Yield the answers in the order of the questions.

        Raises:
            PrerequisiteError: the server is gone.
        """
        most = 1 if self.concurrency == 1 else 2 * self.concurrency  # some wait, so that a slow one holds none up
        ahead: deque[Future[Answer]] = deque()
        pool = ThreadPoolExecutor(self.concurrency)
        whole = False
        try:
            for question in questions:
                ahead.append(pool.submit(self._ask, question))
                if len(ahead) == most:
                    yield ahead.popleft().result()
            while ahead:
                yield ahead.popleft().result()
            whole = True
        finally:
            if not whole:
                self.client.abort()
            pool.shutdown(cancel_futures=True)

    def count(self, text: str) -> int | None:
        """Return how many tokens a text is, None without a tokenizer."""
        if self.tokenizer is None:
            return None
        return len(self.tokenizer(text, add_special_tokens=False, verbose=False)["input_ids"])

    def spell(self, ids: Sequence[int]) -> dict[int, str]:
        """Nothing: a server tells no ids."""
        return {}

    def body(self, question: Question) -> dict[str, Any]:
        """Return the request for a question."""
        config = self.decoder.config
        stop = [word for word in question.stop if word] if self.settings["stops_apply"] else []
        sampling = {"top_p": config.top_p, "top_k": config.top_k}
        body = {
            "model": self.settings["model"],
            "prompt": question.prompt,
            "max_tokens": config.max_new_tokens,
            "temperature": config.temperature,
            "seed": question.seed % 2**31,
            **{name: value for name, value in sampling.items() if value is not None},
            **({"stop": stop} if stop else {}),
        }
        if self.settings["chat"] or self.settings["bos"] is False:
            body["add_special_tokens"] = False  # a chat template writes its own
        return body

    def _ask(self, question: Question) -> Answer:
        name = object()
        self._shares.join(name)
        start = self._clock.now()
        completion, error = None, None
        try:
            completion = self.client.complete(self.body(question))
        except DecodeError as problem:
            error = str(problem)
        finally:
            share = self._shares.leave(name)
        elapsed = max(self._clock.now() - start, share)
        if completion is not None:
            try:
                return self._answered(question, completion, share, elapsed)
            except DecodeError as problem:
                error = str(problem)
        time = TimeLedger(decode_s=share, wait_s=elapsed - share)
        return Answer("", "", "budget", None, 0, Outcome(error=error, why=Why.DECODE_ERROR, time=time))

    def _answered(self, question: Question, found: Completion, share: float, elapsed: float) -> Answer:
        num_tokens, counted_by = self._count(found)
        hits = sorted(
            (found.text.index(word), word) for word in self.body(question).get("stop", ()) if word in found.text
        )
        kept = found.text[: hits[0][0]] if hits else found.text
        stop = hits[0][1] if hits else found.stop
        stopped_by: StoppedBy = "stop string" if stop else "budget" if found.finish_reason == "length" else "eos"
        num_kept = self.count(kept) if hits else num_tokens
        num_prompt = self.count(question.prompt) if found.num_prompt_tokens is None else found.num_prompt_tokens
        before = elapsed - found.total_s
        outcome = Outcome(
            ended_by_eos=stopped_by == "eos",
            tokens=TokenLedger(
                prompt=num_prompt or 0,
                useful=num_tokens,
                committed=num_tokens,
                kept=num_tokens if num_kept is None else num_kept,
            ),
            time=TimeLedger(
                decode_s=share,
                wait_s=elapsed - share,
                first_round_s=None if found.first_token_s is None else before + found.first_token_s,
            ),
            extra={"counted_by": counted_by, "retries": found.num_retries, "finish_reason": found.finish_reason},
        )
        return Answer(found.text, kept, stopped_by, stop, 0, outcome)

    def _count(self, found: Completion) -> tuple[int, str]:
        """Tokens of an answer and who counted them; the server knows best."""
        if found.num_tokens is not None:
            return found.num_tokens, "server"
        own = self.count(found.text)
        if own is not None:
            self._tell("the server does not say how many tokens it made; they are counted with --tokenizer")
            return own, "tokenizer"
        if found.num_pieces is not None:
            self._tell("the server does not say how many tokens it made; each piece of its stream is counted as one")
            return found.num_pieces, "pieces of the stream"
        raise DecodeError("the server does not say how many tokens it made; give --tokenizer to count them here")

    def _tell(self, line: str) -> None:
        if line not in self._told:
            self._told.add(line)
            logger.warning("%s", line)

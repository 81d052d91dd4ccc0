"""From prompts' texts to answers' texts: encoding, measured generation, cutting at the stop strings."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from lopa_bench.errors import ConfigError
from lopa_bench.harness.batching import Batcher
from lopa_bench.harness.clocks import Clock
from lopa_bench.harness.driver import Outcome, generate
from lopa_bench.results.schema import StoppedBy

if TYPE_CHECKING:
    from lopa_bench.decoders.base import Decoder
    from lopa_bench.decoders.rounds import Round


@dataclass(frozen=True)
class Question:
    """A prompt, the strings that end its answer, and the seed of the answer's random numbers."""

    prompt: str
    stop: tuple[str, ...] = ()
    seed: int = 0


@dataclass(frozen=True)
class Answer:
    """One answer: `text` is all that came before the EOS, `kept` what the stop strings leave of it.

    `outcome` holds ids and ledgers; its `tokens.kept` counts the tokens of `kept`.
    """

    text: str
    kept: str
    stopped_by: StoppedBy
    stop_string: str | None
    prompt_tokens_cut: int
    outcome: Outcome


class Answerer:
    """A decoder with its tokenizer.

    Args:
        decoder: what decodes.
        tokenizer: a transformers tokenizer, or anything with its `__call__`, `decode`, ids and special tokens.
        bos: put the BOS in front of every prompt (True), never (False), or leave it to the tokenizer (None).
        stops_apply: False leaves the text uncut, as the authors' `escape_until` does.
        clock: the device's clock, for tests.
        batch_size: answers that `answer_all` makes at once.
    """

    def __init__(
        self,
        decoder: Decoder,
        tokenizer: Any,
        *,
        bos: bool | None = None,
        stops_apply: bool = True,
        clock: Clock | None = None,
        batch_size: int = 1,
    ) -> None:
        if bos and tokenizer.bos_token_id is None:
            raise ConfigError(f"the tokenizer of {decoder.model.name} has no BOS token; use --no-bos")
        self.decoder = decoder
        self.tokenizer = tokenizer
        self.bos = bos
        self.stops_apply = stops_apply
        self.clock = clock
        self.batch_size = batch_size

    @property
    def max_prompt_tokens(self) -> int:
        """Tokens of a prompt that leave room for a whole answer in the model's context."""
        return max(self.decoder.model.config.max_positions - self.decoder.config.max_new_tokens, 1)

    def encode(self, prompt: str) -> list[int]:
        """Return the ids of a prompt: never with two BOS, exactly one when `bos` is True, none when it is False."""
        ids = list(self.tokenizer(prompt, add_special_tokens=self.bos is None, verbose=False)["input_ids"])
        bos = self.tokenizer.bos_token_id
        while len(ids) > 1 and bos is not None and ids[0] == ids[1] == bos:
            ids = ids[1:]  # the template wrote one and the tokenizer another
        if self.bos is True and ids[:1] != [bos]:
            ids = [bos, *ids]
        if self.bos is False and bos is not None and ids[:1] == [bos]:
            ids = ids[1:]
        return ids

    def answer(
        self,
        prompt: str,
        stop: Sequence[str] = (),
        *,
        seed: int = 0,
        trace: bool = False,
        on_round: Callable[[Round], None] | None = None,
    ) -> Answer:
        """Generate one answer; a prompt longer than the context loses its beginning, and the answer says how much."""
        ids = self.encode(prompt)
        surplus = max(len(ids) - self.max_prompt_tokens, 0)
        outcome = generate(self.decoder, ids[surplus:], seed=seed, clock=self.clock, trace=trace, on_round=on_round)
        return self._cut(outcome, stop, surplus)

    def answer_all(
        self,
        questions: Sequence[Question],
        *,
        trace: bool = False,
        on_round: Callable[[Round], None] | None = None,
    ) -> Iterator[Answer]:
        """Generate the answers in the order of the questions, `batch_size` at once; nothing is done before it is asked.

        Together they have the same tokens as one by one, see `batching`; `on_round` hears of every round of each.
        """
        if self.batch_size == 1:
            for one in questions:
                yield self.answer(one.prompt, one.stop, seed=one.seed, trace=trace, on_round=on_round)
            return
        batcher = Batcher(self.decoder, self.clock)
        for first in range(0, len(questions), self.batch_size):
            group = questions[first : first + self.batch_size]
            encoded = [self.encode(one.prompt) for one in group]
            surplus = [max(len(ids) - self.max_prompt_tokens, 0) for ids in encoded]
            prompts = [ids[cut:] for ids, cut in zip(encoded, surplus, strict=True)]
            outcomes = batcher.generate(prompts, [one.seed for one in group], trace=trace, on_round=on_round)
            for one, outcome, cut in zip(group, outcomes, surplus, strict=True):
                yield self._cut(outcome, one.stop, cut)

    def _cut(self, outcome: Outcome, stop: Sequence[str], surplus: int) -> Answer:
        stop = [word for word in stop if word] if self.stops_apply else []
        ids, special = self._before_stop_token(outcome.useful, stop)
        text = self.decode(ids)
        hits = sorted((text.index(word), word) for word in stop if word in text)
        kept = text[: hits[0][0]] if hits else text
        word = hits[0][1] if hits else special
        num_kept = self.count_covering(ids, len(kept)) if hits else len(ids)
        tokens = outcome.tokens.model_copy(update={"kept": num_kept})
        stopped_by: StoppedBy = "stop string" if word else "eos" if outcome.ended_by_eos else "budget"
        full = text if special is None else self.decode(outcome.useful)
        return Answer(full, kept, stopped_by, word, surplus, replace(outcome, tokens=tokens))

    def decode(self, ids: Sequence[int]) -> str:
        """Return the text of some ids, without special tokens and with every space as it was generated."""
        return self.tokenizer.decode(list(ids), skip_special_tokens=True, clean_up_tokenization_spaces=False)

    def spell(self, ids: Iterable[int]) -> dict[int, str]:
        """Return the text of each id by itself, special tokens by their names."""
        return {
            token: self.tokenizer.decode([token], skip_special_tokens=False, clean_up_tokenization_spaces=False)
            for token in sorted(set(ids))
        }

    def _before_stop_token(self, ids: Sequence[int], stop: Sequence[str]) -> tuple[Sequence[int], str | None]:
        """Cut at the first id that is, as a special token, one of the stop strings; decoding would drop it unseen."""
        special = dict(zip(self.tokenizer.all_special_tokens, self.tokenizer.all_special_ids, strict=True))
        words = {special[word]: word for word in stop if word in special}
        for index, token in enumerate(ids):
            if token in words:
                return ids[:index], words[token]
        return ids, None

    def count_covering(self, ids: Sequence[int], num_characters: int) -> int:
        """Return how many of the first ids it takes to spell the first `num_characters` of their text."""
        low, high = 0, len(ids)
        while low < high:
            middle = (low + high) // 2
            if len(self.decode(ids[:middle])) >= num_characters:
                high = middle
            else:
                low = middle + 1
        return low


def render_chat(tokenizer: Any, history: Sequence[dict[str, str]], add_generation_prompt: bool = True) -> str:
    """Render a conversation with the tokenizer's own template; an unfinished assistant turn is left open.

    Raises:
        ConfigError: the tokenizer has no template.
    """
    if not getattr(tokenizer, "chat_template", None):
        name = getattr(tokenizer, "name_or_path", "") or "this model"
        raise ConfigError(f"the tokenizer of {name} has no chat template; use --no-chat")
    return tokenizer.apply_chat_template(
        list(history),
        tokenize=False,
        add_generation_prompt=add_generation_prompt,
        continue_final_message=not add_generation_prompt,
    )

"""One sample of a stored run as a page for a reader: what was asked, what came, how it was judged, what it took."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from lopa_bench.errors import ConfigError, nearest

if TYPE_CHECKING:
    from lopa_bench.results.schema import SampleRecord
    from lopa_bench.results.store import StoredRun

NOT_STORED = "(not stored: the run was made by an earlier version)"


def find_sample(run: StoredRun, sample_id: str) -> SampleRecord:
    """Return the sample of this id, or of this number when only one id ends in it.

    Raises:
        ConfigError: there is none; names the nearest.
    """
    by_id = {sample.id: sample for sample in run.samples}
    if sample_id in by_id:
        return by_id[sample_id]
    if sample_id.isdecimal():
        numbered = [name for name in by_id if _number(name) == int(sample_id)]
        if len(numbered) == 1:
            return by_id[numbered[0]]
    known = f"; it holds {next(iter(by_id))} to {next(reversed(by_id))}" if by_id else "; it holds none yet"
    hint = nearest(sample_id, by_id) or known
    raise ConfigError(f"run {run.record.id} has no sample '{sample_id}'{hint}")


def _number(sample_id: str) -> int | None:
    last = sample_id.rpartition("-")[2]
    return int(last) if last.isdecimal() else None


def sample_lines(run: StoredRun, sample: SampleRecord) -> Iterator[str]:
    """Yield the page, line by line."""
    yield f"{sample.id} of run {run.record.id}"
    yield f"verdict: {_verdict(sample)}"
    for name, score in sample.scores.items():
        yield f"  {name} = {score:g}"
    if sample.error:
        yield f"error: {sample.error}"
    absent = NOT_STORED if sample.prompt_hash and not sample.prompt else ""
    yield from _text("prompt", sample.prompt, absent)
    if sample.prompt_tokens_cut:
        yield f"  its first {sample.prompt_tokens_cut} tokens were cut to fit the context"
    yield from _text("raw answer", sample.text)
    if sample.text_kept != sample.text:
        yield from _text("answer kept", sample.text_kept)
    yield from _text("extracted", sample.extracted)
    yield from _text("target", sample.target, absent)
    yield from _ledgers(sample)


def _verdict(sample: SampleRecord) -> str:
    from lopa_bench.results.reasons import MEANINGS, words_of

    if sample.status == "error":
        verdict = "none, the sample could not be judged"
    elif sample.correct is None:
        verdict = "none"
    else:
        verdict = "right" if sample.correct >= 1 else "not right"
    words = [f"{word} ({MEANINGS[word]})" if word in MEANINGS else word for word in sorted(words_of(sample))]
    return "; ".join([verdict, *words])


def _text(title: str, text: str | None, absent: str = "") -> Iterator[str]:
    """Yield a text under its title, every line marked, so that nothing in it is taken for a title."""
    from lopa_bench.results.characters import visible

    if text is None or text == "":
        yield f"{title}: {absent or ('none' if text is None else 'empty')}"
        return
    yield f"{title}:"
    yield from (f"  | {line}" for line in visible(text).split("\n"))


def _ledgers(sample: SampleRecord) -> Iterator[str]:
    word = f" {sample.stop_string!r}" if sample.stop_string else ""
    yield f"ended by: {sample.stopped_by or 'an error'}{word}"
    for title, ledger in (("tokens", sample.tokens), ("work", sample.work)):
        yield f"{title}: " + ", ".join(f"{name} {value}" for name, value in ledger.model_dump().items())
    seconds = {name: value for name, value in sample.time.model_dump().items() if value is not None}
    yield "time: " + ", ".join(f"{name} {value:.4f}" for name, value in seconds.items())
    if sample.work.rounds:
        yield f"tokens per round: {sample.tokens.useful / sample.work.rounds:.2f}"
    other = {"seed": sample.seed, "masks left": sample.masks_left, **sample.extra}
    yield "other: " + ", ".join(f"{name} {value}" for name, value in other.items())
    yield f"token ids: {' '.join(map(str, sample.token_ids)) or 'none'}"

"""Why a score is low: one table of all words for what goes wrong, and the samples of a run that each holds for."""

from __future__ import annotations

from collections.abc import Sequence

from lopa_bench.results.schema import Reason, SampleRecord, Why

IDS_SHOWN = 3
WRONG_FORMAT = "wrong format"
PROMPT_CUT = "prompt cut"
KNOWN_BAD_TEST = "known-bad test"
RECITATION = "recitation"
UNSCORED = "unscored"
LENIENT = ("flexible", "math_verify")  # parts of the names of scores that forgive the form of an answer

MEANINGS: dict[str, str] = {
    Why.OUT_OF_MEMORY: "the device had no room for this sample; it was not judged, the same command tries it again",
    Why.NAN_LOGITS: "the model's output was not a number; it was not judged, the same command tries it again",
    Why.MASKS_LEFT: "the decoder ended with unfilled slots; it was not judged, the same command tries it again",
    Why.DECODE_ERROR: "decoding could not be brought to an end; `show RUN --sample ID` says how",
    Why.SCORER_ERROR: "the scorer failed, not the answer; it was not judged",
    Why.EMPTY: "the answer has no text: the model ended it at once",
    Why.TRUNCATED: "the token budget was used up before an EOS or a stop string; try a larger max_new_tokens",
    Why.NOT_EXTRACTED: "there is text, but nothing in it that the task could take for an answer",
    RECITATION: "more than one final answer: it goes on to other problems, and the wrong one was taken",
    WRONG_FORMAT: "right by a lenient reading, but not in the form that the task asks for",
    Why.CUT_INSIDE_FENCE: "a stop string or the budget cut the answer within its code fence",
    Why.SANITIZE_ERROR: "the clean-up failed, and the answer was judged as it was",
    Why.SYNTAX_ERROR: "the program is not Python",
    Why.NO_SUCH_FUNCTION: "the program lacks the function that was asked for",
    Why.OUTSIDE_SUBSET: "the program uses what is not run here",
    Why.RUNTIME_ERROR: "the program raised an exception",
    Why.TIMEOUT: "the program was stopped at its time limit",
    Why.CRASHED: "the program's process ended by itself",
    Why.KILLED: "the program's process was killed, mostly for its memory",
    Why.TOO_MUCH_OUTPUT: "the program wrote more than it may",
    KNOWN_BAD_TEST: "the program fails nothing but tests whose expected value is known to be wrong",
    PROMPT_CUT: "the prompt was longer than the context leaves room for and lost its beginning",
    UNSCORED: "there is an answer without a verdict",
    Why.WRONG: "an answer was found and it is wrong",
}


def error_word(sample: SampleRecord) -> str:
    """Return the word for a sample that could not be judged; records of schema version 1 have only a sentence."""
    if sample.why is not None:
        return sample.why
    sentence = sample.error or ""
    if sentence.startswith("out of memory"):
        return Why.OUT_OF_MEMORY
    if sentence.startswith(Why.SCORER_ERROR):
        return Why.SCORER_ERROR
    if "NaN" in sentence:
        return Why.NAN_LOGITS
    return Why.MASKS_LEFT if sample.masks_left else Why.DECODE_ERROR


def words_of(sample: SampleRecord) -> set[str]:
    """Return every word that says why a sample is not right, or may not be; empty for a good one.

    An answer may have several: one that ran out of budget is "truncated" and may be "not extracted" too. "wrong" is for
    answers with no other word.
    """
    words = {PROMPT_CUT} if sample.prompt_tokens_cut else set()
    if sample.status == "error":
        return words | {error_word(sample)}
    if sample.correct is None:
        return words | {UNSCORED}
    if _is_right_when_lenient(sample):
        words.add(WRONG_FORMAT)
    if sample.correct >= 1.0:
        return words
    found = {sample.why} if sample.why not in (None, Why.WRONG) else set()
    if sample.stopped_by == "budget":
        found.add(Why.TRUNCATED)
        if sample.extracted is None and Why.EMPTY not in found:
            found.add(Why.NOT_EXTRACTED)
    if not found and WRONG_FORMAT not in words:
        found.add(Why.WRONG)
    return words | {str(word) for word in found}


def _is_right_when_lenient(sample: SampleRecord) -> bool:
    """Tell whether a flexible filter found the right answer where a strict one of the same task did not."""
    lenient = {name for name in sample.scores if any(word in name for word in LENIENT)}
    flexible = [score for name, score in sample.scores.items() if name in lenient]
    strict = [score for name, score in sample.scores.items() if name not in lenient]
    return max(flexible, default=0.0) >= 1.0 and min(strict, default=1.0) < 1.0


def reasons(samples: Sequence[SampleRecord]) -> tuple[Reason, ...]:
    """Return what lowers the score of `samples`: unjudged ones first, plainly wrong ones last, else the most frequent.

    Shares are of the judged samples, for errors and cut prompts of all.
    """
    found: dict[str, list[SampleRecord]] = {}
    for sample in samples:
        for word in words_of(sample):
            found.setdefault(word, []).append(sample)
    num_judged = sum(sample.status == "ok" for sample in samples)
    listed = [
        Reason(
            word=word,
            meaning=MEANINGS.get(word, ""),
            count=len(those),
            of=len(samples) if word == PROMPT_CUT or those[0].status == "error" else num_judged,
            ids=tuple(sample.id for sample in those[:IDS_SHOWN]),
        )
        for word, those in found.items()
    ]
    errors = {error_word(sample) for sample in samples if sample.status == "error"}
    return tuple(sorted(listed, key=lambda one: (one.word not in errors, one.word == Why.WRONG, -one.count, one.word)))

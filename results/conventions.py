"""The same stored runs as other programs would have counted them: five meanings of "tokens", four of "forwards".

Each convention applies one program's own expressions to what a run holds; nothing is generated anew. It cannot undo how
the run was decoded: where that matters, a note says so. Sources are the programs named in `Convention.source`, as read
at the commits that docs/metrics.md lists.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from lopa_bench.errors import ConfigError, nearest
from lopa_bench.results.schema import RunRecord, SampleRecord, WorkLedger
from lopa_bench.results.trace import TraceRecord

D3LLM_WARMUP = 10

NEEDS_TRACE = "which tokens stand behind the EOS is known from a trace alone; run it again with --trace --new"
NEEDS_FIRST_ROUND = "the seconds of the first round were not measured"
SIDE_BY_SIDE = "answers were made side by side, that program makes one at a time"
NO_STEPS = "that program counts no forwards"
STEPS_NOT_HELD = (
    "what that program prints as NFE for Dream is an estimate, its setting diffusion_steps for each answer, and no "
    "record holds that"
)
SERVERS_OWN = "a server tells nothing of its rounds"


class Unknown(Exception):
    """The record lacks what a convention counts; the message says what."""


@dataclass(frozen=True)
class Answer:
    """One sample with its run and, where it was kept, its trace."""

    run: RunRecord
    sample: SampleRecord
    trace: TraceRecord | None = None

    @property
    def is_llada(self) -> bool:
        """True for LLaDA models, for which several authors have a program of its own."""
        return self.run.model.family == "llada"

    @property
    def work(self) -> WorkLedger:
        """What was counted of the work.

        Raises:
            Unknown: a server did it.
        """
        if self.run.environment.device == "server":
            raise Unknown(SERVERS_OWN)
        return self.sample.work

    @property
    def iterations(self) -> int:
        """Rounds that ran the network; for an autoregressive decoder the one that only found the EOS too."""
        if self.trace is not None:
            return len(self.trace.rounds)
        work = self.work
        return work.model_calls if self.run.decoder.name == "ar" else work.rounds

    @property
    def filled_ids(self) -> list[int]:
        """The ids of all filled slots, those behind the EOS included.

        Raises:
            Unknown: slots were filled behind the EOS and no trace says with what.
        """
        if self.trace is not None:
            budget = self.run.decoder.options.get("max_new_tokens")
            return [
                token
                for position, token in self.trace.tokens.items()
                if not isinstance(budget, int) or position < budget
            ]
        if len(self.sample.token_ids) != self.sample.tokens.committed:
            raise Unknown(NEEDS_TRACE)
        return list(self.sample.token_ids)

    @property
    def first_round_s(self) -> float:
        """Seconds of the first round, whatever it did.

        Raises:
            Unknown: it was not measured, or several answers were made in the time.
        """
        time = self.sample.time
        if time.wait_s:
            raise Unknown(SIDE_BY_SIDE)
        if time.first_round_s is None and not time.prefill_s:
            raise Unknown(NEEDS_FIRST_ROUND)
        return time.prefill_s if time.first_round_s is None else time.first_round_s

    def num_other_than(self, ids: Sequence[int | None]) -> int:
        """Count the filled slots that hold none of `ids`."""
        return sum(token not in ids for token in self.filled_ids)


Count = Callable[[Answer], float]


def _useful(one: Answer) -> float:
    return one.sample.tokens.useful


def _committed(one: Answer) -> float:
    return one.sample.tokens.committed


def _kept(one: Answer) -> float:
    return one.sample.tokens.kept


def _not_eos(one: Answer) -> float:
    return one.num_other_than([one.run.model.eos_token_id])


def _not_pad(one: Answer) -> float:
    return one.num_other_than([one.run.model.eos_token_id, one.run.model.pad_token_id])


def _d2f_tokens(one: Answer) -> float:
    return _kept(one) if one.is_llada else _not_eos(one)


def _fast_dllm_tokens(one: Answer) -> float:
    if not one.is_llada:
        return _not_eos(one)
    if one.run.task.name.startswith("humaneval") and "instruct" in one.run.model.name.lower():
        return one.sample.tokens.prompt + _not_eos(one)
    return _kept(one)


def _rounds(one: Answer) -> float:
    return one.work.rounds


def _iterations(one: Answer) -> float:
    return one.iterations


def _iterations_and_end(one: Answer) -> float:
    return one.iterations + 1


def _calls(one: Answer) -> float:
    return one.work.model_calls


def _no_steps(one: Answer) -> float:
    raise Unknown(NO_STEPS)


def _d2f_constant(one: Answer) -> float:
    if one.is_llada:
        return 1
    raise Unknown(STEPS_NOT_HELD)


def _fast_dllm_steps(one: Answer) -> float:
    return _calls(one) if one.is_llada else _no_steps(one)


def _seconds(one: Answer) -> float:
    return one.sample.time.total_s


def _seconds_after_first(one: Answer) -> float:
    return max(one.sample.time.total_s - one.first_round_s, 0.0)


@dataclass(frozen=True)
class Convention:
    """How one program counts. `skip` samples at the start take no part in its speeds; `sample_speeds` are printed too.

    `decodes_past_eos`: the program goes on after the EOS until all that is open is filled.
    `warmup_counts`: the program has no warm-up apart, so that samples marked as such take part in its speeds.
    `constant`: what the program adds for each answer to a number that it prints as its forwards, without counting any.
    """

    name: str
    source: str
    words: str
    tokens: Count
    steps: Count
    seconds: Count
    decodes_past_eos: bool = True
    skip: int = 0
    sample_speeds: bool = False
    warmup_counts: bool = True
    constant: Count | None = None


CONVENTIONS: dict[str, Convention] = {
    one.name: one
    for one in (
        Convention(
            "lopa-bench", "docs/metrics.md",
            "tokens before the first EOS; rounds; all seconds but those of warm-up samples",
            _useful, _rounds, _seconds, sample_speeds=True, warmup_counts=False, decodes_past_eos=False,
        ),
        Convention(
            "lopa-dream", "LoPA, scale_dream_d2f",
            "every filled slot, EOS and all behind it included; rounds and one more, which only sees that all is done; "
            "all seconds, the first sample's too",
            _committed, _iterations_and_end, _seconds,
        ),
        Convention(
            "lopa-diffucoder", "LoPA, scale_diffucoder_d2f",
            "filled slots that hold no pad, which is that model's EOS; rounds; all seconds",
            _not_pad, _iterations, _seconds,
        ),
        Convention(
            "lopa-dist", "LoPA, lopa_dist_nv",
            "every filled slot, EOS and all behind it included, those of the first round too; rounds and one more; "
            "seconds without the first round, in which the prompt is read",
            _committed, _iterations_and_end, _seconds_after_first, sample_speeds=True,
        ),
        Convention(
            "d2f", "Discrete-Diffusion-Forcing, D2F-eval",
            "Dream: filled slots that hold no EOS, LLaDA: tokens left after stop strings; no forwards are counted: "
            "what the program prints as NFE is a constant for each answer, 1 for LLaDA, its setting diffusion_steps "
            "for Dream; all seconds",
            _d2f_tokens, _no_steps, _seconds, constant=_d2f_constant,
        ),
        Convention(
            "fast-dllm", "Fast-dLLM, llada and dream",
            "Dream: filled slots that hold no EOS and no forwards; LLaDA: tokens left after stop strings (HumanEval on "
            "Instruct: prompt and answer without EOS) and model calls; all seconds",
            _fast_dllm_tokens, _fast_dllm_steps, _seconds,
        ),
        Convention(
            "d3llm", "d3LLM, its lm-eval fork",
            f"tokens left after stop strings; model calls; speeds without the first {D3LLM_WARMUP} answers",
            _kept, _calls, _seconds, skip=D3LLM_WARMUP, decodes_past_eos=False,
        ),
    )
}  # fmt: skip


def convention_named(name: str) -> Convention:
    """Return the convention of that name; ConfigError names the nearest when there is none."""
    if name not in CONVENTIONS:
        raise ConfigError(f"convention '{name}' not found{nearest(name, CONVENTIONS)}; choose from all, "
                          + ", ".join(CONVENTIONS))  # fmt: skip
    return CONVENTIONS[name]

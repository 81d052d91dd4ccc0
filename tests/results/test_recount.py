"""Other programs' ways of counting, on one answer counted by hand.

The canvas of eight slots, as it was filled in three rounds, holds `A A A EOS A PAD EOS A`: three useful tokens, two of
them left after the stop string. The first of the three rounds, which reads the prompt, takes 0.4 of the 1.0 seconds.
"""

from __future__ import annotations

from typing import Any

import pytest

from lopa_bench.errors import ConfigError
from lopa_bench.results.conventions import CONVENTIONS
from lopa_bench.results.recount import Recount, names_for, recount
from lopa_bench.results.schema import DecoderInfo, ModelInfo, TaskInfo
from lopa_bench.results.trace import RoundRecord, TraceRecord

A, EOS, PAD = 7, 2, 0
CANVAS = (A, A, A, EOS, A, PAD, EOS, A)
TRACE = TraceRecord(
    id="a",
    rounds=(
        RoundRecord(index=0, positions=(0, 1), tokens=(A, A), prefill=True),
        RoundRecord(index=1, positions=(3, 2), tokens=(EOS, A)),
        RoundRecord(index=2, positions=(4, 5, 6, 7), tokens=(A, PAD, EOS, A)),
    ),
)
# tokens, steps, seconds of each convention, for a Dream model.
BY_HAND: dict[str, tuple[int, int | None, float]] = {
    "lopa-bench": (3, 3, 1.0),
    "lopa-dream": (8, 4, 1.0),  # whole canvas; one more round, which sees the end
    "lopa-diffucoder": (5, 3, 1.0),  # neither EOS nor pad: A A A A A
    "lopa-dist": (8, 4, 0.6),  # whole canvas; the first round's seconds left out, its tokens not
    "d2f": (6, None, 1.0),  # no EOS: A A A A PAD A
    "fast-dllm": (6, None, 1.0),
}


@pytest.fixture
def count(make_run: Any, make_sample: Any) -> Any:
    def of(
        name: str,
        family: str = "dream",
        task: str = "gsm8k",
        model: str = "a model",
        trace: bool = True,
        early_stop: bool = False,
        num_samples: int = 1,
        **changes: Any,
    ) -> Recount:
        run = make_run(num_documents=1).model_copy(
            update={
                "id": "0001-run",
                "model": ModelInfo(name=model, family=family, eos_token_id=EOS, pad_token_id=PAD),
                "task": TaskInfo(name=task),
                "decoder": DecoderInfo(name="lopa", options={"max_new_tokens": 8, "early_stop": early_stop}),
            }
        )
        values = {
            "prompt": 100, "useful": 3, "committed": 8, "kept": 2, "rounds": 3, "model_calls": 3,
            "branch_forwards": 7, "decode_s": 1.0, "first_round_s": 0.4, "token_ids": CANVAS,
        }  # fmt: skip
        samples = [make_sample(f"s{index}", **(values | changes)) for index in range(num_samples)]
        traces = {sample.id: TRACE.model_copy(update={"id": sample.id}) for sample in samples} if trace else {}
        return recount(run, samples, traces, name)

    return of


@pytest.mark.parametrize("trace", [True, False])
@pytest.mark.parametrize("name", BY_HAND)
def test_each_convention_by_hand(count: Any, name: str, trace: bool) -> None:
    tokens, steps, seconds = BY_HAND[name]
    found = count(name, trace=trace)
    assert (found.tokens, found.steps, found.seconds) == (tokens, steps, pytest.approx(seconds))
    assert found.figures["tps"] == pytest.approx(tokens / seconds)
    assert found.figures["tpf"] == (None if steps is None else pytest.approx(tokens / steps))
    assert found.figures["latency_s"] == pytest.approx(seconds)


def test_programs_that_have_a_version_for_llada_count_kept_tokens(count: Any) -> None:
    assert (count("d2f", family="llada").tokens, count("fast-dllm", family="llada").tokens) == (2, 2)
    assert count("fast-dllm", family="llada").figures["tpf"] == pytest.approx(2 / 3)
    code = count("fast-dllm", family="llada", task="humaneval", model="GSAI-ML/LLaDA-8B-Instruct")
    assert (code.tokens, code.steps) == (106, 3)  # the prompt's hundred and A A A A PAD A
    assert count("fast-dllm", family="llada", task="humaneval", model="GSAI-ML/LLaDA-8B-Base").tokens == 2


def test_d3llm_counts_kept_tokens_and_calls_and_leaves_out_ten_answers_of_its_speed(count: Any) -> None:
    found = count("d3llm", num_samples=12)
    assert (found.n, found.tokens, found.steps, found.figures["tpf"]) == (12, 24, 36, pytest.approx(2 / 3))
    assert (found.n_timed, found.seconds, found.figures["tps"]) == (2, 2.0, 2.0)
    few = count("d3llm", num_samples=10)
    assert (few.figures["tps"], few.figures["latency_s"]) == (None, None)
    assert few.notes == ("d3llm of 0001-run: no answer is left whose seconds count",)


def test_a_calling_convention_counts_calls_not_branches(count: Any) -> None:
    assert count("d3llm", model_calls=7).steps == 7
    assert count("lopa-dream", model_calls=7).steps == 4


def test_warm_up_is_a_notion_of_this_program_alone(count: Any) -> None:
    assert (count("lopa-bench", warmup=True).seconds, count("lopa-dream", warmup=True).seconds) == (None, 1.0)
    assert count("lopa-dream", reused=True).seconds is None


def test_what_the_record_lacks_is_said_and_not_guessed(count: Any) -> None:
    cut = {"token_ids": CANVAS[:4], "early_stop": True, "trace": False}
    found = count("d2f", **cut)
    assert (found.tokens, found.figures["tps"]) == (None, None)
    assert "d2f of 0001-run: which tokens stand behind the EOS is known from a trace alone" in found.notes[0]
    assert count("d2f", **(cut | {"trace": True})).tokens == 6
    assert count("lopa-dream", **cut).tokens == 8
    unknown = count("lopa-dist", first_round_s=None)
    assert (unknown.seconds, unknown.figures["tps_mean"]) == (None, None)
    assert "the seconds of the first round were not measured" in unknown.notes[0]
    assert "side by side" in count("lopa-dist", wait_s=0.5).notes[0]
    assert count("d2f").notes[0] == "d2f of 0001-run: that program counts no forwards"


def test_the_nfe_that_d2f_prints_is_a_constant_and_makes_no_tpf(count: Any) -> None:
    """One for each answer with LLaDA; with Dream a setting that a run here does not have."""
    llada = count("d2f", family="llada", num_samples=3)
    assert (llada.printed_nfe, llada.steps, llada.figures["tpf"]) == (3, None, None)
    assert "d2f of 0001-run: the NFE of 3 that it prints is a constant for each answer" in llada.notes
    dream = count("d2f", num_samples=3)
    assert (dream.printed_nfe, dream.steps, dream.figures["tpf"]) == (None, None, None)
    assert any("diffusion_steps for each answer" in note and "no record holds that" in note for note in dream.notes)
    for name in CONVENTIONS:
        assert name == "d2f" or count(name, family="llada").printed_nfe is None


def test_a_run_that_stopped_at_the_eos_says_that_these_programs_do_not(count: Any) -> None:
    for name in CONVENTIONS:
        said = any("stopped at the EOS" in note for note in count(name, early_stop=True).notes)
        assert said == (name not in ("lopa-bench", "d3llm"))
        assert not any("stopped at the EOS" in note for note in count(name).notes)


def test_the_speeds_of_lopa_dist_are_means_best_and_top_ten(count: Any) -> None:
    figures = count("lopa-dist", num_samples=10).figures
    for name in ("tps", "tps_mean", "tps_max", "tps_top10"):
        assert figures[name] == pytest.approx(8 / 0.6)
    assert count("lopa-dist", num_samples=9).figures["tps_top10"] is None
    assert "tps_mean" not in count("d2f").figures


def test_an_answer_with_an_error_takes_no_part(count: Any) -> None:
    found = count("lopa-dream", status="error", error="NaN logits")
    assert (found.n, found.tokens, found.figures["tpf"]) == (0, None, None)


def test_an_unknown_convention_is_named_with_the_nearest() -> None:
    with pytest.raises(ConfigError, match=r"convention 'lopadist' not found \(did you mean 'lopa-dist'\?\)"):
        names_for("lopadist")
    assert names_for("all") == tuple(CONVENTIONS)

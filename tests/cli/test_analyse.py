"""Traces of real runs, of every decoder, analysed from the command line."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from lopa_bench.results.store import load_run
from lopa_bench.results.trace import ids_in

FROZEN = Path(__file__).parents[1] / "results" / "data" / "v1" / "0007-mini-maths-lopa"


def decode(call: Any, checkpoint: Path, decoder: str, *more: str) -> None:
    code, _, err = call(
        "run", "-t", "mini-maths", "-d", decoder, "-m", str(checkpoint), "-n", "2", "--warmup", "0", "--trace",
        "--max-new-tokens", "16", "--threads", "1", "-s", "early_stop=false", *more,
    )  # fmt: skip
    assert code == 0, err


LOPA = ("--branches", "4", "--block-length", "8", "--skip-threshold", "0.3")


@pytest.mark.parametrize("decoder", ["lopa", "d2f", "vanilla", "fast-dllm", "ar"])
def test_the_trace_of_every_decoder_tells_all(
    call: Any, diffusion_checkpoint: Path, causal_checkpoint: Path, decoder: str
) -> None:
    decode(call, causal_checkpoint if decoder == "ar" else diffusion_checkpoint, decoder)
    run = load_run("last", "runs")
    for trace, sample in zip(run.traces(), run.samples, strict=True):
        assert len(trace.filled_in) == sample.tokens.committed == trace.num_slots == 16
        assert [trace.tokens[position] for position in range(16)] == list(sample.token_ids)
        assert set(trace.texts) == ids_in(trace.rounds)
        assert any(len(word) > 1 and word in sample.text for word in trace.texts.values())  # random bytes may not spell
        assert all(one.num_slots is not None for one in trace.rounds)
        assert sum(one.model_calls for one in trace.rounds) == sample.work.model_calls
    code, out, _ = call("analyse", "last", "--json")
    [document] = json.loads(out)
    assert (code, document["order"]["n"], document["notes"]) == (0, 2, [])
    assert (document["branches"] is not None) == (decoder == "lopa")
    assert document["order"]["mean_burst"] == pytest.approx(32 / sum(document["order"]["bursts"].values()))
    if decoder == "ar":
        assert document["order"]["tau"] == pytest.approx(1.0)


def test_a_branch_s_harvest_is_what_it_would_have_been(call: Any, diffusion_checkpoint: Path) -> None:
    """Two rules of choice see the same branches in the first contested round, and one takes what the other left."""
    decode(call, diffusion_checkpoint, "lopa", *LOPA, "-s", "select=first")
    decode(call, diffusion_checkpoint, "lopa", *LOPA, "-s", "select=anchor")
    first, anchor = (list(load_run(number, "runs").traces()) for number in ("1", "2"))
    for one, other in zip(first, anchor, strict=True):
        index = next(one.index for one in one.rounds if len(one.branches) > 1)
        ahead, base = one.rounds[index], other.rounds[index]
        assert [branch.position for branch in ahead.branches] == [branch.position for branch in base.branches]
        assert ahead.lookahead_won and not base.lookahead_won
        assert ahead.branches[-1].num_filled == len(base.positions)
        assert base.branches[0].num_filled == len(ahead.positions)
        assert ahead.gain == len(ahead.positions) - len(base.positions)
        assert base.gain == 0


def test_tables_one_by_one_and_all_at_once(call: Any, diffusion_checkpoint: Path) -> None:
    decode(call, diffusion_checkpoint, "lopa", *LOPA)
    code, out, _ = call("analyse", "last")
    assert code == 0
    for title in (
        "order of filling",
        "slots filled by one round",
        "round by round",
        "branches",
        "where lookaheads win",
    ):
        assert title in out
    assert out.index("branches") < out.index("slots filled by one round")  # a row per run before many of each
    assert call("analyse", "last", "--table", "bursts", "--csv")[1].startswith("size,count,share,slots\n")
    assert "| run |" in call("analyse", "last", "--markdown")[1]
    code, _, err = call("analyse", "last", "--table", "burst")
    assert (code, "--table 'burst' not found (did you mean 'bursts'?)" in err) == (2, True)


def test_several_runs_stand_side_by_side(call: Any, diffusion_checkpoint: Path) -> None:
    for branches in ("1", "3"):
        decode(call, diffusion_checkpoint, "lopa", *LOPA, "--branches", branches)
    code, out, err = call("analyse", "1", "2")
    assert code == 0 and "round by round" not in out and "--table bursts, rounds or tenths" in err
    bursts = [line.split() for line in out[out.index("slots filled by one round") :].splitlines()]
    assert ["slots", "filled", "0001", "0002"] in bursts
    shares = [line[1:] for line in bursts if len(line) == 3 and line[0].isdecimal()]
    for column in (0, 1):
        assert sum(float(share[column]) for share in shares) == pytest.approx(100, abs=0.5)
    assert ["part", "of", "the", "answer", "0002"] in [line.split() for line in out.splitlines()]  # 1 leaves no choice


def test_a_run_without_traces_is_refused_with_what_to_do(call: Any, diffusion_checkpoint: Path) -> None:
    call("run", "-t", "mini-maths", "-d", "vanilla", "-m", str(diffusion_checkpoint), "-n", "1", "--warmup", "0",
         "--max-new-tokens", "4", "--block-length", "4")  # fmt: skip
    code, _, err = call("analyse", "last")
    assert code == 2
    assert "kept no traces; give its command again with --trace --new" in err


def test_traces_of_version_1_are_read_and_say_what_they_lack(call: Any) -> None:
    code, out, _ = call("analyse", str(FROZEN), "--json")
    [document] = json.loads(out)
    assert code == 0
    assert any("1 of 3 answers have a trace" in note for note in document["notes"])
    if document["branches"] and document["branches"]["num_contested"]:
        assert document["branches"]["gain"] is None
        assert any("schema version 1 do not say" in note for note in document["notes"])

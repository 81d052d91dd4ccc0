"""Real runs of every decoder analysed from the command line, with traces and without."""

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
    assert document["order"]["revised"] == sum(sample.extra["revised"] for sample in run.samples) / 32
    assert (document["order"]["block_tau"] is not None) == (decoder != "ar")


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
        "lookaheads by rank",
        "by length of the answer",
        "by length of the prompt",
        "TPF by part of the answer",
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
    assert code == 0 and "round by round" not in out and "--table bursts, rounds, places, ranks or tenths" in err
    bursts = [line.split() for line in out[out.index("slots filled by one round") :].splitlines()]
    assert ["slots", "filled", "0001", "0002"] in bursts
    shares = [line[1:] for line in bursts if len(line) == 3 and line[0].isdecimal()]
    for column in (0, 1):
        assert sum(float(share[column]) for share in shares) == pytest.approx(100, abs=0.5)
    assert ["part", "of", "the", "answer", "0002"] in [line.split() for line in out.splitlines()]  # 1 leaves no choice


def test_ranks_are_those_of_the_trace(call: Any, diffusion_checkpoint: Path) -> None:
    decode(call, diffusion_checkpoint, "lopa", *LOPA)
    rounds = [one for trace in load_run("last", "runs").traces() for one in trace.rounds if len(one.branches) > 1]
    _, out, _ = call("analyse", "last", "--table", "ranks", "--csv")
    header, *lines = (line.split(",") for line in out.splitlines())
    rows = {line[0]: dict(zip(header, line, strict=True)) for line in lines}
    assert list(rows) == ["anchor", *map(str, range(1, len(rows)))] and len(rows) > 1
    assert sum(int(row["won"]) for row in rows.values()) == len(rounds) == int(rows["anchor"]["tried"])
    assert sum(int(row["tried"]) for row in rows.values()) == sum(len(one.branches) for one in rounds)
    assert int(rows["anchor"]["won"]) == sum(not one.lookahead_won for one in rounds)


def test_a_share_of_few_lookaheads_is_not_given_and_any_other_has_its_interval(
    call: Any, diffusion_checkpoint: Path
) -> None:
    decode(call, diffusion_checkpoint, "lopa", *LOPA)
    _, out, _ = call("analyse", "last", "--table", "tenths", "--csv")
    header, *lines = (line.split(",") for line in out.splitlines())
    rows = [dict(zip(header, line, strict=True)) for line in lines]
    assert {int(row["tried"]) >= 5 for row in rows} == {True, False}
    for row in rows:
        told = {bool(row[key]) for key in ("share", "share_low", "share_high")}
        assert told == {int(row["tried"]) >= 5}
        if row["share"]:
            assert float(row["share_low"]) <= float(row["share"]) <= float(row["share_high"])


def untraced(call: Any, checkpoint: Path) -> None:
    code, _, err = call(
        "run", "-t", "mini-maths", "-d", "vanilla", "-m", str(checkpoint), "-n", "6", "--warmup", "0",
        "--max-new-tokens", "4", "--block-length", "4", "--threads", "1",
    )  # fmt: skip
    assert code == 0, err


def test_a_run_without_traces_has_its_lengths_and_says_how_to_get_the_rest(
    call: Any, diffusion_checkpoint: Path
) -> None:
    untraced(call, diffusion_checkpoint)
    run = load_run("last", "runs")
    code, out, err = call("analyse", "last")
    assert code == 0 and "by length of the answer" in out and "by length of the prompt" in out
    assert "kept no traces; give its command again with --trace --new" in err and "order of filling" not in out
    [document] = json.loads(call("analyse", "last", "--json")[1])
    [bucket] = document["lengths"]["answer"]
    assert (bucket["low"], bucket["high"], bucket["n"]) == (0, 15, 6) and document["order"] is None
    useful, rounds = sum(one.tokens.useful for one in run.samples), sum(one.work.rounds for one in run.samples)
    assert bucket["figures"]["tpf"]["value"] == pytest.approx(useful / rounds)
    assert call("analyse", "last", "--table", "prompts")[2] == "", "nothing was asked for that takes traces"
    for format in ("csv", "markdown", "latex"):
        assert call("analyse", "last", f"--{format}")[1] == call("analyse", "1", "--table", "lengths", f"--{format}")[1]
    for name in ("order", "bursts", "rounds", "branches", "ranks", "tenths", "places"):
        code, out, err = call("analyse", "last", "--table", name)
        assert (code, out) == (2, "")
        assert "kept no traces; give its command again with --trace --new" in err


def test_runs_with_and_without_traces_go_together(call: Any, diffusion_checkpoint: Path) -> None:
    untraced(call, diffusion_checkpoint)
    decode(call, diffusion_checkpoint, "lopa", *LOPA)
    code, out, err = call("analyse", "1", "2")
    assert code == 0 and "run 0001-mini-maths-vanilla-tiny-diffusion kept no traces" in err
    assert "order of filling" in out and "by length of the answer" in out
    lines = [line.split(",") for line in call("analyse", "1", "2", "--table", "lengths", "--csv")[1].splitlines()[1:]]
    counts = {name: sum(int(line[2]) for line in lines if line[0].startswith(name)) for name in ("0001", "0002")}
    assert counts == {"0001": 6, "0002": 2}


def test_a_run_with_nothing_but_errors_is_refused(call: Any, diffusion_checkpoint: Path) -> None:
    untraced(call, diffusion_checkpoint)
    file = load_run("last", "runs").path / "samples.jsonl"
    broken = [json.loads(line) | {"status": "error", "error": "lost"} for line in file.read_text().splitlines()]
    file.write_text("".join(json.dumps(one) + "\n" for one in broken))
    code, out, err = call("analyse", "last")
    assert (code, out) == (2, "") and "has no answer to analyse: it holds none that ended without an error" in err


def test_traces_of_version_1_are_read_and_say_what_they_lack(call: Any) -> None:
    code, out, _ = call("analyse", str(FROZEN), "--json")
    [document] = json.loads(out)
    assert code == 0
    assert any("1 of 3 answers have a trace" in note for note in document["notes"])
    if document["branches"] and document["branches"]["num_contested"]:
        assert document["branches"]["gain"] is None
        assert any("schema version 1 do not say" in note for note in document["notes"])

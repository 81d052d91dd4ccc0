"""Records that were damaged, edited or mixed up: one sentence each, and never another run's figures."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from stored import samples, store

from lopa_bench.cli.views import summary_of
from lopa_bench.errors import ResultsError
from lopa_bench.results.comparison.baseline_file import read_baseline
from lopa_bench.results.comparison.noise import read_noise
from lopa_bench.results.jsonl import GZIP_BEGINS, gzip_member
from lopa_bench.results.store import load_run, read_run
from lopa_bench.results.summary import follows_from, summarise
from lopa_bench.results.sweeps import read_sweep, sweep_file
from lopa_bench.results.trace import RoundRecord
from lopa_bench.results.upgrades import upgrade
from lopa_bench.results.writer import create_run

NOT_TO_BE_READ = {
    "nested without end": "[" * 100_000,
    "a number of thousands of digits": '{"id": "a", "seed": ' + "9" * 5000 + "}",
    "half a character": '{"id": "a", "text": "\\ud83d"}',
}


@pytest.mark.parametrize("name", NOT_TO_BE_READ)
def test_what_python_cannot_read_is_damaged(tmp_path: Path, name: str) -> None:
    run = store(tmp_path)
    (run.path / "samples.jsonl").write_text(NOT_TO_BE_READ[name] + "\n{}\n")
    with pytest.raises(ResultsError, match=r"samples\.jsonl is damaged at line 1"):
        read_run(run.path).samples  # noqa: B018
    file = tmp_path / "x.json"
    file.write_text(NOT_TO_BE_READ[name])
    for read in (read_baseline, read_noise):
        with pytest.raises(ResultsError, match="is damaged"):
            read(file)
    sweep_file(tmp_path, "s").parent.mkdir()
    sweep_file(tmp_path, "s").write_text(NOT_TO_BE_READ[name])
    with pytest.raises(ResultsError, match="is damaged"):
        read_sweep(tmp_path, "s")
    (run.path / "run.json").write_text(NOT_TO_BE_READ[name])
    with pytest.raises(ResultsError, match=r"run\.json is damaged"):
        read_run(run.path)


def test_a_whole_character_spelt_in_two_halves_is_text(tmp_path: Path) -> None:
    run = store(tmp_path, edit=lambda text: text.replace("She has 0 left", "She has \\ud83d\\ude00 left"))
    assert run.samples[0].text_kept.startswith("She has \U0001f600 left")


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ('"correct":1.0', '"correct":1.5'),
        ('"correct":1.0', '"correct":-3.0'),
        ('"useful":60', '"useful":' + "9" * 400),
        ('"decode_s":0.2', '"decode_s":1e308'),
    ],
)
def test_a_figure_that_nothing_can_have_is_refused(tmp_path: Path, before: str, after: str) -> None:
    run = store(tmp_path, edit=lambda text: text.replace(before, after, 1))
    with pytest.raises(ResultsError, match="is not a SampleRecord"):
        run.samples  # noqa: B018


def test_an_old_summary_that_is_none_is_damaged() -> None:
    with pytest.raises(ResultsError, match="a summary of schema version 1 is damaged"):
        upgrade("summary", {"schema_version": 1, "metrics": {"latency_s": 7}}, 1)


def test_a_summary_of_other_samples_is_not_shown(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    run, other = store(tmp_path, samples([1.0] * 8)), store(tmp_path, samples([0.0] * 20))
    for one in (run, other):
        (one.path / "summary.json").write_text(summarise(one.record, one.samples).model_dump_json())
    assert summary_of(load_run("1", tmp_path)).metrics["accuracy"].value == 1.0 and not caplog.text
    (run.path / "summary.json").write_text((other.path / "summary.json").read_text())
    found = summary_of(load_run("1", tmp_path))
    assert (found.n, found.metrics["accuracy"].value) == (8, 1.0) and "is not of its samples" in caplog.text
    (run.path / "summary.json").write_text("{")
    assert summary_of(load_run("1", tmp_path)).n == 8 and "summary.json is damaged" in caplog.text


def test_a_summary_follows_from_its_samples_to_the_last_second(tmp_path: Path) -> None:
    answers = samples()
    made = summarise(store(tmp_path).record, answers)
    assert follows_from(made, answers) and follows_from(made, answers[::-1])
    for changed in (samples([1.0] * 20), samples(slower=1.1), answers[1:], [*answers, *answers[:1]]):
        assert not follows_from(made, changed)


def test_traces_behind_damage_are_said_to_be_lost(
    tmp_path: Path, make_run: Any, caplog: pytest.LogCaptureFixture
) -> None:
    with create_run(tmp_path, "x", make_run()) as run:
        for id in ("a", "b", "c"):
            run.append_trace(id, [RoundRecord(index=0)])
    file = run.path / "traces.jsonl.gz"
    raw = bytearray(file.read_bytes())
    second = raw.index(GZIP_BEGINS, 1)
    raw[second + 12] ^= 0xFF
    file.write_bytes(raw)
    assert [trace.id for trace in read_run(run.path).traces()] == ["a"]
    assert f"damaged at byte {second}, and what stands from there on was left out" in caplog.text


def test_traces_of_another_run_are_left_out(
    tmp_path: Path, make_run: Any, make_sample: Any, caplog: pytest.LogCaptureFixture
) -> None:
    rounds = [RoundRecord(index=0, positions=(1, 0), tokens=(7, 8))]
    with create_run(tmp_path, "x", make_run()) as run:
        for id, more in (("own", {}), ("tokens", {"token_ids": (8, 9)}), ("rounds", {"rounds": 2})):
            run.append(make_sample(id, **{"token_ids": (8, 7), "rounds": 1, **more}))
            run.append_trace(id, rounds)
    assert [trace.id for trace in read_run(run.path).traces()] == ["own"]
    assert "2 of 3 traces are of other answers than this run's" in caplog.text


DAMAGED_TRACES = {
    "an id that is a list": b'{"id": ["a"], "rounds": []}',
    "a token without a place": b'{"id": "a", "rounds": [{"index": 0, "positions": [1, 2], "tokens": [1]}]}',
    "a winner that never ran": b'{"id": "a", "rounds": [{"index": 0, "winner": 3}]}',
    "a place before the answer": b'{"id": "a", "rounds": [{"index": 0, "positions": [-1], "tokens": [1]}]}',
    "a place that no answer has": b'{"id": "a", "rounds": [{"index": 0, "positions": [9999999999], "tokens": [1]}]}',
    "rounds that begin with the eighth": b'{"id": "a", "rounds": [{"index": 7}]}',
    "a number of thousands of digits": b'{"id": "a", "rounds": [{"index": ' + b"9" * 5000 + b"}]}",
}


@pytest.mark.parametrize("name", DAMAGED_TRACES)
def test_a_trace_that_does_not_fit_together_is_one_sentence(tmp_path: Path, make_run: Any, name: str) -> None:
    with create_run(tmp_path, "x", make_run()) as run:
        pass
    (run.path / "traces.jsonl.gz").write_bytes(gzip_member(DAMAGED_TRACES[name] + b"\n"))
    with pytest.raises(ResultsError, match=r"traces\.jsonl\.gz is (not a TraceRecord|damaged)"):
        list(read_run(run.path).traces())


@pytest.mark.parametrize("reference", ["x" * 300, "~nobody-of-this-name/run", ""])
def test_what_can_be_no_folder_is_no_run(tmp_path: Path, make_run: Any, reference: str) -> None:
    create_run(tmp_path, "x", make_run()).finish()
    with pytest.raises(ResultsError, match="not found"):
        load_run(reference, tmp_path)

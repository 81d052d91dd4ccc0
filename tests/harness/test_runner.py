"""Whole runs on a tiny random network: complete records, resuming, errors, what a change of settings does."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from fakes import FakeDevice

from lopa_bench.errors import ConfigError, DecodeError, PrerequisiteError, TaskDataError
from lopa_bench.harness import identity
from lopa_bench.harness.progress import Running, Silent
from lopa_bench.harness.runner import RunResult, run
from lopa_bench.harness.settings import RunSpec
from lopa_bench.results.schema import SampleRecord
from lopa_bench.results.store import load_run

Start = Callable[..., RunSpec]


class Listener(Silent):
    """Remembers what it was told."""

    def __init__(self) -> None:
        self.notes: list[str] = []
        self.samples: list[SampleRecord] = []
        self.done: list[int] = []

    def note(self, text: str) -> None:
        self.notes.append(text)

    def sampled(self, sample: SampleRecord, running: Running) -> None:
        self.samples.append(sample)
        self.done.append(running.num_done)


def ids(result: RunResult) -> list[str]:
    assert result.run is not None
    return [sample.id for sample in result.run.samples]


def test_a_run_leaves_a_complete_record(start: Start) -> None:
    result = run(start(command=("lopa-bench", "run")))
    assert result.run is not None and result.summary is not None
    record = result.run.record
    assert (result.run.status, result.num_new, record.command) == ("finished", 3, ("lopa-bench", "run"))
    assert record.id == "0001-mini-maths-lopa-2-branches-tiny-diffusion"
    assert (record.task.name, record.task.num_documents, record.task.num_available) == ("mini-maths", 3, 400)
    assert record.task.partial and record.task.prompts_hash
    assert record.model.hash and record.model.tokenizer_hash and record.model.family == "dream"
    assert record.decoder.options["branches"] == 2
    assert record.configuration["block_size"].origin == "flag"
    assert record.configuration["tau_conf"].origin == "default"
    assert (record.environment.device, record.environment.dtype) == ("cpu", "float32")
    assert record.environment.packages["torch"]
    sample = result.run.samples[0]
    assert (sample.id, sample.status) == ("mini-maths-0000", "ok")
    assert sample.tokens.committed == 12 and 0 < sample.work.rounds <= 12
    assert sample.time.decode_s > 0 and sample.time.first_round_s is not None
    assert sample.correct == 0.0 and sample.why is not None
    assert len(sample.token_ids) <= 12 and sample.prompt_hash
    assert result.summary.n == 3


def test_the_same_command_again_generates_nothing(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    first = run(start())
    monkeypatch.setattr("lopa_bench.models.loading.load_model", lambda *_, **__: pytest.fail("a model was loaded"))
    listener = Listener()
    again = run(start(), listener)
    assert (again.num_new, listener.samples) == (0, [])
    assert again.summary == first.summary
    assert again.run is not None and first.run is not None and again.run.path == first.run.path
    assert listener.notes[-1].endswith("already holds all 3 answers; nothing was generated")


def test_a_run_of_other_processes_is_answered_from_with_a_word_on_its_speeds(start: Start) -> None:
    first = run(start()).run
    assert first is not None
    file = first.path / "run.json"
    record = json.loads(file.read_text())
    record["environment"]["groups"] = {"dp": 1, "bp": 2, "tp": 1}
    file.write_text(json.dumps(record))
    run(start(), listener := Listener())
    assert "its speeds are those of 1 x 2 x 1 processes (data x branch x tensor), --new measures" in listener.notes[-1]


def elsewhere(result: RunResult, **changes: Any) -> None:
    """Let a stored run have been made in another place."""
    assert result.run is not None
    file = result.run.path / "run.json"
    record = json.loads(file.read_text())
    record["environment"] |= changes
    file.write_text(json.dumps(record))


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"num_threads": 7}, "its speeds are those of 7 threads, --new measures 1 thread"),
        ({"device_name": "NVIDIA H200"}, "its speeds are those of NVIDIA H200, --new measures"),
    ],
    ids=["threads", "machine"],
)
def test_a_run_made_elsewhere_is_answered_from_with_a_word_on_its_speeds(
    start: Start, changes: dict[str, Any], words: str
) -> None:
    elsewhere(run(start()), **changes)
    again = run(start(), listener := Listener())
    assert again.num_new == 0 and words in listener.notes[-1]


def test_a_run_with_other_warm_ups_is_answered_from_with_a_word_on_its_speeds(start: Start) -> None:
    run(start())
    again = run(start(warmup=2), listener := Listener())
    assert again.num_new == 0
    assert listener.notes[-1].endswith("its speeds are those of 0 warm-ups, --new measures 2 warm-ups")


def test_a_run_that_goes_on_elsewhere_keeps_its_answers_and_says_that_its_speeds_are_a_mixture(start: Start) -> None:
    first = run(start())
    assert first.run is not None
    before = first.run.samples
    packages = {**first.run.record.environment.packages, "numpy": "0.1"}
    elsewhere(first, device_name="NVIDIA H200", num_threads=7, packages=packages)
    more = run(start(limit=5), listener := Listener())
    assert more.run is not None and more.summary is not None
    assert (more.run.path, more.num_new, more.run.samples[:3]) == (first.run.path, 2, before)
    [note] = [note for note in listener.notes if note.startswith("going on with run")]
    assert "they were made with NVIDIA H200, 7 threads, numpy 0.1, the others are with" in note and "mixture" in note
    record = more.run.record
    [sitting] = record.earlier_sittings
    assert (sitting.num_answers, sitting.place.device_name, sitting.place.num_threads) == (3, "NVIDIA H200", 7)
    assert (record.environment.device_name, record.environment.num_threads) == (
        first.run.record.environment.device_name,
        1,
    )
    assert any("mixture" in line for line in more.summary.warnings)
    third = run(start(limit=6), listener := Listener())
    assert third.run is not None and third.run.record.earlier_sittings == (sitting,)


def test_a_run_that_goes_on_where_it_was_is_no_mixture(start: Start) -> None:
    run(start())
    more = run(start(limit=5), listener := Listener())
    assert more.run is not None and more.summary is not None
    assert more.run.record.earlier_sittings == () and not any("mixture" in note for note in listener.notes)
    assert not any("mixture" in line for line in more.summary.warnings)


def test_a_sitting_that_gave_no_answer_is_none(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    first = run(start())
    elsewhere(first, num_threads=7)
    with monkeypatch.context() as patch:
        patch.setattr("lopa_bench.harness.runner.generate_missing", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            run(start(limit=5))
    assert first.run is not None and len(load_run(first.run.path).record.earlier_sittings) == 1
    elsewhere(first, num_threads=7)  # here is now where it was at first
    monkeypatch.setattr("torch.get_num_threads", lambda: 7)
    more = run(start(limit=5))
    assert more.run is not None and more.run.record.earlier_sittings == ()


def test_of_two_runs_with_the_same_answers_the_one_with_the_same_threads_is_taken(start: Start) -> None:
    first, second = run(start()), run(start(fresh=True))
    assert first.run is not None and second.run is not None
    elsewhere(second, num_threads=7)
    again = run(start(limit=4), listener := Listener())
    assert again.run is not None and (again.run.path, again.num_new) == (first.run.path, 1)
    assert not any("speeds" in note for note in listener.notes)


@pytest.mark.parametrize(
    ("must_match", "num_new"), [(("threads",), 3), (("warmup",), 0), (("threads", "warmup"), 3)], ids=str
)
def test_a_run_that_must_match_in_what_it_does_not_is_left_alone(
    start: Start, must_match: tuple[str, ...], num_new: int
) -> None:
    first = run(start())
    elsewhere(first, num_threads=7)
    assert run(start(must_match=must_match)).num_new == num_new
    assert run(start(must_match=must_match)).num_new == 0


def test_a_larger_limit_goes_on_and_a_smaller_one_changes_nothing(start: Start) -> None:
    first = run(start())
    assert first.run is not None
    before = first.run.samples
    more = run(start(limit=5))
    assert more.run is not None
    assert (more.num_new, more.run.path) == (2, first.run.path)
    assert ids(more) == [f"mini-maths-{index:04d}" for index in range(5)]
    assert more.run.samples[:3] == before
    assert more.run.record.task.num_documents == 5
    fewer = run(start(limit=2))
    assert fewer.num_new == 0 and fewer.summary == more.summary


@pytest.mark.parametrize(
    "change",
    [
        {"options": {"branches": 3}},
        {"options": {"tau_conf": 0.5}},
        {"seed": 1},
        {"dtype": "float64"},
        {"decoder": "d2f", "options": {}},
        {"stops_apply": False},
        {"trace": True},
        {"fresh": True},
    ],
)
def test_any_other_setting_makes_another_run(start: Start, change: dict[str, Any]) -> None:
    first = run(start())
    if change.get("decoder") == "d2f":
        spec = replace(start(), decoder="d2f", options={"max_new_tokens": 12, "block_size": 4})
    else:
        spec = start(**change)
    other = run(spec)
    assert first.run is not None and other.run is not None
    assert (other.num_new, other.run.path == first.run.path) == (3, False)


def test_other_weights_and_other_code_make_another_run(
    start: Start, diffusion_checkpoint: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from fakes import write_checkpoint

    run(start(limit=1))
    other = write_checkpoint(tmp_path / diffusion_checkpoint.name, seed=1)
    assert run(start(limit=1, model=str(other))).num_new == 1
    monkeypatch.setattr(identity, "code_hash", lambda: "changed")
    assert run(start(limit=1)).num_new == 1


def test_the_same_weights_elsewhere_are_the_same_model(
    start: Start, diffusion_checkpoint: Path, tmp_path: Path
) -> None:
    import shutil

    run(start(limit=1))
    copy = shutil.copytree(diffusion_checkpoint, tmp_path / "copy")
    assert run(start(limit=1, model=str(copy))).num_new == 0


KILLER = """
import os, signal, sys
from lopa_bench.harness.runner import run
from lopa_bench.harness.settings import RunSpec
from lopa_bench.results.writer import RunWriter

append, num_stored = RunWriter.append, 0

def append_and_die(writer, sample):
    global num_stored
    append(writer, sample)
    num_stored += 1
    if num_stored == 5:
        os.kill(os.getpid(), signal.SIGKILL)

RunWriter.append = append_and_die
run(RunSpec(task="mini-maths", decoder="lopa", model=sys.argv[1], runs_dir=sys.argv[2], limit=12, warmup=0, threads=1,
            options={"max_new_tokens": 12, "block_size": 4, "branches": 2}))
"""


@pytest.mark.slow
def test_a_killed_run_is_finished_by_the_same_command(start: Start, diffusion_checkpoint: Path, tmp_path: Path) -> None:
    command = [sys.executable, "-c", KILLER, str(diffusion_checkpoint), str(tmp_path / "runs")]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == -9, done.stderr
    killed = load_run("last", tmp_path / "runs")
    assert (killed.status, len(killed.samples)) == ("interrupted", 5)
    with (killed.path / "samples.jsonl").open("a") as file:
        file.write('{"id": "mini-maths-00')  # as when the kill comes in the middle of a write

    listener = Listener()
    resumed = run(start(limit=12), listener)
    assert resumed.run is not None and resumed.summary is not None
    assert (resumed.num_new, resumed.run.path, listener.done) == (7, killed.path, list(range(6, 13)))
    assert ids(resumed) == [f"mini-maths-{index:04d}" for index in range(12)]
    raw = (killed.path / "samples.jsonl").read_text().splitlines()
    assert [json.loads(line)["id"] for line in raw] == ids(resumed)
    assert resumed.run.samples[:5] == killed.samples  # measurements survive

    unbroken = run(start(limit=12, fresh=True))
    assert unbroken.summary is not None
    for kind in ("tokens", "work", "why", "stopped_by", "scores"):
        assert getattr(unbroken.summary, kind) == getattr(resumed.summary, kind)
    assert unbroken.summary.metrics["tpf"] == resumed.summary.metrics["tpf"]


def test_an_interrupted_run_says_so_and_goes_on(start: Start) -> None:
    class Impatient(Listener):
        def sampled(self, sample: SampleRecord, running: Running) -> None:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run(start(), Impatient())
    stored = load_run("last", start().runs_dir or "")
    assert (stored.status, len(stored.samples)) == ("interrupted", 1)
    assert run(start()).num_new == 2


def test_an_answer_that_goes_wrong_is_recorded_not_scored_and_tried_again(
    start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    from lopa_bench.decoders.lopa import LoPADecoder

    decode, num_calls = LoPADecoder.decode, 0

    def sometimes(self: LoPADecoder, prompt: Any, *, seed: int = 0) -> Any:
        nonlocal num_calls
        num_calls += 1
        if num_calls == 2:
            raise DecodeError("the model returned NaN logits")
        return decode(self, prompt, seed=seed)

    with monkeypatch.context() as patch:
        patch.setattr(LoPADecoder, "decode", sometimes)
        result = run(start())
    assert result.run is not None and result.summary is not None
    bad = result.run.samples[1]
    assert (bad.status, bad.correct, bad.error) == ("error", None, "the model returned NaN logits")
    assert (result.run.status, result.summary.n, result.summary.num_errors) == ("finished with errors", 2, 1)
    again = run(start())
    assert again.run is not None and again.summary is not None
    assert (again.num_new, again.summary.num_errors, again.run.status) == (1, 0, "finished")
    lines = (again.run.path / "samples.jsonl").read_text().splitlines()
    assert [json.loads(line)["id"] for line in lines] == ids(again) == [f"mini-maths-{index:04d}" for index in range(3)]


def test_an_answer_to_another_prompt_does_not_count(start: Start) -> None:
    first = run(start())
    assert first.run is not None
    file = first.run.path / "samples.jsonl"
    rows = [json.loads(line) for line in file.read_text().splitlines()]
    rows[1]["prompt_hash"] = "0" * 64
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    assert run(start()).num_new == 1


def test_a_dry_run_loads_and_writes_nothing(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lopa_bench.models.loading.load_model", lambda *_, **__: pytest.fail("a model was loaded"))
    result = run(start(dry_run=True))
    plan = result.plan
    assert result.run is None and not Path(str(start().runs_dir)).exists()
    assert (plan.num_samples, plan.num_available, plan.rounds) == (3, 400, (1, 12))
    assert plan.total_rounds == (3, 36)
    assert plan.memory.total > plan.memory.weights > 0
    assert json.dumps(plan.document())


def test_traces_are_stored_when_asked_for(start: Start) -> None:
    traced = run(start(trace=True))
    assert traced.run is not None
    traces = {trace.id: trace.rounds for trace in traced.run.traces()}
    for sample in traced.run.samples:
        assert len(traces[sample.id]) == sample.work.rounds
        assert len({p for one in traces[sample.id] for p in one.positions}) == sample.tokens.committed
    assert list(run(start(fresh=True)).run.traces()) == []  # type: ignore[union-attr]


def test_a_samples_seed_does_not_depend_on_the_others(start: Start) -> None:
    hot = {"temperature": 1.0}
    alone, many = run(start(limit=1, options=hot)), run(start(limit=3, options=hot, fresh=True))
    assert alone.run is not None and many.run is not None
    assert alone.run.samples[0].token_ids == many.run.samples[0].token_ids
    assert len({sample.seed for sample in many.run.samples}) == 3
    other = run(start(limit=1, options=hot, seed=9))
    assert other.run is not None and other.run.samples[0].token_ids != alone.run.samples[0].token_ids


def test_warm_up_generations_are_in_no_statistics(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    from lopa_bench.harness.answering import Answerer

    answer, prompts = Answerer.answer, []

    def counting(self: Answerer, prompt: str, *rest: Any, **more: Any) -> Any:
        prompts.append(prompt)
        return answer(self, prompt, *rest, **more)

    monkeypatch.setattr(Answerer, "answer", counting)
    result = run(start(warmup=2))
    assert result.run is not None and result.summary is not None
    assert (len(prompts), len(result.run.samples), result.summary.metrics["tps_e2e"].n) == (5, 3, 3)


def test_the_device_is_waited_for_three_times_a_sample(start: Start) -> None:
    device = FakeDevice()
    run(start(), clock=device)
    assert device.num_synchronised == 9


@pytest.mark.parametrize(
    ("change", "error", "words"),
    [
        ({"task": "gsm8k", "data_dir": "/nowhere"}, TaskDataError, "/nowhere does not exist"),
        ({"num_fewshot": 3}, ConfigError, "no few-shot prompts"),
        ({"chat": True}, ConfigError, "not asked as a chat"),
        ({"decoder": "ar", "options": {}}, ConfigError, "needs an autoregressive model"),
        ({"device": "cuda:7"}, PrerequisiteError, "device 'cuda:7'"),
        ({"device": "tpu"}, PrerequisiteError, "device 'tpu' is unknown.*; there are cuda, npu, cpu"),
    ],
)
def test_what_is_wrong_is_told_before_a_model_is_loaded(
    start: Start, monkeypatch: pytest.MonkeyPatch, change: dict[str, Any], error: type[Exception], words: str
) -> None:
    monkeypatch.setattr("lopa_bench.models.loading.load_model", lambda *_, **__: pytest.fail("a model was loaded"))
    spec = replace(start(), **{**change, "options": change.get("options", start().options)})
    with pytest.raises(error, match=words):
        run(spec)
    assert not Path(str(spec.runs_dir)).exists()


def test_the_ar_decoder_has_a_tpf_of_exactly_one(start: Start, causal_checkpoint: Path) -> None:
    result = run(replace(start(), decoder="ar", model=str(causal_checkpoint), options={"max_new_tokens": 12}))
    assert result.summary is not None
    assert result.summary.metrics["tpf"].value in (1.0, None)
    assert result.summary.work.model_calls >= result.summary.work.rounds


def test_gsm8k_goes_through_the_same_path(start: Start, data_dir: Path) -> None:
    result = run(start(task="gsm8k", data_dir=data_dir, limit=2, num_fewshot=1))
    assert result.run is not None and result.summary is not None
    record = result.run.record
    assert record.task.num_available == 1319 and "3730d312f6e3" in record.task.source
    assert set(result.summary.scores) == {"exact_match,strict-match", "exact_match,flexible-extract"}
    assert result.run.samples[0].prompt_tokens_cut >= 0


def test_other_problems_go_on_with_the_same_run(start: Start) -> None:
    first = run(start(limit=None, samples="3,mini-maths-0007"))
    assert first.run is not None
    record = first.run.record
    assert ids(first) == ["mini-maths-0003", "mini-maths-0007"]
    assert (record.task.num_documents, record.task.num_available, record.task.partial) == (2, 400, True)
    assert record.configuration["problems"].model_dump() == {"value": "3,7", "origin": "flag"}
    more = run(start(limit=0.01))
    assert more.run is not None and more.summary is not None
    assert (more.run.path, more.num_new, more.asked[-1]) == (first.run.path, 3, "mini-maths-0003")
    assert more.run.samples[:2] == first.run.samples
    assert more.run.record.configuration["problems"].value == "0-3,7"
    assert (more.run.record.task.num_documents, more.summary.n) == (5, 5)
    assert not any("unfinished" in warning for warning in more.summary.warnings)
    unbroken = run(start(limit=None, samples="0-3,7", fresh=True))
    assert unbroken.run is not None
    assert unbroken.run.record.task.prompts_hash == more.run.record.task.prompts_hash


def test_a_fixed_subset_is_told_before_the_start_and_stored(start: Start) -> None:
    result = run(start(limit=None, subset="smoke", dry_run=True))
    assert (result.plan.num_samples, result.plan.num_available) == (20, 400)
    assert result.plan.problems.startswith("20 of 400 (subset smoke): ")
    assert result.plan.settings["subset"].value == "smoke"
    assert result.plan.settings["problems"].value == result.plan.problems.rpartition(": ")[2]

"""Whole runs whose decoder is a server: records, unknown rounds, resuming, and what is refused before they begin."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from fake_server import MODEL, Behaviour, serving

from lopa_bench.errors import ConfigError, LopaBenchError, PrerequisiteError
from lopa_bench.harness.answering import Question
from lopa_bench.harness.runner import run
from lopa_bench.harness.servers.answerer import ServerSource
from lopa_bench.harness.servers.client import ServerClient
from lopa_bench.harness.settings import RunSpec, resolve
from lopa_bench.results.metrics import METRICS
from lopa_bench.results.store import load_run
from lopa_bench.tasks.registry import get_task

Start = Callable[..., tuple[RunSpec, Behaviour]]
UNKNOWN = {
    "tpf", "tpf_committed", "tpf_branch", "tpf_call", "amplification", "round_s", "rounds_per_answer",
    "calls_per_answer", "prefill_calls_per_answer", "positions_per_answer",
}  # fmt: skip


@pytest.fixture
def start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Start]:
    """Start a server and return the specification of a small run on it; no weights may be read."""
    monkeypatch.setattr("lopa_bench.models.loading.load_model", lambda *_, **__: pytest.fail("a model was loaded"))
    monkeypatch.setattr("lopa_bench.harness.servers.client.FIRST_WAIT_S", 0.001)
    with ExitStack() as stack:

        def make(behaviour: Behaviour | None = None, **changes: Any) -> tuple[RunSpec, Behaviour]:
            does = behaviour or Behaviour(text="The answer is 12.")
            url = stack.enter_context(serving(does))
            small = {"task": "mini-maths", "decoder": "server", "limit": 4, "warmup": 0, "base_url": url}
            return RunSpec(runs_dir=tmp_path / "runs", **{**small, **changes}), does

        yield make


def test_a_run_leaves_a_complete_record_in_which_rounds_are_unknown(start: Start) -> None:
    spec, _ = start()
    result = run(spec)
    assert result.run is not None and result.summary is not None
    record, [sample, *_] = result.run.record, result.run.samples
    assert (result.run.status, result.num_new, record.model.name) == ("finished", 4, MODEL)
    assert record.id == "0001-mini-maths-server-tiny-model"
    assert (record.model.revision, record.environment.device) == ("1.2.3", "server")
    assert record.environment.device_name == f"{spec.base_url} 1.2.3"
    assert (sample.status, sample.text, sample.stopped_by) == ("ok", "The answer is 12.", "eos")
    assert (sample.tokens.useful, sample.tokens.prompt, sample.work.rounds) == (4, 11, 0)
    assert sample.extra["counted_by"] == "server" and sample.extra["finish_reason"] == "stop"
    assert sample.time.first_round_s is not None and 0 < sample.time.first_round_s <= sample.time.latency_s + 1e-9
    assert sample.correct is not None
    known = {name for name, figure in result.summary.metrics.items() if figure.value is not None}
    assert not UNKNOWN & known and set(METRICS) > UNKNOWN
    assert {"accuracy", "tps_e2e", "latency_s", "useful_tokens"} <= known


def test_the_prompts_stops_and_budget_are_those_of_any_decoder(start: Start) -> None:
    spec, does = start(options={"temperature": 0.7, "top_p": 0.9, "top_k": 5})
    run(spec)
    task = get_task("mini-maths")
    assert [one["prompt"] for one in does.requests] == [one.prompt for one in task.documents()[:4]]
    for one in does.requests:
        assert one.get("stop", []) == list(task.stop) and one["max_tokens"] == task.max_new_tokens
        assert (one["temperature"], one["top_p"], one["top_k"]) == (0.7, 0.9, 5)
    assert len({one["seed"] for one in does.requests}) == 4


def test_answers_are_cut_at_stops_that_the_server_left_in(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(type(get_task("mini-maths")), "stop", ("Question:",))
    spec, _ = start(Behaviour(text="four. Question: next"))
    result = run(spec)
    assert result.run is not None
    sample = result.run.samples[0]
    assert (sample.text_kept, sample.stop_string, sample.stopped_by) == ("four. ", "Question:", "stop string")


def test_errors_are_recorded_and_only_they_are_asked_again(start: Start) -> None:
    spec, does = start(Behaviour(text="The answer is 12.", trouble=[429, None, "garbage", 500, None]))
    result = run(spec)
    assert result.run is not None and result.summary is not None
    samples = result.run.samples
    assert [one.status for one in samples] == ["ok", "error", "ok", "ok"]
    assert "is not JSON" in str(samples[1].error) and samples[1].correct is None
    assert [samples[row].extra.get("retries") for row in (0, 2, 3)] == [1, 1, 0]
    asked = len(does.requests)
    again = run(spec)
    assert (again.num_new, len(does.requests)) == (1, asked + 1)
    assert again.summary is not None and again.summary.num_errors == 0


def test_a_server_that_goes_away_stops_the_run_and_the_same_command_goes_on(
    start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    spec, _ = start()
    complete, num_asked = ServerClient.complete, 0

    def until_it_is_gone(self: ServerClient, body: Any) -> Any:
        nonlocal num_asked
        num_asked += 1
        if num_asked > 2:
            raise PrerequisiteError("the server no longer answers")
        return complete(self, body)

    with monkeypatch.context() as patch:
        patch.setattr(ServerClient, "complete", until_it_is_gone)
        with pytest.raises(PrerequisiteError, match="no longer answers"):
            run(spec)
    stored = load_run("last", spec.runs_dir or "")
    assert len(stored.samples) == 2
    assert (stored.status, stored.record.error) == ("failed", "the server no longer answers")  # no word of Python
    assert run(spec).num_new == 2


def test_another_model_version_or_address_is_another_run(start: Start) -> None:
    spec, does = start(Behaviour(models=("a", "b")), model="a")
    assert run(spec).num_new == 4
    assert run(spec).num_new == 0
    assert run(replace(spec, model="b")).num_new == 4
    assert run(replace(spec, concurrency=2)).num_new == 4
    does.version = "1.2.4"
    assert run(spec).num_new == 4
    other, _ = start(Behaviour(models=("a",)), model="a")
    assert run(other).num_new == 4
    assert run(replace(spec, request_timeout=5.0)).num_new == 0


def test_requests_under_way_at_once_keep_their_order_and_share_the_time(start: Start) -> None:
    spec, does = start(Behaviour(text="a b c", pause_s=0.2), concurrency=4, limit=12)
    result = run(spec)
    assert result.run is not None
    samples = result.run.samples
    assert [one.id for one in samples] == [f"mini-maths-{index:04d}" for index in range(12)]
    assert 2 <= does.most_at_once <= 4
    assert result.run.record.environment.batch_size == 4
    assert all(one.time.latency_s >= 0.05 for one in samples)
    shares = sum(one.time.total_s for one in samples)
    assert shares < 0.8 * sum(one.time.latency_s for one in samples)


@pytest.mark.parametrize(
    ("streams", "tokenizer", "counted_by", "useful"),
    [(True, None, "pieces of the stream", 4), (True, "bundled:ar", "tokenizer", None), (False, None, None, None)],
)
def test_without_the_servers_count_it_is_said_who_counts(
    start: Start, caplog: pytest.LogCaptureFixture, streams: bool, tokenizer: str | None, counted_by: str, useful: int
) -> None:
    behaviour = Behaviour(text="The answer is 12.", usage=False, streams=streams)
    result = run(start(behaviour, tokenizer=tokenizer, limit=2)[0])
    assert result.run is not None
    sample = result.run.samples[0]
    if counted_by is None:
        assert "give --tokenizer to count them here" in str(sample.error)
        return
    assert sample.extra["counted_by"] == counted_by
    assert sample.tokens.useful == useful or (useful is None and sample.tokens.useful > 4)
    assert caplog.text.count("does not say how many tokens") == 1


@pytest.mark.parametrize(
    ("changes", "error", "words"),
    [
        ({"base_url": None}, ConfigError, "needs the server's address"),
        ({"model": "tiny-modle"}, ConfigError, r"no model 'tiny-modle' \(did you mean 'tiny-model'\?\).*it has: tiny"),
        ({"batch_size": 4}, ConfigError, "use --concurrency"),
        ({"device": "cuda"}, ConfigError, "--device means nothing with --decoder server"),
        ({"adapter": "x"}, ConfigError, "--adapter means nothing"),
        ({"trace": True}, ConfigError, "--trace means nothing"),
        ({"chat": True}, ConfigError, "needs --tokenizer NAME"),
        ({"concurrency": 0}, ConfigError, "--concurrency 0 is too small"),
        ({"request_timeout": 0.0}, ConfigError, "--request-timeout 0.0 is too small"),
        ({"api_key_env": "NO_SUCH_KEY"}, PrerequisiteError, "there is no such environment variable"),
        ({"base_url": "http://127.0.0.1:1/v1"}, PrerequisiteError, "no server answers at http://127.0.0.1:1/v1"),
        ({"options": {"early_stop": False}}, ConfigError, "ends an answer at its EOS"),
        ({"options": {"branches": 2}}, ConfigError, "decoder 'server' has no option 'branches'"),
        ({"decoder": "ar"}, ConfigError, "--base-url is for --decoder server; this is decoder ar"),
    ],
)
def test_what_cannot_be_is_told_before_anything_is_asked_or_written(
    start: Start, changes: dict[str, Any], error: type[LopaBenchError], words: str
) -> None:
    spec, does = start(**changes)
    with pytest.raises(error, match=words):
        run(spec)
    assert does.requests == [] and not Path(str(spec.runs_dir)).exists()


def test_a_key_that_no_header_can_carry_is_told(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("A_KEY", "one\ntwo")
    spec, does = start(api_key_env="A_KEY")
    with pytest.raises(PrerequisiteError, match="characters that no key has"):
        run(spec)
    assert does.requests == []


def test_of_several_models_one_must_be_named(start: Start) -> None:
    spec, _ = start(Behaviour(models=("a", "b")))
    with pytest.raises(ConfigError, match=r"has several models; give --model, it has: a, b"):
        run(spec)
    silent, _ = start(Behaviour(models=None))
    with pytest.raises(ConfigError, match=r"does not list its models; name one with --model NAME$"):
        run(silent)
    assert run(replace(silent, model="hidden")).num_new == 4
    with pytest.raises(ConfigError, match="or end the address in /v1 if that is missing"):
        run(replace(silent, base_url=str(silent.base_url).removesuffix("/v1")))


def test_a_dry_run_asks_for_no_answer_and_knows_no_rounds(start: Start) -> None:
    spec, does = start(dry_run=True)
    plan = run(spec).plan
    assert does.requests == [] and plan.document()["rounds"] is None


@pytest.mark.parametrize(("changes", "own"), [({}, None), ({"bos": False}, False), ({"chat": True}, False)])
def test_a_prompt_that_has_its_bos_asks_for_no_second_one(changes: dict[str, Any], own: bool | None) -> None:
    spec = RunSpec(task="gsm8k", decoder="server", base_url="http://127.0.0.1:1/v1", tokenizer="bundled:ar", **changes)
    source = ServerSource(resolve(spec))
    body = source.answerer().body(Question("Why?", ("", "Q:"), seed=2**40 + 5))
    assert body.get("add_special_tokens") is own
    assert (body["prompt"], body["stop"], body["seed"]) == ("Why?", ["Q:"], 5)


def test_a_misspelt_server_is_recognised() -> None:
    with pytest.raises(ConfigError, match=r"did you mean 'server'\?"):
        run(RunSpec(task="mini-maths", decoder="servr", base_url="http://127.0.0.1:1/v1"))


def test_one_answer_can_be_asked_for_by_itself(start: Start) -> None:
    spec, does = start()
    source = ServerSource(resolve(spec))
    source.check()
    answer = source.answerer().answer("Why?", ("Q:",), seed=3)
    assert (answer.text, answer.outcome.tokens.useful, answer.outcome.error) == ("The answer is 12.", 4, None)
    assert (does.requests[0]["model"], does.requests[0]["stop"]) == (MODEL, ["Q:"])

"""Whole runs with several answers at once: the same answers, another run, resumed in the middle, told in the record."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from lopa_bench.errors import ConfigError
from lopa_bench.harness.distributed.launch import launch
from lopa_bench.harness.lm_eval_adapter.model import LopaBenchLM
from lopa_bench.harness.progress import Running, Silent
from lopa_bench.harness.runner import RunResult, run
from lopa_bench.harness.settings import RunSpec
from lopa_bench.results.schema import SampleRecord
from lopa_bench.results.store import list_runs, load_run

Start = Callable[..., RunSpec]


@pytest.fixture
def start(tmp_path: Path, diffusion_checkpoint: Path) -> Start:
    def spec(**changes: Any) -> RunSpec:
        options = {"max_new_tokens": 12, "block_size": 4, **changes.pop("options", {})}
        small = {"task": "mini-maths", "decoder": "fast-dllm", "model": str(diffusion_checkpoint), "limit": 7}
        return RunSpec(runs_dir=tmp_path / "runs", options=options, **{**small, "warmup": 0, "threads": 1, **changes})

    return spec


def answers(result: RunResult) -> list[Any]:
    assert result.run is not None
    return [
        (one.id, one.token_ids, one.text_kept, one.tokens, one.work, one.correct, one.why, one.stopped_by, one.seed)
        for one in result.run.samples
    ]


@pytest.mark.parametrize("options", [{}, {"temperature": 1.0}])
def test_a_batched_run_has_the_samples_of_one_by_one_and_is_another_run(start: Start, options: dict[str, Any]) -> None:
    single = run(start(options=options))
    assert single.run is not None
    for size in (3, 50):
        batched = run(start(options=options, batch_size=size, warmup=1))
        assert batched.run is not None and batched.num_new == 7
        assert answers(batched) == answers(single)
        assert batched.run.record.environment.batch_size == size
        assert batched.run.record.configuration["batch_size"].value == size
        assert batched.run.record.fingerprint != single.run.record.fingerprint
        assert any(one.time.wait_s > 0 for one in batched.run.samples)


@pytest.mark.slow
@pytest.mark.parametrize("sharing", ["--data-parallel", "--tensor-parallel"])
def test_several_processes_make_the_answers_of_their_share_in_batches(
    sharing: str, start: Start, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    spec, root = start(batch_size=3), tmp_path / "two"
    words = ["run", "-t", "mini-maths", "-d", "fast-dllm", "-m", str(spec.model), "-n", "7", "--batch-size", "3"]
    words += [word for name, value in spec.options.items() for word in ("--set", f"{name}={value}")]
    words += ["--threads", "1", "--runs-dir", str(root), "--devices", "2", sharing, "2", "--json"]
    assert launch(words, 2, 60.0) == 0
    [together] = list_runs(root)
    alone = run(spec)
    assert answers(replace(alone, run=together)) == answers(alone)
    assert together.record.environment.batch_size == 3
    assert any(one.time.wait_s > 0 for one in together.samples)


def test_memory_is_reckoned_for_as_many_answers_as_there_are(start: Start) -> None:
    def cache(**changes: Any) -> int:
        return run(start(dry_run=True, **changes)).plan.memory.cache

    assert cache(batch_size=7, limit=3) == cache(batch_size=3, limit=3) == 3 * cache(limit=3)


def test_traces_of_a_batch_are_those_of_one_by_one(start: Start) -> None:
    found = []
    for size in (1, 4):
        result = run(start(trace=True, batch_size=size))
        assert result.run is not None
        found.append(
            {
                trace.id: [(one.positions, one.tokens, one.num_positions) for one in trace.rounds]
                for trace in result.run.traces()
            }
        )
    assert found[0] == found[1] and len(found[0]) == 7


def test_a_run_stopped_inside_a_batch_goes_on(start: Start) -> None:
    class Impatient(Silent):
        def sampled(self, sample: SampleRecord, running: Running) -> None:
            if running.num_done == 4:
                raise KeyboardInterrupt

    spec = start(batch_size=3)
    with pytest.raises(KeyboardInterrupt):
        run(spec, Impatient())
    assert len(load_run("last", spec.runs_dir or "").samples) == 4
    resumed = run(spec)
    assert resumed.num_new == 3
    assert answers(resumed) == answers(run(start()))


def test_the_table_shows_the_batch_size_beside_the_score(start: Start) -> None:
    from lopa_bench.cli.views import run_table

    single, batched = run(start(limit=2)).run, run(start(limit=2, batch_size=2)).run
    assert single is not None and batched is not None
    table = run_table([single, batched])
    assert [row["at once"] for row in table.rows] == [1, 2]
    assert "at once" in [column.title for column in table.columns]
    assert "at once" not in [column.title for column in run_table([single]).columns]


@pytest.mark.parametrize("decoder", ["d2f", "lopa"])
def test_what_cannot_batch_says_so_before_a_model_is_read(
    start: Start, decoder: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lopa_bench.models.loading.load_model", lambda *_, **__: pytest.fail("a model was loaded"))
    with pytest.raises(ConfigError, match=f"--batch-size 2 is for ar, vanilla, fast-dllm; decoder {decoder} makes one"):
        run(start(decoder=decoder, batch_size=2))
    with pytest.raises(ConfigError, match="--batch-size 0 is too small"):
        run(start(batch_size=0))


def test_lm_eval_batches_or_is_refused(diffusion_checkpoint: Path) -> None:
    arguments = f"model={diffusion_checkpoint},max_new_tokens=8,block_size=4,threads=1"
    lm = LopaBenchLM.create_from_arg_string(f"decoder=vanilla,{arguments}", {"batch_size": "4", "device": "cpu"})
    assert lm.answerer.batch_size == 4
    for size in ("auto", "auto:4"):
        with pytest.raises(ConfigError, match=r"batch_size = 'auto.*' is not a whole number"):
            LopaBenchLM.create_from_arg_string(f"decoder=vanilla,{arguments}", {"batch_size": size})
    with pytest.raises(ConfigError, match="decoder lopa makes one answer at a time"):
        LopaBenchLM.create_from_arg_string(f"decoder=lopa,{arguments}", {"batch_size": 4})

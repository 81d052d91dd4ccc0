from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from lopa_bench.errors import ResultsError, SchemaTooNew
from lopa_bench.results import store, upgrades, writer
from lopa_bench.results.metrics import METRICS
from lopa_bench.results.schema import SCHEMA_VERSION, RunRecord, SampleRecord, Setting, TimeLedger
from lopa_bench.results.store import find_resumable, list_runs, load_run
from lopa_bench.results.writer import create_run, reopen_run

FROZEN = Path(__file__).parent / "data" / "v1"


def rewrite(path: Path, **changes: Any) -> None:
    raw = json.loads(path.read_text())
    path.write_text(json.dumps(raw | changes))


def test_unknown_fields_and_nan_are_refused_where_they_are_made() -> None:
    with pytest.raises(ValidationError, match="usefull"):
        SampleRecord.model_validate({"id": "a", "tokens": {"usefull": 3}})
    with pytest.raises(ValidationError, match="finite"):
        TimeLedger(decode_s=float("nan"))
    with pytest.raises(ValidationError, match="finite"):
        SampleRecord(id="a", scores={"strict": float("nan")})
    with pytest.raises(ValidationError, match="greater than or equal to 0"):
        TimeLedger(decode_s=-0.1)


def test_times_without_a_zone_are_refused(make_run: Any) -> None:
    with pytest.raises(ValidationError, match="timezone"):
        make_run(created=datetime(2025, 1, 1))
    assert make_run().created.tzinfo is UTC


@given(text=st.text(), ids=st.lists(st.integers(0, 200_000)), seconds=st.floats(0, 1e9), extra=st.text())
def test_a_sample_reads_back_as_it_was(text: str, ids: list[int], seconds: float, extra: str) -> None:
    sample = SampleRecord(
        id="a/é", text=text, token_ids=tuple(ids), time=TimeLedger(decode_s=seconds), extra={"note": [extra, None]}
    )
    line = sample.model_dump_json()
    assert "\n" not in line
    assert SampleRecord.model_validate(json.loads(line)) == sample


@pytest.mark.parametrize("value", [1e-5, -1, None, "False", False, [1, "a"], {"k": 0.1}])
def test_settings_keep_value_type_and_origin(make_run: Any, value: Any) -> None:
    record = make_run(configuration={"tau_add": Setting(value=value, origin="flag")})
    again = RunRecord.model_validate_json(record.model_dump_json()).configuration["tau_add"]
    assert (again.value, type(again.value), again.origin) == (value, type(value), "flag")


def test_a_later_schema_is_refused_with_a_sentence(tmp_path: Path, make_run: Any) -> None:
    create_run(tmp_path, "new", make_run(fingerprint="f")).finish()
    rewrite(tmp_path / "0001-new" / "run.json", schema_version=SCHEMA_VERSION + 1, novelty=1)
    with pytest.raises(SchemaTooNew, match=r"schema version 3, this program reads up to 2; upgrade lopa-bench"):
        load_run("1", tmp_path)
    assert find_resumable(tmp_path, "f") is None
    assert list_runs(tmp_path) == []


@pytest.mark.parametrize("version", [None, "1", 0, True])
def test_a_file_without_a_schema_version_is_no_run(tmp_path: Path, make_run: Any, version: Any) -> None:
    create_run(tmp_path, "new", make_run()).finish()
    rewrite(tmp_path / "0001-new" / "run.json", schema_version=version)
    with pytest.raises(ResultsError, match="no schema_version"):
        load_run("1", tmp_path)


def test_an_edited_record_names_the_field(tmp_path: Path, make_run: Any) -> None:
    create_run(tmp_path, "new", make_run()).finish()
    rewrite(tmp_path / "0001-new" / "run.json", status="splendid")
    with pytest.raises(ResultsError, match=r"run\.json is not a RunRecord: status: .*edited"):
        load_run("1", tmp_path)


def test_older_versions_are_upgraded_step_by_step(
    tmp_path: Path, make_run: Any, make_sample: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    with create_run(tmp_path, "old", make_run(fingerprint="f")) as run:
        run.append(make_sample("a", useful=5))
    rewrite(run.path / "run.json", schema_version=1, finished=None, started="2025-01-01T00:00:00Z")

    def rename(raw: dict[str, Any]) -> dict[str, Any]:
        raw["created"] = raw.pop("started")
        return raw

    def double(raw: dict[str, Any]) -> dict[str, Any]:
        return raw | {"seed": raw["seed"] + 10}

    monkeypatch.setattr(upgrades, "SCHEMA_VERSION", 3)
    monkeypatch.setattr(store, "SCHEMA_VERSION", 3)
    monkeypatch.setattr(writer, "SCHEMA_VERSION", 3)
    monkeypatch.setitem(upgrades.UPGRADES, "run", {1: rename})
    monkeypatch.setitem(upgrades.UPGRADES, "sample", {1: double, 2: double})
    old = load_run("1", tmp_path)
    assert old.version == 1
    assert old.record.schema_version == 3
    assert old.record.created == datetime(2025, 1, 1, tzinfo=UTC)
    assert old.samples[0].seed == 20
    assert find_resumable(tmp_path, "f") is None  # unfinished: one file must not hold samples of two versions
    with pytest.raises(ResultsError, match=r"schema version 1 and cannot be continued; start a new one"):
        reopen_run(old)


def test_the_frozen_run_of_version_1_still_reads() -> None:
    run = load_run(FROZEN / "0007-mini-maths-lopa")
    assert (run.record.number, run.status, run.record.decoder.options["branches"]) == (7, "finished", 8)
    assert [sample.why for sample in run.samples] == [None, "wrong", None]
    assert run.samples[2].error is not None
    assert [len(trace.rounds) for trace in run.traces()] == [2]
    assert run.summary is not None
    assert run.summary.metrics["tpf"].value == pytest.approx(7.5)
    assert run.summary.metrics["latency_s"].version == METRICS["latency_s"].version
    [trace] = run.traces()
    assert (trace.rounds[0].num_slots, trace.rounds[-1].branches[-1].num_filled, trace.texts) == (None, None, {})


def test_the_frozen_run_of_version_2_still_reads() -> None:
    run = load_run(FROZEN.parent / "v2" / "0001-mini-maths-lopa")
    assert (run.status, run.version, len(run.samples)) == ("finished", 2, 2)
    traces = list(run.traces())
    assert [trace.num_slots for trace in traces] == [sample.tokens.committed for sample in run.samples]
    for trace, sample in zip(traces, run.samples, strict=True):
        text = "".join(trace.spell(token) for token in sample.token_ids[: sample.tokens.useful])
        assert text == sample.text
        contested = [one for one in trace.rounds if len(one.branches) > 1]
        assert contested and all(one.gain is not None for one in contested)

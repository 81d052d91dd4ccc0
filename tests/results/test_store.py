from __future__ import annotations

import json
import logging
import os
from pathlib import Path
from typing import Any

import pytest

from lopa_bench.errors import ResultsError
from lopa_bench.results.schema import Summary
from lopa_bench.results.store import find_resumable, fingerprint, list_runs, load_run, read_run
from lopa_bench.results.trace import BranchRecord, RoundRecord
from lopa_bench.results.writer import create_run, reopen_run, slug


def test_a_finished_run_reads_back_whole(tmp_path: Path, make_run: Any, make_sample: Any) -> None:
    samples = [make_sample(str(i), useful=i, rounds=1, decode_s=0.1) for i in range(3)]
    rounds = [RoundRecord(index=0, positions=(1, 0), tokens=(7, 8), branches=(BranchRecord(score=0.5),), winner=0)]
    with create_run(tmp_path / "runs", "mini-maths lopa", make_run(seed=3)) as run:
        for sample in samples:
            run.append(sample)
            run.append_trace(sample.id, rounds)
        run.finish(Summary(n=3))
    assert sorted(path.name for path in run.path.iterdir() if not path.name.startswith(".")) == [
        "run.json", "samples.jsonl", "summary.json", "traces.jsonl.gz",
    ]  # fmt: skip
    stored = load_run("last", tmp_path / "runs")
    assert stored.path.name == stored.record.id == "0001-mini-maths-lopa"
    assert (stored.status, stored.record.seed) == ("finished", 3)
    assert stored.record.finished is not None
    assert stored.samples == samples
    assert [(trace.id, list(trace.rounds)) for trace in stored.traces()] == [(s.id, rounds) for s in samples]
    assert stored.summary == Summary(n=3, run_id=stored.path.name)


def test_every_sample_is_in_the_file_before_append_returns(tmp_path: Path, make_run: Any, make_sample: Any) -> None:
    with create_run(tmp_path, "x", make_run()) as run:
        for count in range(1, 4):
            run.append(make_sample(str(count)))
            assert len(load_run("last", tmp_path).samples) == count
        assert load_run("last", tmp_path).status == "running"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a/b=c:d é", "a-b-c-d-e"),
        ("Dream-org/Dream-v0-Base-7B lopa", "dream-org-dream-v0-base-7b-lopa"),
        ("../../etc/passwd", "etc-passwd"),
        ("humaneval+ lopa", "humaneval-plus-lopa"),
        ("日本語", "run"),
        ("", "run"),
        ("x" * 300, "x" * 60),
        ("a\x00b\nc", "a-b-c"),
    ],
)
def test_any_name_gives_a_safe_folder(tmp_path: Path, make_run: Any, text: str, expected: str) -> None:
    assert slug(text) == expected
    create_run(tmp_path, text, make_run()).finish()
    assert [path.name for path in tmp_path.iterdir() if path.name != ".lock"] == [f"0001-{expected}"]
    assert load_run("1", tmp_path).record.title == text


def test_names_that_sanitise_alike_do_not_collide(tmp_path: Path, make_run: Any) -> None:
    paths = {create_run(tmp_path, name, make_run()).path.name for name in ("a/b", "a:b", "a b")}
    assert paths == {"0001-a-b", "0002-a-b", "0003-a-b"}


def test_numbers_go_on_after_gaps_and_beyond_four_digits(tmp_path: Path, make_run: Any) -> None:
    create_run(tmp_path, "x", make_run()).finish()
    (tmp_path / "0001-x").rename(tmp_path / "9999-moved")
    assert create_run(tmp_path, "y", make_run()).path.name == "10000-y"
    assert load_run("9999", tmp_path).record.id == "9999-moved"
    assert load_run("last", tmp_path).path.name == "10000-y"


@pytest.mark.parametrize("reference", ["2", "0002", "0002-beta", "last", "PATH", "PATH/run.json"])
def test_a_run_is_found_by_number_name_path_or_last(tmp_path: Path, make_run: Any, reference: str) -> None:
    for title in ("alpha", "beta"):
        create_run(tmp_path, title, make_run()).finish()
    reference = reference.replace("PATH", str(tmp_path / "0002-beta"))
    assert load_run(reference, tmp_path).path.name == "0002-beta"


@pytest.mark.parametrize(
    ("reference", "message"),
    [
        ("0002-beat", r"did you mean '0002-beta'"),
        ("alpha", r"did you mean '0001-alpha'"),
        ("7", r"run '7' not found in '.*'; the newest is '0002-beta'; `lopa-bench list runs` shows all"),
        ("/nowhere", r"run '/nowhere' not found"),
    ],
)
def test_a_wrong_reference_names_the_nearest(tmp_path: Path, make_run: Any, reference: str, message: str) -> None:
    for title in ("alpha", "beta"):
        create_run(tmp_path, title, make_run()).finish()
    with pytest.raises(ResultsError, match=message):
        load_run(reference, tmp_path)


def test_no_runs_and_no_record_have_their_own_sentences(tmp_path: Path) -> None:
    with pytest.raises(ResultsError, match=r"there are no runs in .* yet; make one with `lopa-bench run`"):
        load_run("last", tmp_path / "absent")
    with pytest.raises(ResultsError, match=r"is not a run: it holds no run\.json"):
        load_run(tmp_path, tmp_path)


def test_two_folders_of_one_number_are_ambiguous(tmp_path: Path, make_run: Any) -> None:
    create_run(tmp_path, "x", make_run()).finish()
    (tmp_path / "0001-y").mkdir()
    (tmp_path / "0001-y" / "run.json").write_bytes((tmp_path / "0001-x" / "run.json").read_bytes())
    with pytest.raises(ResultsError, match=r"run 1 is ambiguous .*0001-x, 0001-y; give the whole name"):
        load_run("1", tmp_path)


def test_damaged_runs_are_left_out_of_the_list_with_a_warning(
    tmp_path: Path, make_run: Any, caplog: pytest.LogCaptureFixture
) -> None:
    for title in ("a", "b"):
        create_run(tmp_path, title, make_run()).finish()
    (tmp_path / "0001-a" / "run.json").write_text("{")
    assert [run.path.name for run in list_runs(tmp_path)] == ["0002-b"]
    assert "0001-a/run.json is damaged" in caplog.text


def test_fingerprints_see_every_value_and_no_order() -> None:
    base = {"model": "m", "options": {"tau": 0.9, "branches": 8}}
    assert fingerprint(base) == fingerprint({"options": {"branches": 8, "tau": 0.9}, "model": "m"})
    others = [{**base, "model": "n"}, {**base, "options": {"tau": 0.9, "branches": 7}}, {**base, "seed": 0}]
    assert len({fingerprint(one) for one in [base, *others]}) == 4
    with pytest.raises(ResultsError, match="cannot be stored"):
        fingerprint({"tau": float("nan")})
    with pytest.raises(ResultsError, match="cannot be stored"):
        fingerprint({"model": object()})


def test_resume_finds_the_newest_run_of_the_same_kind(tmp_path: Path, make_run: Any) -> None:
    for kind in ("f", "g", "f", "g"):
        create_run(tmp_path, kind, make_run(fingerprint=kind)).finish()
    found = find_resumable(tmp_path, "f")
    assert found is not None
    assert found.path.name == "0003-f"
    assert find_resumable(tmp_path, "h") is None
    assert find_resumable(tmp_path / "absent", "f") is None


def test_a_resumed_run_keeps_measurements_and_redoes_errors(tmp_path: Path, make_run: Any, make_sample: Any) -> None:
    with pytest.raises(RuntimeError), create_run(tmp_path, "x", make_run(fingerprint="f")) as run:
        run.append(make_sample("a", useful=5, decode_s=1.5))
        run.append(make_sample("b", status="error", error="mask left"))
        raise RuntimeError("worker died")
    stored = find_resumable(tmp_path, "f")
    assert stored is not None
    assert (stored.status, stored.record.error) == ("failed", "RuntimeError: worker died")
    with reopen_run(stored) as run:
        assert run.done == {"a"}
        assert run.record.error is None
        run.append(make_sample("b", useful=3))
        run.append(make_sample("c"))
        run.finish()
    again = read_run(run.path)
    assert [(s.id, s.status, s.tokens.useful) for s in again.samples] == [
        ("a", "ok", 5),
        ("b", "ok", 3),
        ("c", "ok", 0),
    ]
    assert again.samples[0].time.decode_s == 1.5
    assert (len(again.record.resumed), again.record.created) == (1, stored.record.created)


def test_ctrl_c_leaves_an_interrupted_run(tmp_path: Path, make_run: Any, make_sample: Any) -> None:
    with pytest.raises(KeyboardInterrupt), create_run(tmp_path, "x", make_run()) as run:
        run.append(make_sample("a"))
        raise KeyboardInterrupt
    stored = read_run(run.path)
    assert (stored.status, stored.record.error, len(stored.samples)) == ("interrupted", None, 1)


def test_scores_can_be_written_after_the_last_answer(tmp_path: Path, make_run: Any, make_sample: Any) -> None:
    with create_run(tmp_path, "x", make_run()) as run:
        run.append(make_sample("a"))
        run.replace_samples([sample.model_copy(update={"correct": 1.0}) for sample in run.samples])
        run.append(make_sample("b", correct=0.0))
        run.finish()
    assert [sample.correct for sample in read_run(run.path).samples] == [1.0, 0.0]


def test_two_writers_of_one_run_are_refused(tmp_path: Path, make_run: Any) -> None:
    with create_run(tmp_path, "x", make_run()) as run:
        with pytest.raises(ResultsError, match=f"run 0001-x is in use by process {os.getpid()} on .*; wait for it"):
            reopen_run(run.path)
        run.finish()
    reopen_run(run.path).close()
    assert read_run(run.path).status == "interrupted"  # it says running, and nobody holds the lock


def test_a_full_disk_is_one_sentence_and_keeps_what_was_there(
    tmp_path: Path, make_run: Any, make_sample: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    with create_run(tmp_path, "x", make_run()) as run:
        run.append(make_sample("a"))
        before = (run.path / "samples.jsonl").read_bytes()
        write = os.write

        def half_then_full(descriptor: int, data: bytes) -> int:
            if len(data) > 20:
                return write(descriptor, data[:20])
            raise OSError(28, "No space left on device")

        with monkeypatch.context() as patch:
            patch.setattr(os, "write", half_then_full)
            with pytest.raises(ResultsError, match="No space left on device; make room and run the same command again"):
                run.append(make_sample("b", text="x" * 13))
        assert (run.path / "samples.jsonl").read_bytes() == before
        run.append(make_sample("b"))
        run.finish()
    assert [sample.id for sample in read_run(run.path).samples] == ["a", "b"]


def test_a_truly_full_device_is_one_sentence(tmp_path: Path, make_run: Any, make_sample: Any) -> None:
    if not Path("/dev/full").exists():
        pytest.skip("needs /dev/full")
    with create_run(tmp_path, "x", make_run()) as run:
        (run.path / "traces.jsonl.gz").symlink_to("/dev/full")
        with pytest.raises(ResultsError, match=r"traces\.jsonl\.gz: No space left on device"):
            run.append_trace("a", [RoundRecord(index=0)])
        run.append(make_sample("a"))
    assert len(read_run(run.path).samples) == 1


def test_a_folder_that_cannot_be_written_is_one_sentence(
    tmp_path: Path, make_run: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(ResultsError, match=r"cannot make .*file/runs: Not a directory; give another folder"):
        create_run(tmp_path / "file" / "runs", "x", make_run())

    def read_only(self: Path, *_: Any, **__: Any) -> None:
        raise OSError(30, "Read-only file system")

    monkeypatch.setattr(Path, "mkdir", read_only)
    with pytest.raises(ResultsError, match=r"cannot make .*: Read-only file system"):
        create_run(tmp_path / "runs", "x", make_run())


def test_a_failure_while_making_leaves_nothing_behind(
    tmp_path: Path, make_run: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full)
        with pytest.raises(ResultsError, match="No space left"):
            create_run(tmp_path, "x", make_run())
    assert [path.name for path in tmp_path.iterdir()] == [".lock"]
    assert create_run(tmp_path, "x", make_run()).path.name == "0001-x"


@pytest.mark.parametrize("cut", [1, 10, 40])
def test_a_half_written_last_line_is_cut_with_a_warning(
    tmp_path: Path, make_run: Any, make_sample: Any, caplog: pytest.LogCaptureFixture, cut: int
) -> None:
    with create_run(tmp_path, "x", make_run()) as run:
        for id in ("a", "b"):
            run.append(make_sample(id, text="é" * 50))
    file = run.path / "samples.jsonl"
    whole = file.read_bytes().splitlines(keepends=True)
    file.write_bytes(whole[0] + whole[1][: -cut - 1])
    assert [sample.id for sample in read_run(run.path).samples] == ["a"]  # reading alone changes nothing
    assert file.stat().st_size == len(whole[0]) + len(whole[1]) - cut - 1
    caplog.clear()
    with caplog.at_level(logging.WARNING), reopen_run(run.path) as run:
        assert run.done == {"a"}
        run.append(make_sample("b"))
    assert "the last line was half written and was cut" in caplog.text
    assert [json.loads(line)["id"] for line in file.read_text().splitlines()] == ["a", "b"]


def test_a_half_written_trace_is_cut(tmp_path: Path, make_run: Any, caplog: pytest.LogCaptureFixture) -> None:
    with create_run(tmp_path, "x", make_run()) as run:
        for id in ("a", "b"):
            run.append_trace(id, [RoundRecord(index=0)])
    file = run.path / "traces.jsonl.gz"
    file.write_bytes(file.read_bytes()[:-5])
    assert [trace.id for trace in read_run(run.path).traces()] == ["a"]
    with reopen_run(run.path) as run:
        run.append_trace("c", [RoundRecord(index=0)])
    assert [trace.id for trace in read_run(run.path).traces()] == ["a", "c"]
    assert "the last trace was half written and was cut" in caplog.text

"""Runs that were made in several sittings: what is kept of them, and that their speeds are set beside no others."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from stored import PLACE, record, samples, store

from lopa_bench.results.comparison.baseline import Acceptance, accept
from lopa_bench.results.comparison.bounds import parse_bound
from lopa_bench.results.comparison.compare import compare
from lopa_bench.results.comparison.differences import differences, speed_obstacle
from lopa_bench.results.comparison.gates import Outcome
from lopa_bench.results.comparison.paired import Side
from lopa_bench.results.comparison.speed_gate import check_speed
from lopa_bench.results.places import Environment
from lopa_bench.results.reports.runs import groups_of
from lopa_bench.results.schema import RunRecord, utc_now
from lopa_bench.results.sittings import Sitting, after_sitting, mixture
from lopa_bench.results.store import RUN_FILE, StoredRun, load_run
from lopa_bench.results.summary import summarise

ELSEWHERE = PLACE.model_copy(update={"device_name": "NVIDIA H200", "num_threads": 4})


def resumed(place: Environment = ELSEWHERE, **changes: Any) -> RunRecord:
    return record(earlier_sittings=(Sitting(place=place, num_answers=5),), **changes)


def test_a_run_of_one_sitting_is_of_one_kind_and_so_is_a_record_without_the_field(tmp_path: Path) -> None:
    run = store(tmp_path)
    assert mixture(run.record) is None
    file = run.path / RUN_FILE
    raw = json.loads(file.read_text())
    del raw["earlier_sittings"]
    file.write_text(json.dumps(raw))
    assert load_run(run.path).record == run.record


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"num_threads": 2}, "1 thread and 2 threads"),
        ({"device_name": "H200"}, "AMD EPYC and H200"),
        ({"packages": {"torch": "2.9.0", "numpy": "2"}}, "no numpy and numpy 2"),
        ({"packages": {"torch": "2.9.0", "lm-eval": "9"}}, None),
        ({"git_commit": "b" * 40, "platform": "another"}, None),
    ],
    ids=["threads", "machine", "library", "scoring library", "commit"],
)
def test_what_makes_a_mixture_of_speeds(change: dict[str, Any], words: str | None) -> None:
    assert mixture(resumed(PLACE.model_copy(update=change))) == words


def test_other_groups_of_processes_are_a_mixture_too() -> None:
    found = mixture(record(earlier_groups=({"dp": 1, "bp": 2, "tp": 1},)))
    assert found == "1 x 1 x 1 processes (data x branch x tensor) and 1 x 2 x 1 processes (data x branch x tensor)"


def test_a_sitting_elsewhere_is_kept_and_one_on_the_same_machine_is_not() -> None:
    before = record()
    assert after_sitting(before, PLACE.model_copy(update={"git_commit": "c" * 40}), 3) == ((), PLACE)
    assert after_sitting(before, ELSEWHERE, 3) == ((Sitting(place=PLACE, num_answers=3),), ELSEWHERE)


def test_a_sitting_without_an_answer_leaves_no_trace() -> None:
    assert after_sitting(record(), ELSEWHERE, 0) == ((), ELSEWHERE)
    stopped_at_once = resumed(num_documents=20)  # five answers elsewhere, none since
    assert after_sitting(stopped_at_once, ELSEWHERE, 5) == ((), ELSEWHERE)
    assert after_sitting(stopped_at_once, PLACE, 6) == (stopped_at_once.earlier_sittings, PLACE)


def test_compare_gives_no_ratio_of_speeds_and_all_else() -> None:
    before, after = Side(record(id="0001-a"), samples()), Side(resumed(id="0002-b"), samples())
    found = {one.figure: one for one in compare(before, after).changes}
    assert found["tps_e2e"].change is None and found["tpf"].change == 1 and found["accuracy"].change == 0
    assert "0002-b was made in several sittings with AMD EPYC and NVIDIA H200" in found["tps_e2e"].remark
    assert speed_obstacle(resumed(), resumed()) is not None
    told = {one.name: (one.after, one.kind) for one in differences(before.record, after.record)}
    assert told["threads"] == ("1 and 4", "environment") and "NVIDIA H200" in told["device"][0]


def baseline_cell(runs: list[StoredRun]) -> Any:
    accepted = accept(None, runs, Acceptance(when=utc_now(), who="a", why="b", cells=()), {})
    [(name, cell)] = accepted.cells.items()
    return name, cell


def test_check_does_not_gate_the_speed_of_a_mixture(tmp_path: Path) -> None:
    name, cell = baseline_cell([store(tmp_path / "old") for _ in range(3)])
    runs = [store(tmp_path / "new", run=resumed()) for _ in range(3)]
    found = check_speed(name, cell, runs, parse_bound("10%", "--tps"))
    assert found.outcome == Outcome.NOT_COMPARABLE and "was made in several sittings with" in found.reason


def test_a_baseline_keeps_no_speed_of_a_mixture(tmp_path: Path) -> None:
    runs = [store(tmp_path), store(tmp_path, run=resumed()), store(tmp_path)]
    _, cell = baseline_cell(runs)
    assert len(cell.speeds) == 2 and len(cell.samples) == 20


def test_summary_and_report_say_so(tmp_path: Path) -> None:
    assert "speeds are a mixture" in " ".join(summarise(resumed(), samples()).warnings)
    assert "mixture" not in " ".join(summarise(record(), samples()).warnings)
    [group] = groups_of([store(tmp_path, run=resumed())])
    assert str(group.speed_obstacle).startswith("R1 was made in several sittings")
    assert any("made in several sittings with AMD EPYC and NVIDIA H200; 1 thread" in note for note in group.notes)

"""Speed-up and efficiency by the number of devices, from stored runs alone; 0.8x is shown as 0.8x."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from stored import record, sample, store

from lopa_bench.results.reports.scaling import Scaling, scaling, scaling_table
from lopa_bench.results.schema import SampleRecord
from lopa_bench.results.sittings import Sitting
from lopa_bench.results.store import StoredRun
from lopa_bench.results.tables import render


def on(root: Path, answers: list[SampleRecord], bp: int = 1, dp: int = 1, tp: int = 1, **elsewhere: Any) -> StoredRun:
    size = dp * bp * tp
    place: dict[str, Any] = {"world_size": size, "groups": {"dp": dp, "bp": bp, "tp": tp} if size > 1 else {}}
    place |= elsewhere
    return store(root, answers, record(num_documents=len(answers), place=place, fingerprint="f" * 8))


def times(samples: int, slower: float = 1.0, comm: float = 0.0, wait: float = 0.0) -> list[SampleRecord]:
    made = []
    for index in range(samples):
        one = sample(index, slower=slower)
        time = one.time.model_copy(update={"comm_s": comm * one.time.decode_s, "rank_wait_s": wait * one.time.decode_s})
        made.append(one.model_copy(update={"time": time}))
    return made


def test_a_slower_run_on_two_devices_is_0_8_times_as_fast(tmp_path: Path) -> None:
    runs = [on(tmp_path, times(6, 1.25, comm=0.3, wait=0.1), bp=2), on(tmp_path, times(6))]
    [found] = scaling(runs)
    alone, two = found.points
    assert (alone.devices, alone.speed_up, alone.efficiency, alone.comm_share) == (1, 1.0, 1.0, 0.0)
    assert two.speed_up == pytest.approx(0.8) and two.efficiency == pytest.approx(0.4)
    assert two.comm_share == pytest.approx(0.3) and two.wait_share == pytest.approx(0.1)
    assert two.compute_share == pytest.approx(0.6)
    told = render(scaling_table(found))
    assert "0.80" in told and "branches 2: slower than one device, 0.80x" in told


def test_communication_that_was_not_measured_is_not_available(tmp_path: Path) -> None:
    unknown = {"comm_s": None, "rank_wait_s": None}
    answers = [one.model_copy(update={"time": one.time.model_copy(update=unknown)}) for one in times(6)]
    [found] = scaling([on(tmp_path, times(6)), on(tmp_path, answers, tp=2)])
    alone, two = found.points
    assert (two.comm_share, two.wait_share, two.compute_share) == (None, None, None) and alone.compute_share == 1.0
    assert "network 2: communication was not measured" in render(scaling_table(found))


def test_processes_that_share_samples_count_by_the_slowest(tmp_path: Path) -> None:
    spread = [one.model_copy(update={"rank": index % 2}) for index, one in enumerate(times(8))]
    [found] = scaling([on(tmp_path, times(8)), on(tmp_path, spread, dp=2)])
    seconds = [sum(one.time.total_s for one in spread if one.rank == rank) for rank in range(2)]
    assert found.points[1].speed_up == pytest.approx(sum(seconds) / max(seconds))
    assert found.points[1].idle_share == pytest.approx(1 - sum(seconds) / max(seconds) / 2) and seconds[0] != seconds[1]
    assert [point.way for point in found.points] == ["one device", "samples"]


def test_only_answers_that_all_have_are_compared(tmp_path: Path) -> None:
    [found] = scaling([on(tmp_path, times(9)), on(tmp_path, times(4, 0.5), bp=2)])
    assert [point.samples for point in found.points] == [4, 4]
    assert found.points[1].speed_up == pytest.approx(2.0)
    assert "perfect scaling" not in render(scaling_table(found))


def test_more_than_perfect_is_told(tmp_path: Path) -> None:
    [found] = scaling([on(tmp_path, times(4)), on(tmp_path, times(4, 0.4), bp=2)])
    assert "branches 2: 125% of what perfect scaling gives" in render(scaling_table(found))


def test_other_answers_are_told(tmp_path: Path) -> None:
    changed = [one.model_copy(update={"token_ids": (1, *one.token_ids[1:])}) for one in times(3)]
    [found] = scaling([on(tmp_path, times(3)), on(tmp_path, changed, tp=2)])
    assert [point.same_answers for point in found.points] == [True, False]
    assert "network 2: 3 of 3 answers differ from those of one device" in render(scaling_table(found))


def test_settings_run_on_one_arrangement_give_nothing(tmp_path: Path) -> None:
    assert scaling([on(tmp_path, times(3)), on(tmp_path, times(3))]) == []
    assert scaling([]) == []


def test_a_run_made_on_several_arrangements_is_left_out_with_the_reason(tmp_path: Path) -> None:
    mixed = on(tmp_path, times(3), bp=4)
    changed = replace(mixed, record=mixed.record.model_copy(update={"earlier_groups": ({"bp": 2},)}))
    runs = [on(tmp_path, times(3)), on(tmp_path, times(3), bp=2), changed]
    [found] = scaling(runs)
    assert isinstance(found, Scaling)
    assert [point.devices for point in found.points] == [1, 2]
    [left_out] = found.left_out
    assert left_out.startswith(f"{mixed.path.name}: made in several sittings with 1 x 2 x 1 processes")


def test_a_run_made_on_several_machines_is_left_out_with_the_reason(tmp_path: Path) -> None:
    mixed = on(tmp_path, times(3), bp=4)
    elsewhere = Sitting(place=mixed.record.environment.model_copy(update={"num_threads": 9}), num_answers=1)
    changed = replace(mixed, record=mixed.record.model_copy(update={"earlier_sittings": (elsewhere,)}))
    [found] = scaling([on(tmp_path, times(3)), on(tmp_path, times(3), bp=2), changed])
    assert found.left_out == (f"{mixed.path.name}: made in several sittings with 1 thread and 9 threads",)


def threads_of(found: Scaling) -> list[tuple[int, int | None]]:
    return [(point.devices, point.threads) for point in found.points]


def test_cores_that_are_divided_among_the_processes_do_not_keep_runs_apart(tmp_path: Path) -> None:
    runs = [on(tmp_path, times(3, slower), bp=bp, num_threads=8 // bp) for bp, slower in ((1, 1.0), (2, 0.8), (4, 0.7))]
    [found] = scaling(runs)
    assert threads_of(found) == [(1, 8), (2, 4), (4, 2)] and found.points[2].speed_up == pytest.approx(1 / 0.7)
    table = scaling_table(found)
    assert [row["threads"] for row in table.rows] == [8, 4, 2]
    words = "threads a process differ: 8 (one device), 4 (branches 2), 2 (branches 4)"
    assert any(note.startswith(words) for note in table.notes)


def test_runs_of_as_many_threads_are_set_against_each_other_where_the_fewest_devices_had_them(tmp_path: Path) -> None:
    places = ((1, 8), (1, 1), (2, 1), (2, 4), (4, 1))
    one_thread, divided = scaling([on(tmp_path, times(3), bp=bp, num_threads=threads) for bp, threads in places])
    assert (threads_of(one_thread), threads_of(divided)) == ([(1, 1), (2, 1), (4, 1)], [(1, 8), (2, 4)])
    assert "threads" not in {column.key for column in scaling_table(one_thread).columns}


def test_more_processes_than_cores_meet_the_one_that_had_them_all(tmp_path: Path) -> None:
    places = ((1, 2), (2, 1), (4, 1))
    [found] = scaling([on(tmp_path, times(3), bp=bp, num_threads=threads) for bp, threads in places])
    assert threads_of(found) == [(1, 2), (2, 1), (4, 1)]


def test_threads_of_the_host_tell_no_accelerators_apart(tmp_path: Path) -> None:
    gpu: dict[str, Any] = {"device": "cuda", "device_name": "NVIDIA H200"}
    places = ((1, 8), (1, 1), (2, 1), (8, 4))
    [found] = scaling([on(tmp_path, times(3), bp=bp, num_threads=threads, **gpu) for bp, threads in places])
    assert threads_of(found) == [(1, None), (1, None), (2, None), (8, None)] and not found.threads_differ


def test_other_processors_are_kept_apart(tmp_path: Path) -> None:
    runs = [on(tmp_path, times(3), bp=bp, device_name=name) for bp, name in ((1, "one"), (2, "another"))]
    assert scaling(runs) == []

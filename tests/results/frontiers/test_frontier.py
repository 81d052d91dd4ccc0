"""Settings side by side, on runs made by hand."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from lopa_bench.errors import ConfigError, NotComparable, ResultsError
from lopa_bench.results.frontiers.aup import Yardstick
from lopa_bench.results.frontiers.frontier import frontier
from lopa_bench.results.frontiers.frontier_tables import aup_table, choice_lines, document, settings_table
from lopa_bench.results.frontiers.pareto import half_of
from lopa_bench.results.schema import DecoderInfo, Environment
from lopa_bench.results.store import StoredRun, load_run
from lopa_bench.results.writer import create_run

PLACE = Environment(device="cpu", device_name="AMD EPYC", dtype="float32")
IDS = [f"p{index:02d}" for index in range(40)]


@pytest.fixture
def store(tmp_path: Path, make_run: Any, make_sample: Any) -> Any:
    def build(
        branches: int, right: int, rounds: int, ids: Sequence[str] = IDS, decoder: str = "lopa", **more: Any
    ) -> StoredRun:
        options = {"branches": branches, "block_size": 8}
        record = make_run(num_documents=len(ids)).model_copy(
            update={"decoder": DecoderInfo(name=decoder, options=options), "environment": PLACE}
        )
        with create_run(tmp_path, f"{decoder} {branches}", record) as writer:
            for index, id in enumerate(ids):
                values = {"useful": 20, "rounds": rounds, "decode_s": 0.5, "prompt_hash": f"hash of {id}"} | more
                writer.append(make_sample(id, correct=float(index < right), **values))
            writer.finish()
        return load_run(writer.path)

    return build


def test_a_front_its_curve_and_its_choice_by_hand(store: Any) -> None:
    runs = [store(1, 40, 20), store(4, 40, 10), store(8, 36, 5), store(2, 20, 4)]
    found = frontier(runs, within=0.0, yardstick=Yardstick(100, "perfection"))
    assert [(one.setting.words, one.speed, one.accuracy, one.on_front) for one in found.settings] == [
        ("lopa branches=1", 1.0, 1.0, False),
        ("lopa branches=4", 2.0, 1.0, True),
        ("lopa branches=8", 4.0, 0.9, True),
        ("lopa branches=2", 5.0, 0.5, True),
    ]
    [curve] = found.curves  # 90 % is more than five points below the first, 50 % too
    assert (curve.aup.value, curve.num_settings) == (1 * 100 + (2 - 1) * 100, 4)
    assert curve.aup.dropped == ((4.0, 90.0), (5.0, 50.0))
    assert found.choice is not None
    assert found.choice.setting.words == "lopa branches=4"
    num_choose = sum(half_of(id) == "choose" for id in IDS)
    assert (found.choice.num_choose, found.choice.num_report) == (num_choose, 40 - num_choose)
    assert found.choice.reported_point == (2.0, 1.0)


def test_intervals_come_from_the_problems(store: Any) -> None:
    found = frontier([store(1, 38, 20), store(4, 37, 10)], resamples=300)
    [curve] = found.curves
    assert curve.interval is not None
    assert curve.interval.low < curve.aup.value < curve.interval.high
    first, second = found.settings
    assert second.front_share == 1.0  # always the fastest
    assert first.front_share is not None and 0 < first.front_share < 1  # the one problem that it has more may be drawn
    assert first.speed_interval is not None and first.speed_interval.low == first.speed_interval.high == 1.0


def test_what_is_chosen_is_not_what_is_reported(store: Any) -> None:
    """A setting that is right on the choosing half alone is taken, and the other half shows what it is worth."""
    lucky = sorted(IDS, key=half_of)  # "choose" before "report"
    num_choose = sum(half_of(id) == "choose" for id in IDS)
    found = frontier([store(1, 40, 20, lucky), store(8, num_choose, 5, lucky)])
    assert found.choice is not None
    assert found.choice.setting.words == "lopa branches=8"
    assert (found.choice.chosen_point, found.choice.reported_point) == ((4.0, 1.0), (4.0, 0.0))
    assert "100.0 points below it" in list(choice_lines(found, 1.0))[1]


def test_only_problems_that_all_answered_take_part(store: Any) -> None:
    found = frontier([store(1, 40, 20), store(4, 40, 10, IDS[:30])])
    assert (len(found.ids), found.num_left_out) == (30, 10)
    assert "10 problems that some run did not answer are left out" in settings_table(found).notes


def test_warm_up_samples_take_no_part_in_times(store: Any) -> None:
    found = frontier([store(1, 40, 20), store(4, 40, 10)], speed="tps_e2e")
    assert [one.speed for one in found.settings] == [40.0, 40.0]
    with pytest.raises(NotComparable, match="no problem was answered"):
        frontier([store(1, 40, 20, warmup=True), store(4, 40, 10)], speed="tps_e2e")


def test_one_run_or_one_problem_is_no_error(store: Any) -> None:
    found = frontier([store(1, 1, 20, IDS[:1])])
    assert (found.choice, found.settings[0].front_share, found.curves[0].interval) == (None, None, None)
    assert list(choice_lines(found, 1.0)) == ["no setting can be chosen: the 1 problems leave a half without figures"]


def test_what_cannot_be_compared_is_refused(store: Any, tmp_path: Path) -> None:
    one = store(1, 40, 20)
    with pytest.raises(NotComparable, match="put p00 in different prompts"):
        frontier([one, store(4, 40, 10, prompt_hash="other")])
    with pytest.raises(ConfigError, match=r"speed 'tfp' not found \(did you mean 'tpf'\?\)"):
        frontier([one], speed="tfp")
    with pytest.raises(ConfigError, match="run '0009-x' is not among those compared"):
        frontier([one], against="0009-x")
    with pytest.raises(ResultsError, match="no run has a right answer"):
        frontier([store(1, 0, 20)])
    other = StoredRun(tmp_path / "other", one.record.model_copy(update={"task": one.record.task.model_copy(
        update={"name": "gsm8k"})}), one.version)  # fmt: skip
    with pytest.raises(NotComparable, match="one task, found gsm8k, mini-maths"):
        frontier([one, other])


@pytest.mark.parametrize("change", [{"metric": "flexible"}, {"version": "2"}, {"num_available": 7}])
def test_other_scores_versions_and_data_make_no_front(store: Any, change: dict[str, Any]) -> None:
    one, two = store(1, 40, 20), store(4, 40, 10)
    task = two.record.task.model_copy(update=change)
    with pytest.raises(NotComparable, match=str(next(iter(change.values())))):
        frontier([one, StoredRun(two.path, two.record.model_copy(update={"task": task}), two.version)])


def test_speeds_of_two_devices_make_no_front(store: Any) -> None:
    one, two = store(1, 40, 20), store(4, 40, 10)
    place = PLACE.model_copy(update={"device_name": "H200"})
    two = StoredRun(two.path, two.record.model_copy(update={"environment": place}), two.version)
    with pytest.raises(NotComparable, match="are not comparable: AMD EPYC vs H200"):
        frontier([one, two], speed="tps_e2e")
    assert len(frontier([one, two]).settings) == 2, "tokens per round do not depend on the device"


def test_a_run_named_twice_is_one_setting(store: Any) -> None:
    one = store(1, 40, 20)
    assert len(frontier([one, one, store(4, 40, 10)]).settings) == 2


def test_each_decoder_has_its_curve_and_y_max_has_a_name(store: Any) -> None:
    found = frontier([store(1, 40, 20), store(4, 40, 10), store(1, 38, 10, decoder="d2f")])
    assert [curve.decoder for curve in found.curves] == ["lopa", "d2f"]
    assert found.yardstick == Yardstick(100.0, "best of these runs, lopa branches=1")
    assert "best of these runs" in aup_table(found).notes[0]
    described = document(found)
    assert described["y_max"] == {"percent": 100.0, "name": "best of these runs, lopa branches=1"}
    assert described["n"] == 40

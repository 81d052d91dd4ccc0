"""What the figures of a report show: the same look for the same thing everywhere, nothing under another's name."""

from __future__ import annotations

import math
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from matplotlib.colors import to_hex
from report_cases import lopa, other

from lopa_bench.results import plots
from lopa_bench.results.fillings.branch_wins import PartRow
from lopa_bench.results.fillings.fill_order import RoundRow
from lopa_bench.results.reports import figures_branches, figures_rounds, figures_speed
from lopa_bench.results.reports.figures import STYLES, Drawing, look
from lopa_bench.results.reports.runs import groups_of
from lopa_bench.results.reports.series import series_of
from lopa_bench.results.reports.traces import with_branches
from lopa_bench.results.trace import RoundRecord, TraceRecord


def _traced(task: str, branches: int, tau: float = 0.9) -> Any:
    parts = [PartRow(part, 10, 5, 1.0, 0.2, 0.8, 0.5, 1.5) for part in range(9)] + [PartRow(9, 4, 4, None)]
    options = {"branches": branches, "tau": tau}
    record = SimpleNamespace(decoder=SimpleNamespace(options=options))
    entry = SimpleNamespace(branches=branches, ref=f"R{branches}", words=f"lopa k={branches} tau={tau}", record=record)
    return SimpleNamespace(task=task, entry=entry, analysis=SimpleNamespace(wins=SimpleNamespace(parts=parts)))


def _looks(panel: Any) -> dict[str, tuple[str, str, str]]:
    lines = [line for line in panel.get_lines() if not line.get_label().startswith("_")]
    return {one.get_label(): (to_hex(one.get_color()), one.get_linestyle(), one.get_marker()) for one in lines}


def test_a_number_of_branches_looks_the_same_in_every_panel() -> None:
    drawing = figures_branches.branch_wins([*(_traced("one", k) for k in (2, 4)), _traced("two", 8)], "")
    assert isinstance(drawing, Drawing)
    figure = drawing.draw(STYLES["screen"])
    one, two = figure.axes[0], figure.axes[1]
    assert list(_looks(one)) == ["k=2", "k=4"] and list(_looks(two)) == ["k=8"]
    assert len({*_looks(one).values(), *_looks(two).values()}) == 3
    assert [text.get_text() for text in figure.legends[0].get_texts()] == ["k=2", "k=4", "k=8"]


def test_where_lookaheads_win_has_intervals_and_no_point_for_a_few() -> None:
    drawing = figures_branches.branch_wins([_traced("one", 2)], "")
    assert isinstance(drawing, Drawing) and "fewer than 5 were tried" in drawing.caption
    figure = drawing.draw(STYLES["screen"])
    for panel, value, low, high in ((figure.axes[0], 50.0, 20.0, 80.0), (figure.axes[1], 1.0, 0.5, 1.5)):
        line = next(one for one in panel.get_lines() if one.get_label() == "k=2")
        assert list(line.get_ydata())[:9] == [value] * 9 and math.isnan(line.get_ydata()[9])
        ends = [bar.get_segments()[0][:, 1] for bar in panel.collections]
        assert len(ends) == 9 and all(list(one) == pytest.approx([low, high]) for one in ends)


def test_branch_wins_are_those_of_one_series_which_is_named() -> None:
    runs = [_traced("one", 2, 0.8), _traced("one", 4, 0.9), _traced("one", 2, 0.9), _traced("one", 2, 0.9)]
    assert with_branches(runs, "one") == [runs[2], runs[1]]
    drawing = figures_branches.branch_wins(runs, "")
    assert isinstance(drawing, Drawing) and "one: lopa tau=0.9, k=2, 4." in drawing.caption
    assert with_branches(runs, "two") == []


def test_several_series_of_lopa_have_no_other_decoder_s_colour(tmp_path: Path) -> None:
    runs = [lopa(tmp_path, k, tau=tau) for tau in (0.8, 0.9) for k in (1, 4)]
    drawing = figures_branches.branches(series_of(groups_of(runs), tmp_path)[0], with_published=False)
    assert isinstance(drawing, Drawing)
    looks = _looks(drawing.draw(STYLES["screen"]).axes[0])
    colours = {one[0] for one in looks.values()}
    assert len(looks) == len(colours) == 2
    assert not colours & {look(name).colour.lower() for name in ("ar", "vanilla", "fast-dllm", "d2f")}


def test_a_base_of_another_decoder_looks_like_that_decoder(tmp_path: Path) -> None:
    runs = [other(tmp_path, "d2f"), lopa(tmp_path, 4, rounds=0.5)]
    series, _ = series_of(groups_of(runs), tmp_path)
    drawing = figures_branches.branches(series, with_published=False)
    assert isinstance(drawing, Drawing)
    figure = drawing.draw(STYLES["screen"])
    looks = _looks(figure.axes[0])
    assert looks["d2f"][0] == look("d2f").colour.lower() and looks["d2f"][2] == look("d2f").marker
    assert {text.get_text() for text in figure.legends[0].get_texts()} == {"lopa", "d2f"}


def test_rounds_and_slots_are_counted_as_traces_count_them() -> None:
    rows = [RoundRow(index, 4, 0.5, 1.0, 1.0, 1.0, 1.0) for index in range(3)]
    order = SimpleNamespace(tau=1.0)
    entry = SimpleNamespace(decoder="d2f", branches=None, ref="R1", words="d2f")
    rounds = tuple(RoundRecord(index=index, positions=(index,), tokens=(5,)) for index in range(3))
    one = SimpleNamespace(
        task="t",
        entry=entry,
        analysis=SimpleNamespace(rounds=rows, order=order),
        traces=[TraceRecord(id="a", rounds=rounds)],
    )
    drawn = figures_rounds.tokens_per_round([one], "")
    assert isinstance(drawn, Drawing)
    lines = drawn.draw(STYLES["screen"]).axes[0].get_lines()
    assert list(lines[0].get_xdata()) == [0, 1, 2]
    placed = figures_rounds.fill_order([one], "")
    assert isinstance(placed, Drawing)
    assert placed.draw(STYLES["screen"]).axes[0].images[0].get_extent() == [-0.5, 2.5, 2.5, -0.5]


def test_decoders_look_the_same_in_the_plot_of_the_demo_and_in_reports(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    marked = []
    monkeypatch.setattr(plots, "mark_trade_off", lambda axes, point, *dress: marked.append(dress) or (1.0, 50.0))
    names = ["vanilla", "mine", "lopa", "yours", "ar"]
    plots.plot_accuracy_tpf([plots.TradeOff(name, 1.0, 0.5) for name in names], tmp_path / "plot.png")
    for name in ("vanilla", "lopa", "ar"):
        assert marked[names.index(name)] == (look(name).colour, look(name).marker)
    assert len(set(marked)) == len(names)


def _of_decoder(name: str, branches: int | None = None) -> Any:
    record = SimpleNamespace(decoder=SimpleNamespace(options={"branches": branches}))
    entry = SimpleNamespace(decoder=name, branches=branches, ref=f"{name}{branches or ''}", words=name, record=record)
    return SimpleNamespace(task="one", entry=entry)


def test_rounds_are_drawn_of_every_built_in_decoder_and_a_decoder_without_room_is_named() -> None:
    runs = [*map(_of_decoder, ("ar", "vanilla", "fast-dllm", "d2f")), *(_of_decoder("lopa", k) for k in (1, 4, 15))]
    names = ["ar", "vanilla", "fast-dllm", "d2f", "lopa1", "lopa15"]
    for draw in (figures_rounds.tokens_per_round, figures_rounds.fill_order):
        drawing = draw(runs, "")
        assert isinstance(drawing, Drawing) and list(drawing.refs) == names
        assert "one of each decoder" in drawing.caption and "Left out" not in drawing.caption
        crowded = draw([*runs, _of_decoder("mine")], "")
        assert isinstance(crowded, Drawing) and list(crowded.refs) == [*names[1:4], "mine", *names[4:]]
        assert "Left out for want of room: ar (one)." in crowded.caption


def test_no_speed_is_drawn_without_its_accuracy(tmp_path: Path) -> None:
    runs = [lopa(tmp_path, 1, slower=2.0), lopa(tmp_path, 4, correct=(1.0,) * 10 + (0.0,) * 10)]
    drawing = figures_speed.throughput(groups_of(runs))
    assert (
        isinstance(drawing, Drawing) and "accuracy" in drawing.metrics and "accuracy of the same run" in drawing.caption
    )
    bars, beside = drawing.draw(STYLES["screen"]).axes
    assert [one.get_text() for one in bars.get_yticklabels()] == ["lopa k=4", "lopa k=1"]
    texts = [one.get_text() for one in beside.get_yticklabels()]
    assert [one.split(" [")[0] for one in texts] == ["50.0", "80.0"] and all(one.endswith("]") for one in texts)
    assert beside.get_ylim() == bars.get_ylim() and list(beside.get_yticks()) == list(bars.get_yticks())

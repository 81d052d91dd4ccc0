from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from lopa_bench.errors import ResultsError
from lopa_bench.results.plots import COLOURS, MARKERS, TradeOff, plot_accuracy_tpf
from lopa_bench.results.schema import Interval

ROWS = [
    TradeOff("AR", 1.0, 0.97, Interval(low=1, high=1), Interval(low=0.95, high=0.98)),
    TradeOff("vanilla", 0.93, 0.92, None, Interval(low=0.89, high=0.94)),
    TradeOff("lopa_$8$ & co", 5.4, 1.0, Interval(low=5.2, high=5.7), Interval(low=0.99, high=1.0)),
    TradeOff("undefined", None, 0.5),
]


@pytest.mark.parametrize(("suffix", "magic"), [(".png", b"\x89PNG"), (".svg", b"<?xml"), (".pdf", b"%PDF")])
def test_the_plot_is_written_in_the_format_of_its_suffix(tmp_path: Path, suffix: str, magic: bytes) -> None:
    path = tmp_path / "new" / f"plot{suffix}"
    plot_accuracy_tpf(ROWS, path)
    assert path.read_bytes().startswith(magic)


def test_several_formats_at_once_and_the_same_file_again(tmp_path: Path) -> None:
    for name in ("one", "two"):
        plot_accuracy_tpf(ROWS, tmp_path / f"{name}.png", title="t", also=[".svg"])
    assert (tmp_path / "one.svg").read_bytes() == (tmp_path / "two.svg").read_bytes()
    assert (tmp_path / "one.png").read_bytes() == (tmp_path / "two.png").read_bytes()


def test_more_points_than_colours_and_points_in_one_place(tmp_path: Path) -> None:
    rows = [TradeOff(f"decoder {i}", 2.0, 0.5) for i in range(max(len(COLOURS), len(MARKERS)) + 3)]
    plot_accuracy_tpf(rows, tmp_path / "many.png")
    assert (tmp_path / "many.png").stat().st_size > 5000


def test_what_cannot_be_drawn_is_a_sentence(tmp_path: Path) -> None:
    with pytest.raises(ResultsError, match=r"the name must end in \.png, \.svg, \.pdf"):
        plot_accuracy_tpf(ROWS, tmp_path / "plot.jpeg")
    with pytest.raises(ResultsError, match="no row has both an accuracy and a TPF"):
        plot_accuracy_tpf([TradeOff("x", None, 0.5), TradeOff("y", 1.0, None)], tmp_path / "plot.png")
    (tmp_path / "file").write_text("")
    with pytest.raises(ResultsError, match=r"cannot write .*plot\.png"):
        plot_accuracy_tpf(ROWS, tmp_path / "file" / "plot.png")


def test_a_figure_that_cannot_be_written_leaves_the_earlier_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "plot.png"
    plot_accuracy_tpf(ROWS, path)
    earlier = path.read_bytes()

    def full(descriptor: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(ResultsError, match=r"cannot write .*plot\.png"):
        plot_accuracy_tpf(ROWS[:1], path)
    assert path.read_bytes() == earlier and list(tmp_path.iterdir()) == [path]

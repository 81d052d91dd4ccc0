"""Which isolation there is on a machine and why not the other; how small the child is."""

from __future__ import annotations

from pathlib import Path

import pytest

from lopa_bench.errors import PrerequisiteError, ScorerError
from lopa_bench.harness.sandbox import sandbox
from lopa_bench.harness.sandbox.isolation import Kind
from lopa_bench.harness.sandbox.sandbox import Sandbox, ways

RSS_CAP_KB = 64 * 1024


def test_what_works_here_is_told_and_one_way_is_taken() -> None:
    first, second = ways()
    assert (first.kind, second.kind) == ("bubblewrap", "limits")
    assert [first.is_taken, second.is_taken].count(True) == 1
    assert first.works == first.is_taken == (first.remark == "")
    assert second.works and "WITHOUT isolation" in second.remark


def test_why_bubblewrap_does_not_work_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sandbox, "_best", lambda: (None, "bubblewrap does not work here: No permissions"))
    first, second = ways()
    assert (first.works, first.is_taken, first.remark) == (
        False,
        False,
        "bubblewrap does not work here: No permissions",
    )
    assert (second.works, second.is_taken) == (True, True)
    assert "No permissions" in second.remark


def test_a_machine_where_nothing_works_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(self: Sandbox) -> None:
        raise ScorerError("programs cannot be judged: no more processes")

    monkeypatch.setattr(sandbox, "_best", lambda: (None, "bubblewrap is not installed"))
    monkeypatch.setattr(Sandbox, "open", fail)
    assert [(way.works, way.is_taken) for way in ways()] == [(False, False), (False, False)]
    assert ways()[1].remark.endswith("no more processes")


@pytest.mark.parametrize("kind", ["bubblewrap", "limits"])
def test_the_child_is_small_and_knows_nothing_of_torch(kind: Kind) -> None:
    try:
        box = Sandbox(kind=kind)
    except PrerequisiteError as error:
        pytest.skip(str(error))
    with box.open() as program:
        program.load("import sys\ndef f(): return sorted({name.partition('.')[0] for name in sys.modules})", 5.0)
        (output,) = program.call("f", [[]], [5.0])
        assert not {"torch", "numpy", "lopa_bench"} & set(output.data)
        worker = program._process.pid
        while children := Path(f"/proc/{worker}/task/{worker}/children").read_text().split():
            worker = int(children[-1])
        [line] = [one for one in Path(f"/proc/{worker}/status").read_text().splitlines() if one.startswith("VmRSS")]
    assert int(line.split()[1]) < RSS_CAP_KB

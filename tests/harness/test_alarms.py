"""Real decodes on a bundled model through the gates: equal code never alarms, a worse default does."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import MappingProxyType

import pytest

from lopa_bench.harness import bundled_defaults
from lopa_bench.harness.repeating import run_again
from lopa_bench.harness.settings import RunSpec
from lopa_bench.results.comparison.baseline import Acceptance, Baseline, accept
from lopa_bench.results.comparison.bounds import bounds_from
from lopa_bench.results.comparison.check import CheckOptions, check
from lopa_bench.results.comparison.gate_results import Outcome
from lopa_bench.results.schema import utc_now

SPEC = RunSpec(task="mini-maths", decoder="d2f", limit=2, device="cpu", warmup=0)
OPTIONS = CheckOptions(bounds=bounds_from("acc=0pt", "exact", "0%", None))


def accepted(spec: RunSpec, folder: Path) -> Baseline:
    acceptance = Acceptance(when=utc_now(), who="a test", why="first", cells=())
    return accept(None, [run_again(spec, folder)], acceptance, {})


@pytest.mark.slow
@pytest.mark.parametrize("decoder", ["ar", "d2f", "lopa"])
def test_twenty_runs_of_identical_code_raise_no_alarm(decoder: str, tmp_path: Path) -> None:
    """The deterministic gates at their strictest; that speeds raise none either is shown on noise that is known."""
    spec = replace(SPEC, decoder=decoder)
    baseline = accepted(spec, tmp_path / "accepted")
    for _ in range(20):
        verdict = check(baseline, [run_again(spec, tmp_path / "runs")], OPTIONS)
        assert verdict.exit_code == 0, [one for one in verdict.results if one.outcome != Outcome.OK]
        assert verdict.count(Outcome.OK) == 6


def test_a_default_that_costs_rounds_is_an_alarm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    baseline = accepted(SPEC, tmp_path / "accepted")
    worse = {**bundled_defaults.OPTIONS, "d2f": {**bundled_defaults.OPTIONS["d2f"], "tau_conf": 0.99}}
    monkeypatch.setattr(bundled_defaults, "OPTIONS", MappingProxyType(worse))
    verdict = check(baseline, [run_again(SPEC, tmp_path)], OPTIONS)
    failed = {one.gate for one in verdict.results if one.outcome == Outcome.REGRESSED}
    assert verdict.exit_code == 1 and {"rounds", "model calls", "tpf"} <= failed
    assert next(one.reason for one in verdict.results if one.gate == "settings") == "tau_conf: 0.9 vs 0.99"

"""A run on several devices for a process that goes on after it: its ranks are started here and leave word of it."""

from __future__ import annotations

import json
import tempfile
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING

from lopa_bench.harness.distributed.launch import launch
from lopa_bench.harness.distributed.place import world_of
from lopa_bench.harness.job import prepare
from lopa_bench.harness.settings import RunSpec
from lopa_bench.results.store import load_run

if TYPE_CHECKING:
    from lopa_bench.harness.progress import Reporter
    from lopa_bench.harness.runner import RunResult

PROGRAM = ("-m", "lopa_bench.cli.rank_of_run")
ASKED, WORD = "asked.json", "word.json"


def launched_run(spec: RunSpec, label: str = "") -> RunResult:
    """Make a run in a process per device, as `lopa-bench run --devices N` does; `label` names its progress bar.

    Raises:
        LopaBenchError: what was asked cannot be done, or a rank failed.
        KeyboardInterrupt: the user stopped it; what is done is stored.
    """
    from lopa_bench.errors import Stopped
    from lopa_bench.harness.runner import RunResult

    job = prepare(replace(spec, dry_run=True))
    with tempfile.TemporaryDirectory(prefix="lopa-bench-run-") as name:
        folder = Path(name)
        write_spec(spec, folder)
        try:
            launch([name, label], job.spread.shape.size, job.spread.timeout_s, PROGRAM)
        except Stopped as stopped:
            raise KeyboardInterrupt from stopped
        word = json.loads((folder / WORD).read_text())
    stored = load_run(Path(word["path"]))
    return RunResult(job.plan, job.asked, stored, stored.summary, word["num_new"])


def run_on_its_devices(spec: RunSpec, reporter: Reporter | None = None, label: str = "") -> RunResult:
    """Run as `harness.runner.run` does; where several devices are asked and none is ours yet, in processes of its own.

    Those show their progress under `label`, and `reporter` hears nothing.
    """
    from lopa_bench.harness.runner import run

    if (spec.devices or 1) > 1 and world_of() is None and not spec.dry_run:
        return launched_run(spec, label)
    return run(spec, reporter)


def write_spec(spec: RunSpec, folder: Path) -> None:
    """Write down what was asked, for `read_spec` in each of the ranks."""
    (folder / ASKED).write_text(json.dumps(asdict(spec), default=str))


def read_spec(folder: Path) -> RunSpec:
    """Return what `write_spec` wrote."""
    asked = json.loads((folder / ASKED).read_text())
    return RunSpec(**{**asked, **{name: tuple(asked[name]) for name in ("command", "must_match")}})


def leave_word(result: RunResult, folder: Path) -> None:
    """Tell the process that started the ranks which run it was, and how many answers are new."""
    assert result.run is not None  # only a dry run has none, and none is started in ranks
    (folder / WORD).write_text(json.dumps({"path": str(result.run.path.resolve()), "num_new": result.num_new}))

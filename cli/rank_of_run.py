"""One rank of a run that another command, such as a sweep, asked for; started by `harness.distributed.launched_run`."""

from __future__ import annotations

import sys
from pathlib import Path

from lopa_bench.cli.execute import Terminal
from lopa_bench.cli.ranks import as_rank, speaks
from lopa_bench.harness.distributed.launched_run import leave_word, read_spec
from lopa_bench.harness.runner import run


def main(folder: Path, label: str) -> None:
    """Make this rank's part of the run that is written down in `folder`; rank 0 shows the progress."""
    with as_rank():
        result = run(read_spec(folder), Terminal(verbose=False, label=label) if speaks() else None)
        if speaks():
            leave_word(result, folder)


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])

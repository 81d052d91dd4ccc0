"""Why an unfinished run that looks like the one asked for is not gone on with, told when a new one begins instead."""

from __future__ import annotations

from pathlib import Path

from lopa_bench.errors import ResultsError
from lopa_bench.harness.identity import INCIDENTAL
from lopa_bench.results.schema import FINISHED, RunRecord
from lopa_bench.results.store import RUN_FILE, StoredRun, read_run, run_folders

_FINISHED = b'\n  "status": "finished'  # as the writer sets it; set otherwise, a run is parsed to be known as finished


def unfinished_kin(root: Path, record: RunRecord) -> str | None:
    """Return a sentence on the newest unfinished run of the same settings that would give other answers, or None."""
    for path in reversed(run_folders(root)):
        try:
            if _FINISHED in (path / RUN_FILE).read_bytes():
                continue  # thousands of finished runs are passed over without being parsed
            run = read_run(path)
        except (OSError, ResultsError):
            continue  # `list runs` tells of it
        if _is_kin(run, record):
            differing = differences(run.record, record)
            return (
                f"run {run.path.name} has the same settings and is unfinished, but cannot be gone on with: "
                f"{', '.join(differing) or 'what its answers depend on'} changed since; a new run begins"
            )
    return None


def _is_kin(run: StoredRun, record: RunRecord) -> bool:
    own = run.record
    return (
        run.status not in (*FINISHED, "running")
        and own.fingerprint != record.fingerprint
        and (own.task.name, own.decoder.name, own.model.name)
        == (record.task.name, record.decoder.name, record.model.name)
        and _asked(own) == _asked(record)
    )


def _asked(record: RunRecord) -> dict[str, object]:
    """Return the settings that decide answers, and the decoder's options among them."""
    return {name: one.value for name, one in record.configuration.items() if name not in INCIDENTAL}


def differences(before: RunRecord, now: RunRecord) -> list[str]:
    """Name what decides answers beside the settings and is not as it was."""
    places = (before.environment, now.environment)
    pairs = {
        "the weights": (before.model.hash, now.model.hash),
        "the adapter": (before.model.adapter_hash, now.model.adapter_hash),
        "the tokenizer": (before.model.tokenizer_hash, now.model.tokenizer_hash),
        "the task's version": (before.task.version, now.task.version),
        "the task's data": (before.task.source, now.task.source),
        "the device": (places[0].device, places[1].device),
        "the dtype": (places[0].dtype, places[1].dtype),
        "torch": (places[0].packages.get("torch"), places[1].packages.get("torch")),
        "lopa-bench's version": (places[0].packages.get("lopa-bench"), places[1].packages.get("lopa-bench")),
        "lopa-bench's code": (places[0].code, places[1].code),
    }
    return [name for name, (old, new) in pairs.items() if old != new]

"""Putting a run's folder right after a kill, before anything more is written to it."""

from __future__ import annotations

import logging
import os
import re
import shutil
from pathlib import Path

from lopa_bench.results import jsonl
from lopa_bench.results.store import SAMPLES_FILE, TRACES_FILE

NEW_FOLDER = ".new-"  # begins the name of a run's folder until it is complete
LEFT_OVER = re.compile(r"\..+\.\d+\.tmp")  # what `jsonl.replace_file` calls a file until it is complete

logger = logging.getLogger(__name__)


def mend(path: Path) -> None:
    """Cut samples and traces at their last whole piece, leave one sample to an id, remove half-made files.

    The caller holds the run's lock.
    """
    _mend_samples(path)
    _mend_traces(path)
    with jsonl.sentence_on_os_error("mend", path):
        for file in path.iterdir():
            if LEFT_OVER.fullmatch(file.name):
                file.unlink(missing_ok=True)


def _mend_samples(path: Path) -> None:
    samples = path / SAMPLES_FILE
    lines = jsonl.read_lines(samples)
    for note in lines.notes:
        logger.warning("run %s: %s", path.name, note)
    by_id = dict(zip((raw.get("id") for raw in lines.objects), lines.content.splitlines(keepends=True), strict=True))
    if lines.mended or len(by_id) < len(lines.objects):
        jsonl.replace_file(samples, b"".join(by_id.values()))


def _mend_traces(path: Path) -> None:
    traces = path / TRACES_FILE
    with jsonl.sentence_on_os_error("mend", traces):
        if not traces.exists():
            return
        raw = traces.read_bytes()
        _, end = jsonl.whole_members(raw)
        if behind := jsonl.what_is_behind(raw, end):
            logger.warning("run %s: %s: %s was cut", path.name, traces.name, behind)
            os.truncate(traces, end)


def remove_abandoned(root: Path) -> None:
    """Remove the folders that a kill left before they became runs; the caller holds the lock of `root`."""
    for folder in root.glob(f"{NEW_FOLDER}*"):
        shutil.rmtree(folder, ignore_errors=True)

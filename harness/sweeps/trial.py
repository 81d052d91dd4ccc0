"""How long the cells of a sweep may take of which no stored run tells: one answer tried, where the model is small."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace

from lopa_bench.harness.job import prepare
from lopa_bench.harness.loaded_models import models_kept
from lopa_bench.harness.loading import answerer_for
from lopa_bench.harness.shared_work import shared_work
from lopa_bench.harness.sweeps.plan import Pace, Paces, PlannedCell

SMALL = 50_000_000
"""Parameters up to which a model is loaded for an estimate: a matter of a second."""
BUDGET_S = 20.0


def try_out(planned: Sequence[PlannedCell], paces: Paces) -> int:
    """Add to `paces` what one answer takes in cells that they tell nothing of; return how many were tried.

    Nothing is stored. Large models, servers and cells on several devices are left out, and no more is tried after
    BUDGET_S.
    """
    import torch

    begun, tried, threads = time.monotonic(), 0, torch.get_num_threads()
    with models_kept(), shared_work():
        for one in planned:
            if time.monotonic() - begun > BUDGET_S:
                break
            unknown = one.num_missing and one.record is not None and paces.of(one) is None
            alone = one.plan.mesh.size == 1 and not one.plan.is_remote
            if not unknown or not alone or one.plan.num_parameters > SMALL:
                continue
            torch.set_num_threads(threads)
            pace = _one_answer(one)
            if pace is not None and one.record is not None:
                paces.learn(one.record, pace)
                tried += 1
    torch.set_num_threads(threads)
    return tried


def _one_answer(planned: PlannedCell) -> Pace | None:
    """Return what the first problem's answer takes; None where it goes wrong, which the run itself will tell."""
    try:
        job = prepare(replace(planned.cell.spec, dry_run=True))
        model = job.source.load(job.plan.device, job.plan.dtype)
        answer = answerer_for(job.settings, job.source, model).answer(job.documents[0].prompt, job.task.stop, seed=0)
    except Exception:  # whatever is wrong, the run of the cell will tell it
        return None
    if answer.outcome.error is not None:
        return None
    return Pace(answer.outcome.time.total_s, answer.outcome.work.rounds)

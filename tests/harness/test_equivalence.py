"""The self-checks of `doctor`: they hold here, and each fails when what it checks is broken."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from lopa_bench.errors import ModelError
from lopa_bench.harness import equivalence
from lopa_bench.harness.row_reading import counting_model, read_rows
from lopa_bench.models.language_model import LanguageModel

IDS = list(range(3, 25))


def failed() -> set[str]:
    return {one.name.partition(":")[0] for one in equivalence.checks() if not one.ok}


def test_all_checks_hold() -> None:
    outcomes = equivalence.checks()
    assert [one for one in outcomes if not one.ok] == []
    names = [one.name for one in outcomes]
    assert len(set(names)) == len(names) == 14


def test_a_dream_like_network_read_without_the_shift_is_told_apart() -> None:
    right, wrong = read_rows(counting_model(shift=True), IDS), read_rows(counting_model(shift=False), IDS)
    assert right.holds and not wrong.holds
    assert (right.declared, right.other) == pytest.approx((wrong.other, wrong.declared))
    assert right.declared > -0.01 and right.other < -5


def test_the_first_position_behind_a_cached_prefix_is_read_from_the_prefixs_last_row() -> None:
    model = counting_model()
    mask = model.config.mask_token_id
    cache = model.new_cache(12)
    model.predict(torch.tensor([[4, 5, 9]]), (1, 3), cache=cache, num_commit=3)
    cache.commit()
    logits = model.predict(torch.tensor([[mask, mask]]), (3, 5), start=3, cache=cache)
    assert int(logits[0, 0].argmax()) == 10


@pytest.mark.parametrize("name", ["bundled:ar", "bundled:dllm", "bundled:d2f"])
def test_the_bundled_models_are_read_as_they_were_trained(name: str) -> None:
    assert all(one.ok for one in equivalence.checkpoint_checks(name))


def test_a_network_that_knows_nothing_does_not_pass(diffusion_checkpoint: Path) -> None:
    forward, rows = equivalence.checkpoint_checks(str(diffusion_checkpoint))
    assert forward.ok and not rows.ok


def test_a_checkpoint_that_cannot_be_loaded_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match=r"config.json not found"):
        equivalence.checkpoint_checks(str(tmp_path))


def test_a_wrong_row_is_noticed_everywhere_it_matters(monkeypatch: pytest.MonkeyPatch) -> None:
    """A shift that forgets the cached row makes cached and uncached forwards differ."""
    rows = LanguageModel._rows

    def forgetful(
        self: LanguageModel, hidden: torch.Tensor, predict: tuple[int, int], start: int, cache: object
    ) -> object:
        if self.config.logit_shift and predict[0] == start:
            return torch.cat((hidden[:, :1], hidden[:, : predict[1] - start - 1]), dim=1)
        return rows(self, hidden, predict, start, cache)

    monkeypatch.setattr(LanguageModel, "_rows", forgetful)
    assert "cached = uncached" in failed()


def test_branches_computed_in_another_way_are_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    from lopa_bench.decoders import executors

    verify = executors.PackedExecutor.verify

    def swapped(self: executors.PackedExecutor, *given: Any) -> list[Any]:
        return verify(self, *given)[::-1]

    monkeypatch.setattr(executors.PackedExecutor, "verify", swapped)
    assert "packed = one by one" in failed()

"""Who sees whom in each objective, checked against decoding and by what may change a prediction."""

from __future__ import annotations

import pytest
import torch

from lopa_bench.models.network import Transformer
from lopa_bench.models.training.attention import NUM_ROWS
from lopa_bench.models.training.batches import Batch, collate
from lopa_bench.models.training.losses import attention_mask, work_loss
from lopa_bench.models.training.objectives import (
    Work,
    active_windows,
    autoregressive,
    block_causal_visibility,
    masked_diffusion,
)
from lopa_bench.models.training.recipes import OBJECTIVES, make_recipe
from lopa_bench.models.training.start import new_network
from lopa_bench.models.visibility import block_causal

MASK = 1


def batch_of(*lengths: int) -> Batch:
    generator = torch.Generator().manual_seed(7)
    return collate(
        [
            (torch.randint(3, 20, (3 + n % 5,), generator=generator).tolist(),
             torch.randint(3, 20, (n,), generator=generator).tolist())
            for n in lengths
        ],
        0,
        2,
    )  # fmt: skip


def predictions(network: Transformer, work: Work) -> torch.Tensor:
    hidden = network(work.tokens, positions=work.positions, mask=attention_mask(work.visible, work.real))
    return network.logits(hidden[:, work.rows])


def test_block_causal_visibility_is_the_decoders() -> None:
    expected = block_causal(5, 4).mask(0, 21, 21, torch.device("cpu"))
    assert torch.equal(block_causal_visibility(5, 21, 4), expected)


@pytest.mark.parametrize("full", [True, False])
def test_windows_predict_what_decoding_would(config, full: bool) -> None:
    """A window of the two-stream pass gives the logits of the same window behind its clean prefix."""
    network = new_network(config).eval()
    batch = batch_of(23)
    work = active_windows(
        batch, MASK, True, block_size=4, window_blocks=2, full=full, generator=torch.Generator().manual_seed(1)
    )
    prompt, answer = batch.prompt_length, batch.answer_length
    noisy = work.tokens[:, prompt + answer :]
    with torch.no_grad():
        together = predictions(network, work)[0]
        starts = [i for i in range(answer) if work.rows[i] < prompt + answer]
        for start, stop in zip(starts, [*starts[1:], answer], strict=True):
            tokens = torch.cat((batch.tokens[:, : prompt + start], noisy[:, start:stop]), dim=1)
            length = tokens.shape[1]
            visible = block_causal_visibility(prompt, length, 4)
            if full:
                visible[prompt + start :, prompt + start :] = True
            logits = network.logits(network(tokens, mask=visible[None, None]))[0]
            torch.testing.assert_close(together[start:stop], logits[prompt + start - 1 : length - 1])


def test_padding_changes_nothing(config) -> None:
    network = new_network(config).eval()
    short, both = batch_of(10), batch_of(10, 17, 19)
    with torch.no_grad():
        alone = predictions(network, autoregressive(short))
        padded = predictions(network, autoregressive(both))
    assert both.padding[0] > 0
    torch.testing.assert_close(padded[0, : alone.shape[1]], alone[0])


def test_autoregressive_rows_never_see_their_target(config) -> None:
    network = new_network(config).eval()
    work = autoregressive(batch_of(12))
    with torch.no_grad():
        before = predictions(network, work)
        work.tokens[0, -4:] = 3
        after = predictions(network, work)
    torch.testing.assert_close(before[0, :-4], after[0, :-4])
    assert work.weights.sum() == pytest.approx(1)


def test_an_open_canvas_ends_with_its_window(config) -> None:
    batch = batch_of(*[30] * 16)
    generator = torch.Generator().manual_seed(0)
    work = masked_diffusion(batch, MASK, True, generator, uniform_share=0.0, open_share=1.0)
    hidden = ~work.real[:, batch.prompt_length :]
    assert hidden.any()
    assert (work.weights[hidden] == 0).all()
    assert (work.tokens[:, batch.prompt_length :][hidden] == MASK).all()


@pytest.mark.parametrize("objective", OBJECTIVES)
def test_training_attention_equals_the_plain_networks(config, objective: str) -> None:
    trained = new_network(config, seed=2)
    plain = Transformer(config)
    plain.load_state_dict(trained.state_dict())
    batch = batch_of(2 * NUM_ROWS + 9, 30, 44)
    _, work = make_recipe("d2f", {objective: 1.0}).work(batch, config, step=4, seed=0)
    gradients = []
    for network in (trained, plain):
        work_loss(network, work, plain).backward()
        gradients.append([parameter.grad.clone() for parameter in network.parameters()])
        plain.zero_grad()
    for ours, theirs in zip(*gradients, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-6)

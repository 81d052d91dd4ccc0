"""Which position a row of logits speaks of, told from the network itself.

Dream's row i predicts token i + 1, LLaDA's its own. The family table says which, and a network that is read the other
way still answers, only badly. So a text's own tokens are hidden one by one and looked for in both rows: read rightly
they are far more probable than read the other way.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch

from lopa_bench.models.language_model import LanguageModel
from lopa_bench.models.network import Transformer
from lopa_bench.models.tiny import tiny_config
from lopa_bench.models.visibility import CAUSAL, FULL

TEXT = (
    "Question: Anna starts with 29 cups. She gives away 11. She finds 7 more. How many cups are there in the end?\n"
    "Answer: Anna starts with 29 cups. She gives away 11: 29-11=<<29-11=18>>18 cups. She finds 7 more: "
    "18+7=<<18+7=25>>25 cups.\n#### 25"
)
MOST_HIDDEN = 24
MARGIN = 0.5
"""Nats a token by which the declared reading must be the better one."""


@dataclass(frozen=True, slots=True)
class RowReading:
    """Mean log-probability of hidden tokens, in nats: read as the family says, and read the other way."""

    declared: float
    other: float

    @property
    def holds(self) -> bool:
        """Whether the network itself agrees with its family."""
        return self.declared > self.other + MARGIN

    def __str__(self) -> str:
        return f"{-self.declared:.2f} nats a token as declared, {-self.other:.2f} read the other way"


def read_rows(model: LanguageModel, tokens: list[int]) -> RowReading:
    """Look for a text's tokens in both rows that might speak of them.

    Args:
        model: of a diffusion model the token in question is masked, an autoregressive one sees what is before it.
        tokens: ids of a text that the network should know its way in, at least 8.
    """
    places = range(2, len(tokens) - 1)
    places = places[:: max(1, -(-len(places) // MOST_HIDDEN))]
    windows = torch.tensor(tokens).repeat(len(places), 1)
    if model.config.mask_token_id is not None and not model.config.causal:
        for row, place in enumerate(places):
            windows[row, place] = model.config.mask_token_id
    visibility = CAUSAL if model.config.causal else FULL
    # Position p is read from row p - 1 under the shift and from row p without it.
    first = 2 if model.config.logit_shift else 1
    rows = model.predict(windows, (first, first + len(tokens) - 2), visibility=visibility).float().log_softmax(-1)
    found = torch.tensor(
        [[float(rows[row, place + back, tokens[place]]) for back in (-2, -1)] for row, place in enumerate(places)]
    )
    before, own = found.mean(0).tolist()
    return RowReading(before, own) if model.config.logit_shift else RowReading(own, before)


def counting_model(shift: bool = True, device: str = "cpu") -> LanguageModel:
    """A Dream-like network whose row i says the id after token i; with `shift` False it is declared as LLaDA's kind.

    Its layers pass everything on, every id has a direction of its own, and the head points one id further.
    """
    size = 32
    config = tiny_config("dream", size, hidden_size=size, tied_head=False, logit_shift=shift)
    network = Transformer(config)
    with torch.no_grad():
        for name, parameter in network.named_parameters():
            parameter.fill_(1.0 if "norm" in name else 0.0)
        network.embed.weight.copy_(torch.eye(size))
        network.head.weight.copy_(2 * torch.eye(size).roll(1, dims=0))
    return LanguageModel(network.to(device), "counting network")

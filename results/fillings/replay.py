"""One answer's filling as something to show: its slots in order, when each was filled, and colours for the rounds.

The terminal, the animated page and the figure all draw from this.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from lopa_bench.errors import ConfigError, ResultsError, nearest
from lopa_bench.results.fillings.fill_order import kendall_tau
from lopa_bench.results.schema import SampleRecord
from lopa_bench.results.trace import RoundRecord, TraceRecord, useful_length

if TYPE_CHECKING:
    from lopa_bench.results.store import StoredRun

# Six colours of viridis (van der Walt and Smith), whose lightness rises evenly: its order can be read in grey and with
# any common colour blindness.
VIRIDIS = ("#440154", "#414487", "#2a788e", "#22a884", "#7ad151", "#fde725")
MASK_SIGN = "·"
NEWLINE_SIGN = "↵"
TAB_SIGN = "→"


@dataclass(frozen=True)
class Slot:
    """One slot of the answer: its final text, the round that filled it (None: never), and what stands out about it.

    `looked_ahead`: it was filled by a lookahead that won. `behind_end`: it stands behind the first EOS.
    """

    position: int
    text: str
    round: int | None
    is_eos: bool = False
    looked_ahead: bool = False
    behind_end: bool = False


@dataclass(frozen=True)
class Replay:
    """An answer with its trace."""

    run_id: str
    decoder: str
    sample: SampleRecord
    trace: TraceRecord
    slots: tuple[Slot, ...]
    length: int

    @property
    def num_rounds(self) -> int:
        """Rounds of the answer."""
        return len(self.trace.rounds)

    def facts(self) -> dict[str, str]:
        """Return what a title says of the answer, in words."""
        work = self.sample.work
        tau = kendall_tau(self.trace, self.length)
        correct = self.sample.correct
        verdict = "not scored" if correct is None else "right" if correct else "wrong"
        return {
            "run": self.run_id,
            "sample": self.sample.id,
            "decoder": self.decoder,
            "verdict": verdict + (f" ({self.sample.why})" if self.sample.why and self.sample.why != verdict else ""),
            "useful tokens": str(self.sample.tokens.useful),
            "rounds": str(self.num_rounds),
            "TPF": f"{self.sample.tokens.useful / work.rounds:.2f}" if work.rounds else "n/a",
            "tau": "n/a" if tau is None else f"{tau:.2f}",
        }


def replay(run: StoredRun, sample_id: str | None = None) -> Replay:
    """Return the filling of one answer, by default of the first that has a trace.

    Raises:
        ResultsError: the run, or this answer, has no trace.
        ConfigError: no answer of that id.
    """
    traces = {trace.id: trace for trace in run.traces()}
    samples = {sample.id: sample for sample in run.samples}
    if not traces:
        raise ResultsError(f"run {run.record.id} kept no traces; give its command again with --trace --new")
    chosen = next((id for id in traces if id in samples), None) if sample_id is None else sample_id
    if chosen is None:
        raise ResultsError(f"run {run.record.id} has traces of other samples alone: {_some(list(traces))}")
    if chosen not in samples:
        raise ConfigError(f"run {run.record.id} has no sample '{chosen}'{nearest(chosen, samples)}")
    if chosen not in traces:
        raise ResultsError(
            f"sample {chosen} of run {run.record.id} has no trace; those are there: {_some(list(traces))}"
        )
    trace, eos = traces[chosen], run.record.model.eos_token_id
    slots = slots_of(trace, eos)
    return Replay(run.record.id, run.record.decoder.words, samples[chosen], trace, slots, useful_length(trace, eos))


def slots_of(trace: TraceRecord, eos_id: int | None) -> tuple[Slot, ...]:
    """Return all slots that were open at the end, left to right."""
    rounds, tokens = trace.filled_in, trace.tokens
    ahead = {one.branches[one.winner].position for one in trace.rounds if one.winner is not None and one.lookahead_won}
    ends = [position for position, token in tokens.items() if token == eos_id]
    end = min(ends, default=trace.num_slots)
    return tuple(
        Slot(
            position,
            trace.spell(tokens[position]) if position in tokens else MASK_SIGN,
            rounds.get(position),
            is_eos=position in ends,
            looked_ahead=position in ahead,
            behind_end=position > end,
        )
        for position in range(max(trace.num_slots, max(rounds, default=-1) + 1))
    )


def visible(text: str) -> str:
    """Return a token's text with what cannot be seen made visible; a newline still breaks the line, behind its sign."""
    return "".join(map(_sign, text)) or "∅"


def _sign(character: str) -> str:
    if character.isprintable():
        return character
    if character == "\n":
        return f"{NEWLINE_SIGN}\n"
    if character == "\t":
        return TAB_SIGN
    # Unicode has a picture for each of the first control characters; the rest cannot be told apart anyway.
    return chr(0x2400 + ord(character)) if ord(character) < 32 else "\ufffd"


def runs_of(one: RoundRecord, trace: TraceRecord) -> list[tuple[int, str]]:
    """Return what a round filled as pieces of neighbouring slots: (first position, text)."""
    pieces: list[tuple[int, str]] = []
    before = None
    for position, token in sorted(zip(one.positions, one.tokens, strict=True)):
        if before is not None and position == before + 1:
            pieces[-1] = (pieces[-1][0], pieces[-1][1] + trace.spell(token))
        else:
            pieces.append((position, trace.spell(token)))
        before = position
    return pieces


def colour_of(index: int, num_rounds: int) -> str:
    """Return the colour of a round, from dark for the first to light for the last, as #rrggbb."""
    place = (index / (num_rounds - 1) if num_rounds > 1 else 0.5) * (len(VIRIDIS) - 1)
    left = min(int(place), len(VIRIDIS) - 2)
    share = place - left
    mixed = [round(a + (b - a) * share) for a, b in zip(_parts(VIRIDIS[left]), _parts(VIRIDIS[left + 1]), strict=True)]
    return "#" + "".join(f"{value:02x}" for value in mixed)


def ink_on(colour: str) -> str:
    """Return black or white, whichever has the higher contrast on `colour` (WCAG 2.1 relative luminance)."""
    luminance = luminance_of(colour)
    return "#000000" if (luminance + 0.05) / 0.05 >= 1.05 / (luminance + 0.05) else "#ffffff"


def luminance_of(colour: str) -> float:
    """Return the relative luminance of #rrggbb, 0 for black and 1 for white (WCAG 2.1)."""
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in (v / 255 for v in _parts(colour))]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def _parts(colour: str) -> tuple[int, int, int]:
    return int(colour[1:3], 16), int(colour[3:5], 16), int(colour[5:7], 16)


def _some(names: list[str]) -> str:
    return ", ".join(names[:3]) + (", ..." if len(names) > 3 else "")

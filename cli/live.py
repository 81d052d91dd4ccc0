"""The live view of a run: the answer in the making as it fills up, above the progress bar.

Nothing is drawn but from `round_ended` and `sampled`, where the clock of the answer stands still, so that looking on
changes no measured second. Every round is drawn and stays for at least `SHORTEST_FRAME_S`, or else the answers of a
small model would be over before an eye had seen them.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from lopa_bench.cli.execute import Terminal

if TYPE_CHECKING:
    from rich.console import Console, RenderableType
    from rich.live import Live
    from rich.text import Text

    from lopa_bench.decoders.rounds import Round
    from lopa_bench.harness.plan import Plan
    from lopa_bench.harness.progress import Running, Viewer
    from lopa_bench.results.schema import SampleRecord

SHORTEST_FRAME_S = 0.03
RESERVED_LINES = 9  # of the screen, for frame, figures, bar and what was printed before
NEW = "bold black on #fde725"
RECENT = ("#22a884", "#2a788e")
SHOWN_WORD = 20

Speller = Callable[[Iterable[int]], Mapping[int, str]]


class Filling:
    """The answer in the making: what is in which slot, and since which round."""

    def __init__(self, sample_id: str, spell: Speller) -> None:
        self.sample_id = sample_id
        self.spell = spell
        self.words: dict[int, str] = {}
        self.since: dict[int, int] = {}
        self.num_slots = 0
        self.last: Round | None = None
        self.num_contested = self.num_lookahead_won = 0

    def add(self, one: Round) -> None:
        """Take in a round."""
        texts = self.spell(one.tokens)
        for position, token in zip(one.positions, one.tokens, strict=True):
            self.words[position] = texts[token]
            self.since[position] = one.index
        self.num_slots = max(one.num_slots, max(self.words, default=-1) + 1)
        self.last = one
        if len(one.branches) > 1 and one.winner is not None:
            self.num_contested += 1
            self.num_lookahead_won += one.branches[one.winner].position is not None

    def text(self) -> Text:
        """Return the answer: masked slots as dots, what is new in colour."""
        from rich.text import Text

        from lopa_bench.results.fillings.replay import MASK_SIGN, visible

        drawn = Text()
        now = self.last.index if self.last is not None else 0
        for position in range(self.num_slots):
            if position not in self.words:
                drawn.append(f"{MASK_SIGN} ", style="dim")
                continue
            age = now - self.since[position]
            style = NEW if age == 0 else RECENT[age - 1] if age <= len(RECENT) else ""
            drawn.append(visible(self.words[position]), style=style)
        return drawn

    def words_on_round(self) -> str:
        """Return what the last round did in a line."""
        one = self.last
        if one is None:
            return "reading the prompt"
        words = [
            f"round {one.index}",
            f"{len(one.positions)} new",
            f"{len(self.words)} of {self.num_slots} slots filled",
            f"{len(self.words) / (one.index + 1):.2f} a round",
        ]
        if one.branches:
            words.append(f"{len(one.branches)} branch{'es' if len(one.branches) > 1 else ''}")
        if self.num_contested:
            words.append(f"lookahead won {self.num_lookahead_won} of {self.num_contested}")
        return " · ".join(words)


class LiveTerminal(Terminal):
    """Tells a run like `Terminal`, with the answer in the making above the bar."""

    def __init__(self, console: Console | None = None) -> None:
        super().__init__()
        self.console = console or self.console
        self._live: Live | None = None
        self._filling: Filling | None = None
        self._spell: Speller | None = None
        self._drawn_at = 0.0

    def planned(self, plan: Plan) -> None:
        """Print the plan, and that several answers at once are too many to look at."""
        super().planned(plan)
        batch_size = plan.settings["batch_size"].value if "batch_size" in plan.settings else 1
        if batch_size != 1:
            self.note(f"--live shows one answer at a time: with batch size {batch_size} there is only the bar")

    def started(self, path: Path, running: Running, total: int) -> None:
        """Show the bar, and the answers above it once they begin."""
        from rich.live import Live

        super().started(path, running, total)
        if self._progress is not None:
            self._progress.stop()  # drawn by the live display from here on
            self._live = Live(console=self.console, auto_refresh=False, transient=True, vertical_overflow="crop")
            self._live.start()
            self._draw()

    def viewer(self, spell: Speller) -> Viewer | None:
        """Look on."""
        self._spell = spell
        return self

    def begin(self, sample_id: str) -> None:
        """Empty the canvas for the next answer."""
        if self._spell is not None:
            self._filling = Filling(sample_id, self._spell)
            self._draw()

    def round_ended(self, one: Round) -> None:
        """Draw what the round filled."""
        if self._filling is not None:
            self._filling.add(one)
            self._draw()

    def sampled(self, sample: SampleRecord, running: Running) -> None:
        """Move the bar."""
        super().sampled(sample, running)
        self._draw()

    def ended(self) -> None:
        """Take all away."""
        if self._live is not None:
            self._live.stop()
            self._live = None
        super().ended()

    def _draw(self) -> None:
        if self._live is None:
            return
        time.sleep(max(0.0, self._drawn_at + SHORTEST_FRAME_S - time.monotonic()))
        self._live.update(self.picture(), refresh=True)
        self._drawn_at = time.monotonic()

    def picture(self) -> RenderableType:
        """Return what the screen shows."""
        from rich.console import Group
        from rich.panel import Panel
        from rich.text import Text

        below: list[RenderableType] = [self._progress] if self._progress is not None else []
        if self._filling is None:
            return Group(*below)
        lines = self._filling.text().wrap(self.console, max(self.console.width - 4, 20))
        room = max(self.console.height - RESERVED_LINES, 3)
        answer = Text("\n").join(lines[-room:])
        title = Text(self._filling.sample_id + (" (its end)" if len(lines) > room else ""))
        state = Text(self._filling.words_on_round(), style="dim")
        return Group(Panel(answer, title=title, title_align="left"), state, *below)


def terminal_for(live: bool) -> Terminal:
    """Return who tells a run: the live view where it was asked for and can be seen, else lines and a bar."""
    plain = Terminal()
    if not live:
        return plain
    if plain.console.is_terminal:
        return LiveTerminal()
    plain.note("--live needs a terminal; only the progress is told")
    return plain

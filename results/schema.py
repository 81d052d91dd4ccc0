"""What a run leaves on disk, as frozen pydantic models: the run, its samples and its summary (traces: `trace.py`).

Unknown fields and non-finite numbers are refused, so that a misspelt field or a NaN fails where it is made and not
where it is read. Any change of a field therefore needs a new `SCHEMA_VERSION` and a step in `results/upgrades.py`.
"""

from __future__ import annotations

from datetime import UTC, datetime
from enum import StrEnum
from functools import lru_cache
from typing import Annotated, Any, Literal

from pydantic import AwareDatetime, Field, JsonValue, NonNegativeInt

from lopa_bench.results.ledgers import Record, TimeLedger, TokenLedger, WorkLedger
from lopa_bench.results.places import Environment
from lopa_bench.results.sittings import Sitting

SCHEMA_VERSION = 2

Origin = Literal["default", "preset", "flag", "file", "environment"]
Status = Literal["running", "finished", "finished with errors", "failed", "interrupted"]
FINISHED: tuple[Status, ...] = ("finished", "finished with errors")
StoppedBy = Literal["eos", "stop string", "budget"]


class Why(StrEnum):
    """The words for what went wrong; `results/reasons.py` says what each means. A task may use others.

    Those from OUT_OF_MEMORY on are of samples that could not be judged, whose status is "error".
    """

    EMPTY = "empty"
    TRUNCATED = "truncated"
    NOT_EXTRACTED = "not extracted"
    WRONG = "wrong"
    SYNTAX_ERROR = "syntax error"
    NO_SUCH_FUNCTION = "no such function"
    CUT_INSIDE_FENCE = "cut inside a fence"
    OUTSIDE_SUBSET = "outside the subset"
    SANITIZE_ERROR = "sanitize_error"
    RUNTIME_ERROR = "runtime error"
    TIMEOUT = "timeout"
    CRASHED = "crashed"
    KILLED = "killed"
    TOO_MUCH_OUTPUT = "too much output"
    OUT_OF_MEMORY = "out_of_memory"
    NAN_LOGITS = "NaN logits"
    MASKS_LEFT = "masks left"
    DECODE_ERROR = "decoding failed"
    SCORER_ERROR = "scorer_error"


class SampleRecord(Record):
    """One answer with all that was measured, one line of `samples.jsonl`.

    `prompt` is the text that was asked and `prompt_hash` its sha256, `target` what a right answer comes to, `token_ids`
    the generated ids with the EOS if there was one, `text` what they spell, `text_kept` what was scored. `correct` is
    the headline score in 0..1, None while unscored; `scores` holds every filter's score by name. `why` says what went
    wrong in a word (see `Why`), None for a right answer. A sample of status "error" was not scored and says why in
    `error`; its ledgers hold what was measured up to then. The times of a `warmup` sample, or of one `reused` from
    another run, take no part in time figures. `rank` is the data-parallel process.
    """

    id: str
    prompt: str = ""
    prompt_hash: str = ""
    target: str = ""
    prompt_tokens_cut: NonNegativeInt = 0
    token_ids: tuple[int, ...] = ()
    text: str = ""
    text_kept: str = ""
    tokens: TokenLedger = TokenLedger()
    work: WorkLedger = WorkLedger()
    time: TimeLedger = TimeLedger()
    scores: dict[str, float] = {}
    correct: Annotated[float, Field(ge=0, le=1)] | None = None
    extracted: str | None = None
    why: str | None = None
    stopped_by: StoppedBy | None = None
    stop_string: str | None = None
    status: Literal["ok", "error"] = "ok"
    error: str | None = None
    masks_left: NonNegativeInt = 0
    seed: int = 0
    rank: NonNegativeInt = 0
    warmup: bool = False
    reused: bool = False
    extra: dict[str, JsonValue] = {}

    @property
    def has_scorer_error(self) -> bool:
        """Whether there is an answer and it was the scorer that failed: to be judged again, not to be generated."""
        return self.status == "error" and self.why == Why.SCORER_ERROR


class Setting(Record):
    """One resolved setting and where its value came from."""

    value: JsonValue
    origin: Origin = "default"


def setting(value: Any, origin: Origin) -> Setting:
    """Return a setting, the same object for the same one: ten thousand runs of a sweep share most of theirs."""
    try:
        return _same_setting(type(value).__name__, value, origin)
    except TypeError:  # a list
        return Setting(value=value, origin=origin)


@lru_cache(maxsize=4096)
def _same_setting(kind: str, value: Any, origin: Origin) -> Setting:
    """`kind` tells 1 from 1.0 and True, which are equal."""
    return Setting(value=value, origin=origin)


class TaskInfo(Record):
    """Which problems were asked, so that two runs over other problems are never set side by side.

    `prompts_hash` is a sha256 over the prompts' hashes in order, `num_documents` how many were asked, `num_available`
    how many the split holds; `partial` when the first is smaller. `source` names the data file or harness and version.
    """

    name: str
    version: str = ""
    metric: str = ""
    source: str = ""
    prompts_hash: str = ""
    num_documents: NonNegativeInt = 0
    num_available: NonNegativeInt = 0
    partial: bool = False


class ModelInfo(Record):
    """Which network and tokenizer were used; hashes are sha256 over the files (`config_hash`: what config.json says).

    The ids are token ids.
    """

    name: str
    family: str = ""
    revision: str = ""
    hash: str = ""
    config_hash: str = ""
    adapter: str | None = None
    adapter_hash: str = ""
    tokenizer_hash: str = ""
    mask_token_id: int | None = None
    eos_token_id: int | None = None
    pad_token_id: int | None = None


class DecoderInfo(Record):
    """Which decoder ran, with every option it had, defaults included."""

    name: str
    preset: str | None = None
    options: dict[str, JsonValue] = {}

    @property
    def words(self) -> str:
        """Its name with its number of branches, where it has branches."""
        branches = self.options.get("branches")
        return self.name if branches is None else f"{self.name}, {branches} branch{'' if branches == 1 else 'es'}"


def utc_now() -> datetime:
    """Return the time now, in UTC, to the second."""
    return datetime.now(UTC).replace(microsecond=0)


class EarlierVerdict(Record):
    """What one sample's answer came to before it was judged again."""

    correct: float | None = None
    scores: dict[str, float] = {}
    why: str | None = None
    error: str | None = None


class Rescoring(Record):
    """That a run's stored answers were judged again: `scoring` is how they had been judged before.

    `accuracy` is the headline score by `metric` before, `accuracy_after` the one after; None where there was none.
    `changed` keeps the earlier verdicts that became others, by sample id: all others were found again.
    """

    time: AwareDatetime = Field(default_factory=utc_now)
    scoring: dict[str, JsonValue] = {}
    metric: str = ""
    accuracy: float | None = None
    accuracy_after: float | None = None
    changed: dict[str, EarlierVerdict] = {}


class RunRecord(Record):
    """What was asked and where it ran, the content of `run.json`.

    `id` is the folder's name and is given by the store, as are `finished` and `resumed`. `fingerprint` is equal for two
    runs that would give the same answers. `earlier_groups` and `earlier_sittings` are of sittings before the last one,
    where they differ. `configuration` holds the resolved settings by name. `scoring` tells how answers were judged:
    scorer and clean-up, and for programs isolation, limits and what came of the controls.
    """

    schema_version: int = SCHEMA_VERSION
    id: str = ""
    title: str = ""
    status: Status = "running"
    error: str | None = None
    created: AwareDatetime = Field(default_factory=utc_now)
    resumed: tuple[AwareDatetime, ...] = ()
    finished: AwareDatetime | None = None
    command: tuple[str, ...] = ()
    fingerprint: str = ""
    configuration: dict[str, Setting] = {}
    task: TaskInfo
    model: ModelInfo
    decoder: DecoderInfo
    seed: int = 0
    environment: Environment = Environment()
    earlier_groups: tuple[dict[str, int], ...] = ()
    earlier_sittings: tuple[Sitting, ...] = ()
    scoring: dict[str, JsonValue] = {}
    rescored: tuple[Rescoring, ...] = ()

    @property
    def number(self) -> int:
        """The running number the id begins with, 0 before the store has given one."""
        return int(self.id.split("-", 1)[0] or 0)


class Interval(Record):
    """A two-sided interval and the method that gave it."""

    low: float
    high: float
    level: float = 0.95
    method: str = ""


class MetricValue(Record):
    """One figure with its definition: `value` is None where the figure is undefined; `n` samples went into it."""

    value: float | None
    unit: str = ""
    version: int = 1
    n: NonNegativeInt = 0
    interval: Interval | None = None


class Reason(Record):
    """One thing that lowers a score or endangers it: a word, its meaning, how many samples and the first few of them.

    `of` is the number of samples that it could have been. A sample may have several reasons.
    """

    word: str
    meaning: str = ""
    count: NonNegativeInt
    of: NonNegativeInt
    ids: tuple[str, ...] = ()

    @property
    def short(self) -> str:
        """The count and its share, as "empty=4 (40%)"."""
        return f"{self.word}={self.count} ({self.count / self.of:.0%})" if self.of else f"{self.word}={self.count}"


class Summary(Record):
    """What a finished run comes to, the content of `summary.json`; all of it follows from the samples.

    `n` counts the samples that went into the rates, `num_errors` those that did not. `metrics` is keyed by metric id,
    `scores` by filter; `why` and `stopped_by` count samples by word; `reasons` names samples for all that lowers the
    score. `tokens` and `work` are sums over the `n` samples; `time` and `timed_tokens` over those whose times count, so
    that a speed times its seconds gives its tokens.
    `blocked` says why there is no score, and then none is given, though there are answers.
    """

    schema_version: int = SCHEMA_VERSION
    run_id: str = ""
    n: NonNegativeInt = 0
    num_errors: NonNegativeInt = 0
    num_expected: NonNegativeInt = 0
    num_warmup: NonNegativeInt = 0
    num_prompts_cut: NonNegativeInt = 0
    partial: bool = False
    metrics: dict[str, MetricValue] = {}
    scores: dict[str, MetricValue] = {}
    tokens: TokenLedger = TokenLedger()
    work: WorkLedger = WorkLedger()
    timed_tokens: TokenLedger = TokenLedger()
    time: TimeLedger = TimeLedger()
    why: dict[str, int] = {}
    stopped_by: dict[str, int] = {}
    reasons: tuple[Reason, ...] = ()
    blocked: str | None = None
    warnings: tuple[str, ...] = ()

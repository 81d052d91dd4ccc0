"""What a run leaves on disk, as frozen pydantic models: the run, its samples and its summary (traces: `trace.py`).

Unknown fields and non-finite numbers are refused, so that a misspelt field or a NaN fails where it is made and not
where it is read. Any change of a field therefore needs a new `SCHEMA_VERSION` and a step in `results/upgrades.py`.
"""

from __future__ import annotations

from datetime import UTC, datetime
from enum import StrEnum
from typing import Literal

from pydantic import (
    AwareDatetime,
    BaseModel,
    ConfigDict,
    Field,
    JsonValue,
    NonNegativeFloat,
    NonNegativeInt,
)

SCHEMA_VERSION = 1

Origin = Literal["default", "preset", "flag", "file", "environment"]
Status = Literal["running", "finished", "failed", "interrupted"]
StoppedBy = Literal["eos", "stop string", "budget"]


class Why(StrEnum):
    """The usual words for what went wrong with an answer; a task may use others."""

    EMPTY = "empty"
    TRUNCATED = "truncated"
    NOT_EXTRACTED = "not extracted"
    WRONG = "wrong"
    SYNTAX_ERROR = "syntax error"
    RUNTIME_ERROR = "runtime error"
    TIMEOUT = "timeout"


class Record(BaseModel):
    """Base of everything stored: frozen, no unknown fields, finite numbers only."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


class TokenLedger(Record):
    """Tokens of one sample, or sums of them.

    `prompt`: tokens given to the model. `useful`: generated before the first EOS, the EOS itself not counted.
    `committed`: every slot filled for good, EOS and what follows it included. `kept`: tokens of the text that is left
    after stop strings and post-processing.
    """

    prompt: NonNegativeInt = 0
    useful: NonNegativeInt = 0
    committed: NonNegativeInt = 0
    kept: NonNegativeInt = 0


class WorkLedger(Record):
    """Work of one sample, or sums of it.

    `prefill_calls`: model calls the prompt went through. `rounds`: scheduling steps that ran the network; the branches
    verified together are one round. An autoregressive decoder's rounds are the calls that gave a useful token: the call
    that only finds the EOS is not one. `model_calls`: calls of the network. `branch_forwards`: branches computed,
    summed over rounds. `positions`: token slots computed, over all branches.
    """

    prefill_calls: NonNegativeInt = 0
    rounds: NonNegativeInt = 0
    model_calls: NonNegativeInt = 0
    branch_forwards: NonNegativeInt = 0
    positions: NonNegativeInt = 0


class TimeLedger(Record):
    """Seconds of one sample, or sums of them, by a monotonic clock with the device synchronised at both ends.

    `prefill_s`: the rounds that read the prompt into the cache, whatever else they decoded; 0 for a decoder that keeps
    no cache and reads it in every round. `decode_s`: all other rounds, communication included. `comm_s`: the part of
    `decode_s` spent in communication between processes. `first_round_s`: the first round that decoded anything, a part
    of the other two; None when it was not measured. Tokenising, text work and scoring are in none of them.
    """

    prefill_s: NonNegativeFloat = 0.0
    decode_s: NonNegativeFloat = 0.0
    comm_s: NonNegativeFloat = 0.0
    first_round_s: NonNegativeFloat | None = None

    @property
    def total_s(self) -> float:
        """Seconds from the prompt's first call to the last round."""
        return self.prefill_s + self.decode_s


class SampleRecord(Record):
    """One answer with all that was measured, one line of `samples.jsonl`.

    `prompt_hash` is a sha256 of the prompt's text, `token_ids` the generated ids with the EOS if there was one, `text`
    what they spell, `text_kept` what was scored. `correct` is the headline score in 0..1, None while unscored; `scores`
    holds every filter's score by name. `why` says what went wrong, None for a right answer. A sample of status "error"
    was not scored and says why in `error`; its ledgers hold what was measured up to then. The times of a `warmup`
    sample, or of one `reused` from another run, take no part in time figures. `rank` is the data-parallel process.
    """

    id: str
    prompt_hash: str = ""
    prompt_tokens_cut: NonNegativeInt = 0
    token_ids: tuple[int, ...] = ()
    text: str = ""
    text_kept: str = ""
    tokens: TokenLedger = TokenLedger()
    work: WorkLedger = WorkLedger()
    time: TimeLedger = TimeLedger()
    scores: dict[str, float] = {}
    correct: float | None = None
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


class Setting(Record):
    """One resolved setting and where its value came from."""

    value: JsonValue
    origin: Origin = "default"


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
    """Which network and tokenizer were used; hashes are sha256 over the files, ids are token ids."""

    name: str
    family: str = ""
    revision: str = ""
    hash: str = ""
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


class Environment(Record):
    """Where a run ran. Speeds are comparable only where device, dtype, packages and batch agree."""

    python: str = ""
    platform: str = ""
    packages: dict[str, str] = {}
    device: str = ""
    device_name: str = ""
    num_devices: NonNegativeInt = 1
    dtype: str = ""
    num_threads: NonNegativeInt = 0
    batch_size: NonNegativeInt = 1
    world_size: NonNegativeInt = 1
    git_commit: str | None = None
    git_dirty: bool | None = None


def utc_now() -> datetime:
    """Return the time now, in UTC, to the second."""
    return datetime.now(UTC).replace(microsecond=0)


class RunRecord(Record):
    """What was asked and where it ran, the content of `run.json`.

    `id` is the folder's name and is given by the store, as are `finished` and `resumed`. `fingerprint` is equal for two
    runs that would give the same answers. `configuration` holds the resolved settings by name.
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


class Summary(Record):
    """What a finished run comes to, the content of `summary.json`; all of it follows from the samples.

    `n` counts the samples that went into the rates, `num_errors` those that did not. `metrics` is keyed by metric id,
    `scores` by filter; `why` and `stopped_by` count samples by word. `tokens` and `work` are sums over the `n` samples;
    `time` and `timed_tokens` over those whose times count, so that a speed times its seconds gives its tokens.
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
    warnings: tuple[str, ...] = ()

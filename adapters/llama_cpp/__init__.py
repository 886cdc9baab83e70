"""llama.cpp's llama-server: what its --spec flags mean and how a worker is started.

Facts: builds b10306 to b11549; its source for the rules, real runs for the effects
(docs/verified.md). The same argv starts a llama-server binary and the embedded server.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from pydantic import JsonValue

from adapters.contract import Api
from adapters.dialect import Dialect, choose_dialect, version_problems
from adapters.draft import draft_of, draft_problems
from adapters.flag import FlagTable, load_flags, normal
from adapters.launch import Launch, WorkerSpec
from adapters.llama_cpp import conversation
from adapters.option import Options, merge, option_problems, spell, whole
from adapters.problem import Path, Problem, did_you_mean
from adapters.profile import Drafted, Ngram, Profile, Suffix, WithDraft
from adapters.schedule import fixed_batch_limit, fixed_gamma
from adapters.setting import Setting

TITLE = "llama.cpp"
SUPPORTED: tuple[Dialect, ...] = (Dialect("b11434", (10306,), (11550,)),)
COMMANDS: tuple[str, ...] = ("llama-server",)
EMBEDDED: tuple[str, str] | None = ("adapters.embedded", "xllamacpp")
HEALTH = "/health"
METRICS_PATH = "/metrics"
METRICS: Mapping[str, str] = {
    "drafts": "llamacpp:spec_decode_num_drafts_total",
    "drafted": "llamacpp:spec_decode_num_draft_tokens_total",
    "accepted": "llamacpp:spec_decode_num_accepted_tokens_total",
    "accepted_per_position": "llamacpp:spec_decode_num_accepted_tokens_per_pos_total",
    "generated": "llamacpp:tokens_predicted_total",
    "running": "llamacpp:requests_processing",
    "waiting": "llamacpp:requests_deferred",
}
_NO_LOGPROBS = "llama.cpp gives log-probability 0 for tokens of a verify step (#27972)"
_LIMITS: Final[Mapping[str, str]] = {
    "logprobs": _NO_LOGPROBS,
    "top_logprobs": _NO_LOGPROBS,
    "n_probs": _NO_LOGPROBS,
}
api: Api = conversation

_OTHER_MODELS = (
    "hf-file",
    "model-url",
    "docker-repo",
    "models-dir",
    "models-preset",
    "embd-gemma-default",
    "fim-qwen-1.5b-default",
    "fim-qwen-3b-default",
    "fim-qwen-7b-default",
    "fim-qwen-7b-spec",
    "fim-qwen-14b-spec",
    "fim-qwen-30b-default",
    "gpt-oss-20b-default",
    "gpt-oss-120b-default",
)
_OURS: Final[Mapping[str, str]] = {
    "model": "it comes from models: in the fleet",
    "hf-repo": "it comes from models: in the fleet",
    **dict.fromkeys(_OTHER_MODELS, "it would load another model than models: in the fleet says"),
    "alias": "it is the model's name in the fleet",
    "ctx-size": "it comes from models.<name>.context",
    "host": "workers listen on loopback",
    "port": "it comes from workers: in the fleet",
    "metrics": "it is always on: readiness needs the counters",
    "slots": "it is always on: readiness needs it",
    "api-key": "secrets do not belong in argv: use api-key-file",
    "spec-draft-model": "it comes from models.<name>.drafts",
    "spec-draft-hf": "it comes from models.<name>.drafts",
    "spec-draft-n-max": "set speculation.gamma",
    "spec-draft-n-min": "it is always 0: shorter guesses are kept",
    "spec-draft-p-min": "it is always 0: guesses end at gamma",
    "spec-ngram-mod-n-min": "it is always 1: shorter guesses are kept",
    "spec-default": "use speculation.method ngram with spec-type ngram-mod",
    "spec-ngram-simple-size-n": "set speculation.lookup.min",
    "spec-ngram-simple-size-m": "set speculation.gamma",
    "spec-ngram-map-k-size-n": "set speculation.lookup.min",
    "spec-ngram-map-k-size-m": "set speculation.gamma",
    "spec-ngram-map-k4v-size-n": "set speculation.lookup.min",
    "spec-ngram-map-k4v-size-m": "set speculation.gamma",
    "spec-ngram-mod-n-match": "set speculation.lookup.min",
    "spec-ngram-mod-n-max": "set speculation.gamma",
}
_LOSSY = ("spec-synth-len", "spec-synth-rates")
_NGRAM_TYPES = ("ngram-simple", "ngram-map-k", "ngram-map-k4v", "ngram-mod", "ngram-cache")
_METHOD: Path = ("speculation", "method")
_GAMMA: Path = ("speculation", "gamma")
_LOOKUP_MIN: Path = ("speculation", "lookup", "min")
_NGRAM_CACHE_LENGTH = 8  # hard-wired in common/speculative.cpp
_TYPES: Final[Mapping[str, str]] = {
    "draft_model": "draft-simple",
    "eagle3": "draft-eagle3",
    "mtp": "draft-mtp",
}


def version_commands(command: tuple[str, ...]) -> tuple[tuple[str, ...], ...]:
    return ((*command, "--version"),)


def read_version(output: str) -> str | None:
    """The build number of `version: 11434 (abc)`; packaged builds may say 0 or 1."""
    for line in output.splitlines():
        words = line.split()
        if words[:1] == ["version:"] and len(words) > 1:
            return words[1]
    return None


def limits(profile: Profile, version: str) -> Mapping[str, str]:
    return _LIMITS if profile.is_speculating else {}


def check(profile: Profile, worker: WorkerSpec) -> list[Problem]:
    table = _table(worker.engine_version)
    native, spec_type = _native(profile)
    problems = option_problems(native, table, _OURS, ("engine", "llama_cpp"))
    problems += _lossy_problems(native, table, profile.lossless, ("engine", "llama_cpp"))
    problems += _type_problems(profile, spec_type)
    problems += draft_problems(profile, worker)
    spec = profile.speculation
    if worker.model.revision:
        message = "llama.cpp cannot pin a revision"
        path: Path = ("models", worker.model.name, "revision")
        hint = "download that revision and give its path as the target"
        problems.append(Problem(path, message, hint, severity="lost", code="no-revision"))
    if isinstance(spec, Suffix):
        problems.append(_no_suffix())
    if isinstance(spec, Drafted):
        problems += _schedule_problems(spec)
    if isinstance(spec, Ngram):
        problems += _lookup_problems(spec, spec_type)
    if isinstance(spec, WithDraft) and spec.tensor_parallel:
        message = "llama.cpp has no tensor parallel size for drafts"
        hint = "leave it out; place the draft with engine.llama_cpp.spec-draft-device"
        path = ("speculation", "tensor_parallel")
        problems.append(Problem(path, message, hint, severity="lost", code="draft-tp"))
    return problems


def check_arguments(arguments: Mapping[str, JsonValue], version: str) -> list[Problem]:
    ours = {**_OURS, "spec-type": "it comes from the profile's speculation"}
    table = _table(version)
    problems = version_problems(TITLE, SUPPORTED, version)
    problems += _lossy_problems(arguments, table, True, ())
    return problems + option_problems(arguments, table, ours)


def check_environment(environment: Mapping[str, str], version: str) -> list[Problem]:
    return []


def render(profile: Profile, worker: WorkerSpec) -> Launch:
    native, _ = _native(profile)
    table = _table(worker.engine_version)
    options = merge(table, native, worker.args)
    model = worker.model
    arguments = ["--alias", model.name, "--metrics", "--slots"]
    if model.context:
        arguments += ["--ctx-size", str(model.context * _split_slots(options))]
    arguments += spell(options, table)
    spec, batch_limit = profile.speculation, None
    if isinstance(spec, Drafted):
        batch_limit = fixed_batch_limit(spec)
        for setting in settings(profile, worker):
            arguments += [f"--{setting.name}", str(setting.value)] if setting.name else []
    source = "--model" if _is_file(model.target) else "--hf-repo"
    return Launch(
        command=(*worker.command, source, model.target),
        arguments=tuple(arguments),
        address=("--host", worker.host, "--port", str(worker.port)),
        port=worker.port,
        host=worker.host,
        env=worker.environment(),
        batch_limit=batch_limit,
    )


def _is_file(source: str) -> bool:
    """Whether weights are a local file and not a hub id."""
    return source.endswith(".gguf") or source.startswith("/")


def settings(profile: Profile, worker: WorkerSpec) -> tuple[Setting, ...]:
    """The --spec flags of a profile, every number written out."""
    spec = profile.speculation
    if not isinstance(spec, Drafted):
        return ()
    spec_type = _native(profile)[1]
    if isinstance(spec, Ngram):
        return tuple(_ngram_settings(spec, str(spec_type or "ngram-simple")))
    method, gamma = profile.speculation.method, fixed_gamma(spec)
    found = [Setting(_METHOD, "spec-type", _TYPES.get(method, method))]
    draft = draft_of(profile, worker.model)
    if draft:
        name = "spec-draft-model" if _is_file(draft) else "spec-draft-hf"
        found.append(Setting(("speculation", "draft"), name, draft))
    found.append(Setting(_GAMMA, "spec-draft-n-max", gamma))
    found.append(Setting(_GAMMA, "spec-draft-n-min", 0, "shorter guesses are kept"))
    # its default changed between builds
    found.append(Setting(_GAMMA, "spec-draft-p-min", 0, "guesses end at gamma"))
    return tuple(found)


def _ngram_settings(spec: Ngram, ngram_type: str) -> list[Setting]:
    """--spec-draft-n-max has no effect on n-gram types: the length is size-m, or mod's n-max."""
    gamma, shortest = fixed_gamma(spec), spec.lookup.min
    found = [Setting(_METHOD, "spec-type", ngram_type)]
    if ngram_type == "ngram-cache":
        return found
    if ngram_type == "ngram-mod":
        return [
            *found,
            Setting(_LOOKUP_MIN, "spec-ngram-mod-n-match", shortest),
            Setting(_GAMMA, "spec-ngram-mod-n-min", 1, "shorter guesses are kept"),
            Setting(_GAMMA, "spec-ngram-mod-n-max", gamma),
        ]
    flag = f"spec-{ngram_type}"
    found.append(Setting(_LOOKUP_MIN, f"{flag}-size-n", shortest))
    return [*found, Setting(_GAMMA, f"{flag}-size-m", gamma)]


def _native(profile: Profile) -> tuple[Options, JsonValue]:
    """The profile's native options, and its choice among the n-gram types apart."""
    options = dict(profile.engine.get("llama_cpp", {}))
    names = [name for name in options if normal(name) == "spec-type"]
    chosen = [options.pop(name) for name in names]
    return options, chosen[-1] if chosen else None


def _split_slots(options: Options) -> int:
    """With -np N and no unified KV cache, each slot gets a N-th of --ctx-size."""
    slots = whole(options, "parallel", 1)
    return slots if slots > 1 and not options.get("kv-unified") else 1


def _table(version: str) -> FlagTable:
    return load_flags("llama_cpp", choose_dialect(SUPPORTED, version)[0].name)


def _lossy_problems(
    options: Options, table: FlagTable, is_lossless: bool, root: Path
) -> list[Problem]:
    problems: list[Problem] = []
    for name in options:
        flag = table.find(name)
        if flag is not None and flag.name in _LOSSY:
            message = f"{name} is lossy: drafts are accepted by dice, the output is not valid"
            hint = "remove it; a profile with lossless: false may have it for a bench"
            problem = Problem((*root, name), message, hint, code="lossy")
            problems.append(problem if is_lossless else replace(problem, severity="warning"))
    return problems


def _type_problems(profile: Profile, spec_type: JsonValue) -> list[Problem]:
    path: Path = ("engine", "llama_cpp", "spec-type")
    if spec_type is None:
        return []
    if not isinstance(profile.speculation, Ngram):
        message = f"spec-type follows from method {profile.speculation.method}"
        hint = "remove it; it only chooses among the n-gram types"
        return [Problem(path, message, hint, code="option-is-ours")]
    if spec_type not in _NGRAM_TYPES:
        message = f"{spec_type!r} is not one of llama.cpp's n-gram types"
        return [Problem(path, message, did_you_mean(str(spec_type), _NGRAM_TYPES))]
    return []


def _no_suffix() -> Problem:
    message = "llama.cpp has no suffix decoding"
    hint = "nearest: method ngram with engine.llama_cpp.spec-type ngram-mod (a shared pool)"
    return Problem(("speculation", "method"), message, hint, code="no-method")


def _schedule_problems(spec: Drafted) -> list[Problem]:
    path: Path = ("speculation", "schedule")
    if not spec.schedule:
        return []
    gamma, limit = fixed_gamma(spec), fixed_batch_limit(spec)
    if gamma == 0:
        message = "llama.cpp has one gamma for all batch sizes, and the first range says 0"
        hint = "start the schedule with a gamma above 0, or use method none"
        return [Problem(path, message, hint, severity="lost", code="schedule-by-router")]
    if limit is None:
        return []
    message = (
        f"llama.cpp has no schedule: it runs gamma {gamma}, and the router keeps this profile "
        f"within {limit} request{'s' if limit > 1 else ''} at once"
    )
    hint = "give the route a next profile for larger batches"
    return [Problem(path, message, hint, severity="warning", code="schedule-by-router")]


def _lookup_problems(spec: Ngram, spec_type: JsonValue) -> list[Problem]:
    path: Path
    if spec_type == "ngram-cache" and fixed_gamma(spec) != _NGRAM_CACHE_LENGTH:
        message = f"ngram-cache always guesses {_NGRAM_CACHE_LENGTH} tokens"
        hint = f"write gamma: {_NGRAM_CACHE_LENGTH}, or choose another spec-type"
        path = ("speculation", "gamma")
        return [Problem(path, message, hint, severity="lost", code="gamma-fixed")]
    if spec_type in (None, "ngram-simple") and fixed_gamma(spec) < spec.lookup.min:
        message = (
            f"ngram-simple never guesses: it drops guesses shorter than its match, and gamma "
            f"{fixed_gamma(spec)} is below lookup.min {spec.lookup.min}"
        )
        hint = f"write min: {max(fixed_gamma(spec), 1)}, or choose spec-type ngram-map-k"
        path = ("speculation", "lookup", "min")
        return [Problem(path, message, hint, severity="lost", code="lookup-above-gamma")]
    if spec.lookup.min == spec.lookup.max:
        return []
    message = f"llama.cpp looks for one length: it uses lookup.min, {spec.lookup.min}"
    hint = f"write max: {spec.lookup.min} too where only llama.cpp uses this profile"
    path = ("speculation", "lookup", "max")
    return [Problem(path, message, hint, severity="warning", code="lookup-length")]

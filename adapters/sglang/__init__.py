"""SGLang 0.5.10 to 0.5.23: what its speculative options mean and how a worker is started.

Facts: the parsers and resolvers of these wheels, which run without a GPU (docs/verified.md); the
engine itself was not run.
"""

from collections.abc import Mapping
from pathlib import PurePath
from typing import Final

from pydantic import JsonValue

from adapters.contract import Api
from adapters.dialect import Dialect, version_problems
from adapters.draft import draft_problems
from adapters.launch import Launch, WorkerSpec
from adapters.option import merge, spell
from adapters.problem import Problem
from adapters.profile import Drafted, Profile
from adapters.setting import Setting, values
from adapters.sglang import conversation, given
from adapters.sglang import limits as request_limits
from adapters.sglang import settings as translation
from adapters.sglang.facts import context_problems, fact_problems
from adapters.sglang.given import ENGINE, Given, given_by
from adapters.sglang.native import (
    environment_problems,
    native_problems,
    partial_problems,
    unused_problems,
)
from adapters.sglang.rules import combination_problems, key_problems, no_method
from adapters.sglang.schedule import FILE, adaptive_file, plan_of, schedule_problems
from adapters.sglang.step import logit_type as logit_type
from adapters.sglang.step import most_at_once as most_at_once
from adapters.sglang.step import wide_arguments as wide_arguments

TITLE = given.TITLE
SUPPORTED: tuple[Dialect, ...] = given.SUPPORTED
COMMANDS: tuple[str, ...] = ("sglang",)
PACKAGES: tuple[str, ...] = ("sglang",)
EMBEDDED: tuple[str, str] | None = None
HEALTH = "/health"
# There are no counters of guessed or accepted tokens: answers tell their own (conversation.py).
METRICS: Mapping[str, str] = {
    "drafts": "sglang:spec_verify_calls_total",  # from 0.5.14 on, added when a request ends
    "generated": "sglang:generation_tokens_total",
    "running": "sglang:num_running_reqs",
    "waiting": "sglang:num_queue_reqs",
}
METRICS_PATH = "/metrics"
# In `sglext`, where a request asks with return_spec_tokens_details, from 0.5.12 on.
ANSWER_COUNTS: Mapping[str, str] = {
    "drafted": "spec_tokens_details.spec_num_proposed_drafts",
    "accepted": "spec_tokens_details.spec_num_correct_drafts",
}
api: Api = conversation

_MODULE: Final = "sglang.launch_server"
_VERSION_CODE: Final = "import importlib.metadata as m\nprint(m.version('sglang'))"


def version_commands(command: tuple[str, ...]) -> tuple[tuple[str, ...], ...]:
    if _is_python(command):
        return ((*command, "-c", _VERSION_CODE),)
    return ((*command, "version"),)


def read_version(output: str) -> str | None:
    """The last word that looks like a version; importing SGLang may print lines before."""
    words = [word.lstrip("v") for word in output.split()]
    found = [word for word in words if word[:1].isdigit() and word.count(".") > 1]
    return found[-1] if found else None


def limits(profile: Profile, version: str) -> Mapping[str, str]:
    return request_limits.limits(profile, version)


def check(profile: Profile, worker: WorkerSpec) -> list[Problem]:
    options, spec = given_by(profile, worker), profile.speculation
    root = ("engine", ENGINE)
    native = native_problems(options.native, options.version, root, profile.lossless)
    problems = partial_problems(native, options)
    problems += context_problems(worker, options)
    missing = no_method(spec.method, options.version)
    if missing:
        return [*problems, missing]
    problems += unused_problems(options, spec.method)
    if isinstance(spec, Drafted):
        problems += draft_problems(profile, worker)
        problems += _drafted_problems(spec, profile, worker, options)
    return problems


def _drafted_problems(
    spec: Drafted, profile: Profile, worker: WorkerSpec, options: Given
) -> list[Problem]:
    plan = plan_of(spec, options)
    return [
        *schedule_problems(spec, options, plan),
        *key_problems(spec, options, plan),
        *combination_problems(spec, profile.speculation.method, options, plan),
        *fact_problems(profile, worker, options, plan),
    ]


def check_arguments(arguments: Mapping[str, JsonValue], version: str) -> list[Problem]:
    return version_problems(TITLE, SUPPORTED, version) + native_problems(arguments, version, ())


def check_environment(environment: Mapping[str, str], version: str) -> list[Problem]:
    return environment_problems(environment, version)


def settings(profile: Profile, worker: WorkerSpec) -> tuple[Setting, ...]:
    return translation.settings(profile, worker)


def render(profile: Profile, worker: WorkerSpec) -> Launch:
    options, model, spec = given_by(profile, worker), worker.model, profile.speculation
    arguments = ["--served-model-name", model.name]
    if model.revision:
        arguments += ["--revision", model.revision]
    if model.context:
        arguments += ["--context-length", str(model.context)]
    arguments.append("--enable-metrics")
    written = values(settings(profile, worker))
    arguments += spell(merge(options.table, options.options, written), options.table)
    files: dict[str, str] = {}
    limit = None
    if isinstance(spec, Drafted):
        plan = plan_of(spec, options)
        limit = plan.batch_limit
        if plan.form == "slots" and spec.schedule:
            files[FILE] = adaptive_file(spec.schedule)
    start = ("-m", _MODULE) if _is_python(worker.command) else ("serve",)
    return Launch(
        command=(*worker.command, *start, "--model-path", model.target),
        arguments=tuple(arguments),
        address=("--host", worker.host, "--port", str(worker.port)),
        port=worker.port,
        host=worker.host,
        env=worker.environment(),
        files=files,
        batch_limit=limit,
    )


def _is_python(command: tuple[str, ...]) -> bool:
    return PurePath(command[0]).name.startswith("python")

"""TensorRT-LLM 1.2 to 1.4: what its decoding classes mean and how trtllm-serve is started.

Facts: its classes and documentation as named in decoder.py; no engine was run (docs/verified.md).
"""

import re
from collections.abc import Mapping
from pathlib import PurePath
from typing import Any, Final

import yaml
from pydantic import JsonValue

from adapters.contract import Api
from adapters.dialect import Dialect, version_problems
from adapters.draft import draft_problems
from adapters.launch import FILES, Launch, WorkerSpec
from adapters.option import spell
from adapters.problem import Problem
from adapters.profile import Profile
from adapters.setting import Setting, values
from adapters.tensorrt_llm import conversation, decoder, rules
from adapters.tensorrt_llm import limits as request_limits
from adapters.tensorrt_llm import settings as translation
from adapters.tensorrt_llm.combination import combination_problems
from adapters.tensorrt_llm.context import context_problems
from adapters.tensorrt_llm.given import SPECULATIVE, Given, backend_of, given, table_of
from adapters.tensorrt_llm.native import environment_problems, profile_options, server_problems
from adapters.tensorrt_llm.step import logit_type as logit_type
from adapters.tensorrt_llm.step import most_at_once as most_at_once
from adapters.tensorrt_llm.step import wide_arguments as wide_arguments

TITLE = decoder.TITLE
SUPPORTED: tuple[Dialect, ...] = decoder.SUPPORTED
COMMANDS: tuple[str, ...] = ("trtllm-serve",)
PACKAGES: tuple[str, ...] = ("tensorrt-llm",)
EMBEDDED: tuple[str, str] | None = None
HEALTH = "/health"
# Of 1.3 and 1.4 (metrics/collector.py 050f80de), which do not count steps; 1.2 has latencies only.
METRICS: Mapping[str, str] = {
    "drafted": "trtllm_spec_decode_num_draft_tokens_total",
    "accepted": "trtllm_spec_decode_num_accepted_tokens_total",
    "accepted_per_position": "trtllm_spec_decode_accepted_tokens_total",
    "generated": "trtllm_generation_tokens_total",
    "running": "trtllm_num_requests_running",
    "waiting": "trtllm_num_requests_waiting",
}
METRICS_PATH = conversation.METRICS_PATH
ANSWER_COUNTS: Mapping[str, str] = {}  # PR 19311 would add them and is open
api: Api = conversation

_FILE: Final = "serve.yaml"
_ONE_LINE: Final = 2**31  # columns: no text is folded
_MODULE: Final = "tensorrt_llm.commands.serve"
_VERSION_CODE: Final = (
    "import importlib.metadata as m\n"
    "names = {d.name.replace('_', '-') for d in m.distributions() if d.name}\n"
    "print(m.version('tensorrt_llm') if 'tensorrt-llm' in names else 'tensorrt-llm not found')"
)
_VERSION: Final = re.compile(
    r"^(?:\[TensorRT-LLM\]\s*TensorRT[- ]LLM version:\s*)?v?(\d+\.\d+\S*)$", re.MULTILINE
)


def version_commands(command: tuple[str, ...]) -> tuple[tuple[str, ...], ...]:
    """trtllm-serve has no --version: importing the package prints it above the help."""
    if _is_python(command):
        return ((*command, "-c", _VERSION_CODE),)
    return ((*command, "--help"),)


def read_version(output: str) -> str | None:
    found = _VERSION.search(output)
    return found[1] if found else None


def limits(profile: Profile, version: str) -> Mapping[str, str]:
    return request_limits.limits(profile, version)


def check(profile: Profile, worker: WorkerSpec) -> list[Problem]:
    problems = profile_options(profile, worker) + draft_problems(profile, worker)
    problems += context_problems(profile, worker)
    if not profile.is_speculating:
        return problems
    if decoder.is_too_old(worker.engine_version):
        return problems + rules.too_old_problems(worker.engine_version)
    case = translation.case_of(profile, worker)
    if case is None:
        return problems + rules.no_method_problems(profile, worker.engine_version)
    return problems + rules.method_problems(case) + combination_problems(case)


def check_arguments(arguments: Mapping[str, JsonValue], version: str) -> list[Problem]:
    problems = version_problems(TITLE, SUPPORTED, version)
    return problems + server_problems(arguments, version)


def check_environment(environment: Mapping[str, str], version: str) -> list[Problem]:
    return environment_problems(environment)


def settings(profile: Profile, worker: WorkerSpec) -> tuple[Setting, ...]:
    return translation.settings(profile, worker)


def render(profile: Profile, worker: WorkerSpec) -> Launch:
    options, written = given(profile, worker), values(settings(profile, worker))
    case = translation.case_of(profile, worker)
    start = ("-m", _MODULE, "serve") if _is_python(worker.command) else ()
    return Launch(
        command=(*worker.command, *start, worker.model.target),
        arguments=(*_flags(profile, worker, options), "--config", f"{FILES}/{_FILE}"),
        address=("--host", worker.host, "--port", str(worker.port)),
        port=worker.port,
        host=worker.host,
        env=worker.environment(),
        files={_FILE: _file(profile, worker, options, written)},
        batch_limit=case.plan.batch_limit if case else None,
    )


def _flags(profile: Profile, worker: WorkerSpec, options: Given) -> tuple[str, ...]:
    """What a file cannot hold. This engine's options have underscores."""
    found: list[str] = []
    if decoder.dialect_of(worker.engine_version) != "1.2":  # PR #11711
        found += ["--served_model_name", worker.model.name]
    if backend_of(profile, worker) == "tensorrt":
        found += ["--backend", "tensorrt"]
    table = table_of(worker.engine_version)
    for name, value in options.flags.items():
        for one in value if isinstance(value, list) else [value]:  # a list is a flag repeated
            word, *rest = spell({name: one}, table)
            found += [word if word.startswith("--no-") else f"--{name}", *rest]
    return tuple(found)


def _file(
    profile: Profile, worker: WorkerSpec, options: Given, written: Mapping[str, JsonValue]
) -> str:
    """The --config file: the model, the options given, what readiness needs, the speculation."""
    model, content = worker.model, dict[str, Any]()
    if model.revision:
        content["revision"] = model.revision
    if model.context:
        content["max_seq_len"] = model.context
    content |= options.file
    if "disable_overlap_scheduler" in written:
        content["disable_overlap_scheduler"] = written["disable_overlap_scheduler"]
    content["return_perf_metrics"] = True
    if backend_of(profile, worker) == "pytorch":  # TrtLlmArgs has no such key: it always counts
        content["enable_iter_perf_stats"] = True
    speculation = _speculation(options, written)
    if speculation:
        content[SPECULATIVE] = speculation
    # in ASCII: some characters, as U+0085, are written as they are and read as a space
    return yaml.safe_dump(content, sort_keys=False, allow_unicode=False, width=_ONE_LINE)


def _speculation(options: Given, written: Mapping[str, JsonValue]) -> dict[str, Any]:
    """The decoding class's keys."""
    prefix = f"{SPECULATIVE}."
    found: dict[str, Any] = {
        name.removeprefix(prefix): value
        for name, value in written.items()
        if name.startswith(prefix)
    }
    return found | dict(options.extra) if found else {}


def _is_python(command: tuple[str, ...]) -> bool:
    return PurePath(command[0]).name.startswith("python")

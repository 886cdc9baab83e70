"""Environment variables: those that a version does not read, and those that harm."""

import functools
import importlib.resources
import json
from collections.abc import Iterator, Mapping
from difflib import get_close_matches
from typing import Final

from adapters.problem import Problem, Severity
from adapters.vllm.asked import SUPPORTED

_PREFIX = "VLLM_"
# Plugins have variables of their own; only what differs by a letter or two is a mistake.
_TYPO = 0.93
_NO = frozenset({"", "0", "false", "no", "off", "auto"})
# Variables of older versions that had a meaning, and what says it today.
_DEAD: Final[Mapping[str, str]] = {
    "VLLM_USE_V1": "remove it: V1 is the only engine",
    "VLLM_ATTENTION_BACKEND": "write args: {attention-backend: …}",
    "VLLM_FLASH_ATTN_VERSION": "write args: {attention-config: {flash_attn_version: …}}",
    "VLLM_ALL2ALL_BACKEND": "write args: {all2all-backend: …}",
    "VLLM_USE_TRITON_FLASH_ATTN": "write args: {attention-backend: …}",
    "VLLM_ALLOW_DEPRECATED_BLOCK_MANAGER_V1": "remove it: there is no other block manager",
    "VLLM_SPEC_DECODE": "write it in a profile",
}
_HARMFUL: Final[Mapping[str, tuple[str, str]]] = {
    "VLLM_KEEP_ALIVE_ON_ENGINE_DEATH": (
        "the server would answer on after its engine has died",
        "remove it, so that the worker is started again",
    ),
    "VLLM_SERVER_DEV_MODE": (
        "it opens /sleep, /reset_prefix_cache and /collective_rpc to whoever reaches the port",
        "remove it outside tests",
    ),
    "VLLM_ALLOW_LONG_MAX_MODEL_LEN": (
        "it admits a context above the model's own, where text and acceptance fall apart",
        "remove it, and write a context that the model has",
    ),
}


def environment_problems(
    environment: Mapping[str, str], version: str, dialect: str
) -> Iterator[Problem]:
    known = variables(dialect)
    for name, value in environment.items():
        if name.startswith(_PREFIX) and name not in known:
            yield _unknown(name, known, dialect)
        elif name in _HARMFUL and value.strip().lower() not in _NO:
            message, hint = _HARMFUL[name]
            yield Problem((name,), message, hint, severity="warning", code="harmful-variable")
        else:
            yield from _value_problems(name, value, version)


def _value_problems(name: str, value: str, version: str) -> Iterator[Problem]:
    if name == "VLLM_TEST_FORCE_LOAD_FORMAT" and value == "dummy":
        message = "it is lossy: the weights become random"
        yield Problem((name,), message, "remove it", code="lossy")
    if name == "VLLM_PORT" and not value.isdecimal():
        # Kubernetes sets it to a URI in every pod beside a Service named vllm.
        message = f"it must be a port number, found {value!r}; vLLM does not start with it"
        hint = "name the Kubernetes Service otherwise, or set enableServiceLinks: false"
        yield Problem((name,), message, hint, code="bad-value")
    if name == "VLLM_BATCH_INVARIANT" and value == "1":
        yield from _batch_invariant(version)


def _batch_invariant(version: str) -> Iterator[Problem]:
    """0.32.0 on a CPU: healthy, and dead at the first request; it is made for GPUs."""
    message = "vLLM's CPU build starts with it and dies at the first request"
    path = ("VLLM_BATCH_INVARIANT",)
    if "cpu" in version.partition("+")[2]:
        yield Problem(path, message, "remove it", code="harmful-variable")
    else:
        hint = "keep it on GPUs only, and on the plain worker too"
        yield Problem(path, message, hint, severity="warning", code="harmful-variable")


def _unknown(name: str, known: frozenset[str], dialect: str) -> Problem:
    message = f"vLLM {dialect} does not read it"
    if name in _DEAD:
        return Problem((name,), message, _DEAD[name], code="dead-variable")
    others = [d.name for d in SUPPORTED if name in variables(d.name)]
    if others:
        hint = f"remove it: vLLM {' and '.join(others)} did or does"
        return Problem((name,), message, hint, code="dead-variable")
    near = next(iter(get_close_matches(name, known, n=1, cutoff=_TYPO)), None)
    hint = f"did you mean {near!r}?" if near else "remove it, unless a plugin reads it"
    severity: Severity = "error" if near else "warning"
    return Problem((name,), message, hint, severity=severity, code="unknown-variable")


@functools.cache
def variables(dialect: str) -> frozenset[str]:
    """The names in the option table of a dialect; `scripts/dump_vllm_flags.py` writes them."""
    file = importlib.resources.files("adapters") / "flags" / f"vllm-{dialect}.json"
    return frozenset(json.loads(file.read_text("utf-8"))["environment"])

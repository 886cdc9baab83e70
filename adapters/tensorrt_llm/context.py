"""A longer context than the model was made for, which this engine takes with a line in its log.

The PyTorch backend serves the model's own length instead (_torch/pyexecutor/model_engine.py,
_init_max_seq_len), or the longer one where TLLM_ALLOW_LONG_MAX_MODEL_LEN is set, which newer
candidates read. The TensorRT backend of 1.2 builds what was asked for (builder.py).
"""

from collections.abc import Mapping
from typing import Any, Final

from adapters.launch import WorkerSpec
from adapters.problem import Path, Problem, Severity
from adapters.profile import Profile
from adapters.tensorrt_llm.decoder import TITLE, dialect_of
from adapters.tensorrt_llm.given import backend_of, given

_ALLOW: Final = "TLLM_ALLOW_LONG_MAX_MODEL_LEN"
_TRUE: Final = ("1", "true", "yes", "y")


def context_problems(profile: Profile, worker: WorkerSpec) -> list[Problem]:
    model = worker.model
    made_for = model.facts.context if model.facts else None
    if not model.context or not made_for or model.context <= made_for:
        return []
    severity: Severity = "lost"
    message = f"{TITLE} serves {made_for} tokens, for which the model was made: the rest is cut"
    if backend_of(profile, worker) == "tensorrt" or _is_allowed(profile, worker):
        severity = "warning"
        message = f"{model.context} tokens are more than the model was made for: {made_for}"
    path: Path = ("models", model.name, "context")
    hint = f"write at most {made_for}"
    return [Problem(path, message, hint, severity, "context-length")]


def _is_allowed(profile: Profile, worker: WorkerSpec) -> bool:
    """By the worker's environment or the file's; 1.2 does not look."""
    overrides = given(profile, worker).file.get("env_overrides")
    inner: Mapping[str, Any] = overrides if isinstance(overrides, dict) else {}
    value = str(inner.get(_ALLOW, worker.env.get(_ALLOW, "")))
    return dialect_of(worker.engine_version) != "1.2" and value.lower() in _TRUE

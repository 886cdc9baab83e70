"""Names of other vLLM ages, and what they are called today.

Sources: the engine's own option tables (0.31 to 0.33); PR #8704 and #13492 (block manager), #24888
(`ngram_prompt_lookup_max` inside the JSON), #4266 and #8416 (`--speculative-model`), #32374 and the
documentation's older pages (`synthetic_acceptance_rate`, `adaptive_verification`, `strict`).
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from pydantic import JsonValue

from adapters.flag import FlagTable, normal
from adapters.problem import Problem

_PROFILE = "it comes from the profile: "
_EXTRA = "write it in engine.vllm.speculative_config as "
# Name → what to write today; a text that begins with "no" or "it" has no successor.
_OPTIONS: Final[Mapping[str, str]] = {
    "speculative-model": f"{_PROFILE}speculation.method and .draft",
    "speculative-model-quantization": f"{_EXTRA}quantization",
    "num-speculative-tokens": f"{_PROFILE}speculation.gamma",
    "ngram-prompt-lookup-max": f"{_PROFILE}speculation.lookup.max",
    "ngram-prompt-lookup-min": f"{_PROFILE}speculation.lookup.min",
    "speculative-draft-tensor-parallel-size": f"{_PROFILE}speculation.tensor_parallel",
    "speculative-disable-by-batch-size": f"{_PROFILE}speculation.schedule, with a gamma of 0",
    "speculative-max-model-len": f"{_EXTRA}max_model_len",
    "spec-decoding-acceptance-method": f"{_EXTRA}rejection_sample_method",
    "cuda-graph-sizes": "write cudagraph-capture-sizes",
    "max-seq-len-to-capture": "write max-cudagraph-capture-size",
    "guided-decoding-backend": "write structured-outputs-config",
    "rope-scaling": "write hf-overrides: {rope_parameters: …}",
    "rope-theta": "write hf-overrides: {rope_parameters: …}",
    "task": "write runner and convert",
}
_REMOVED_OPTIONS: Final[Mapping[str, str]] = {
    "use-v2-block-manager": "remove it: there is no other block manager",
    "num-lookahead-slots": "remove it: vLLM counts them from gamma",
    "num-scheduler-steps": "remove it: multi-step scheduling is gone",
    "disable-async-output-proc": "remove it",
    "disable-logprobs-during-spec-decoding": "remove it: logprobs are the target's own",
    "speculative-disable-mqa-scorer": "remove it",
    "typical-acceptance-sampler-posterior-threshold": "remove it: acceptance is exact",
    "typical-acceptance-sampler-posterior-alpha": "remove it: acceptance is exact",
    "enable-mamba-fine-grained-prefix-cache": "remove it: gone since 0.31",
    "swap-space": "remove it",
    "preemption-mode": "remove it",
}
_KEYS: Final[Mapping[str, str]] = {
    "acceptance_method": "write rejection_sample_method; standard is exact",
    "spec_decoding_acceptance_method": "write rejection_sample_method; standard is exact",
    "ngram_prompt_lookup_max": "set speculation.lookup.max instead",
    "ngram_prompt_lookup_min": "set speculation.lookup.min instead",
    "speculative_model": "set speculation.draft instead",
    "draft_model": "set speculation.draft instead",
    "speculative_draft_tensor_parallel_size": "set speculation.tensor_parallel instead",
    "speculative_max_model_len": "write max_model_len",
    "disable_by_batch_size": "set speculation.schedule instead, with a gamma of 0",
    "speculative_disable_by_batch_size": "set speculation.schedule instead, with a gamma of 0",
    "synthetic_acceptance_rate": "write synthetic_acceptance_rates or synthetic_acceptance_length",
    "adaptive_verification": "write enable_adaptive_verification",
}
_REMOVED_KEYS: Final[Mapping[str, str]] = {
    "num_lookahead_slots": "remove it: vLLM counts them from gamma",
    "num_lookahead_tokens": "remove it: vLLM counts them from gamma",
    "disable_logprobs": "remove it: logprobs are the target's own",
    "disable_mqa_scorer": "remove it",
    "disable_log_stats": "remove it",
    "speculative_token_tree": "remove it: vLLM verifies chains only",
    "posterior_threshold": "remove it: acceptance is exact",
    "posterior_alpha": "remove it: acceptance is exact",
}
_OLD_RULES: Final[Mapping[str, str]] = {
    "strict": "write standard, with draft_sample_method: greedy",
    "probabilistic": "write standard, with draft_sample_method: probabilistic",
    "rejection_sampler": "write standard",
    "typical_acceptance_sampler": "write standard; vLLM's acceptance is exact today",
}


def respelled_option(problem: Problem, table: FlagTable) -> Problem:
    """An unknown option under its name of today, where it had another."""
    if problem.code != "unknown-option":
        return problem
    name = normal(str(problem.path[-1]))
    if name in _REMOVED_OPTIONS:
        return _removed(problem, name, table.version, _REMOVED_OPTIONS[name])
    hint = _OPTIONS.get(name) or _negated(name, table)
    return problem if hint is None else _renamed(problem, name, table.version, hint)


def _negated(name: str, table: FlagTable) -> str | None:
    """0.33 gave switches a second negative form; the older versions have only `no-`."""
    for word, other in (("disable-", "enable-"), ("enable-", "disable-")):
        flag = table.find(other + name.removeprefix(word)) if name.startswith(word) else None
        if flag is not None and flag.kind == "switch":
            return f"write {flag.name}: false"
    return None


def respelled_key(problem: Problem, name: str, value: JsonValue) -> Problem:
    """The same for a key, or a value, of the speculative config."""
    if name == "rejection_sample_method" and isinstance(value, str) and value in _OLD_RULES:
        return _renamed(problem, value, "", _OLD_RULES[value])
    if problem.code != "unknown-option":
        return problem
    if name in _REMOVED_KEYS:
        return _removed(problem, name, "", _REMOVED_KEYS[name])
    return _renamed(problem, name, "", _KEYS[name]) if name in _KEYS else problem


def _renamed(problem: Problem, name: str, version: str, hint: str) -> Problem:
    known_here = f" {version}" if version else ""
    message = f"{name} is a name of other versions, which vLLM{known_here} does not know"
    return replace(problem, message=message, hint=hint, code="renamed-option")


def _removed(problem: Problem, name: str, version: str, hint: str) -> Problem:
    message = f"{name} was removed from vLLM{f' before {version}' if version else ''}"
    return replace(problem, message=message, hint=hint, code="removed-option")

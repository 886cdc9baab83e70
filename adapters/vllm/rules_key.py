"""Keys of vLLM's speculative config that a profile gives natively, under `engine.vllm`."""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from pydantic import JsonValue

from adapters.option import key_problems
from adapters.problem import Path, Problem
from adapters.profile import Drafted
from adapters.value import shown
from adapters.vllm.asked import EXTRA, Asked
from adapters.vllm.rules_option import is_json_object
from adapters.vllm.rules_spelling import respelled_key

# Written from the profile; a field in brackets only where the method has it.
_OURS: Final[Mapping[str, str]] = {
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
    "use_heterogeneous_vocab": "other_vocabulary",
}
# Ours only where the profile has them: vLLM knows more types, and P-EAGLE for plain EAGLE too.
_OURS_IF_GIVEN: Final[Mapping[str, str]] = {
    "kv_cache_dtype": "kv_cache_dtype",
    "parallel_drafting": "parallel",
}
# Keys that vLLM refuses, or does not read, with any other method (vllm/config/speculative.py).
_ONLY_FOR: Final[Mapping[str, frozenset[str]]] = {
    "dspark_draft_topk": frozenset({"dspark"}),
    "enable_adaptive_verification": frozenset({"dspark"}),
    "index_share_for_mtp_iteration": frozenset({"mtp"}),
    "xpress_topc": frozenset({"dflash"}),
    "draft_lm_head_quantization": frozenset({"eagle", "eagle3", "mtp"}),
}
# Accept drafts at random or by a looser rule: the output is no longer the target's.
_LOSSY_RULES = frozenset({"synthetic", "fly"})
_LOSSY_PREFIXES = ("synthetic_", "fly_")
_RULE = "rejection_sample_method"
_MEASURES = ("synthetic_acceptance_length", "synthetic_acceptance_rates")


def extra_problems(asked: Asked) -> Iterator[Problem]:
    given = asked.given_extra
    if isinstance(given, str) and not is_json_object(given):
        message = f"{shown(given)} is no JSON object; a shell may have eaten its quotes"
        yield Problem(EXTRA, message, "write it as a YAML mapping", code="shell-json")
        return
    if not isinstance(given, dict):
        message = "expected a mapping of speculative-config keys"
        yield Problem(EXTRA, message, "write it as a YAML mapping", code="bad-value")
        return
    if given and not asked.profile.is_speculating:
        message = "method none has no speculative config"
        yield Problem(EXTRA, message, "remove it", code="option-is-ours")
    yield from _each_key(asked, given)
    yield from _combinations(asked)


def _each_key(asked: Asked, given: Mapping[str, JsonValue]) -> Iterator[Problem]:
    rules = asked.table.config_keys["speculative_config"]
    owner = f"vLLM {asked.table.version}'s speculative config"
    seen: set[str] = set()
    for key, value in given.items():
        name, path = key.replace("-", "_"), (*EXTRA, key)
        if name in seen:
            yield Problem(path, f"{key!r} is given twice", "keep one of them", code="option-twice")
        elif field := _field_of(name, asked):
            message, hint = f"{key!r} is written by draftgate", f"set speculation.{field} instead"
            yield Problem(path, message, hint, code="option-is-ours")
        elif found := key_problems({key: value}, rules, EXTRA, owner):
            yield from (respelled_key(p, name, value) for p in found)
        elif name == _RULE and value not in rules[name].choices:
            # Other options take several words, or any case; this one is compared as it stands.
            message = f"{shown(value)} is not one of its values"
            hint = f"one of: {', '.join(rules[name].choices)}"
            yield Problem(path, message, hint, code="option-value")
        else:
            yield from _value_problems(asked, path, name, value)
        seen.add(name)


def _field_of(name: str, asked: Asked) -> str | None:
    """The profile's field that writes this key."""
    conditional = _OURS_IF_GIVEN.get(name)
    if conditional and getattr(asked.profile.speculation, conditional, None) is not None:
        return conditional
    return _OURS.get(name)


def _value_problems(asked: Asked, path: Path, name: str, value: JsonValue) -> Iterator[Problem]:
    if value in (None, False):
        return
    if name == _RULE and value in _LOSSY_RULES:
        yield lossy(path, str(value), asked.profile.lossless)
    elif name.startswith(_LOSSY_PREFIXES):
        yield lossy(path, "it", asked.profile.lossless)
    methods = _ONLY_FOR.get(name, {asked.method})
    if asked.method not in methods and asked.profile.is_speculating:
        message = f"{path[-1]} is for {' and '.join(sorted(methods))}, not for {asked.method}"
        yield Problem(path, message, "remove it", code="wrong-method")


def lossy(path: Path, what: str, is_lossless: bool) -> Problem:
    message = f"{what} is lossy: drafts are accepted that the target would not have written"
    if is_lossless:
        return Problem(path, message, "remove it, or write lossless: false", code="lossy")
    return Problem(path, message, "the gate will fail it", severity="warning", code="lossy")


def _combinations(asked: Asked) -> Iterator[Problem]:
    extra, spec = asked.extra, asked.drafted
    if spec is None:
        return
    yield from _synthetic(extra)
    if extra.get("rejection_sample_method") == "fly":
        yield from _fly(extra, spec)
    if asked.translates_vocabulary:
        yield from _other_vocabulary(extra)
    is_padded_only = asked.method == "draft_model" or asked.is_parallel
    if extra.get("disable_padded_drafter_batch") is True and is_padded_only:
        # NotImplementedError in the worker, long after the configuration was taken.
        message = "a draft model, and drafting in one pass, need the padded batch"
        path = (*EXTRA, "disable_padded_drafter_batch")
        yield Problem(path, message, "remove it", code="padded-batch")
    length, context = extra.get("max_model_len"), asked.worker.model.context
    if isinstance(length, int) and context and length > context:
        message = f"the draft's length {length} is above the target's {context}"
        path = (*EXTRA, "max_model_len")
        yield Problem(path, message, f"write at most {context}", code="draft-context")


def _synthetic(extra: Mapping[str, Any]) -> Iterator[Problem]:
    """Exactly one of its two measures, and neither without it."""
    measures = [name for name in _MEASURES if extra.get(name) is not None]
    path = (*EXTRA, "rejection_sample_method")
    if extra.get("rejection_sample_method") == "synthetic":
        if len(measures) != 1:
            message = "synthetic needs synthetic_acceptance_length or …_rates, and only one of them"
            yield Problem(path, message, "write one of them", code="missing-key")
    elif measures:
        message = f"{measures[0]} is only for rejection_sample_method: synthetic"
        yield Problem((*EXTRA, measures[0]), message, "remove it", code="wrong-method")


def _fly(extra: Mapping[str, Any], spec: Drafted) -> Iterator[Problem]:
    window = extra.get("fly_window_size")
    if spec.gamma < 2:
        message = "FLy needs a gamma of at least 2"
        yield Problem(("speculation", "gamma"), message, "write 2 or more", code="fly-window")
    elif isinstance(window, int) and window >= spec.gamma:
        message = f"FLy's window, {window}, must be smaller than gamma, {spec.gamma}"
        hint = f"write at most {spec.gamma - 1}"
        yield Problem((*EXTRA, "fly_window_size"), message, hint, code="fly-window")


def _other_vocabulary(extra: Mapping[str, Any]) -> Iterator[Problem]:
    if extra.get("draft_sample_method") == "probabilistic":
        message = "a draft of another vocabulary can only guess greedily"
        path = (*EXTRA, "draft_sample_method")
        yield Problem(path, message, "write greedy, or leave it out", code="other-vocabulary")
    if extra.get("use_local_argmax_reduction") is True:
        message = "translating tokens needs the draft's full logits"
        path = (*EXTRA, "use_local_argmax_reduction")
        yield Problem(path, message, "remove it", code="other-vocabulary")

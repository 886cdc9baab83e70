"""Engine options that do not go with speculation, or with draftgate, wherever they are given."""

import json
from collections.abc import Iterator, Mapping
from typing import Any, Final

from pydantic import JsonValue

from adapters.flag import FlagTable, dotted
from adapters.option import Options, merge, whole
from adapters.problem import Path, Problem
from adapters.profile import Drafted
from adapters.vllm.asked import METHOD, Asked, size

# Methods that read the target's hidden states (use_eagle in vllm/config/speculative.py).
_HEADS = frozenset({"eagle", "eagle3", "mtp", "dflash", "dspark"})
_ASYNC = _HEADS | {"draft_model"}
_BLOCKS = frozenset({"dflash", "dspark"})
# (max-num-seqs, max-num-batched-tokens) where neither is given: GPUs of 160 GiB, of 70 GiB, smaller
# ones, a CPU (get_batch_defaults in vllm/engine/arg_utils.py).
_DEFAULTS: Final = ((1024, 16384), (1024, 8192), (256, 2048), (128, 2048))
# What they are set to changes the target's own output.
_OUTPUT = frozenset(
    {
        "dtype",
        "generation-config",
        "hf-overrides",
        "kv-cache-dtype",
        "override-generation-config",
        "quantization",
        "tokenizer",
    }
)
_DEFAULTS_OPTION = "override-generation-config"
_REFUSED_DEFAULTS = frozenset({"min_p", "logit_bias"})


def given_problems(options: Options, table: FlagTable, root: Path = ()) -> Iterator[Problem]:
    """Single options, of a profile or of a fleet, that are wrong whatever the rest says."""
    for name, value in options.items():
        flag, path = table.find(name), (*root, name)
        if flag is None:
            continue
        if flag.name == "disable-log-stats" and value is True:
            message = "it stops the counters that show that drafts are made and accepted"
            yield Problem(path, message, "remove it", code="no-metrics")
        if flag.name == "load-format" and str(value).strip().lower() == "dummy":
            # LoadConfig._lowercase_load_format
            message = "load-format dummy is lossy: the weights are random"
            yield Problem(path, message, "remove it", code="lossy")


def is_json_object(text: str) -> bool:
    """False of what a shell has bitten: `\\{\\"method\\"…`, `{method: mtp}`, `method:mtp`."""
    return isinstance(_decoded(text), dict)


def _decoded(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def conflict_problems(asked: Asked) -> Iterator[Problem]:
    """Options that vLLM accepts alone and refuses, or bends, beside the profile's speculation."""
    spec = asked.drafted
    if spec is None:
        yield from _plain_problems(asked.options)
        return
    yield from _async_problems(asked)
    yield from _lora_problems(asked, spec)
    yield from _slot_problems(asked, spec)
    yield from _refused_beside(asked)
    yield from _sampling_defaults(asked)
    yield from _arms_differ(asked)


def _plain_problems(options: Mapping[str, JsonValue]) -> Iterator[Problem]:
    if options.get("per-request-spec-decode-metrics", "none") != "none":
        message = "per-request-spec-decode-metrics needs speculation, and method none has none"
        yield Problem(METHOD, message, "remove it", code="metrics-without-speculation")


def _async_problems(asked: Asked) -> Iterator[Problem]:
    if asked.options.get("async-scheduling") is not True:
        return
    hint = "remove async-scheduling; it is turned off by itself"
    on_gpu = asked.method == "ngram" and getattr(asked.profile.speculation, "device", "") == "gpu"
    if asked.method not in _ASYNC and not on_gpu:
        yield _async_problem(asked, f"method {asked.method}", hint)
    elif asked.extra.get("disable_padded_drafter_batch") is True:
        yield _async_problem(asked, "disable_padded_drafter_batch", "remove one of the two")
    elif asked.is_on_v1 and whole(asked.options, "pipeline-parallel-size", 1) > 1:
        yield _async_problem(asked, "pipeline parallelism on its V1 model runner", hint)


def _async_problem(asked: Asked, what: str, hint: str) -> Problem:
    """0.33's V2 runner takes n-gram lookup and unpadded batches with it; V1 does not."""
    message = f"vLLM refuses async scheduling with {what}"
    is_certain = asked.dialect != "0.33" or asked.is_on_v1
    if is_certain:
        return Problem(METHOD, message, hint, code="async-scheduling")
    message += " on its V1 model runner, which a CPU has"
    return Problem(METHOD, message, hint, severity="warning", code="async-scheduling")


def _lora_problems(asked: Asked, spec: Drafted) -> Iterator[Problem]:
    if asked.options.get("enable-lora") is not True:
        return
    yield from _lora_budget(asked.options, spec.gamma)
    if asked.method == "ngram":
        message = "n-gram lookup with LoRA died at two requests at once for others (#20284, open)"
        hint = "try several at once before you trust it, or send adapters to a plain worker"
        yield Problem(METHOD, message, hint, severity="warning", code="lora")
    if asked.extra.get("enable_adaptive_verification") is True:
        message = "vLLM refuses LoRA with adaptive verification"
        yield Problem(METHOD, message, "remove one of the two", code="lora")


def _lora_budget(options: Mapping[str, JsonValue], gamma: int) -> Iterator[Problem]:
    """max-num-batched-tokens >= max-num-seqs * (gamma + 1), with the defaults of each machine."""
    given = size(options, "max-num-seqs"), size(options, "max-num-batched-tokens")
    machines = [(given[0] or seqs, given[1] or tokens) for seqs, tokens in _DEFAULTS]
    short = [(s, t) for s, t in machines if t < s * (gamma + 1)]
    if not short:
        return
    sequences, tokens = short[0]
    needed = sequences * (gamma + 1)
    message = f"with LoRA {sequences} sequences of {gamma} guesses need {needed} batched tokens"
    hint = f"write max-num-batched-tokens: {needed}, or lower max-num-seqs or gamma"
    if len(short) == len(machines):
        message += f", and there are {tokens}"
        yield Problem(("speculation", "gamma"), message, hint, code="lora-tokens")
    else:
        message += f"; vLLM's default on some machines is {tokens}"
        path = ("speculation", "gamma")
        yield Problem(path, message, hint, severity="warning", code="lora-tokens")


def _slot_problems(asked: Asked, spec: Drafted) -> Iterator[Problem]:
    tokens, slots = size(asked.options, "max-num-batched-tokens"), _slots(asked, spec)
    if tokens is not None and tokens <= slots:
        message = f"max-num-batched-tokens {tokens} leaves no room beside {slots} draft slots"
        hint = f"write at least {slots + 1}; thousands are usual"
        yield Problem(("speculation", "gamma"), message, hint, code="draft-slots")
    elif tokens is not None and asked.method in _BLOCKS and asked.dialect == "0.33":
        yield from _active_sequences(asked, tokens, slots)


def _active_sequences(asked: Asked, tokens: int, slots: int) -> Iterator[Problem]:
    """The drafter's own pass must fit too (_set_max_num_scheduled_tokens of 0.33)."""
    sequences = size(asked.options, "max-num-active-seqs") or size(asked.options, "max-num-seqs")
    most = tokens // slots
    if sequences is not None and most < sequences:
        message = f"vLLM lowers max-num-active-seqs from {sequences} to {most}, to fit the guesses"
        hint = f"write max-num-batched-tokens: {sequences * slots}, or fewer sequences"
        path = ("speculation", "gamma")
        yield Problem(path, message, hint, severity="warning", code="active-sequences")


def _slots(asked: Asked, spec: Drafted) -> int:
    """max_num_new_slots_for_drafting of 0.31 and 0.32, num_lookahead_tokens of 0.33."""
    gamma, method = spec.gamma, asked.method
    if asked.dialect == "0.33":
        if method == "dflash":
            return gamma + 1
        return gamma if method in _ASYNC else 0
    if method == "dflash" or (asked.is_parallel and method == "draft_model"):
        return gamma
    if method == "dspark" or asked.is_parallel:
        return gamma - 1
    return 1 if method == "draft_model" else 0


def _refused_beside(asked: Asked) -> Iterator[Problem]:
    options = asked.options
    if options.get("logits-processors"):
        # Passes every configuration check and fails in the worker (build_logitsprocs).
        message = "vLLM refuses custom logits processors while speculating"
        hint = "remove logits-processors, or give them to a plain worker"
        yield Problem(METHOD, message, hint, code="logits-processors")
    if options.get("kv-sharing-fast-prefill") is True and asked.method in _HEADS:
        message = f"vLLM refuses kv-sharing-fast-prefill with method {asked.method}"
        hint = "remove it: the head needs the right states of every prompt token"
        yield Problem(METHOD, message, hint, code="fast-prefill")
    ranks = whole(options, "pipeline-parallel-size", 1)
    if ranks > 1 and asked.extra.get("enable_adaptive_verification") is True:
        message = f"vLLM refuses adaptive verification with pipeline-parallel-size {ranks}"
        yield Problem(METHOD, message, "remove one of the two", code="pipeline-parallel")


def _sampling_defaults(asked: Asked) -> Iterator[Problem]:
    """Defaults for every request that vLLM answers with 400 while speculating."""
    for name in sorted(_REFUSED_DEFAULTS & set(_generation_defaults(asked.options))):
        message = f"{_DEFAULTS_OPTION} makes {name} every request's default"
        hint = f"remove {name}: vLLM answers 400 to it while speculating"
        yield Problem(METHOD, message, hint, code="sampling-default")


def _generation_defaults(options: Options) -> Iterator[str]:
    """Names in the mapping, in JSON text, and in options such as `….min_p`, which add to it."""
    given = options.get(_DEFAULTS_OPTION)
    found = _decoded(given) if isinstance(given, str) else given
    yield from found if isinstance(found, dict) else ()
    for name in options:
        option, key = dotted(name)
        if option == _DEFAULTS_OPTION and key:
            yield key.replace("-", "_")


def _arms_differ(asked: Asked) -> Iterator[Problem]:
    """Only what the profile itself brings: the fleet's options hold for its plain worker too."""
    fleet = merge(asked.table, asked.worker.args)
    for given, value in asked.native.items():
        flag = asked.table.find(given)
        name = flag.name if flag else given
        is_harmless = name == "generation-config" and value == "vllm"
        if name in _OUTPUT and name not in fleet and not is_harmless:
            path: Path = ("engine", "vllm", given)
            message = f"{name} changes what the target writes, and a plain worker has it not"
            hint = "write it under engines.vllm.args in the fleet, for all its workers"
            yield Problem(path, message, hint, severity="warning", code="arms-differ")

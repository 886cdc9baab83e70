"""The profile's speculation in vLLM's words: the keys of --speculative-config, each written out."""

from collections.abc import Iterator

from pydantic import JsonValue

from adapters.draft import draft_of
from adapters.option import whole
from adapters.profile import (
    Custom,
    Drafted,
    DraftModel,
    Eagle3,
    Lookahead,
    Ngram,
    Suffix,
    WithDraft,
)
from adapters.setting import Setting
from adapters.vllm.asked import METHOD, Asked
from adapters.vllm.rules_schedule import is_followed

# The largest default of max-num-seqs, on GPUs of 70 GiB and more (vllm/engine/arg_utils.py).
MOST_SEQUENCES = 1024
SCHEDULE = "num_speculative_tokens_per_batch_size"
# Of the neutral cache types, those that vLLM has.
CACHE_TYPES = frozenset({"auto", "float16", "bfloat16", "fp8", "fp8_e4m3", "fp8_e5m2"})
_HONOURED = ""  # vLLM does it without an option


def settings_of(asked: Asked) -> Iterator[Setting]:
    spec = asked.drafted
    if spec is None or isinstance(spec, Lookahead):
        yield Setting(METHOD, _HONOURED)
        return
    yield _method(asked)
    yield from _model(asked)
    bound = "an upper bound: the tree says how many" if isinstance(spec, Suffix) else ""
    yield Setting(("speculation", "gamma"), "num_speculative_tokens", spec.gamma, bound)
    if isinstance(spec, Ngram):
        yield from _ngram(spec)
    if isinstance(spec, Suffix):
        yield from _suffix(spec)
    if isinstance(spec, WithDraft):
        yield from _draft_settings(spec)
    if is_followed(asked):
        how = "ranges with both ends; the open one ends at max-num-seqs"
        ranges: JsonValue = [list(found) for found in ranges_of(spec, asked)]
        yield Setting(("speculation", "schedule"), SCHEDULE, ranges, how)


def ranges_of(spec: Drafted, asked: Asked) -> list[tuple[int, int, int]]:
    """(first, last, gamma) with an end for the open range: vLLM's table ends at max-num-seqs."""
    end = whole(asked.options, "max-num-seqs", MOST_SEQUENCES)
    return [
        (t.batch.first, t.batch.last or max(end, t.batch.first), min(t.gamma, spec.gamma))
        for t in spec.schedule or ()
    ]


def _method(asked: Asked) -> Setting:
    spec = asked.profile.speculation
    effect = ""
    if turns_async_off(asked):
        effect = "vLLM turns async scheduling off with it: a plain baseline keeps it on"
    if isinstance(spec, Ngram) and spec.device == "gpu":
        return Setting(METHOD, "method", "ngram_gpu", "n-gram lookup on the GPU", effect)
    if isinstance(spec, Custom):
        return Setting(METHOD, "method", "custom_class", "a proposer of one's own", effect)
    return Setting(METHOD, "method", spec.method, "", effect)


def turns_async_off(asked: Asked) -> bool:
    """0.33 asks only of its V1 runner, 0.31 and 0.32 of both (vllm/config/vllm.py)."""
    spec = asked.profile.speculation
    if not isinstance(spec, Ngram | Suffix | Custom) and spec.method != "medusa":
        return False
    if isinstance(spec, Ngram) and spec.device == "gpu":
        return False
    return asked.dialect != "0.33" or asked.is_on_v1


def _model(asked: Asked) -> Iterator[Setting]:
    """What vLLM calls the model: the draft's weights, or the class of a proposer."""
    spec = asked.profile.speculation
    if isinstance(spec, WithDraft):
        draft = draft_of(asked.profile, asked.worker.model)
        if draft:
            yield Setting(("speculation", "draft"), "model", draft, "", _shorter(asked))
    if isinstance(spec, Custom):
        how = "vLLM takes the class as the draft's name"
        yield Setting(("speculation", "proposer"), "model", spec.proposer, how)


def _shorter(asked: Asked) -> str:
    """0.33's V2 runner cannot stop drafting past a draft model's end, and shortens the target."""
    name, model = asked.profile.draft_name, asked.worker.model
    facts = model.draft_facts.get(name) if name else None
    is_known = facts is not None and facts.context and model.context
    if not is_known or asked.dialect != "0.33" or asked.method != "draft_model" or asked.is_on_v1:
        return ""
    if facts is None or (facts.context or 0) >= (model.context or 0):
        return ""
    return f"vLLM lowers the served context from {model.context} to the draft's {facts.context}"


def _ngram(spec: Ngram) -> Iterator[Setting]:
    root = ("speculation", "lookup")
    yield Setting((*root, "min"), "prompt_lookup_min", spec.lookup.min)
    yield Setting((*root, "max"), "prompt_lookup_max", spec.lookup.max)
    if spec.pool == "request":
        yield Setting(("speculation", "pool"), _HONOURED, how="vLLM looks nowhere else")
    name = "method" if spec.device == "gpu" else _HONOURED
    value = "ngram_gpu" if spec.device == "gpu" else None
    yield Setting(("speculation", "device"), name, value)


def _suffix(spec: Suffix) -> Iterator[Setting]:
    values: dict[str, tuple[str, JsonValue]] = {
        "max_depth": ("suffix_decoding_max_tree_depth", spec.max_depth),
        "cached_requests": ("suffix_decoding_max_cached_requests", spec.cached_requests),
        "max_factor": ("suffix_decoding_max_spec_factor", spec.max_factor),
        "min_probability": ("suffix_decoding_min_token_prob", spec.min_probability),
    }
    for key, (name, value) in values.items():
        yield Setting(("speculation", key), name, value)


def _draft_settings(spec: WithDraft) -> Iterator[Setting]:
    if spec.tensor_parallel:
        path = ("speculation", "tensor_parallel")
        yield Setting(path, "draft_tensor_parallel_size", spec.tensor_parallel)
    if spec.kv_cache_dtype in CACHE_TYPES:
        yield Setting(("speculation", "kv_cache_dtype"), "kv_cache_dtype", spec.kv_cache_dtype)
    if isinstance(spec, DraftModel | Eagle3):
        yield _switch("parallel", "parallel_drafting", spec.parallel)
    if isinstance(spec, DraftModel):
        yield _switch("other_vocabulary", "use_heterogeneous_vocab", spec.other_vocabulary)


def _switch(key: str, name: str, is_on: bool) -> Setting:
    """Off is vLLM's default, and is left out."""
    return Setting(("speculation", key), name if is_on else _HONOURED, True if is_on else None)

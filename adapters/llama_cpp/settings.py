"""A profile's speculation in llama-server's words, key by key, every number written out."""

from collections.abc import Iterator, Mapping
from typing import Final

from pydantic import JsonValue

from adapters.draft import draft_of
from adapters.launch import WorkerSpec
from adapters.llama_cpp.kind import (
    CACHE,
    CACHE_GUESSES,
    CACHE_LENGTHS,
    LENGTHS,
    NGRAM,
    SHARED,
    kinds_of,
)
from adapters.profile import Drafted, DraftModel, Eagle3, Ngram, Profile, WithDraft
from adapters.schedule import fixed_gamma
from adapters.setting import Setting

# ggml's names of the types that a KV cache can have; it has no 8-bit floats.
CACHE_TYPES: Final[Mapping[str, str]] = {
    "float32": "f32",
    "float16": "f16",
    "bfloat16": "bf16",
    **{name: name for name in ("q8_0", "q5_1", "q5_0", "q4_1", "q4_0", "iq4_nl")},
}


def settings(profile: Profile, worker: WorkerSpec) -> tuple[Setting, ...]:
    """Empty for a plain profile, and for a method that llama.cpp has not."""
    spec, kinds = profile.speculation, kinds_of(profile)
    if not isinstance(spec, Drafted) or not kinds:
        return ()
    found = [_of("method", "spec-type", ",".join(kinds))]
    if isinstance(spec, WithDraft):
        found += _draft(profile, worker)
    if isinstance(spec, Ngram):
        found += _lookup(spec, kinds)
    return (*found, *_lengths(spec, kinds), *_schedule(spec, kinds))


def is_file(source: str) -> bool:
    """Whether weights are a local file and not a hub id."""
    return source.endswith(".gguf") or source.startswith("/")


def _of(
    key: str, name: str = "", value: JsonValue = None, how: str = "", effect: str = ""
) -> Setting:
    """A setting; without a name llama.cpp does it by itself."""
    return Setting(("speculation", *key.split(".")), name, value, how, effect)


def _draft(profile: Profile, worker: WorkerSpec) -> Iterator[Setting]:
    spec, draft = profile.speculation, draft_of(profile, worker.model)
    if draft:
        yield _of("draft", "spec-draft-model" if is_file(draft) else "spec-draft-hf", draft)
    if isinstance(spec, WithDraft):
        yield from _cache(spec)
    if isinstance(spec, DraftModel | Eagle3) and not spec.parallel:
        yield _of("parallel")
    if isinstance(spec, DraftModel) and not spec.other_vocabulary:
        yield _of("other_vocabulary")


def _cache(spec: WithDraft) -> Iterator[Setting]:
    if spec.tensor_parallel == 1:
        yield _of("tensor_parallel", how="a draft is never split by tensors")
    kind = CACHE_TYPES.get(spec.kv_cache_dtype or "")
    if spec.kv_cache_dtype == "auto":
        yield _of("kv_cache_dtype", how="f16, whatever the target's cache is")
    elif kind:
        yield _of("kv_cache_dtype", "spec-draft-type-k", kind)
        yield _of("kv_cache_dtype", "spec-draft-type-v", kind)


def _schedule(spec: Drafted, kinds: tuple[str, ...]) -> Iterator[Setting]:
    how = "the first range's gamma; the router keeps the profile to the sizes that have it"
    for kind in kinds if spec.schedule else ():
        if kind == CACHE:
            yield _of("schedule", how=how)
        else:
            yield _of("schedule", _guess_option(kind), fixed_gamma(spec), how)


def _guess_option(kind: str) -> str:
    """The option for the length of a guess."""
    return LENGTHS[kind][1] if kind in LENGTHS else "spec-draft-n-max"


def _lookup(spec: Ngram, kinds: tuple[str, ...]) -> Iterator[Setting]:
    if spec.pool == "shared":
        yield _of("pool", "spec-type", ",".join(kinds), f"{SHARED} has one pool for all requests")
    elif spec.pool == "request":
        yield _of("pool", how="only the tokens of the slot's own request are looked at")
    if spec.device == "cpu":
        yield _of("device")
    if kinds == (CACHE,):
        shortest, longest = CACHE_LENGTHS
        yield _of("lookup.min", how=f"{CACHE} starts at {shortest}")
        yield _of("lookup.max", how=f"{CACHE} ends at {longest}")
    else:
        is_one = spec.lookup.min == spec.lookup.max
        yield _of("lookup.max", how="one length is looked up, lookup.min" if is_one else "")


def _lengths(spec: Drafted, kinds: tuple[str, ...]) -> Iterator[Setting]:
    """--spec-draft-n-max means nothing to the n-gram kinds: each has options of its own."""
    gamma = fixed_gamma(spec)
    how = "" if gamma == spec.gamma else "the schedule's first range"
    for kind in kinds:
        if kind == CACHE:
            yield _of("gamma", how=f"{CACHE} guesses {CACHE_GUESSES} tokens")
            continue
        if isinstance(spec, Ngram):
            yield _of("lookup.min", LENGTHS[kind][0], spec.lookup.min)
        if kind == SHARED:
            yield _of("gamma", "spec-ngram-mod-n-min", 1, "shorter guesses are kept")
        yield _of("gamma", _guess_option(kind), gamma, how)
        if kind not in NGRAM:
            yield _of("gamma", "spec-draft-n-min", 0, "shorter guesses are kept")
            # its default was 0.75 once (b9093)
            yield _of("gamma", "spec-draft-p-min", 0, "guesses end at gamma")

"""Size of a KV cache: bytes a token, from a model's shape and the type its cache has."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from pydantic import JsonValue

from adapters.checkpoint import Checkpoint
from adapters.flag import normal
from adapters.launch import WorkerSpec
from adapters.profile import Profile, WithDraft

# Bits of an element. llama.cpp's types carry a 16-bit scale, and some a minimum, for 32 elements.
_BITS: Final[Mapping[str, float]] = {
    "float32": 32,
    "float": 32,
    "f32": 32,
    "float16": 16,
    "half": 16,
    "f16": 16,
    "bfloat16": 16,
    "bf16": 16,
    "fp8": 8,
    "fp8_e4m3": 8,
    "fp8_e5m2": 8,
    "fp8_inc": 8,
    "int8": 8,
    "q8_0": 8.5,
    "q5_1": 6,
    "q5_0": 5.5,
    "q4_1": 5,
    "q4_0": 4.5,
    "iq4_nl": 4.5,
}
_HALF = 16
AUTO = "auto"


@dataclass(frozen=True)
class CacheTypes:
    """Names of the types of keys and values, as engines say them."""

    keys: str = AUTO
    values: str = AUTO


def element_bits(name: str) -> float | None:
    """Bits of one element of a type; None for a type not known here."""
    return _BITS.get(name.lower())


def loaded_bits(options: Mapping[str, JsonValue]) -> float:
    """Bits that engines compute with: 16 for float32 files too, unless they are told otherwise."""
    asked = options.get("dtype")
    return (element_bits(asked) if isinstance(asked, str) else None) or _HALF


def token_bytes(facts: Checkpoint, types: CacheTypes, automatic: float) -> float | None:
    """Bytes of the cache for one token in all layers; None where the shape is not that simple.

    `automatic` is the bits of an element of type auto. Keys and values of layers x kv_heads heads:
    Pope et al., arXiv 2211.05102, section 3.3; Ainslie et al., arXiv 2305.13245.
    """
    layer = layer_bytes(facts, types, automatic)
    return None if layer is None or facts.layers is None else layer * facts.layers


def layer_bytes(facts: Checkpoint, types: CacheTypes, automatic: float) -> float | None:
    """Bytes of one layer's cache for one token."""
    if facts.cache != "full" or not facts.kv_heads or not facts.head_dim:
        return None
    keys = automatic if types.keys == AUTO else element_bits(types.keys)
    values = automatic if types.values == AUTO else element_bits(types.values)
    if keys is None or values is None:
        return None
    width = facts.head_dim * keys + (facts.value_dim or facts.head_dim) * values
    return facts.kv_heads * width / 8


def worker_options(profile: Profile, worker: WorkerSpec) -> dict[str, JsonValue]:
    """Native options under their names with dashes: the profile's first, the fleet's win."""
    own = profile.engine.get(worker.engine, {}) if worker.engine else {}
    return {normal(name): value for name, value in (own | dict(worker.args)).items()}


def target_types(options: Mapping[str, JsonValue]) -> CacheTypes:
    """Of vLLM's, SGLang's and trtllm-serve's one option, or of llama.cpp's two."""
    shared = _first(options, "kv-cache-dtype")
    nested = options.get("kv-cache-config")
    if shared is None and isinstance(nested, dict) and isinstance(nested.get("dtype"), str):
        shared = str(nested["dtype"])
    return CacheTypes(
        shared or _first(options, "cache-type-k", "ctk") or AUTO,
        shared or _first(options, "cache-type-v", "ctv") or AUTO,
    )


def draft_types(profile: Profile, options: Mapping[str, JsonValue]) -> CacheTypes:
    """The profile's own; else what the engine does: vLLM's draft inherits, llama.cpp's has f16."""
    spec = profile.speculation
    own = spec.kv_cache_dtype if isinstance(spec, WithDraft) else None
    if own:
        return CacheTypes(own, own)
    keys = _first(options, "spec-draft-type-k", "cache-type-k-draft", "ctkd")
    values = _first(options, "spec-draft-type-v", "cache-type-v-draft", "ctvd")
    if keys or values or _first(options, "cache-type-k", "cache-type-v", "ctk", "ctv"):
        return CacheTypes(keys or AUTO, values or AUTO)
    return target_types(options)


def _first(options: Mapping[str, JsonValue], *names: str) -> str | None:
    return next(_texts(options, names), None)


def _texts(options: Mapping[str, JsonValue], names: tuple[str, ...]) -> Iterator[str]:
    for name in names:
        value = options.get(name)
        if isinstance(value, str):
            yield value

"""Types of the KV cache: what vLLM has, what its CPU build only seems to have, what drafts inherit.

The CPU build (0.31 and 0.32) asks nobody whether it knows a type: its kernels know the model's own
and fp8 (supported_kv_cache_dtypes in vllm/v1/attention/backends/cpu_attn.py). Of any other it makes
a cache of that type and writes the model's own numbers into it, over each other. 0.32.0 was run
with float32: bfloat16, fp8_inc and int8_per_token_head gave other answers from the first token, and
NaN in the cache; float16 gave NaN in a draft's.
"""

from collections.abc import Iterator
from typing import Final

from adapters.problem import Path, Problem
from adapters.profile import WithDraft
from adapters.vllm.asked import EXTRA, METHOD, Asked
from adapters.vllm.settings import CACHE_TYPES

_DRAFT: Path = ("speculation", "kv_cache_dtype")
_ON_CPU = frozenset({"auto", "fp8", "fp8_e4m3", "fp8_e5m2"})
_HALF: Final = {"half": "float16"}  # --dtype has two names for it


def cache_problems(asked: Asked) -> Iterator[Problem]:
    """Of the target's cache and of the draft's."""
    target = asked.options.get("kv-cache-dtype", "auto")
    yield from _on_cpu(asked, METHOD, f"kv-cache-dtype {target}", target)
    spec = asked.profile.speculation
    if not isinstance(spec, WithDraft):
        return
    extra = asked.extra.get("kv_cache_dtype")
    if spec.kv_cache_dtype and spec.kv_cache_dtype not in CACHE_TYPES:
        message = f"vLLM has no KV cache of type {spec.kv_cache_dtype}"
        hint = f"one of: {', '.join(sorted(CACHE_TYPES))}"
        yield Problem(_DRAFT, message, hint, severity="lost", code="draft-cache-type")
    elif spec.kv_cache_dtype:
        yield from _on_cpu(asked, _DRAFT, spec.kv_cache_dtype, spec.kv_cache_dtype)
    elif extra is not None:
        yield from _on_cpu(asked, (*EXTRA, "kv_cache_dtype"), str(extra), extra)
    elif target != "auto":
        message = f"the draft inherits the target's kv-cache-dtype, {target}"
        hint = "heads for which that failed: #24505; say it with speculation.kv_cache_dtype"
        yield Problem(METHOD, message, hint, severity="warning", code="draft-cache-inherited")


def _on_cpu(asked: Asked, path: Path, what: str, kind: object) -> Iterator[Problem]:
    """`auto` is the model's own type, which may also be written where `dtype` says the same."""
    model = asked.options.get("dtype")
    own = _HALF.get(str(model), model)
    if not asked.is_on_cpu or kind in _ON_CPU or kind == own:
        return
    message = f"{what}: vLLM's CPU build takes it, fills the cache with garbage and goes on"
    hint = "leave it out, for the model's own type, or write fp8"
    yield Problem(path, message, hint, code="cache-type-cpu")

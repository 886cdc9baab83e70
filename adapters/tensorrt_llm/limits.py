"""Request fields that a speculating TensorRT-LLM does not serve, or not as asked."""

from collections.abc import Mapping
from typing import Final

from adapters.profile import Profile
from adapters.tensorrt_llm.decoder import decoder_of, dialect_of
from adapters.tensorrt_llm.given import extra_of

_PENALTIES: Final = ("repetition_penalty", "presence_penalty", "frequency_penalty")
# Filters that a deployment can be built without (advanced_sampling_mode); min_p needs them all.
_FILTERS: Final[Mapping[str, tuple[str, ...]]] = {
    "no_topk": ("top_k", "min_p"),
    "no_topp": ("top_p", "min_p"),
    "no_topk_no_topp": ("top_k", "top_p", "min_p"),
}


def limits(profile: Profile, version: str) -> Mapping[str, str]:
    decoder = decoder_of(profile, version)
    if decoder is None:
        return {}
    dialect, extra = dialect_of(version), extra_of(profile)
    chosen = extra if isinstance(extra, dict) else {}
    found = dict.fromkeys(("logprobs", "top_logprobs"), _logprobs(dialect))
    found["lora_request"] = "TensorRT-LLM has not tested LoRA with speculation"
    if dialect == "1.2" or not decoder.is_one_engine:
        return found
    if chosen.get("enable_penalty") is not True:
        reason = "TensorRT-LLM refuses penalties while speculating, without enable_penalty"
        found |= dict.fromkeys(_PENALTIES, reason)
    mode = str(chosen.get("advanced_sampling_mode", "full"))
    reason = f"TensorRT-LLM has no kernel for it with advanced_sampling_mode {mode}"
    return found | dict.fromkeys(_FILTERS.get(mode, ()), reason)


def _logprobs(dialect: str) -> str:
    """PR #18401: newer ones refuse at admission what used to end a worker."""
    if dialect == "1.2":
        return "TensorRT-LLM 1.2 can hang after logprobs while speculating (PR #18401)"
    return "TensorRT-LLM refuses logprobs while speculating (PR #18401)"

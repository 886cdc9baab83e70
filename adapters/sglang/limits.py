"""Request fields that SGLang serves differently while it speculates, or not at all."""

from collections.abc import Mapping
from typing import Final

from adapters.profile import Profile
from adapters.sglang.given import ENGINE, is_since

# speculative/eagle_utils.py, eagle_sample (0.5.23; eagle_info.py before): penalties are those of
# the last step for all guesses of this one, top-k and top-p are applied and min-p is not.
_LATE: Final = "SGLang counts penalties once a verify step, not after each token"
_PENALTIES: Final[Mapping[str, str]] = {
    "frequency_penalty": _LATE,
    "presence_penalty": _LATE,
    "repetition_penalty": _LATE,
}
_MIN_P: Final = "SGLang ignores min_p while speculating"
# validate_dflash_request, for DSPARK too.
_NO_LOGPROBS: Final = "SGLang aborts requests for logprobs with DFLASH and DSPARK before 0.5.18"
_NO_GRAMMAR: Final = "SGLang aborts constrained requests with DFLASH before 0.5.17"
_GREEDY: Final = "SGLang answers greedily on this device while speculating"


def limits(profile: Profile, version: str) -> Mapping[str, str]:
    if not profile.is_speculating:
        return {}
    found = {**_PENALTIES, "min_p": _MIN_P}
    if profile.speculation.method in ("dflash", "dspark"):
        if not is_since(version, (0, 5, 18)):
            found |= dict.fromkeys(("logprobs", "top_logprobs", "return_logprob"), _NO_LOGPROBS)
        if not is_since(version, (0, 5, 17)):
            found |= dict.fromkeys(("response_format", "regex", "ebnf", "json_schema"), _NO_GRAMMAR)
        found["return_hidden_states"] = "SGLang keeps no hidden states with DFLASH and DSPARK"
    if profile.engine.get(ENGINE, {}).get("device") in ("cpu", "xpu"):
        found["temperature"] = _GREEDY
    return found

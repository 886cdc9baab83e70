"""How a running SGLang is spoken to: its own routes, 0.5.10 to 0.5.23, read and not run.

/generate tells token ids and, for each request, what was guessed and accepted; the OpenAI routes
tell ids only since 0.5.18. Prompts go in as ids, so that it is known what the engine read.
"""

import hashlib
import json
from collections.abc import Mapping
from typing import Any, Final

from pydantic import JsonValue

from adapters.exchange import (
    Call,
    Candidate,
    Conversation,
    EngineAnswerError,
    Generation,
    Identity,
    Proof,
    conversation,
    field,
)
from adapters.profile import Drafted, Eagle, Eagle3, Profile
from adapters.schedule import fixed_batch_limit, fixed_gamma
from adapters.sglang.words import EAGLE_FAMILY, RESOLVED

_PROOF_TOKEN = 5
_PROOF_LENGTH = 48
# Defaults of the model's folder reach /generate too (preferred_sampling_params).
_GREEDY: Final[Mapping[str, Any]] = {
    "temperature": 0,
    "top_p": 1,
    "top_k": -1,
    "min_p": 0,
    "repetition_penalty": 1,
    "presence_penalty": 0,
    "frequency_penalty": 0,
}
# What of an OpenAI request makes the prompt; the rest is for sampling, under other names.
_PROMPT: Final = (
    "prompt",
    "messages",
    "tools",
    "tool_choice",
    "chat_template_kwargs",
    "reasoning_effort",
    "continue_final_message",
)
_RENAMED: Final[Mapping[str, str]] = {
    "max_tokens": "max_new_tokens",
    "max_completion_tokens": "max_new_tokens",
    "min_tokens": "min_new_tokens",
}
_LEFT_OUT: Final = frozenset({"model", "stream", "user", "seed", "response_format"})
# Names of one count by version: 0.5.12 on, 0.5.11, before. Absent where nothing was verified.
_ACCEPTED: Final = ("spec_num_correct_drafts", "spec_accepted_drafts", "spec_accept_token_num")
_DRAFTED: Final = ("spec_num_proposed_drafts", "spec_proposed_drafts", "spec_draft_token_num")
# Settings that decide the output, as /server_info tells them after resolution.
_TOLD: Final = (
    "version",
    "model_path",
    "revision",
    "dtype",
    "quantization",
    "kv_cache_dtype",
    "context_length",
    "tp_size",
    "pp_size",
    "dp_size",
    "page_size",
    "attention_backend",
    "prefill_attention_backend",
    "decode_attention_backend",
    "sampling_backend",
    "chunked_prefill_size",
    "max_running_requests",
    "disable_radix_cache",
    "disable_overlap_schedule",
    "enable_mixed_chunk",
    "enable_deterministic_inference",
    "cuda_graph_bs_decode",
    "cuda_graph_bs",
)


@conversation
def identify() -> Conversation[Identity]:
    info = (yield Call("/server_info")).json()
    models = (yield Call("/v1/models")).json()
    names = tuple(str(field(entry, "id")) for entry in field(models, "data"))
    return Identity(str(field(info, "version")), names, info.get("model_path"))


@conversation
def complete(model: str) -> Conversation[str]:
    """Returns the version and a digest of the settings that decide the output."""
    body = _generate_body((_PROOF_TOKEN,), {"max_new_tokens": 2, "ignore_eos": True})
    answer = (yield Call("/generate", body)).json()
    if field(answer, "meta_info", "completion_tokens") < 1:
        raise EngineAnswerError("the engine completed nothing")
    info = (yield Call("/server_info")).json()
    told = {name: info.get(name) for name in _TOLD}
    told |= {name: value for name, value in info.items() if name.startswith("speculative_")}
    text = json.dumps(told, sort_keys=True, default=str)
    digest = hashlib.sha256(text.encode()).hexdigest()[:12]
    return f"sglang-{field(info, 'version')}-{digest}"


@conversation
def prove(model: str, profile: Profile) -> Conversation[Proof]:
    """The resolved settings must be the profile's, and a request must tell of verified guesses.

    SGLang falls back without an error: adaptive speculation to one gamma, a window to another.
    """
    info = (yield Call("/server_info")).json()
    complaint = _difference(info, profile)
    if complaint:
        raise EngineAnswerError(complaint)
    prompt = (_PROOF_TOKEN,) * _PROOF_LENGTH
    body = _generate_body(prompt, {"max_new_tokens": _PROOF_LENGTH, "ignore_eos": True})
    meta = field((yield Call("/generate", body)).json(), "meta_info")
    detail = f"meta_info.spec_verify_ct {meta.get('spec_verify_ct', 'is absent')}"
    drafted, accepted = _counts(meta)
    return Proof(drafted or 0, accepted or 0, detail)


def _difference(info: Mapping[str, Any], profile: Profile) -> str:
    """Where the engine's resolved settings are not what the profile asks for, in words."""
    spec, method = profile.speculation, profile.speculation.method
    algorithm = field(info, "speculative_algorithm")
    allowed = RESOLVED.get(method, (None,))
    if algorithm not in allowed:
        return f"SGLang runs algorithm {algorithm}, the profile asks for {method}"
    if not isinstance(spec, Drafted):
        return ""
    if _wants_slots(spec, method) and info.get("speculative_adaptive") is True:
        return ""
    tree = spec.tree if isinstance(spec, Eagle | Eagle3) else None
    wanted = (tree.tokens if tree else fixed_gamma(spec) or spec.gamma) + 1
    found = field(info, "speculative_num_draft_tokens")
    if found == wanted:
        return ""
    return f"SGLang verifies {found} tokens a step, the profile asks for {wanted}"


def _wants_slots(spec: Drafted, method: str) -> bool:
    return method in EAGLE_FAMILY and fixed_batch_limit(spec) is not None


def _counts(meta: Mapping[str, Any]) -> tuple[int | None, int | None]:
    """Tokens guessed and accepted for one request; None where the engine verified nothing.

    What was guessed is steps times the largest gamma: too high under a schedule.
    """
    accepted = next((meta[name] for name in _ACCEPTED if name in meta), None)
    drafted = next((meta[name] for name in _DRAFTED if name in meta), None)
    return (
        None if drafted is None else int(drafted),
        None if accepted is None else int(accepted),
    )


@conversation
def generate(model: str, request: Mapping[str, JsonValue]) -> Conversation[Generation]:
    """Chat lines need 0.5.13: earlier versions make no ids of messages."""
    ids: Any = request.get("prompt")
    if not isinstance(ids, list):
        asked = {name: request[name] for name in _PROMPT if name in request}
        told = yield Call("/tokenize", {"model": model, **asked})
        ids = field(told.json(), "tokens")
    body = _generate_body(tuple(ids), _sampling(request))
    answer = (yield Call("/generate", body)).json()
    meta, output = field(answer, "meta_info"), field(answer, "output_ids")
    if not isinstance(output, list):
        raise EngineAnswerError("the engine returned no token ids")
    drafted, accepted = _counts(meta)
    finish = field(meta, "finish_reason")
    reason = str(finish.get("type") if isinstance(finish, dict) else finish)
    text = str(answer.get("text") or "")
    return Generation(tuple(ids), tuple(output), text, reason, 0.0, drafted, accepted)


def _sampling(request: Mapping[str, JsonValue]) -> dict[str, Any]:
    """An OpenAI request's fields as sampling parameters; SGLang answers 400 to unknown ones."""
    left_out = _LEFT_OUT | set(_PROMPT)
    fields = {_RENAMED.get(k, k): v for k, v in request.items() if k not in left_out}
    form = request.get("response_format")
    if isinstance(form, dict) and form.get("type") == "json_schema":
        fields["json_schema"] = json.dumps(field(form, "json_schema", "schema"))
    elif isinstance(form, dict) and form.get("type") == "json_object":
        fields["json_schema"] = '{"type": "object"}'
    return fields


def _generate_body(ids: tuple[int, ...], sampling: Mapping[str, Any]) -> dict[str, Any]:
    return {"input_ids": list(ids), "sampling_params": {**sampling, **_GREEDY}}


@conversation
def candidates(model: str, ids: tuple[int, ...]) -> Conversation[tuple[Candidate, ...]]:
    """Entries are [logprob, token id, text or null]."""
    asked = {"return_logprob": True, "top_logprobs_num": 5, "logprob_start_len": -1}
    body = _generate_body(ids, {"max_new_tokens": 1}) | asked
    answer = (yield Call("/generate", body)).json()
    top = field(answer, "meta_info", "output_top_logprobs", 0)
    found = [Candidate(int(token), float(logprob), str(text or "")) for logprob, token, text in top]
    return tuple(sorted(found, key=lambda c: -c.logprob))

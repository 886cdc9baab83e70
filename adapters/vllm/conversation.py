"""How a running vLLM is spoken to (0.31 to 0.33; tried on 0.32.0)."""

from collections.abc import Mapping

from pydantic import JsonValue

from adapters.exchange import (
    GREEDY,
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
from adapters.metric import read_metrics, rise
from adapters.profile import Ngram, Profile

_DRAFTED = "vllm:spec_decode_num_draft_tokens_total"
_ACCEPTED = "vllm:spec_decode_num_accepted_tokens_total"
_PROOF_TOKEN = 5
_PROOF_LENGTH = 24


@conversation
def identify() -> Conversation[Identity]:
    version = yield Call("/version")
    models = yield Call("/v1/models")
    entries = field(models.json(), "data")
    names = tuple(str(field(entry, "id")) for entry in entries)
    root = entries[0].get("root") if entries else None
    return Identity(str(field(version.json(), "version")), names, root)


@conversation
def complete(model: str) -> Conversation[str]:
    """Returns vLLM's system_fingerprint: its version and a digest of its whole configuration."""
    body = {"model": model, "prompt": [_PROOF_TOKEN], "max_tokens": 2, **GREEDY}
    reply = yield Call("/v1/completions", body | {"ignore_eos": True})
    if field(reply.json(), "usage", "completion_tokens") < 1:
        raise EngineAnswerError("the engine completed nothing")
    return str(reply.json().get("system_fingerprint") or "")


@conversation
def prove(model: str, profile: Profile) -> Conversation[Proof]:
    """One allowed token makes the answer repeat itself, so that even lookup methods must draft."""
    before = yield Call("/metrics")
    length = _PROOF_LENGTH
    if isinstance(profile.speculation, Ngram):
        length += profile.speculation.lookup.min  # long enough to be found in itself
    body = {
        "model": model,
        "prompt": [_PROOF_TOKEN] * length,
        "max_tokens": _PROOF_LENGTH,
        "allowed_token_ids": [_PROOF_TOKEN],
        "ignore_eos": True,
        **GREEDY,
    }
    (yield Call("/v1/completions", body)).require_ok()
    after = yield Call("/metrics")
    names = {"drafted": _DRAFTED, "accepted": _ACCEPTED}
    start = read_metrics(before.require_ok(), names)
    end = read_metrics(after.require_ok(), names)
    drafted, accepted = (_whole(rise(start, end, name)) for name in names)
    return Proof(drafted, accepted, _DRAFTED)


def _whole(count: float | None) -> int | None:
    return None if count is None else int(count)


@conversation
def generate(model: str, request: Mapping[str, JsonValue]) -> Conversation[Generation]:
    is_chat = "messages" in request
    path = "/v1/chat/completions" if is_chat else "/v1/completions"
    reply = yield Call(path, {**request, **GREEDY, "model": model, "return_token_ids": True})
    answer = reply.json()
    choice = field(answer, "choices", 0)
    prompt_ids = field(answer if is_chat else choice, "prompt_token_ids")
    text = field(choice, "message", "content") if is_chat else field(choice, "text")
    ids = field(choice, "token_ids")
    if not isinstance(ids, list) or not isinstance(prompt_ids, list):
        raise EngineAnswerError("the engine returned no token ids; is it older than 0.31?")
    return Generation(tuple(prompt_ids), tuple(ids), text or "", str(choice.get("finish_reason")))


@conversation
def candidates(model: str, ids: tuple[int, ...]) -> Conversation[tuple[Candidate, ...]]:
    body = {
        "model": model,
        "prompt": list(ids),
        "max_tokens": 1,
        "logprobs": 5,
        "return_tokens_as_token_ids": True,
        **GREEDY,
    }
    reply = yield Call("/v1/completions", body)
    top = field(reply.json(), "choices", 0, "logprobs", "top_logprobs", 0)
    found = [Candidate(int(name.partition(":")[2]), float(lp)) for name, lp in top.items()]
    return tuple(sorted(found, key=lambda c: -c.logprob))

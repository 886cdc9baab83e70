"""How a running llama-server is spoken to (tried on b11434 and b11549)."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

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
from adapters.profile import Ngram, Profile

_PROOF_TOKENS = 24
# cache_prompt makes results depend on what the slot held before (tools/server/README.md).
_GREEDY: Mapping[str, Any] = {
    "temperature": 0,
    "top_k": 1,
    "seed": 0,
    "repeat_penalty": 1,
    "presence_penalty": 0,
    "frequency_penalty": 0,
    "cache_prompt": False,
}


@conversation
def identify() -> Conversation[Identity]:
    props = yield Call("/props")
    models = yield Call("/v1/models")
    build = str(props.json().get("build_info") or "")
    names = tuple(str(field(entry, "id")) for entry in field(models.json(), "data"))
    number = build.partition("-")[0].lstrip("b")  # "0" and "1" where the packager set none
    return Identity(number or None, names, props.json().get("model_path"))


@conversation
def complete(model: str) -> Conversation[str]:
    """Returns the build; llama.cpp has no digest of its configuration."""
    body = {"prompt": "1, 2, 3,", "n_predict": 2, "ignore_eos": True, **_GREEDY}
    reply = yield Call("/completion", body)
    answer = reply.json()
    if field(answer, "tokens_predicted") < 1:
        raise EngineAnswerError("the engine completed nothing")
    return str(answer.get("system_fingerprint") or "")


@conversation
def prove(model: str, profile: Profile) -> Conversation[Proof]:
    """Every slot must say that it speculates, and an answer that repeats its prompt must draft.

    The prompt is a cycle of words longer than a match and a guess together: ngram-simple takes the
    last match, and drafts only a full guess after it.
    """
    slots = (yield Call("/slots")).json()
    idle = [s for s in slots if s.get("speculative") is not True]
    cycle = "".join(f" {word}" for word in _words(_cycle_length(profile)))
    told = yield Call("/tokenize", {"content": cycle, "add_special": False})
    body = _proof_request(profile, [int(token) for token in field(told.json(), "tokens")])
    timings = field((yield Call("/completion", body)).json(), "timings")
    drafted = timings.get("draft_n")  # absent when nothing was drafted
    detail = f"{len(idle)} of {len(slots)} slots do not speculate" if idle else "timings.draft_n"
    if idle or not slots:
        return Proof(None, None, detail)
    return Proof(int(drafted or 0), int(timings.get("draft_n_accepted") or 0), detail)


def _proof_request(profile: Profile, cycle: list[int]) -> dict[str, Any]:
    """A grammar keeps an answer to the cycle, token by token: left to itself, a model may spell the
    words in other tokens, or say something else. Drafts need no match, and know no grammar."""
    spec = profile.speculation
    body = {"prompt": cycle * 3, "n_predict": _PROOF_TOKENS, "ignore_eos": True, **_GREEDY}
    if isinstance(spec, Ngram):
        body["n_predict"] += spec.lookup.min
        body["grammar"] = f"root ::= ({' '.join(f'<[{token}]>' for token in cycle)})+"
    return body


def _cycle_length(profile: Profile) -> int:
    spec = profile.speculation
    return spec.lookup.min + spec.gamma + 4 if isinstance(spec, Ngram) else 8


def _words(count: int) -> list[str]:
    """Short distinct words: a, b, …, z, aa, ab, …"""
    letters = [chr(ord("a") + i) for i in range(26)]
    pairs = (first + second for first in ["", *letters] for second in letters)
    return [word for word, _ in zip(pairs, range(count), strict=False)]


@conversation
def generate(model: str, request: Mapping[str, JsonValue]) -> Conversation[Generation]:
    if "messages" in request:
        return (yield from _generate_chat(model, request))
    prompt = request["prompt"]
    fields = {k: v for k, v in request.items() if k not in ("prompt", "max_tokens")}
    body = {**fields, "prompt": prompt, "n_predict": request.get("max_tokens"), **_GREEDY}
    tokens = yield Call("/tokenize", {"content": prompt, "add_special": True})
    answer = (yield Call("/completion", body | {"return_tokens": True})).json()
    finish = "length" if answer.get("stop_type") == "limit" else "stop"
    ids, prompt_ids = tuple(field(answer, "tokens")), tuple(field(tokens.json(), "tokens"))
    return _counted(Generation(prompt_ids, ids, field(answer, "content"), finish), answer)


def _counted(found: Generation, answer: Any) -> Generation:
    """With what the engine counted; it leaves both out where nothing was drafted."""
    timings = answer.get("timings") or {}
    drafted, accepted = timings.get("draft_n"), timings.get("draft_n_accepted")
    if not timings:
        return found
    return replace(found, drafted=int(drafted or 0), accepted=int(accepted or 0))


def _generate_chat(model: str, request: Mapping[str, JsonValue]) -> Conversation[Generation]:
    """The chat route tells token ids only beside logprobs; the ids are right while speculating."""
    template = yield Call("/apply-template", {"messages": request["messages"]})
    content = field(template.json(), "prompt")
    tokens = yield Call("/tokenize", {"content": content, "add_special": True})
    body = {**request, "model": model, "logprobs": True, "top_logprobs": 1, **_GREEDY}
    answer = (yield Call("/v1/chat/completions", body)).json()
    choice = field(answer, "choices", 0)
    logprobs = choice.get("logprobs") or {}
    ids = tuple(int(field(entry, "id")) for entry in logprobs.get("content") or [])
    text = str(field(choice, "message", "content") or "")
    if text and not ids:
        raise EngineAnswerError("the chat route returned text without token ids")
    prompt_ids = tuple(field(tokens.json(), "tokens"))
    return _counted(Generation(prompt_ids, ids, text, str(choice.get("finish_reason"))), answer)


@conversation
def candidates(model: str, ids: tuple[int, ...]) -> Conversation[tuple[Candidate, ...]]:
    body = {"prompt": list(ids), "n_predict": 1, "n_probs": 5, **_GREEDY}
    answer = (yield Call("/completion", body)).json()
    top = field(answer, "completion_probabilities", 0, "top_logprobs")
    found = [Candidate(int(t["id"]), float(t["logprob"]), str(t["token"])) for t in top]
    return tuple(sorted(found, key=lambda c: -c.logprob))

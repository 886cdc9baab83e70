"""How a running llama-server is spoken to (tried on b11434 and b11549)."""

from collections.abc import Mapping
from typing import Any

from pydantic import JsonValue

from adapters.answer import read_events, text_of
from adapters.exchange import (
    AS_USUAL,
    Call,
    Candidate,
    Conversation,
    Draws,
    EngineAnswerError,
    Generation,
    How,
    Identity,
    Proof,
    Reply,
    Scored,
    conversation,
    field,
    greedy,
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
# The native route's names for fields of an OpenAI request, and those that it does not take.
_RENAMED: Mapping[str, str] = {
    "max_tokens": "n_predict",
    "max_completion_tokens": "n_predict",
    "repetition_penalty": "repeat_penalty",
}
_LEFT_OUT = frozenset({"model", "messages", "prompt", "response_format"})


@conversation
def identify() -> Conversation[Identity]:
    props = yield Call("/props")
    models = yield Call("/v1/models")
    build = str(props.json().get("build_info") or "")
    names = tuple(str(field(entry, "id")) for entry in field(models.json(), "data"))
    number = build.partition("-")[0].lstrip("b")  # "0" and "1" where the packager set none
    told = props.json()
    context = (told.get("default_generation_settings") or {}).get("n_ctx")  # of one slot
    return Identity(number or None, names, told.get("model_path"), context)


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
def generate(
    model: str, request: Mapping[str, JsonValue], how: How = AS_USUAL
) -> Conversation[Generation]:
    """Chats are answered by the native route as well, from the prompt that their template makes:
    the chat route leaves out ids of characters that are several tokens, and those of streams.

    Tools need the chat route. There are no margins: log-probabilities are 0 while speculating.
    """
    prompt = request.get("prompt")
    if "messages" in request:
        asked = {name: value for name, value in request.items() if name != "stream"}
        prompt = field((yield Call("/apply-template", asked)).json(), "prompt")
    ids: Any = prompt
    if isinstance(prompt, str):
        told = yield Call("/tokenize", {"content": prompt, "add_special": True})
        ids = field(told.json(), "tokens")
    if "tools" in request:
        return (yield from _call_tools(tuple(ids), model, request, how))
    body = greedy(_native_fields(request), _GREEDY) | {"prompt": ids, "return_tokens": True}
    answer = yield from _complete(body | {"cache_prompt": how.keep_cache}, how.stream)
    finish = "length" if answer.get("stop_type") == "limit" else "stop"
    found = tuple(field(answer, "tokens"))
    drafted, accepted = _counts(answer)
    text = field(answer, "content")
    return Generation(tuple(ids), found, text, finish, drafted=drafted, accepted=accepted)


def _native_fields(request: Mapping[str, JsonValue]) -> dict[str, Any]:
    """An OpenAI request's fields under native names; the native route ignores response_format."""
    fields = {_RENAMED.get(k, k): v for k, v in request.items() if k not in _LEFT_OUT}
    form = request.get("response_format")
    if isinstance(form, dict) and form.get("type") == "json_schema":
        fields["json_schema"] = field(form, "json_schema", "schema")
    elif isinstance(form, dict) and form.get("type") == "json_object":
        fields["json_schema"] = form.get("schema") or {"type": "object"}
    return fields


def _complete(body: Mapping[str, Any], is_streamed: bool) -> Conversation[Any]:
    """The native answer. A stream leaves out ids of characters that are several tokens: then the
    answer is asked for whole, and its ids are taken where every id that was streamed agrees."""
    if not is_streamed:
        return (yield Call("/completion", body)).json()
    streamed, places = _joined((yield Call("/completion", {**body, "stream": True})))
    if len(streamed["tokens"]) == streamed["tokens_predicted"]:
        return streamed
    whole = field((yield Call("/completion", body)).json(), "tokens")
    agrees = len(whole) == streamed["tokens_predicted"] and all(
        whole[place] == token for place, token in places.items()
    )
    return {**streamed, "tokens": whole} if agrees else streamed


def _joined(reply: Reply) -> tuple[dict[str, Any], dict[int, int]]:
    """The streamed answer, and its ids by place in it."""
    events = read_events(reply)
    if events[-1].get("stop") is not True:
        raise EngineAnswerError("the stream ended in the middle of the answer")
    places: dict[int, int] = {}
    for event in events:
        last = field(event, "tokens_predicted")
        for back, token in enumerate(reversed(event.get("tokens") or [])):
            places[last - back - 1] = token
    text = "".join(event.get("content") or "" for event in events)
    ids = [places[place] for place in sorted(places)]
    return {**events[-1], "content": text, "tokens": ids}, places


def _counts(answer: Any) -> tuple[int | None, int | None]:
    """What was drafted and accepted; it leaves both out where nothing was drafted."""
    timings = answer.get("timings") or {}
    if not timings:
        return None, None
    return int(timings.get("draft_n") or 0), int(timings.get("draft_n_accepted") or 0)


def _call_tools(
    prompt_ids: tuple[int, ...], model: str, request: Mapping[str, JsonValue], how: How
) -> Conversation[Generation]:
    """The chat route tells ids only beside logprobs, which it refuses for streams with tools."""
    if how.stream:
        raise EngineAnswerError("llama.cpp tells no token ids of a stream with tools")
    fields = {"repeat_penalty" if k == "repetition_penalty" else k: v for k, v in request.items()}
    body = greedy(fields, _GREEDY) | {"model": model, "cache_prompt": how.keep_cache}
    body |= {"logprobs": True, "top_logprobs": 1}
    answer = (yield Call("/v1/chat/completions", body)).json()
    choice = field(answer, "choices", 0)
    told = (choice.get("logprobs") or {}).get("content") or []
    ids = tuple(int(field(entry, "id")) for entry in told)
    left_out = field(answer, "usage", "completion_tokens") - len(ids)
    if left_out:
        raise EngineAnswerError(f"the chat route left out the ids of {left_out} tokens")
    drafted, accepted = _counts(answer)
    finish = str(choice.get("finish_reason"))
    return Generation(prompt_ids, ids, text_of(choice), finish, drafted=drafted, accepted=accepted)


@conversation
def candidates(
    model: str, ids: tuple[int, ...], count: int = 20
) -> Conversation[tuple[Candidate, ...]]:
    return _top((yield Call("/completion", _next_token(ids, count))))


def _next_token(ids: tuple[int, ...], count: int) -> dict[str, Any]:
    return {**_GREEDY, "prompt": list(ids), "n_predict": 1, "n_probs": count}


def _top(reply: Reply) -> tuple[Candidate, ...]:
    """Probabilities are those before sampling, at temperature 1."""
    top = field(reply.json(), "completion_probabilities", 0, "top_logprobs")
    found = [Candidate(int(t["id"]), float(t["logprob"]), str(t["token"])) for t in top]
    return tuple(sorted(found, key=lambda c: -c.logprob))


@conversation
def score(model: str, ids: tuple[int, ...], start: int) -> Conversation[tuple[Scored, ...] | None]:
    """llama-server scores no prompts."""
    yield from ()
    return None


@conversation
def wide(
    model: str, ids: tuple[int, ...], width: int
) -> Conversation[tuple[Candidate, ...] | None]:
    """All but the last `width` tokens are read, then all of them: the cache leaves `width` rows.

    The last layer and the logits are computed for the last row alone, other than in a verify step:
    what forks here forks without a drafter, what does not may still fork there.
    """
    if len(ids) < width:
        return None
    body = _next_token(ids, 20) | {"id_slot": 0}
    if len(ids) > width:
        first = body | {"prompt": list(ids[:-width]), "n_predict": 0}
        (yield Call("/completion", first)).require_ok()
        body["cache_prompt"] = True
    reply = yield Call("/completion", body)
    rows = field(reply.json(), "timings", "prompt_n")
    return _top(reply) if rows == width else None


@conversation
def sample(
    model: str, ids: tuple[int, ...], draws: Draws
) -> Conversation[tuple[tuple[int, ...], ...]]:
    """The temperature is the only sampler. A token that ends an answer is the last of its ids."""
    asked = {
        "prompt": list(ids),
        "n_predict": draws.length,
        "temperature": draws.temperature,
        "samplers": ["temperature"],
        "cache_prompt": True,
        "return_tokens": True,
    }
    found: list[tuple[int, ...]] = []
    for number in range(draws.count):
        answer = (yield Call("/completion", {**asked, "seed": draws.seed + number})).json()
        found.append(tuple(field(answer, "tokens")))
    return tuple(found)

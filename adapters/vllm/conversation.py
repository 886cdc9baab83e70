"""How a running vLLM is spoken to (0.31 to 0.33; tried on 0.32.0)."""

from collections.abc import Mapping
from typing import Any, Final

from pydantic import JsonValue

from adapters.answer import is_shaped, margins_of, read_answer, text_of
from adapters.exchange import (
    AS_USUAL,
    GREEDY,
    Call,
    Candidate,
    Conversation,
    Draws,
    EngineAnswerError,
    Generation,
    How,
    Identity,
    Proof,
    Scored,
    conversation,
    field,
    greedy,
)
from adapters.metric import read_metrics, rise
from adapters.profile import Ngram, Profile

_DRAFTED = "vllm:spec_decode_num_draft_tokens_total"
_ACCEPTED = "vllm:spec_decode_num_accepted_tokens_total"
_PROOF_TOKEN = 5
_PROOF_LENGTH = 24
_AS_IDS: Final[Mapping[str, Any]] = {"return_tokens_as_token_ids": True}
_PROMPT_ROWS = 2048  # of one request's draws; the default budget of a step on the CPU


@conversation
def identify() -> Conversation[Identity]:
    version = yield Call("/version")
    models = yield Call("/v1/models")
    entries = field(models.json(), "data")
    names = tuple(str(field(entry, "id")) for entry in entries)
    first = entries[0] if entries else {}
    number = str(field(version.json(), "version"))
    return Identity(number, names, first.get("root"), first.get("max_model_len"))


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
def generate(
    model: str, request: Mapping[str, JsonValue], how: How = AS_USUAL
) -> Conversation[Generation]:
    """Its log-probabilities are those before penalties and grammars, so that margins are asked for
    only where neither is at work."""
    is_chat = "messages" in request
    has_margins = how.own_margins and not is_shaped(request)
    body = {**greedy(request), "model": model, "return_token_ids": True, "stream": how.stream}
    if has_margins:
        body |= {"logprobs": True, "top_logprobs": 1} if is_chat else {"logprobs": 1}
        body |= _AS_IDS
    reply = yield Call("/v1/chat/completions" if is_chat else "/v1/completions", body)
    answer = read_answer(reply, how.stream)
    choice = field(answer, "choices", 0)
    prompt_ids = field(answer if is_chat else choice, "prompt_token_ids")
    ids = field(choice, "token_ids")
    if not isinstance(ids, list) or not isinstance(prompt_ids, list):
        raise EngineAnswerError("the engine returned no token ids; is it older than 0.31?")
    return Generation(
        tuple(prompt_ids),
        tuple(ids),
        text_of(choice),
        str(choice.get("finish_reason")),
        own_margins=margins_of(choice) if has_margins else None,
    )


@conversation
def candidates(
    model: str, ids: tuple[int, ...], count: int = 20
) -> Conversation[tuple[Candidate, ...]]:
    """More than 20 need --max-logprobs."""
    asked = {"model": model, "prompt": list(ids), "max_tokens": 1, "logprobs": count}
    reply = yield Call("/v1/completions", {**asked, **_AS_IDS, **GREEDY})
    top = field(reply.json(), "choices", 0, "logprobs", "top_logprobs", 0)
    return _best_first({name.partition(":")[2]: logprob for name, logprob in top.items()})


def _best_first(logprobs: Mapping[str, float]) -> tuple[Candidate, ...]:
    found = [Candidate(int(token), float(logprob)) for token, logprob in logprobs.items()]
    return tuple(sorted(found, key=lambda c: -c.logprob))


def _score_prompt(model: str, ids: tuple[int, ...], count: int) -> Conversation[list[Any]]:
    """For each position, the `count` likeliest tokens and the one that is there, by id.

    Such a request reads no prefix cache: every row is computed anew.
    """
    body = {"model": model, "prompt": list(ids), "max_tokens": 1, "prompt_logprobs": count}
    answer = (yield Call("/v1/completions", {**body, **GREEDY})).json()
    told: list[Any] = field(answer, "choices", 0, "prompt_logprobs")
    if len(told) != len(ids):
        raise EngineAnswerError(f"{len(ids)} tokens were asked about, {len(told)} are told")
    return told


@conversation
def score(model: str, ids: tuple[int, ...], start: int) -> Conversation[tuple[Scored, ...] | None]:
    """One token is generated, so that `ids` and it must fit the context."""
    told = yield from _score_prompt(model, ids, 1)
    return tuple(_scored(ids[i], told[i]) for i in range(start, len(ids)))


def _scored(token: int, entry: Mapping[str, Any]) -> Scored:
    """Of equally likely tokens the given one is the best."""
    logprobs = {int(name): float(told["logprob"]) for name, told in entry.items()}
    best = max(logprobs, key=lambda other: (logprobs[other], other == token))
    return Scored(token, logprobs[token], best, logprobs[best])


@conversation
def wide(
    model: str, ids: tuple[int, ...], width: int
) -> Conversation[tuple[Candidate, ...] | None]:
    """With at most `width` tokens in a step, a prompt is read in pieces of `width`. Its last token
    is repeated until the piece that it is in is full, and the next token is scored too.

    The engine does not tell how it was launched; without those options all rows are computed at
    once.
    """
    full = -(-len(ids) // width) * width
    padding = max(full, len(ids) + 1) - len(ids)
    told = yield from _score_prompt(model, (*ids, *ids[-1:] * padding), 20)
    logprobs = {name: told[len(ids)][name]["logprob"] for name in told[len(ids)]}
    return _best_first(logprobs)[:20]  # the token that is there may be one more


@conversation
def sample(
    model: str, ids: tuple[int, ...], draws: Draws
) -> Conversation[tuple[tuple[int, ...], ...]]:
    """The n answers of a request have seeds counted up from its own.

    Prompts are to fit one step together: vLLM 0.32 on the CPU dies of an answer with a seed whose
    prompt is read in pieces ("CPU Generator does not use offset").
    """
    found: list[tuple[int, ...]] = []
    asked = {"model": model, "prompt": list(ids), "max_tokens": draws.length}
    asked |= {**GREEDY, "temperature": draws.temperature, "return_token_ids": True}
    while len(found) < draws.count:
        count = min(max(1, _PROMPT_ROWS // len(ids)), draws.count - len(found))
        body = asked | {"n": count, "seed": draws.seed + len(found)}
        choices = field((yield Call("/v1/completions", body)).json(), "choices")
        if len(choices) != count:
            raise EngineAnswerError(f"{count} answers were asked for, {len(choices)} came")
        found += [tuple(field(c, "token_ids")) for c in sorted(choices, key=_index)]
    return tuple(found)


def _index(choice: Any) -> int:
    return int(field(choice, "index"))

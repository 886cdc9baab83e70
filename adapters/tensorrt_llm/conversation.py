"""How a running TensorRT-LLM is spoken to: trtllm-serve of 1.2 to 1.4, read and not run.

Requests with a field that it does not know are refused (OpenAIBaseModel, serve/openai_protocol.py),
so that only fields which all of these versions have are sent.
"""

import json
from collections.abc import Mapping
from typing import Any, Final

from pydantic import JsonValue

from adapters.answer import read_answer
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
    Reply,
    Scored,
    conversation,
    field,
    greedy,
)
from adapters.metric import read_metrics, rise
from adapters.profile import Ngram, Profile

METRICS_PATH: Final = "/prometheus/metrics"
# Stands for a token whose id the engine does not tell.
UNKNOWN: Final = -1
_COUNTERS: Final[Mapping[str, str]] = {
    "drafted": "trtllm_spec_decode_num_draft_tokens_total",
    "accepted": "trtllm_spec_decode_num_accepted_tokens_total",
}
_OWNER = "tensorrt_llm"
_PROOF_TOKEN = 5
_PROOF_LENGTH = 48
# Without it the answer is text alone; with it, ids alone (PR #5382).
_AS_IDS: Mapping[str, Any] = {"detokenize": False}


@conversation
def identify() -> Conversation[Identity]:
    """1.2 serves a folder under its last part and has no option for another name.

    vLLM has the same two routes, and says that its models are its own.
    """
    version = yield Call("/version")
    models = yield Call("/v1/models")
    entries = field(models.json(), "data")
    owners = {entry.get("owned_by", _OWNER) for entry in entries} - {_OWNER}
    if owners:
        raise EngineAnswerError(f"its models are owned by {', '.join(sorted(owners))}")
    names = tuple(str(field(entry, "id")) for entry in entries)
    return Identity(str(field(version.json(), "version")), names)


@conversation
def complete(model: str) -> Conversation[str]:
    """The engine has no fingerprint of itself."""
    body = {"model": model, "prompt": [_PROOF_TOKEN], "max_tokens": 2, **GREEDY, **_AS_IDS}
    reply = yield Call("/v1/completions", body | {"ignore_eos": True})
    if field(reply.json(), "usage", "completion_tokens") < 1:
        raise EngineAnswerError("the engine completed nothing")
    return ""


@conversation
def prove(model: str, profile: Profile) -> Conversation[Proof]:
    """Counters are filled from PR #17082 on. Before, the statistics of the steps tell, or the
    number of tokens per step, which is 1 without accepted guesses.

    Reading the statistics empties them: the first reading only does that.
    """
    before = yield Call(METRICS_PATH)
    _read_steps((yield Call("/metrics")))
    answer = (yield Call("/v1/completions", _proof_body(model, profile))).json()
    steps = _read_steps((yield Call("/metrics")))  # it waits, so that counters are up to date then
    counted = _counted(before, (yield Call(METRICS_PATH)))
    if counted.drafted:
        return counted
    return steps if steps.drafted else _by_step_length(answer, counted)


def _proof_body(model: str, profile: Profile) -> dict[str, Any]:
    length = _PROOF_LENGTH
    body: dict[str, Any] = {"model": model, "max_tokens": length, "ignore_eos": True}
    if isinstance(profile.speculation, Ngram):
        # The answer repeats itself, so that lookups must find something. Decoders that sample in
        # the model may not know logit_bias; they guess anyway.
        length += profile.speculation.lookup.max
        body["logit_bias"] = {str(_PROOF_TOKEN): 100}
    return {**body, "prompt": [_PROOF_TOKEN] * length, **GREEDY, **_AS_IDS}


def _counted(before: Reply, after: Reply) -> Proof:
    start, end = (
        read_metrics(reply.text if reply.status == 200 else "", _COUNTERS)
        for reply in (before, after)
    )
    drafted, accepted = (_whole(rise(start, end, name)) for name in _COUNTERS)
    return Proof(drafted, accepted, _COUNTERS["drafted"])


def _whole(count: float | None) -> int | None:
    return None if count is None else int(count)


def _read_steps(reply: Reply) -> Proof:
    """Sums over the steps since the last reading; a step without guesses has no such entry."""
    entries = [json.loads(e) if isinstance(e, str) else e for e in reply.json()]
    told = [e["specDecodingStats"] for e in entries if e.get("specDecodingStats")]
    if not told:
        return Proof(None, None, "specDecodingStats of /metrics")
    drafted, accepted = (
        sum(int(stats[name]) for stats in told) for name in ("numDraftTokens", "numAcceptedTokens")
    )
    return Proof(drafted, accepted, "specDecodingStats of /metrics")


def _by_step_length(answer: Any, counted: Proof) -> Proof:
    """n tokens at an average of L per step took n/L steps: the others were accepted guesses."""
    length = field(answer, "choices", 0).get("avg_decoded_tokens_per_iter")
    if length is None or length <= 1:
        return counted
    tokens = field(answer, "usage", "completion_tokens")
    detail = f"avg_decoded_tokens_per_iter {length}"
    return Proof(None, round(tokens - tokens / length), detail)


@conversation
def generate(
    model: str, request: Mapping[str, JsonValue], how: How = AS_USUAL
) -> Conversation[Generation]:
    """Chats are answered without token ids. Ids of a text prompt are told by newer ones only.

    There are no margins: log-probabilities are refused while speculating, or end a worker.
    """
    is_chat = "messages" in request
    body = {**greedy(request), **({} if is_chat else _AS_IDS), "model": model}
    if how.stream:
        body |= {"stream": True, "stream_options": {"include_usage": True}}
    path = "/v1/chat/completions" if is_chat else "/v1/completions"
    answer = read_answer((yield Call(path, body)), how.stream)
    choice = field(answer, "choices", 0)
    ids = choice.get("token_ids")
    if not isinstance(ids, list):
        message = "TensorRT-LLM answers chats without token ids: write the line with `prompt`"
        raise EngineAnswerError(message if is_chat else "the answer has no token ids")
    prompt: Any = request.get("prompt")
    known: Any = prompt if isinstance(prompt, list) else answer.get("prompt_token_ids")
    if known is None:
        asked = {"prompt": prompt}
        known = _tokens((yield Call("/_internal/tokenize", asked)), field(answer, "usage"))
    drafted, accepted = _of_answer(choice.get("speculative_decoding"))
    return Generation(
        tuple(known),
        tuple(ids),
        choice.get("text") or "",
        str(choice.get("finish_reason")),
        drafted=drafted,
        accepted=accepted,
    )


def _tokens(reply: Reply, usage: Any) -> list[int]:
    """The prompt's ids where the engine tokenizes on request, else as many unknown ones."""
    count = int(field(usage, "prompt_tokens"))
    told = reply.json().get("tokens") if reply.status == 200 else None
    if isinstance(told, list) and len(told) == count:
        return told
    return [UNKNOWN] * count


def _of_answer(told: Any) -> tuple[int | None, int | None]:
    """PR #19311: what was guessed and accepted for this answer."""
    if not isinstance(told, dict):
        return None, None
    return told.get("total_draft_tokens"), told.get("total_accepted_draft_tokens")


@conversation
def candidates(
    model: str, ids: tuple[int, ...], count: int = 20
) -> Conversation[tuple[Candidate, ...]]:
    """Only a plain engine can tell (PR #18401). It names tokens by their text: the id of the best
    one alone is known."""
    _require_known(ids)
    body = {"model": model, "prompt": list(ids), "max_tokens": 1, "logprobs": count, **GREEDY}
    choice = field((yield Call("/v1/completions", {**body, **_AS_IDS})).json(), "choices", 0)
    top = field(choice, "logprobs", "top_logprobs", 0)
    best = sorted(top.items(), key=lambda entry: -float(entry[1]))
    first = field(choice, "token_ids", 0)
    return tuple(
        Candidate(UNKNOWN if rank else int(first), float(logprob), text)
        for rank, (text, logprob) in enumerate(best)
    )


def _require_known(ids: tuple[int, ...]) -> None:
    if UNKNOWN in ids:
        raise EngineAnswerError("this version does not tell the ids of a text prompt")


@conversation
def score(model: str, ids: tuple[int, ...], start: int) -> Conversation[tuple[Scored, ...] | None]:
    """Its routes have no log-probabilities of prompts."""
    yield from ()
    return None


@conversation
def wide(
    model: str, ids: tuple[int, ...], width: int
) -> Conversation[tuple[Candidate, ...] | None]:
    """Nothing in its answers shows that a row was computed among others."""
    yield from ()
    return None


@conversation
def sample(
    model: str, ids: tuple[int, ...], draws: Draws
) -> Conversation[tuple[tuple[int, ...], ...]]:
    """One request for each draw: whether n answers of one share its seed is not documented."""
    _require_known(ids)
    asked = {"model": model, "prompt": list(ids), "max_tokens": draws.length, **GREEDY, **_AS_IDS}
    found: list[tuple[int, ...]] = []
    for number in range(draws.count):
        body = asked | {"temperature": draws.temperature, "seed": draws.seed + number}
        choice = field((yield Call("/v1/completions", body)).json(), "choices", 0)
        found.append(tuple(field(choice, "token_ids")))
    return tuple(found)

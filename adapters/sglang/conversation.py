"""How a running SGLang is spoken to: its own routes, 0.5.10 to 0.5.23, read and not run.

/generate tells token ids and, for each request, what was guessed and accepted; the OpenAI routes
tell ids only since 0.5.18. Prompts go in as ids, so that it is known what the engine read.
"""

import hashlib
import json
from collections.abc import Mapping
from typing import Any, Final

from pydantic import JsonValue

from adapters.answer import is_shaped, margins, read_events
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
_LEFT_OUT: Final = frozenset({"model", "user", "seed", "response_format"})
_MOST_DRAWS: Final = 128  # of one request; SGLang warns of more
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
    entries = field(models, "data")
    names = tuple(str(field(entry, "id")) for entry in entries)
    context = entries[0].get("max_model_len") if entries else None
    return Identity(str(field(info, "version")), names, info.get("model_path"), context)


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
def generate(
    model: str, request: Mapping[str, JsonValue], how: How = AS_USUAL
) -> Conversation[Generation]:
    """Chat lines need 0.5.13: earlier versions make no ids of messages. Tools called are part of
    the text, as the model wrote them."""
    ids: Any = request.get("prompt")
    if not isinstance(ids, list):
        asked = {name: request[name] for name in _PROMPT if name in request}
        told = yield Call("/tokenize", {"model": model, **asked})
        ids = field(told.json(), "tokens")
    has_margins = how.own_margins and not is_shaped(request)
    body = _generate_body(tuple(ids), _sampling(request)) | {"stream": how.stream}
    body |= _top_of_answer(1) if has_margins else {}
    reply = yield Call("/generate", body)
    answer = _joined(reply) if how.stream else reply.json()
    meta, output = field(answer, "meta_info"), field(answer, "output_ids")
    if not isinstance(output, list):
        raise EngineAnswerError("the engine returned no token ids")
    drafted, accepted = _counts(meta)
    finish = field(meta, "finish_reason")
    return Generation(
        tuple(ids),
        tuple(output),
        str(answer.get("text") or ""),
        str(finish.get("type") if isinstance(finish, dict) else finish),
        drafted=drafted,
        accepted=accepted,
        own_margins=_margins(len(output), meta) if has_margins else None,
    )


def _joined(reply: Reply) -> Any:
    """Each event has all that came before it; with --incremental-streaming-output, only what is
    new, and log-probabilities then cannot be told from one another: they are left out."""
    events = read_events(reply)
    last, meta = events[-1], field(events[-1], "meta_info")
    if meta.get("finish_reason") is None:
        raise EngineAnswerError("the stream ended in the middle of the answer")
    if len(field(last, "output_ids")) == field(meta, "completion_tokens"):
        return last
    ids = [token for event in events for token in field(event, "output_ids")]
    text = "".join(event.get("text") or "" for event in events)
    return {"output_ids": ids, "text": text, "meta_info": meta}


def _margins(count: int, meta: Any) -> tuple[float, ...] | None:
    """None where the version or the method tells none."""
    own = [entry[0] for entry in meta.get("output_token_logprobs") or []]
    places = meta.get("output_top_logprobs") or []
    tops = [[entry[0] for entry in top or []] for top in places]
    return margins(count, own, tops)


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
    return {"input_ids": list(ids), "sampling_params": greedy(sampling, _GREEDY)}


def _top_of_answer(count: int) -> dict[str, Any]:
    return {"return_logprob": True, "top_logprobs_num": count, "logprob_start_len": -1}


@conversation
def candidates(
    model: str, ids: tuple[int, ...], count: int = 20
) -> Conversation[tuple[Candidate, ...]]:
    body = _generate_body(ids, {"max_new_tokens": 1}) | _top_of_answer(count)
    answer = (yield Call("/generate", body)).json()
    return _best_first(field(answer, "meta_info", "output_top_logprobs", 0))


def _best_first(top: Any) -> tuple[Candidate, ...]:
    """Entries are [logprob, token id, text or null]."""
    found = [Candidate(int(token), float(logprob), str(text or "")) for logprob, token, text in top]
    return tuple(sorted(found, key=lambda c: -c.logprob))


def _score_prompt(ids: tuple[int, ...], start: int, count: int) -> Conversation[Any]:
    """What the engine tells of the prompt from `start` on; rows from there are not cached ones.

    Its lists begin with the token before, of which nothing is told.
    """
    asked = {"return_logprob": True, "top_logprobs_num": count, "logprob_start_len": start - 1}
    body = _generate_body(ids, {"max_new_tokens": 1}) | asked
    return field((yield Call("/generate", body)).json(), "meta_info")


@conversation
def score(model: str, ids: tuple[int, ...], start: int) -> Conversation[tuple[Scored, ...] | None]:
    meta = yield from _score_prompt(ids, start, 1)
    own, tops = field(meta, "input_token_logprobs")[1:], field(meta, "input_top_logprobs")[1:]
    if not len(own) == len(tops) == len(ids) - start:
        raise EngineAnswerError(f"{len(ids) - start} tokens were asked about, {len(own)} are told")
    return tuple(_scored(told, top) for told, top in zip(own, tops, strict=True))


def _scored(told: Any, top: Any) -> Scored:
    """Of equally likely tokens the given one is the best."""
    logprob, token = float(told[0]), int(told[1])
    best = _best_first(top)[0]
    if best.logprob <= logprob:
        return Scored(token, logprob, token, logprob)
    return Scored(token, logprob, best.token, best.logprob)


@conversation
def wide(
    model: str, ids: tuple[int, ...], width: int
) -> Conversation[tuple[Candidate, ...] | None]:
    """Prompts are read in pieces of chunked_prefill_size, without a cache from the first token on.
    The last token is repeated until the piece that it is in is full, and one more is scored."""
    info = (yield Call("/server_info")).json()
    is_cached = info.get("disable_radix_cache") is not True
    if is_cached or info.get("chunked_prefill_size") != width:
        return None
    full = -(-len(ids) // width) * width
    padding = max(full, len(ids) + 1) - len(ids)
    meta = yield from _score_prompt((*ids, *ids[-1:] * padding), len(ids), 20)
    return _best_first(field(meta, "input_top_logprobs", 1))


@conversation
def sample(
    model: str, ids: tuple[int, ...], draws: Draws
) -> Conversation[tuple[tuple[int, ...], ...]]:
    """As many requests in one, for the n answers of a request share its seed, which counts only
    under --enable-deterministic-inference. A token that ends an answer is the last of its ids."""
    found: list[tuple[int, ...]] = []
    shared = {**_GREEDY, "temperature": draws.temperature, "max_new_tokens": draws.length}
    while len(found) < draws.count:
        count = min(_MOST_DRAWS, draws.count - len(found))
        first = draws.seed + len(found)
        sampling = [shared | {"sampling_seed": first + number} for number in range(count)]
        body = {"input_ids": [list(ids)] * count, "sampling_params": sampling}
        answers = (yield Call("/generate", body)).json()
        if len(answers) != count:
            raise EngineAnswerError(f"{count} answers were asked for, {len(answers)} came")
        found += [tuple(field(answer, "output_ids")) for answer in answers]
    return tuple(found)

"""An OpenAI-style answer, whole or in the pieces of a stream, read alike."""

import contextlib
import json
from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec
from pydantic import JsonValue

from adapters.exchange import EngineAnswerError, Reply, field

_DATA: Final = "data:"
_DONE: Final = "[DONE]"
# Fields of a request after which the chosen token need not be the likeliest: at other values than
# these, or at any.
_NEUTRAL: Final[Mapping[str, JsonValue]] = {
    "presence_penalty": 0,
    "frequency_penalty": 0,
    "repetition_penalty": 1,
    "min_tokens": 0,
}
_SHAPING: Final = (
    "response_format",
    "structured_outputs",
    "tools",
    "logit_bias",
    "allowed_token_ids",
    "bad_words",
)


def is_shaped(request: Mapping[str, JsonValue]) -> bool:
    """Whether something else than the model's own probabilities chooses the tokens."""
    if any(request.get(name) for name in _SHAPING):
        return True
    return any(request.get(name, value) != value for name, value in _NEUTRAL.items())


def read_events(reply: Reply) -> list[Any]:
    """What a stream of server-sent events brought. Raises EngineAnswerError where one is no JSON or
    tells an error: by then the status was sent."""
    # Not splitlines: JSON text may hold U+2028, and it is no end of line there.
    lines = (line.strip() for line in reply.require_ok().split("\n"))
    sent = [line.removeprefix(_DATA).strip() for line in lines if line.startswith(_DATA)]
    events = [_read_event(text) for text in sent if text != _DONE]
    if not events:
        raise EngineAnswerError(f"{reply.call.path} streamed nothing: {reply.text[:200]!r}")
    return events


def _read_event(text: str) -> Any:
    try:
        event = msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError) as error:
        raise EngineAnswerError(f"an event of a stream is no JSON: {text[:200]!r}") from error
    if isinstance(event, dict) and event.get("error"):
        raise EngineAnswerError(f"the stream ended with an error: {text[:300]}")
    return event


def read_answer(reply: Reply, is_streamed: bool) -> Any:
    """The whole answer; that of a stream has its first choice only. Raises EngineAnswerError."""
    return _joined(read_events(reply)) if is_streamed else reply.json()


def _joined(events: Sequence[Any]) -> dict[str, Any]:
    whole: dict[str, Any] = {}
    choice: dict[str, Any] = {}
    for event in events:
        whole |= {name: value for name, value in event.items() if value is not None}
        for part in event.get("choices") or []:
            if part.get("index", 0) == 0:
                _add(choice, part)
    if choice.get("finish_reason") is None:
        raise EngineAnswerError("the stream ended in the middle of the answer")
    return whole | {"choices": [choice]}


def _add(choice: dict[str, Any], part: Mapping[str, Any]) -> None:
    """Pieces of text and lists are put behind what was there, other values replace it."""
    for name, value in part.items():
        if name == "delta":
            _add_delta(choice.setdefault("message", {"content": ""}), value)
        elif name == "text":
            choice["text"] = choice.get("text", "") + (value or "")
        elif name == "token_ids" and value is not None:
            choice.setdefault("token_ids", []).extend(value)
        elif name == "logprobs":
            _add_lists(choice.setdefault("logprobs", {}), value or {})
        elif value is not None:
            choice[name] = value


def _add_lists(lists: dict[str, Any], more: Mapping[str, Any]) -> None:
    for name, value in more.items():
        if isinstance(value, list):
            lists.setdefault(name, []).extend(value)


def _add_delta(message: dict[str, Any], delta: Mapping[str, Any]) -> None:
    message["content"] += delta.get("content") or ""
    for part in delta.get("tool_calls") or []:
        calls = message.setdefault("tool_calls", [])
        place = part.get("index", 0)
        while len(calls) <= place:
            calls.append({"function": {"name": "", "arguments": ""}})
        told, function = part.get("function") or {}, calls[place]["function"]
        for name in function:
            function[name] += told.get(name) or ""


def text_of(choice: Any) -> str:
    """The text of a choice, and behind it the tools called, without their random ids.

    Arguments that are JSON are written in one way, so that only what they say is compared.
    """
    if "message" not in choice:
        return field(choice, "text") or ""
    message = choice["message"]
    calls = [_call(field(call, "function")) for call in message.get("tool_calls") or []]
    return (message.get("content") or "") + (_canonical(calls) if calls else "")


def _call(function: Any) -> dict[str, Any]:
    arguments = function.get("arguments")
    with contextlib.suppress(TypeError, ValueError):  # else it is compared as the text it is
        arguments = json.loads(arguments)
    return {"name": function.get("name"), "arguments": arguments}


def _canonical(data: Any) -> str:
    return json.dumps(data, sort_keys=True, ensure_ascii=False, separators=(",", ":"))


def margins_of(choice: Any) -> tuple[float, ...] | None:
    """Per token, nats by which the best of its own log-probabilities exceeds it.

    None where they were not told for every token.
    """
    told = choice.get("logprobs") or {}
    if "content" in told:
        entries = told["content"] or []
        own = [entry["logprob"] for entry in entries]
        tops = [[top["logprob"] for top in entry["top_logprobs"]] for entry in entries]
    else:
        own = told.get("token_logprobs") or []
        tops = [list((top or {}).values()) for top in told.get("top_logprobs") or []]
    return margins(len(choice.get("token_ids") or []), own, tops)


def margins(
    count: int, own: Sequence[float], tops: Sequence[Sequence[float]]
) -> tuple[float, ...] | None:
    """The same from log-probabilities of `count` tokens and of the best ones at their places."""
    if not len(own) == len(tops) == count or not all(tops):
        return None
    return tuple(max(0.0, max(top) - one) for one, top in zip(own, tops, strict=True))

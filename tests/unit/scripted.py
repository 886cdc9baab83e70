"""What the tests of every adapter share: conversations held with scripted replies."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from adapters.exchange import Call, Conversation, Reply
from adapters.problem import Problem


def talk(conversation: Conversation[Any], replies: Sequence[Any]) -> tuple[list[Call], Any]:
    """The calls made, and the result. Text is sent as it is, other data as JSON."""
    calls: list[Call] = []
    script = list(replies)
    try:
        call = next(conversation)
        while True:
            calls.append(call)
            body = script.pop(0)
            text = body if isinstance(body, str) else json.dumps(body)
            call = conversation.send(Reply(call, 200, text))
    except StopIteration as stop:
        assert script == []
        return calls, stop.value


def body_of(call: Call) -> Mapping[str, Any]:
    assert call.body is not None
    return call.body


def streamed(*events: Any) -> str:
    """Events as a server sends them, with the end that OpenAI's streams have."""
    sent = [f"data: {json.dumps(event, ensure_ascii=False)}\n\n" for event in events]
    return "".join([*sent, "data: [DONE]\n\n"])


def codes(problems: Sequence[Problem]) -> list[str]:
    return [p.code for p in problems]

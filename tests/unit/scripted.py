"""What the tests of every adapter share: conversations held with scripted replies."""

import json
from collections.abc import Sequence
from typing import Any

from adapters.exchange import Call, Conversation, Reply
from adapters.problem import Problem


def talk(conversation: Conversation[Any], replies: Sequence[Any]) -> tuple[list[Call], Any]:
    """The calls made, and the result. Text is sent as it is, other data as JSON."""
    calls: list[Call] = []
    script = iter(replies)
    call = next(conversation)
    while True:
        calls.append(call)
        body = next(script)
        text = body if isinstance(body, str) else json.dumps(body)
        try:
            call = conversation.send(Reply(call, 200, text))
        except StopIteration as stop:
            assert list(script) == []
            return calls, stop.value


def codes(problems: Sequence[Problem]) -> list[str]:
    return [p.code for p in problems]

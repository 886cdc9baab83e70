"""Messages are read from whichever API a body speaks."""

import json
from typing import Any

import pytest

from orchestrator.feature import Features, read_features

IMAGE = {"type": "image_url", "image_url": {"url": "data:,x"}}


def features(**fields: Any) -> Features:
    return read_features(json.dumps(fields).encode())


def told(request: Features) -> list[tuple[str, str]]:
    texts = request.texts
    assert texts is not None
    return [(entry.role, text) for entry, text in zip(request.messages, texts, strict=True)]


def test_chat_completions() -> None:
    request = features(
        messages=[
            {"role": "developer", "content": "Be brief."},
            {"role": "user", "content": [{"type": "text", "text": "a"}, IMAGE, {"text": "b\n"}]},
            {"role": "assistant", "content": None, "tool_calls": [{"id": "1"}]},
            {"role": "tool", "content": "42"},
        ]
    )
    assert told(request) == [
        ("developer", "Be brief."), ("user", "a\nb\n"), ("assistant", ""), ("tool", "42"),
    ]  # fmt: skip
    assert (request.system, request.last_user, request.images) == ("Be brief.", "a\nb\n", True)


@pytest.mark.parametrize(
    ("prompt", "text"),
    [("ab", "ab"), (["ab", "cd"], "ab\ncd"), ([1, 2], ""), ([[1], [2]], ""), (7, ""), (None, "")],
)
def test_completions_and_embeddings(prompt: Any, text: str) -> None:
    assert told(features(prompt=prompt)) == [("user", text)]
    assert told(features(input=prompt)) == [("user", text)]


def test_responses() -> None:
    request = features(
        instructions="Be brief.",
        input=[
            {"role": "user", "content": "hello"},
            {"type": "message", "role": "assistant", "content": [{"text": "hi"}]},
            {"type": "function_call", "name": "f", "arguments": "{}"},
            {"type": "function_call_output", "output": "42"},
            {"role": "user", "content": [{"text": "x"}, {"type": "input_image"}]},
        ],
    )
    assert told(request) == [
        ("system", "Be brief."), ("user", "hello"), ("assistant", "hi"), ("tool", "42"),
        ("user", "x"),
    ]  # fmt: skip
    assert request.images
    assert told(features(input="hello")) == [("user", "hello")]


@pytest.mark.parametrize("system", ["Be brief.", [{"type": "text", "text": "Be brief."}]])
def test_anthropic_messages(system: Any) -> None:
    result = {"type": "tool_result", "content": [{"type": "text", "text": "42"}]}
    request = features(
        system=system,
        max_tokens=5,
        messages=[
            {"role": "user", "content": "sum?"},
            {"role": "assistant", "content": [{"type": "tool_use", "name": "f", "input": {}}]},
            {"role": "user", "content": [result]},
        ],
    )
    assert told(request) == [
        ("system", "Be brief."), ("user", "sum?"), ("assistant", ""), ("tool", "42"),
    ]  # fmt: skip
    assert request.last_user == "sum?"
    both = [result, {"type": "text", "text": "go on"}]
    assert features(messages=[{"role": "user", "content": both}]).last_user == "go on"


@pytest.mark.parametrize(
    "content", [5, {"text": "x"}, [5], ["x"], [{"text": 5}], [{"type": 5, "text": "x"}], True]
)
def test_wrong_content_has_no_text(content: Any) -> None:
    request = features(messages=[{"role": "user", "content": content}, {"role": "user"}])
    assert {text for _, text in told(request)} == {""}

"""What is read of a request body, and which type follows from it."""

import json
from typing import Any

import pytest

from orchestrator.classify import Classifier, classify
from orchestrator.feature import OVERLAP_WORDS, Features, read_features
from orchestrator.type_rule import TypeRule, When


def features(**fields: Any) -> Features:
    return read_features(json.dumps(fields).encode())


def chat(*texts: str, **fields: Any) -> Features:
    return features(messages=[{"role": "user", "content": text} for text in texts], **fields)


def holds(request: Features, **conditions: Any) -> bool:
    kind, _ = classify(request, (TypeRule(type="hit", when=When(**conditions)),))
    return kind == "hit"


@pytest.mark.parametrize(
    ("request_fields", "conditions"),
    [
        ({"temperature": 1}, {"temperature": ">=0.9"}),
        ({"max_tokens": 64}, {"max_tokens": "<=64"}),
        ({"max_completion_tokens": 8, "max_tokens": 64}, {"max_tokens": "<9"}),
        ({"response_format": {"type": "json_schema"}}, {"response_format": ("json_schema",)}),
        ({}, {"response_format": ("text",)}),
        ({"model": "small"}, {"model": ("small", "big")}),
        ({"tools": [{"type": "function"}]}, {"tools": True}),
        ({"tools": []}, {"tools": False}),
        ({"stream": True}, {"stream": True}),
        ({}, {"stream": False}),
        ({"prompt": "please fix this"}, {"last_user": r"\bfix\b"}),
        ({"prompt": ["ab", "cd"]}, {"prompt_chars": "==5"}),
        ({"prompt": [1, 2, 3]}, {"prompt_chars": "==0"}),
    ],
)
def test_a_condition_holds(request_fields: dict[str, Any], conditions: dict[str, Any]) -> None:
    assert holds(features(**request_fields), **conditions)


@pytest.mark.parametrize(
    ("request_fields", "conditions"),
    [
        ({}, {"temperature": "<2"}),  # what is not said is not judged
        ({"temperature": "hot"}, {"temperature": "<2"}),
        ({"temperature": True}, {"temperature": "<2"}),
        ({"response_format": "json"}, {"response_format": ("json",)}),
        ({"model": 7}, {"model": ("7",)}),
        ({"stream": "yes"}, {"stream": True}),
        ({"messages": 5}, {"last_user": "."}),
        ({"messages": [{"role": "assistant", "content": "fix"}]}, {"last_user": "fix"}),
        ({"messages": [{"role": "user", "content": "hi"}]}, {"system": "."}),
    ],
)
def test_a_condition_does_not_hold(
    request_fields: dict[str, Any], conditions: dict[str, Any]
) -> None:
    assert not holds(features(**request_fields), **conditions)


def test_text_parts_count_and_images_do_not() -> None:
    image = {"type": "image_url", "image_url": {"url": "data:,x"}}
    content = [{"type": "text", "text": "abc"}, image, {"type": "text", "text": "de"}]
    request = features(messages=[{"role": "user", "content": content}])
    assert request.last_user == "abc\nde"
    assert request.turns == 1


def test_the_last_user_message_is_the_last_of_the_user() -> None:
    messages = [
        {"role": "system", "content": "You edit."},
        {"role": "user", "content": "first"},
        {"role": "user", "content": "second"},
        {"role": "assistant", "content": None},
    ]
    request = features(messages=messages)
    assert (request.last_user, request.system, request.turns) == ("second", "You edit.", 4)


def test_fenced_share() -> None:
    assert chat("abcd").fenced == 0
    assert chat("ab```cd```ef").fenced == pytest.approx(2 / 12)
    assert chat("ab```cdef", "gh").fenced == pytest.approx(4 / 11)  # open until its message ends


def test_overlap_is_the_share_of_repeated_4_grams() -> None:
    assert chat("one two three").overlap == 0
    assert chat("a b c d e f g h").overlap == 0
    assert chat("a b c d a b c d").overlap == pytest.approx(1 / 5)
    assert chat(*["the quick brown fox jumps"] * 20).overlap > 0.9


def test_overlap_looks_at_a_bounded_beginning() -> None:
    beginning = " ".join(str(n) for n in range(OVERLAP_WORDS))
    assert chat(beginning + " same words again and" * 50).overlap == 0


@pytest.mark.parametrize(
    ("value", "is_set"),
    [
        (None, False), (False, False), (0, False), (0.0, False), ("", False), ([], False),
        ({}, False), (0.1, True), (True, True), ("x", True), ([0], True), ({"5": -100}, True),
        ("a" * 50, True),
    ],
)  # fmt: skip
def test_set_fields(value: Any, is_set: bool) -> None:
    found = features(min_p=value, other=1).set_among(frozenset({"min_p", "logit_bias"}))
    assert found == (frozenset({"min_p"}) if is_set else frozenset())


def test_an_escaped_name_does_not_hide_a_field() -> None:
    assert read_features(b'{"min\\u005fp": 0.5}').is_set("min_p")


@pytest.mark.parametrize(
    "body",
    [b"", b"hello", b"[1]", b'"x"', b'{"a": 1} x', b'{"a": tru}', b'{"a":' * 100_000, b"\xff{}"],
)
def test_what_is_not_a_json_object_is_refused(body: bytes) -> None:
    with pytest.raises(ValueError, match="request body"):
        read_features(body)


def test_bytes_that_are_not_utf8_are_the_engines_business() -> None:
    request = read_features(b'{"prompt": "\xff", "model": "small"}')
    assert request.model == "small"
    assert not holds(request, last_user="x")


RULES = (
    TypeRule(type="json", when=When(response_format=("json_object",))),
    TypeRule(type="code_edit", when=When(overlap=">=0.1", last_user="(?i)fix")),
    TypeRule(type="chat"),
)


def test_the_first_rule_that_matches_decides() -> None:
    repeated = "fix a b c d a b c d"
    request = chat(repeated, response_format={"type": "json_object"})
    assert classify(request, RULES) == ("json", "types[0]: response_format=json_object")
    assert classify(chat(repeated), RULES) == (
        "code_edit",
        "types[1]: last_user matches, overlap>=0.1",
    )
    assert classify(chat("hello"), RULES) == ("chat", "types[2]: matches everything")


def test_without_a_match_the_type_is_default() -> None:
    assert classify(chat("hello"), ()) == ("default", "no type rule matched")
    assert classify(chat("hello"), RULES[:1]) == ("default", "no type rule matched")


def test_only_what_a_rule_needs_is_read() -> None:
    request = chat("hello", response_format={"type": "json_object"})
    classify(request, RULES)
    assert "messages" not in vars(request)


def test_the_types_are_known_in_order() -> None:
    assert Classifier(RULES).types == ("json", "code_edit", "chat", "default")

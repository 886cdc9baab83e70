"""What is read of a request body, and which type follows from it."""

import json
from typing import Any

import pytest

from orchestrator.classify import Classifier, classify
from orchestrator.feature import FeatureReader, Features, read_features
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
        ({"top_p": 0.5}, {"top_p": "<0.9"}),
        ({"min_p": 0}, {"min_p": "==0"}),
        ({"n": 4}, {"n": ">1"}),
        ({}, {"n": "==1"}),
        ({"max_output_tokens": 5}, {"max_tokens": "==5"}),
        ({"logprobs": True}, {"logprobs": True}),
        ({"logprobs": 0}, {"logprobs": True}),  # of the completions API: the tokens' own
        ({"logprobs": False}, {"logprobs": False}),
        ({"top_logprobs": 5}, {"logprobs": True}),
        ({"presence_penalty": 0.5}, {"penalties": True}),
        ({"repetition_penalty": 1.1}, {"penalties": True}),
        ({"repetition_penalty": 1, "frequency_penalty": 0}, {"penalties": False}),
        ({"logit_bias": {"5": 1}}, {"logit_bias": True}),
        ({"logit_bias": {}}, {"logit_bias": False}),
        ({"lora": [{"id": 2, "scale": 0.5}]}, {"lora": ("2",)}),
        ({"lora": [{"id": 2, "scale": 0}]}, {"lora": False}),
        ({"lora_path": ["sql", "x"]}, {"lora": ("sql",)}),
        ({"lora_request": {"lora_name": "sql", "lora_int_id": 1}}, {"lora": True}),
        ({"text": {"format": {"type": "json_schema"}}}, {"response_format": ("json_schema",)}),
        ({"prompt": "Bitte fasse das für mich zusammen"}, {"language": ("de", "fr")}),
        ({"prompt": "Bitte fasse das für mich zusammen"}, {"intent": ("edit", "summarize")}),
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
        ({"temperature": 10**400}, {"temperature": ">0"}),
        ({"min_p": "0.5"}, {"min_p": ">0"}),
        ({"lora": "x"}, {"lora": ("y",)}),
        ({}, {"lora": True}),
        ({"prompt": "x = 1"}, {"intent": ("edit",)}),
        ({"prompt": "hello"}, {"language": ("en",)}),
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


def test_overlap_is_the_share_that_repeats() -> None:
    line = "The quick brown fox jumps over the lazy dog, and the dog does not even wake up. "
    assert chat("one two three").overlap == 0
    assert chat(line).overlap == 0
    assert chat(*[line] * 20).overlap > 0.8
    assert chat(*[line] * 400).overlap > 0.8  # too long to be decoded


def test_long_texts_are_estimated_or_looked_at_in_part() -> None:
    request = chat("ab```" + "c" * 100_000, "é" * 9000 + "```")
    assert request.prompt_chars == pytest.approx(109_008, rel=0.01)
    assert request.fenced == pytest.approx(0.5, abs=0.01)
    assert request.last_user is not None
    assert len(request.last_user) < 9000


@pytest.mark.parametrize(
    ("value", "is_set"),
    [
        (None, False), (False, False), (0, False), (0.0, False), ("", False), ([], False),
        ({}, False), (0.1, True), (True, True), ("x", True), ([0], True), ({"5": -100}, True),
        ("a" * 50, True),
    ],
)  # fmt: skip
@pytest.mark.parametrize("name", ["min_p", "logit_bias", "speculative.n_max", "response_format"])
def test_set_fields(name: str, value: Any, is_set: bool) -> None:
    wanted = frozenset({name, "min_p", "logit_bias"})
    expected = frozenset({name}) if is_set else frozenset()
    source = json.dumps({name: value, "other": 1}).encode()
    assert read_features(source).set_among(wanted) == expected
    assert FeatureReader(wanted).features(source).set_among(wanted) == expected


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
    repeated = "fix: " + "the same eight words stand here once again. " * 3
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


@pytest.mark.parametrize("name", ["model", "stream", "temperature", "messages", "max_tokens"])
def test_a_wrong_field_leaves_the_others(name: str) -> None:
    fields = {
        "model": "small",
        "stream": True,
        "temperature": 0.5,
        "max_tokens": 7,
        "messages": [{"role": "user", "content": "fix it"}],
    }
    request = features(**{**fields, name: [{"content": 5, "role": 7}], "min_p": "0.5"})
    found = (request.model, request.stream, request.temperature, request.max_tokens)
    expected = [fields[key] for key in ("model", "stream", "temperature", "max_tokens")]
    wrong = {"model": 0, "stream": 1, "temperature": 2, "max_tokens": 3}.get(name)
    if wrong is not None:
        expected[wrong] = False if name == "stream" else None
    assert list(found) == expected
    assert request.last_user == ("" if name == "messages" else "fix it")
    assert request.is_set("min_p")
    assert request.is_set(name)
    assert request.get("min_p") == "0.5"


def test_of_equal_names_the_last_counts() -> None:
    assert read_features(b'{"model": "a", "model": "b"}').model == "b"
    assert read_features(b'{"model": "a", "model": "b", "n": "x"}').model == "b"


def test_any_field_can_be_had() -> None:
    request = features(model="m", seed=7, tools=[1], messages=[{"role": "user"}])
    given = [request.get(name) for name in ("model", "seed", "tools", "messages", "top_p", "x")]
    assert given == ["m", 7, [1], [{"role": "user"}], None, None]


def test_a_client_may_name_the_type_in_its_metadata() -> None:
    assert features(metadata={"draftgate_type": "rag", "user": 1}).named_type == "rag"
    for metadata in ({}, {"draftgate_type": 5}, "rag", None, ["draftgate_type"]):
        assert features(metadata=metadata).named_type is None
    assert features().named_type is None


def test_turns_of_a_conversation_share_their_head() -> None:
    first, second = chat("x" * 2000), chat("x" * 2000, "and then?")
    assert first.head == second.head
    assert first.head != chat("y" * 2000).head
    assert features().head is None


def test_only_what_a_rule_needs_is_read() -> None:
    request = chat("hello", response_format={"type": "json_object"})
    classify(request, RULES)
    assert "messages" not in vars(request)
    assert "fields" not in vars(request)


def test_the_types_are_known_in_order() -> None:
    assert Classifier(RULES).types == ("json", "code_edit", "chat", "default")

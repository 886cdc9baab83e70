"""Conversations with llama-server, with replies as it really gives them."""

import json
from typing import Any

import pytest
from pydantic import JsonValue

from adapters.exchange import Candidate, Draws, EngineAnswerError, Generation, How
from adapters.llama_cpp import conversation
from adapters.profile import Profile
from tests.unit.scripted import body_of, streamed, talk


def profile(speculation: dict[str, Any]) -> Profile:
    return Profile.model_validate_json(json.dumps({"profile": "p", "speculation": speculation}))


def ngram() -> Profile:
    return profile({"method": "ngram", "gamma": 4, "lookup": {"min": 3, "max": 3}})


@pytest.mark.parametrize(
    ("build", "version"),
    [("b11434-515e8551", "11434"), ("b11549-", "11549"), ("b0-unknown", "0"), (None, None)],
)
def test_identity(build: str | None, version: str | None) -> None:
    props = {"build_info": build, "model_path": "/m/target.gguf"}
    calls, identity = talk(conversation.identify(), [props, {"data": [{"id": "small"}]}])
    assert [c.path for c in calls] == ["/props", "/v1/models"]
    assert identity.version == version
    assert (identity.models, identity.weights) == (("small",), "/m/target.gguf")


def test_a_completion_gives_the_build() -> None:
    answer = {"tokens_predicted": 2, "system_fingerprint": "b11434-515e8551"}
    (call,), fingerprint = talk(conversation.complete("small"), [answer])
    assert fingerprint == "b11434-515e8551"
    assert body_of(call)["cache_prompt"] is False


def test_a_completion_of_nothing_is_an_error() -> None:
    with pytest.raises(EngineAnswerError, match="completed nothing"):
        talk(conversation.complete("small"), [{"tokens_predicted": 0}])


def slots(*speculative: bool) -> list[dict[str, Any]]:
    return [{"id": n, "speculative": flag} for n, flag in enumerate(speculative)]


@pytest.mark.parametrize(
    ("speculative", "timings", "drafted", "accepted"),
    [
        ((True,), {"draft_n": 90, "draft_n_accepted": 83}, 90, 83),
        ((True, True), {"draft_n": 90}, 90, 0),
        ((True,), {"predicted_n": 24}, 0, 0),
        ((False,), {"predicted_n": 24}, None, None),
    ],
)
def test_proof(
    speculative: tuple[bool, ...],
    timings: dict[str, int],
    drafted: int | None,
    accepted: int | None,
) -> None:
    replies = [slots(*speculative), {"tokens": [5, 6]}, {"timings": timings}]
    calls, proof = talk(conversation.prove("small", ngram()), replies)
    assert [c.path for c in calls] == ["/slots", "/tokenize", "/completion"]
    assert (proof.drafted, proof.accepted) == (drafted, accepted)


def test_a_slot_that_does_not_speculate_is_no_proof_although_another_drafts() -> None:
    replies = [
        slots(True, False),
        {"tokens": [5]},
        {"timings": {"draft_n": 90, "draft_n_accepted": 83}},
    ]
    _, proof = talk(conversation.prove("small", ngram()), replies)
    assert not proof.drafted
    assert proof.detail == "1 of 2 slots do not speculate"


@pytest.mark.parametrize(("least", "gamma"), [(2, 4), (3, 128), (200, 6)])
def test_the_proof_repeats_a_cycle_longer_than_match_and_guess(least: int, gamma: int) -> None:
    lookup = {"min": least, "max": least}
    made = profile({"method": "ngram", "gamma": gamma, "lookup": lookup})
    replies = [slots(True), {"tokens": [7, 8, 9]}, {"timings": {}}]
    calls, _ = talk(conversation.prove("small", made), replies)
    words = body_of(calls[1])["content"].split()
    assert len(set(words)) == len(words) > least + gamma
    assert body_of(calls[2])["prompt"] == [7, 8, 9] * 3


def test_the_proofs_grammar_leaves_one_token_at_a_time() -> None:
    """A model that may spell the words otherwise would find no match (tried on b11549)."""
    replies = [slots(True), {"tokens": [7, 8]}, {"timings": {}}]
    calls, _ = talk(conversation.prove("small", ngram()), replies)
    assert body_of(calls[2])["grammar"] == "root ::= (<[7]> <[8]>)+"


def test_a_draft_is_proved_without_a_grammar() -> None:
    """It would guess against it, and nothing would be accepted."""
    replies = [slots(True), {"tokens": [7, 8]}, {"timings": {}}]
    made = profile({"method": "draft_model", "gamma": 4})
    calls, _ = talk(conversation.prove("small", made), replies)
    assert "grammar" not in body_of(calls[2])


def test_generation_of_a_prompt() -> None:
    request: dict[str, JsonValue] = {"prompt": "say", "max_tokens": 8, "stop": ["x"]}
    answer = {"tokens": [3, 4], "content": "ab", "stop_type": "limit"}
    calls, found = talk(conversation.generate("small", request), [{"tokens": [2, 1]}, answer])
    assert [c.path for c in calls] == ["/tokenize", "/completion"]
    assert found == Generation((2, 1), (3, 4), "ab", "length")
    assert (found.drafted, found.accepted) == (None, None)
    body = body_of(calls[1])
    assert (body["n_predict"], body["stop"], body["return_tokens"]) == (8, ["x"], True)
    assert body["cache_prompt"] is False
    assert "max_tokens" not in body


@pytest.mark.parametrize(
    ("timings", "drafted", "accepted"),
    [({"draft_n": 6, "draft_n_accepted": 5}, 6, 5), ({"predicted_n": 8}, 0, 0)],
)
def test_generation_tells_what_was_drafted(
    timings: dict[str, int], drafted: int, accepted: int
) -> None:
    """llama.cpp leaves both counts out of an answer without drafts."""
    answer = {"tokens": [3], "content": "a", "stop_type": "eos", "timings": timings}
    _, found = talk(conversation.generate("m", {"prompt": "a"}), [{"tokens": [2]}, answer])
    assert (found.drafted, found.accepted) == (drafted, accepted)


@pytest.mark.parametrize(("stop_type", "reason"), [("eos", "stop"), ("word", "stop")])
def test_how_an_answer_ended(stop_type: str, reason: str) -> None:
    answer = {"tokens": [3], "content": "a", "stop_type": stop_type}
    _, found = talk(conversation.generate("m", {"prompt": "a"}), [{"tokens": [2]}, answer])
    assert found.finish_reason == reason


def chat(**fields: JsonValue) -> dict[str, JsonValue]:
    return {"messages": [{"role": "user", "content": "hi"}], "max_tokens": 4, **fields}


def test_a_chat_is_answered_by_the_native_route() -> None:
    """The chat route leaves out ids, of characters that are several tokens and of streams."""
    answer = {"tokens": [5, 6], "content": "ab", "stop_type": "eos"}
    replies = [{"prompt": "<user>hi"}, {"tokens": [2, 9]}, answer]
    request = chat(chat_template_kwargs={"enable_thinking": False})
    calls, found = talk(conversation.generate("small", request), replies)
    assert [c.path for c in calls] == ["/apply-template", "/tokenize", "/completion"]
    assert body_of(calls[0]) == request
    assert (body_of(calls[2])["prompt"], body_of(calls[2])["n_predict"]) == ([2, 9], 4)
    assert "messages" not in body_of(calls[2])
    assert found == Generation((2, 9), (5, 6), "ab", "stop")


def called(ids: list[int], tokens: int) -> dict[str, Any]:
    calls = [{"id": "x", "function": {"name": "look", "arguments": '{"a": 1}'}}]
    choice = {
        "message": {"content": None, "tool_calls": calls},
        "finish_reason": "tool_calls",
        "logprobs": {"content": [{"id": token} for token in ids]},
    }
    return {"choices": [choice], "usage": {"completion_tokens": tokens}}


def test_tools_need_the_chat_route() -> None:
    request = chat(tools=[{"type": "function"}], repetition_penalty=1.5)
    replies = [{"prompt": "<user>hi"}, {"tokens": [2, 9]}, called([5, 6], 2)]
    calls, found = talk(conversation.generate("small", request), replies)
    assert calls[2].path == "/v1/chat/completions"
    assert body_of(calls[2])["repeat_penalty"] == 1.5
    text = '[{"arguments":{"a":1},"name":"look"}]'
    assert found == Generation((2, 9), (5, 6), text, "tool_calls")


def test_ids_that_the_chat_route_leaves_out_are_an_error() -> None:
    replies = [{"prompt": "<user>hi"}, {"tokens": [2]}, called([5], 3)]
    with pytest.raises(EngineAnswerError, match="left out the ids of 2 tokens"):
        talk(conversation.generate("small", chat(tools=[{}])), replies)


def test_a_stream_with_tools_has_no_ids() -> None:
    replies = [{"prompt": "<user>hi"}, {"tokens": [2]}]
    with pytest.raises(EngineAnswerError, match="no token ids of a stream with tools"):
        talk(conversation.generate("small", chat(tools=[{}]), How(stream=True)), replies)


ANSWER = {"tokens": [3], "content": "a", "stop_type": "limit"}


def test_a_lines_own_fields_win_under_native_names() -> None:
    request: dict[str, JsonValue] = {
        "prompt": [1, 2],
        "max_tokens": 8,
        "repetition_penalty": 1.5,
        "presence_penalty": 2,
        "temperature": 0.7,
        "stream": True,
    }
    (call,), found = talk(conversation.generate("small", request), [ANSWER])
    body = body_of(call)
    assert (body["repeat_penalty"], body["presence_penalty"]) == (1.5, 2)
    assert (body["temperature"], body["frequency_penalty"]) == (0, 0)
    assert not {"stream", "repetition_penalty", "max_tokens", "model"} & set(body)
    assert found.prompt_ids == (1, 2)


@pytest.mark.parametrize(("keeps", "sent"), [(True, True), (False, False)])
def test_the_prompt_cache_is_left_on_where_asked(keeps: bool, sent: bool) -> None:
    held = conversation.generate("small", {"prompt": [1]}, How(keep_cache=keeps))
    (call,), _ = talk(held, [ANSWER])
    assert body_of(call)["cache_prompt"] is sent


@pytest.mark.parametrize(
    ("form", "schema"),
    [
        ({"type": "json_schema", "json_schema": {"schema": {"type": "a"}}}, {"type": "a"}),
        ({"type": "json_object"}, {"type": "object"}),
        ({"type": "json_object", "schema": {"type": "b"}}, {"type": "b"}),
        ({"type": "text"}, None),
    ],
)  # fmt: skip
def test_a_response_format_becomes_a_schema(form: JsonValue, schema: JsonValue) -> None:
    """The native route ignores response_format without a word (tried on b11549)."""
    request: dict[str, JsonValue] = {"prompt": [1], "response_format": form}
    (call,), _ = talk(conversation.generate("small", request), [ANSWER])
    assert body_of(call).get("json_schema") == schema
    assert "response_format" not in body_of(call)


def piece(content: str, tokens: list[int], predicted: int) -> dict[str, Any]:
    found = {"content": content, "tokens": tokens, "tokens_predicted": predicted}
    return found | {"stop": False}


def last(predicted: int) -> dict[str, Any]:
    told = {"timings": {"draft_n": 4}, "stop_type": "limit", "stop": True}
    return piece("", [], predicted) | told


STREAM = How(stream=True)


def test_a_streamed_prompt_is_put_together() -> None:
    events = streamed(piece("a", [3], 1), piece("b", [4], 2), last(2))
    (call,), found = talk(conversation.generate("small", {"prompt": [1]}, STREAM), [events])
    assert body_of(call)["stream"] is True
    assert found == Generation((1,), (3, 4), "ab", "length", drafted=4, accepted=0)


@pytest.mark.parametrize(
    ("whole", "ids"),
    [
        ([3, 8, 4], (3, 8, 4)),
        ([3, 8, 5], (3, 4)),  # another answer: what was streamed stands
        ([3, 8, 4, 9], (3, 4)),
    ],
)
def test_ids_that_a_stream_leaves_out_are_asked_for(whole: list[int], ids: tuple[int, ...]) -> None:
    """Of a character that is several tokens only the last is told (tried on b11549)."""
    events = streamed(piece("a", [3], 1), piece("é", [4], 3), last(3))
    calls, found = talk(
        conversation.generate("small", {"prompt": [1]}, STREAM),
        [events, {"tokens": whole, "content": "aé"}],
    )
    assert "stream" not in body_of(calls[1])
    assert (found.ids, found.text) == (ids, "aé")


def test_a_stream_that_breaks_off_is_an_error() -> None:
    with pytest.raises(EngineAnswerError, match="ended in the middle"):
        talk(
            conversation.generate("small", {"prompt": [1]}, STREAM), [streamed(piece("a", [3], 1))]
        )


def test_candidates_are_sorted() -> None:
    top = [
        {"id": 7, "token": "a", "logprob": -1.5},
        {"id": 9, "token": "b", "logprob": -0.25},
    ]
    answer = {"completion_probabilities": [{"top_logprobs": top}]}
    (call,), found = talk(conversation.candidates("small", (1, 2)), [answer])
    assert found == (Candidate(9, -0.25, "b"), Candidate(7, -1.5, "a"))
    assert body_of(call)["prompt"] == [1, 2]


def test_as_many_candidates_as_are_asked_for() -> None:
    answer: dict[str, Any] = {"completion_probabilities": [{"top_logprobs": []}]}
    (call,), _ = talk(conversation.candidates("small", (1, 2), 4), [answer])
    assert body_of(call)["n_probs"] == 4


def test_the_context_is_that_of_one_slot() -> None:
    props = {"build_info": "b11549-x", "default_generation_settings": {"n_ctx": 512}}
    _, identity = talk(conversation.identify(), [props, {"data": []}])
    assert identity.context == 512


def test_prompts_are_not_scored() -> None:
    assert talk(conversation.score("small", (1, 2), 1), []) == ([], None)


def next_token(rows: int) -> dict[str, Any]:
    top = [{"id": 9, "token": "b", "logprob": -0.25}]
    return {"completion_probabilities": [{"top_logprobs": top}], "timings": {"prompt_n": rows}}


def test_wide_reads_the_beginning_first() -> None:
    calls, found = talk(conversation.wide("small", (1, 2, 3, 4, 5), 3), [{}, next_token(3)])
    assert found == (Candidate(9, -0.25, "b"),)
    first, second = (body_of(call) for call in calls)
    assert (first["prompt"], first["cache_prompt"], first["n_predict"]) == ([1, 2], False, 0)
    assert (second["prompt"], second["cache_prompt"]) == ([1, 2, 3, 4, 5], True)
    assert first["id_slot"] == second["id_slot"]


def test_a_cache_that_was_not_used_is_not_wide() -> None:
    _, found = talk(conversation.wide("small", (1, 2, 3, 4, 5), 3), [{}, next_token(5)])
    assert found is None


def test_a_prompt_of_the_width_is_read_at_once() -> None:
    (call,), found = talk(conversation.wide("small", (1, 2, 3), 3), [next_token(3)])
    assert body_of(call)["cache_prompt"] is False
    assert found is not None


def test_a_prompt_may_be_too_short_for_the_width() -> None:
    assert talk(conversation.wide("small", (1, 2), 3), []) == ([], None)


def test_each_draw_is_a_request_with_its_own_seed() -> None:
    replies = [{"tokens": [3, 4]}, {"tokens": [5]}]
    calls, found = talk(conversation.sample("small", (1, 2), Draws(2, 2, 0.8, 7)), replies)
    assert found == ((3, 4), (5,))
    assert [body_of(call)["seed"] for call in calls] == [7, 8]
    body = body_of(calls[0])
    assert (body["samplers"], body["temperature"], body["n_predict"]) == (["temperature"], 0.8, 2)

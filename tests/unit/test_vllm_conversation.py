"""Conversations with vLLM, with replies as it really gives them."""

import json
from typing import Any

import pytest
from pydantic import JsonValue

from adapters.exchange import Candidate, Draws, EngineAnswerError, Generation, How, Reply, Scored
from adapters.profile import Profile
from adapters.vllm import conversation
from tests.unit.scripted import body_of, streamed, talk


def profile(speculation: dict[str, Any]) -> Profile:
    return Profile.model_validate_json(json.dumps({"profile": "p", "speculation": speculation}))


NGRAM = profile({"method": "ngram", "gamma": 4})
COUNTERS = """\
vllm:spec_decode_num_draft_tokens_total{{engine="0",model_name="small"}} {drafted}
vllm:spec_decode_num_accepted_tokens_total{{engine="0",model_name="small"}} {accepted}
vllm:generation_tokens_total{{engine="0",model_name="small"}} 5.0
"""
PLAIN_COUNTERS = 'vllm:generation_tokens_total{engine="0",model_name="small"} 5.0\n'


def test_identity() -> None:
    models = {"object": "list", "data": [{"id": "small", "root": "org/target"}, {"id": "lora"}]}
    calls, identity = talk(conversation.identify(), [{"version": "0.32.0+cpu"}, models])
    assert [c.path for c in calls] == ["/version", "/v1/models"]
    assert all(c.body is None for c in calls)
    assert identity.version == "0.32.0+cpu"
    assert identity.models == ("small", "lora")
    assert identity.weights == "org/target"


def test_identity_of_an_engine_without_models() -> None:
    _, identity = talk(conversation.identify(), [{"version": "0.32.0"}, {"data": []}])
    assert (identity.models, identity.weights) == ((), None)


def test_a_completion_gives_the_fingerprint() -> None:
    answer = {"system_fingerprint": "vllm-0.32.0-352e2ff6", "usage": {"completion_tokens": 2}}
    (call,), fingerprint = talk(conversation.complete("small"), [answer])
    assert fingerprint == "vllm-0.32.0-352e2ff6"
    assert call.path == "/v1/completions"
    body = body_of(call)
    assert body["model"] == "small"
    assert body["temperature"] == 0


def test_a_completion_of_nothing_is_an_error() -> None:
    answer = {"system_fingerprint": "x", "usage": {"completion_tokens": 0}}
    with pytest.raises(EngineAnswerError, match="completed nothing"):
        talk(conversation.complete("small"), [answer])


@pytest.mark.parametrize(
    ("before", "after", "drafted", "accepted"),
    [
        (COUNTERS.format(drafted=4.0, accepted=1.0), COUNTERS.format(drafted=90, accepted=83),
         86, 82),
        ("", COUNTERS.format(drafted=90.0, accepted=0.0), 90, 0),
        (COUNTERS.format(drafted=4.0, accepted=1.0), COUNTERS.format(drafted=4.0, accepted=1.0),
         0, 0),
        (PLAIN_COUNTERS, PLAIN_COUNTERS, None, None),
    ],
    ids=["drafts", "first drafts", "none drafted", "no counters"],
)  # fmt: skip
def test_proof(before: str, after: str, drafted: int | None, accepted: int | None) -> None:
    calls, proof = talk(conversation.prove("small", NGRAM), [before, {}, after])
    assert [c.path for c in calls] == ["/metrics", "/v1/completions", "/metrics"]
    assert (proof.drafted, proof.accepted) == (drafted, accepted)
    body = body_of(calls[1])
    assert body["allowed_token_ids"] == [body["prompt"][0]]


def test_the_proofs_prompt_is_longer_than_the_longest_lookup() -> None:
    spec = {"method": "ngram", "gamma": 6, "lookup": {"min": 200, "max": 200}}
    calls, _ = talk(conversation.prove("small", profile(spec)), ["", {}, ""])
    assert len(body_of(calls[1])["prompt"]) > 200


def test_a_failed_proof_request_is_an_error() -> None:
    held = conversation.prove("small", NGRAM)
    call = held.send(Reply(next(held), 200, ""))
    with pytest.raises(EngineAnswerError, match="answered 500: EngineCore died"):
        held.send(Reply(call, 500, "EngineCore died"))


def test_generation_of_a_prompt() -> None:
    choice = {
        "prompt_token_ids": [1, 2],
        "token_ids": [3, 4],
        "text": "ab",
        "finish_reason": "stop",
    }
    request: dict[str, JsonValue] = {
        "prompt": "say",
        "max_tokens": 8,
        "stop": ["x"],
        "temperature": 1,
    }
    (call,), answer = talk(conversation.generate("small", request), [{"choices": [choice]}])
    assert answer == Generation((1, 2), (3, 4), "ab", "stop")
    body = body_of(call)
    assert call.path == "/v1/completions"
    assert (body["stop"], body["max_tokens"]) == (["x"], 8)
    assert body["return_token_ids"] is True
    # A model folder's generation_config would change even greedy output.
    neutral = {"temperature": 0, "top_p": 1, "top_k": 0, "repetition_penalty": 1}
    assert neutral.items() <= body.items()


def test_generation_of_a_chat() -> None:
    choice = {"token_ids": [3], "message": {"content": None}, "finish_reason": "length"}
    answer = {"choices": [choice], "prompt_token_ids": [1, 2]}
    request: dict[str, JsonValue] = {
        "messages": [{"role": "user", "content": "hi"}],
        "max_tokens": 1,
    }
    (call,), found = talk(conversation.generate("small", request), [answer])
    assert call.path == "/v1/chat/completions"
    assert found == Generation((1, 2), (3,), "", "length")


@pytest.mark.parametrize(
    "choice",
    [
        {"text": "a", "token_ids": None, "prompt_token_ids": [1]},
        {"text": "a", "token_ids": [1], "prompt_token_ids": None},
        {"text": "a"},
    ],
)
def test_an_answer_without_token_ids_is_an_error(choice: dict[str, Any]) -> None:
    with pytest.raises(EngineAnswerError):
        talk(conversation.generate("small", {"prompt": "a"}), [{"choices": [choice]}])


def test_candidates_are_sorted_and_named_by_token_id() -> None:
    top = {"token_id:7": -1.5, "token_id:9": -0.25, "token_id:8": -3.0}
    answer = {"choices": [{"logprobs": {"top_logprobs": [top]}}]}
    (call,), found = talk(conversation.candidates("small", (1, 2)), [answer])
    assert found == (Candidate(9, -0.25), Candidate(7, -1.5), Candidate(8, -3.0))
    assert body_of(call)["prompt"] == [1, 2]


def test_the_longest_context_is_told() -> None:
    models = {"data": [{"id": "small", "max_model_len": 512}]}
    _, identity = talk(conversation.identify(), [{"version": "0.32.0"}, models])
    assert identity.context == 512


CHOICE = {"prompt_token_ids": [1], "token_ids": [3], "text": "a", "finish_reason": "stop"}


def test_a_lines_own_fields_win_but_for_the_temperature() -> None:
    request: dict[str, JsonValue] = {
        "prompt": [1],
        "presence_penalty": 2,
        "repetition_penalty": 1.5,
        "temperature": 0.7,
        "stream": True,
        "stream_options": {"include_usage": True},
    }
    (call,), _ = talk(conversation.generate("small", request), [{"choices": [CHOICE]}])
    body = body_of(call)
    assert (body["presence_penalty"], body["repetition_penalty"]) == (2, 1.5)
    assert (body["temperature"], body["frequency_penalty"]) == (0, 0)
    assert body["stream"] is False
    assert "stream_options" not in body


def part(**fields: Any) -> dict[str, Any]:
    return {"choices": [{"index": 0, "finish_reason": None, **fields}]}


def test_a_streamed_prompt_is_put_together() -> None:
    top = [{"token_id:3": -0.5}, {"token_id:4": -1.0, "token_id:9": -0.75}]
    events = [
        part(text="a\u2028", token_ids=[3], prompt_token_ids=[1, 2],
             logprobs={"token_logprobs": [-0.5], "top_logprobs": top[:1]}),
        part(text="b", token_ids=[4], prompt_token_ids=None,
             logprobs={"token_logprobs": [-1.0], "top_logprobs": top[1:]}),
        {"choices": [], "usage": {"prompt_tokens": 2}},
        part(text="", token_ids=[], finish_reason="length", logprobs=None),
    ]  # fmt: skip
    how = How(stream=True, own_margins=True)
    (call,), found = talk(
        conversation.generate("small", {"prompt": "say"}, how), [streamed(*events)]
    )
    assert found == Generation((1, 2), (3, 4), "a\u2028b", "length", own_margins=(0.0, 0.25))
    body = body_of(call)
    assert (body["stream"], body["logprobs"]) == (True, 1)
    assert body["return_tokens_as_token_ids"] is True


def test_a_streamed_chat_with_tools_is_put_together() -> None:
    first = {"index": 0, "id": "call-1", "function": {"name": "look", "arguments": '{"b": 1'}}
    second = {"index": 0, "function": {"arguments": ', "a": 2}'}}
    other = {"index": 1, "function": {"name": "wait", "arguments": "soon"}}
    events = [
        part(delta={"role": "assistant", "content": ""}) | {"prompt_token_ids": [1, 2]},
        part(delta={"content": "so "}, token_ids=[3]),
        part(delta={"tool_calls": [first]}, token_ids=[4, 5]),
        part(delta={"tool_calls": [second, other]}, token_ids=[6]),
        part(delta={}, finish_reason="tool_calls", token_ids=[]),
    ]
    request: dict[str, JsonValue] = {"messages": [], "tools": [{"type": "function"}]}
    _, found = talk(conversation.generate("small", request, How(stream=True)), [streamed(*events)])
    text = 'so [{"arguments":{"a":2,"b":1},"name":"look"},{"arguments":"soon","name":"wait"}]'
    assert found == Generation((1, 2), (3, 4, 5, 6), text, "tool_calls")


def test_called_tools_are_in_the_text_whole_as_streamed() -> None:
    calls = [{"id": "call-7", "function": {"name": "look", "arguments": '{"b": 1,"a": 2}'}}]
    message = {"content": None, "tool_calls": calls}
    choice = {"token_ids": [3], "message": message, "finish_reason": "tool_calls"}
    request: dict[str, JsonValue] = {"messages": [], "tools": [{}]}
    _, found = talk(
        conversation.generate("small", request), [{"choices": [choice], "prompt_token_ids": [1]}]
    )
    assert found.text == '[{"arguments":{"a":2,"b":1},"name":"look"}]'


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        (streamed(part(text="a", token_ids=[3])), "ended in the middle"),
        (streamed(), "streamed nothing"),
        ("data: {not JSON}\n\n", "no JSON"),
        (streamed({"error": {"message": "the engine died"}}), "the engine died"),
    ],
)
def test_a_stream_that_breaks_off_is_an_error(text: str, complaint: str) -> None:
    held = conversation.generate("small", {"prompt": "say"}, How(stream=True))
    with pytest.raises(EngineAnswerError, match=complaint):
        talk(held, [text])


@pytest.mark.parametrize(
    ("fields", "asks"),
    [
        ({}, True),
        ({"presence_penalty": 0, "repetition_penalty": 1}, True),
        ({"frequency_penalty": 0.5}, False),
        ({"min_tokens": 4}, False),
        ({"response_format": {"type": "json_object"}}, False),
        ({"logit_bias": {"5": 1}}, False),
    ],
)
def test_margins_are_not_asked_for_where_something_else_chooses(
    fields: dict[str, JsonValue], asks: bool
) -> None:
    request: dict[str, JsonValue] = {"prompt": [1], **fields}
    held = conversation.generate("small", request, How(own_margins=True))
    (call,), found = talk(held, [{"choices": [CHOICE]}])
    assert ("logprobs" in body_of(call)) is asks
    assert found.own_margins is None  # the answer has no log-probabilities


def test_margins_of_a_chat() -> None:
    tops = [{"token": "token_id:9", "logprob": -0.5}, {"token": "token_id:3", "logprob": -0.75}]
    entry = {"token": "token_id:3", "logprob": -0.75, "top_logprobs": tops}
    choice = {"token_ids": [3], "message": {"content": "a"}, "logprobs": {"content": [entry]}}
    held = conversation.generate("small", {"messages": []}, How(own_margins=True))
    (call,), found = talk(held, [{"choices": [choice], "prompt_token_ids": [1]}])
    assert (body_of(call)["logprobs"], body_of(call)["top_logprobs"]) == (True, 1)
    assert found.own_margins == (0.25,)


def test_as_many_candidates_as_are_asked_for() -> None:
    answer = {"choices": [{"logprobs": {"top_logprobs": [{"token_id:7": -1.5}]}}]}
    (call,), _ = talk(conversation.candidates("small", (1, 2), 4), [answer])
    assert body_of(call)["logprobs"] == 4


def entry(**logprobs: float) -> dict[str, Any]:
    return {name[1:]: {"logprob": value, "rank": 1} for name, value in logprobs.items()}


def test_a_score_is_the_given_token_beside_the_best() -> None:
    told = [None, entry(_6=-9.0, _5=-0.5), entry(_7=-0.25), entry(_3=-1.0, _8=-1.0)]
    answer = {"choices": [{"prompt_logprobs": told}]}
    (call,), found = talk(conversation.score("small", (5, 6, 7, 8), 1), [answer])
    assert found == (
        Scored(6, -9.0, 5, -0.5),
        Scored(7, -0.25, 7, -0.25),
        Scored(8, -1.0, 8, -1.0),  # as likely as the best is the best
    )
    assert body_of(call)["prompt"] == [5, 6, 7, 8]
    assert body_of(call)["prompt_logprobs"] == 1


def test_a_score_of_another_length_is_an_error() -> None:
    answer = {"choices": [{"prompt_logprobs": [None]}]}
    with pytest.raises(EngineAnswerError, match="2 tokens were asked about, 1 are told"):
        talk(conversation.score("small", (5, 6), 1), [answer])


@pytest.mark.parametrize(("length", "padded"), [(1, 4), (3, 4), (4, 5), (5, 8), (7, 8), (8, 9)])
def test_wide_fills_the_piece_that_the_last_token_is_in(length: int, padded: int) -> None:
    """Four rows a step: pieces begin at 0, 4, 8, and the place after the last is scored too."""
    ids = tuple(range(20, 20 + length))
    told: list[Any] = [None, *(entry(_1=-2.0, _2=-0.5) for _ in range(padded - 1))]
    told[length] = entry(_4=-2.0, _9=-0.5, _3=-1.0)
    (call,), found = talk(
        conversation.wide("small", ids, 4), [{"choices": [{"prompt_logprobs": told}]}]
    )
    assert found == (Candidate(9, -0.5), Candidate(3, -1.0), Candidate(4, -2.0))
    assert body_of(call)["prompt"] == [*ids, *[ids[-1]] * (padded - length)]


def test_draws_have_seeds_counted_up_over_requests() -> None:
    """More would not fit one step: the CPU build then dies of a seed."""
    ids = tuple(range(1000))
    answers = [
        {"choices": [{"index": i, "token_ids": [number + i]} for i in (1, 0)]}
        for number in (10, 20)
    ]
    held = conversation.sample("small", ids, Draws(4, 1, 0.8, 7))
    calls, found = talk(held, answers)
    assert found == ((10,), (11,), (20,), (21,))
    bodies = [body_of(call) for call in calls]
    assert [(b["n"], b["seed"]) for b in bodies] == [(2, 7), (2, 9)]
    assert [(b["temperature"], b["max_tokens"]) for b in bodies] == [(0.8, 1)] * 2
    assert not {"logprobs", "min_p"} & set(bodies[0])


def test_fewer_draws_than_asked_for_are_an_error() -> None:
    answer = {"choices": [{"index": 0, "token_ids": [3]}]}
    with pytest.raises(EngineAnswerError, match="2 answers were asked for, 1 came"):
        talk(conversation.sample("small", (1,), Draws(2, 1, 1.0, 0)), [answer])

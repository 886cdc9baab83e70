"""What the gate asks of TensorRT-LLM, with replies as its routes give them (read, not run)."""

from typing import Any

import pytest
from pydantic import JsonValue

from adapters.exchange import Draws, EngineAnswerError, Generation, How
from adapters.tensorrt_llm import conversation
from adapters.tensorrt_llm.conversation import UNKNOWN
from tests.unit.scripted import body_of, streamed, talk


def test_a_lines_own_fields_win_but_for_the_temperature() -> None:
    request: dict[str, JsonValue] = {"prompt": [1], "presence_penalty": 2, "temperature": 0.7}
    choice = {"token_ids": [3], "finish_reason": "stop"}
    (call,), _ = talk(
        conversation.generate("small", request | {"stream": True}), [{"choices": [choice]}]
    )
    body = body_of(call)
    assert (body["presence_penalty"], body["temperature"]) == (2, 0)
    assert "stream" not in body


def part(ids: list[int], finish: str | None = None) -> dict[str, Any]:
    choice = {"index": 0, "text": "", "token_ids": ids, "finish_reason": finish}
    return {"choices": [choice]}


def test_a_stream_is_put_together() -> None:
    usage = {"choices": [], "usage": {"prompt_tokens": 2}}
    events = streamed(part([3]), part([4, 5], "length"), usage)
    held = conversation.generate("small", {"prompt": "say"}, How(stream=True))
    calls, found = talk(held, [events, {"tokens": [1, 2]}])
    assert found == Generation((1, 2), (3, 4, 5), "", "length")
    body = body_of(calls[0])
    assert (body["stream"], body["stream_options"]) == (True, {"include_usage": True})


def test_it_is_never_asked_for_margins() -> None:
    """It refuses log-probabilities while speculating, or ends a worker (PR #18401)."""
    held = conversation.generate("small", {"prompt": [1]}, How(own_margins=True))
    (call,), found = talk(held, [part([3], "stop")])
    assert "logprobs" not in body_of(call)
    assert found.own_margins is None


def test_it_neither_scores_prompts_nor_tells_of_rows() -> None:
    assert talk(conversation.score("small", (1, 2), 1), []) == ([], None)
    assert talk(conversation.wide("small", (1, 2), 4), []) == ([], None)


def test_each_draw_is_a_request_with_its_own_seed() -> None:
    replies = [part([3, 4], "length"), part([5], "stop")]
    calls, found = talk(conversation.sample("small", (1, 2), Draws(2, 2, 0.8, 7)), replies)
    assert found == ((3, 4), (5,))
    assert [body_of(call)["seed"] for call in calls] == [7, 8]
    assert [body_of(call)["temperature"] for call in calls] == [0.8, 0.8]


def test_draws_after_unknown_ids_are_not_asked_for() -> None:
    with pytest.raises(EngineAnswerError, match="does not tell the ids"):
        next(conversation.sample("small", (1, UNKNOWN), Draws(1, 1, 1.0, 0)))

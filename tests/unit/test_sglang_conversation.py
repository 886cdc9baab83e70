"""Conversations with SGLang, with replies of the shapes that its versions give."""

import json
from typing import Any

import pytest
from pydantic import JsonValue

from adapters.exchange import (
    Candidate,
    Draws,
    EngineAnswerError,
    Generation,
    How,
    Scored,
)
from adapters.profile import Profile
from adapters.sglang import conversation
from tests.unit.scripted import body_of, streamed, talk

INFO = {"version": "0.5.23", "model_path": "/m/t", "served_model_name": "small"}
OLDEST = {"spec_accept_token_num": 12, "spec_draft_token_num": 64, "spec_verify_ct": 16}
RENAMED = {"spec_accepted_drafts": 12, "spec_proposed_drafts": 64, "spec_verify_ct": 16}
NEWEST = {"spec_num_correct_drafts": 12, "spec_num_proposed_drafts": 64, "spec_verify_ct": 16}


def profile(**speculation: Any) -> Profile:
    data = {"profile": "p", "speculation": speculation}
    return Profile.model_validate_json(json.dumps(data))


def info(algorithm: str | None, tokens: int | None = None, **fields: Any) -> dict[str, Any]:
    told = {"speculative_algorithm": algorithm, "speculative_num_draft_tokens": tokens}
    return INFO | told | {"speculative_adaptive": False} | fields


def answer(**meta: Any) -> dict[str, Any]:
    meta = {"completion_tokens": 2, "finish_reason": {"type": "length", "length": 2}, **meta}
    return {"text": "ab", "output_ids": [3, 4], "meta_info": meta}


NGRAM = profile(method="ngram", gamma=4)
PLAIN = profile(method="none")


def test_identity() -> None:
    models = {"object": "list", "data": [{"id": "small", "root": "small"}, {"id": "lora"}]}
    calls, identity = talk(conversation.identify(), [INFO, models])
    assert [c.path for c in calls] == ["/server_info", "/v1/models"]
    assert (identity.version, identity.models) == ("0.5.23", ("small", "lora"))
    assert identity.weights == "/m/t"


def test_the_fingerprint_is_the_version_and_the_resolved_settings() -> None:
    calls, first = talk(conversation.complete("small"), [answer(), info("EAGLE", 5)])
    assert [c.path for c in calls] == ["/generate", "/server_info"]
    assert first.startswith("sglang-0.5.23-")
    _, again = talk(conversation.complete("small"), [answer(), info("EAGLE", 5, port=9, pid=7)])
    _, other = talk(conversation.complete("small"), [answer(), info("EAGLE", 6)])
    assert first == again != other


def test_a_completion_of_nothing_is_an_error() -> None:
    with pytest.raises(EngineAnswerError, match="completed nothing"):
        talk(conversation.complete("small"), [answer(completion_tokens=0), INFO])


@pytest.mark.parametrize("meta", [OLDEST, RENAMED, NEWEST, {**RENAMED, **NEWEST}])
def test_proof_under_every_versions_names(meta: dict[str, int]) -> None:
    calls, proof = talk(conversation.prove("small", NGRAM), [info("NGRAM", 5), answer(**meta)])
    assert [c.path for c in calls] == ["/server_info", "/generate"]
    assert (proof.drafted, proof.accepted) == (64, 12)
    assert proof.detail == "meta_info.spec_verify_ct 16"
    assert len(set(body_of(calls[1])["input_ids"])) == 1


def test_a_request_that_was_not_verified_proves_nothing() -> None:
    _, proof = talk(conversation.prove("small", NGRAM), [info("NGRAM", 5), answer()])
    assert (proof.drafted, proof.accepted) == (0, 0)
    assert "absent" in proof.detail


def test_a_plain_engine_drafts_nothing() -> None:
    _, proof = talk(conversation.prove("small", PLAIN), [info(None), answer()])
    assert (proof.drafted, proof.accepted) == (0, 0)


TIERS = [{"batch": "1-8", "gamma": 4}, {"batch": "9+", "gamma": 0}]


@pytest.mark.parametrize(
    ("speculation", "told"),
    [
        ({"method": "eagle3", "gamma": 4}, info("EAGLE3", 5)),
        ({"method": "mtp", "gamma": 2}, info("EAGLE", 3)),
        ({"method": "mtp", "gamma": 2}, info("FROZEN_KV_MTP", 3)),
        ({"method": "dflash", "gamma": 7}, info("DFLASH", 8)),
        ({"method": "eagle", "gamma": 5, "tree": {"branches": 4, "tokens": 16}}, info("EAGLE", 17)),
        (
            {"method": "eagle3", "gamma": 4, "schedule": TIERS},
            info("EAGLE3", 5, speculative_adaptive=True),
        ),
        ({"method": "ngram", "gamma": 6, "schedule": TIERS}, info("NGRAM", 5)),
    ],
)
def test_settings_as_the_profile_asks(speculation: dict[str, Any], told: dict[str, Any]) -> None:
    _, proof = talk(conversation.prove("small", profile(**speculation)), [told, answer(**NEWEST)])
    assert proof.drafted == 64


@pytest.mark.parametrize(
    ("speculation", "told", "complaint"),
    [
        ({"method": "none"}, info("EAGLE", 5), "runs algorithm EAGLE, the profile asks for none"),
        ({"method": "eagle3", "gamma": 4}, info(None), "runs algorithm None"),
        ({"method": "eagle3", "gamma": 4}, info("EAGLE", 5), "runs algorithm EAGLE"),
        ({"method": "ngram", "gamma": 4}, info("NGRAM", 12), "verifies 12 tokens a step.*for 5"),
        # adaptive speculation was switched off, and the window with it
        (
            {"method": "eagle3", "gamma": 6, "schedule": TIERS},
            info("EAGLE3", 7),
            "verifies 7 tokens a step",
        ),
    ],
)
def test_other_settings_are_told(
    speculation: dict[str, Any], told: dict[str, Any], complaint: str
) -> None:
    with pytest.raises(EngineAnswerError, match=complaint):
        talk(conversation.prove("small", profile(**speculation)), [told])


def test_generation_of_a_prompt() -> None:
    request: dict[str, JsonValue] = {
        "prompt": "say",
        "max_tokens": 8,
        "stop": ["x"],
        "temperature": 1,
        "seed": 4,
        "model": "other",
    }
    calls, found = talk(
        conversation.generate("small", request), [{"tokens": [1, 2]}, answer(**NEWEST)]
    )
    assert found == Generation((1, 2), (3, 4), "ab", "length", 0.0, 64, 12)
    assert [c.path for c in calls] == ["/tokenize", "/generate"]
    assert body_of(calls[0]) == {"model": "small", "prompt": "say"}
    assert body_of(calls[1])["input_ids"] == [1, 2]
    sampling = body_of(calls[1])["sampling_params"]
    assert (sampling["max_new_tokens"], sampling["stop"]) == (8, ["x"])
    assert sampling["temperature"] == 0
    assert not {"seed", "model", "max_tokens", "prompt"} & set(sampling)


def test_a_prompt_of_ids_is_not_tokenized() -> None:
    calls, found = talk(conversation.generate("small", {"prompt": [7, 8]}), [answer()])
    assert [c.path for c in calls] == ["/generate"]
    assert found.prompt_ids == (7, 8)
    assert (found.drafted, found.accepted) == (None, None)


def test_generation_of_a_chat() -> None:
    request: dict[str, JsonValue] = {
        "messages": [{"role": "user", "content": "hi"}],
        "chat_template_kwargs": {"enable_thinking": False},
        "max_completion_tokens": 4,
    }
    calls, found = talk(conversation.generate("small", request), [{"tokens": [1]}, answer()])
    assert set(body_of(calls[0])) == {"model", "messages", "chat_template_kwargs"}
    assert body_of(calls[1])["sampling_params"]["max_new_tokens"] == 4
    assert "messages" not in body_of(calls[1])["sampling_params"]
    assert found.prompt_ids == (1,)


@pytest.mark.parametrize(
    ("form", "schema"),
    [
        ({"type": "json_schema", "json_schema": {"schema": {"type": "a"}}}, '{"type": "a"}'),
        ({"type": "json_object"}, '{"type": "object"}'),
        ({"type": "text"}, None),
    ],
)  # fmt: skip
def test_a_response_format_becomes_a_schema(form: dict[str, Any], schema: str | None) -> None:
    request: dict[str, JsonValue] = {"prompt": [1], "response_format": form}
    calls, _ = talk(conversation.generate("small", request), [answer()])
    assert body_of(calls[0])["sampling_params"].get("json_schema") == schema


def test_an_answer_without_token_ids_is_an_error() -> None:
    with pytest.raises(EngineAnswerError):
        talk(conversation.generate("small", {"prompt": [1]}), [answer() | {"output_ids": None}])


def test_candidates_are_sorted() -> None:
    top = [[-1.5, 7, None], [-0.25, 9, "x"], [-3.0, 8, None]]
    (call,), found = talk(
        conversation.candidates("small", (1, 2)), [answer(output_top_logprobs=[top])]
    )
    assert found == (Candidate(9, -0.25, "x"), Candidate(7, -1.5), Candidate(8, -3.0))
    assert body_of(call)["input_ids"] == [1, 2]
    assert (body_of(call)["return_logprob"], body_of(call)["top_logprobs_num"]) == (True, 20)


def test_the_longest_context_is_told() -> None:
    models = {"data": [{"id": "small", "max_model_len": 512}]}
    _, identity = talk(conversation.identify(), [INFO, models])
    assert identity.context == 512


def test_a_lines_own_fields_win_but_for_the_temperature() -> None:
    request: dict[str, JsonValue] = {"prompt": [1], "presence_penalty": 2, "temperature": 0.7}
    (call,), _ = talk(conversation.generate("small", request | {"stream": True}), [answer()])
    sampling = body_of(call)["sampling_params"]
    assert (sampling["presence_penalty"], sampling["repetition_penalty"]) == (2, 1)
    assert sampling["temperature"] == 0
    assert "stream" not in sampling
    assert body_of(call)["stream"] is False


def event(text: str, ids: list[int], finish: str | None = None, **meta: Any) -> dict[str, Any]:
    reason = {"type": finish} if finish else None
    told = {"completion_tokens": 2, "finish_reason": reason, **meta}
    return {"text": text, "output_ids": ids, "meta_info": told}


@pytest.mark.parametrize(
    "events",
    [
        [event("a", [3]), event("ab", [3, 4], "length")],
        [event("a", [3]), event("b", [4], "length")],  # --incremental-streaming-output
    ],
    ids=["everything so far", "what is new"],
)
def test_a_stream_is_put_together(events: list[Any]) -> None:
    held = conversation.generate("small", {"prompt": [1]}, How(stream=True))
    (call,), found = talk(held, [streamed(*events)])
    assert body_of(call)["stream"] is True
    assert found == Generation((1,), (3, 4), "ab", "length")


def test_a_stream_that_breaks_off_is_an_error() -> None:
    held = conversation.generate("small", {"prompt": [1]}, How(stream=True))
    with pytest.raises(EngineAnswerError, match="ended in the middle"):
        talk(held, [streamed(event("a", [3]))])


def test_margins_of_its_own_log_probabilities() -> None:
    own = [[-0.5, 3, None], [-1.0, 4, None]]
    tops = [[[-0.5, 3, None]], [[-0.75, 9, None]]]
    told = answer(output_token_logprobs=own, output_top_logprobs=tops)
    held = conversation.generate("small", {"prompt": [1]}, How(own_margins=True))
    (call,), found = talk(held, [told])
    assert found.own_margins == (0.0, 0.25)
    assert (body_of(call)["return_logprob"], body_of(call)["top_logprobs_num"]) == (True, 1)


def test_no_margins_where_the_version_tells_none() -> None:
    held = conversation.generate("small", {"prompt": [1]}, How(own_margins=True))
    _, found = talk(held, [answer(output_token_logprobs=[[-0.5, 3, None]])])
    assert found.own_margins is None


def test_no_margins_are_asked_for_under_penalties() -> None:
    request: dict[str, JsonValue] = {"prompt": [1], "presence_penalty": 1}
    (call,), _ = talk(conversation.generate("small", request, How(own_margins=True)), [answer()])
    assert "return_logprob" not in body_of(call)


def test_a_score_is_the_given_token_beside_the_best() -> None:
    """The lists begin with the token before, which is told nothing of."""
    own = [[None, 5, None], [-9.0, 6, None], [-0.5, 7, None]]
    tops = [None, [[-0.25, 8, None]], [[-0.5, 3, None]]]
    told = answer(input_token_logprobs=own, input_top_logprobs=tops)
    (call,), found = talk(conversation.score("small", (4, 5, 6, 7), 2), [told])
    assert found == (Scored(6, -9.0, 8, -0.25), Scored(7, -0.5, 7, -0.5))
    assert body_of(call)["logprob_start_len"] == 1


def test_a_score_of_another_length_is_an_error() -> None:
    told = answer(input_token_logprobs=[[None, 5, None]], input_top_logprobs=[None])
    with pytest.raises(EngineAnswerError, match="1 tokens were asked about, 0 are told"):
        talk(conversation.score("small", (5, 6), 1), [told])


WIDE = {"chunked_prefill_size": 4, "disable_radix_cache": True}


@pytest.mark.parametrize(("length", "padded"), [(3, 4), (4, 5), (5, 8)])
def test_wide_fills_the_piece_that_the_last_token_is_in(length: int, padded: int) -> None:
    ids = tuple(range(20, 20 + length))
    told = answer(input_top_logprobs=[None, [[-2.0, 3, None], [-0.5, 9, None]]])
    calls, found = talk(conversation.wide("small", ids, 4), [WIDE, told])
    assert found == (Candidate(9, -0.5), Candidate(3, -2.0))
    asked = body_of(calls[1])
    assert asked["input_ids"] == [*ids, *[ids[-1]] * (padded - length)]
    assert asked["logprob_start_len"] == length - 1


@pytest.mark.parametrize("other", [{"chunked_prefill_size": 8}, {"disable_radix_cache": False}])
def test_an_engine_that_was_not_launched_so_is_not_wide(other: dict[str, Any]) -> None:
    _, found = talk(conversation.wide("small", (1, 2), 4), [WIDE | other])
    assert found is None


def test_each_draw_of_a_batch_has_its_own_seed() -> None:
    replies = [[{"output_ids": [3]}] * 128, [{"output_ids": [4, 5]}] * 2]
    calls, found = talk(conversation.sample("small", (1, 2), Draws(130, 2, 0.8, 7)), replies)
    assert found == ((3,),) * 128 + ((4, 5),) * 2
    sampling = [one for call in calls for one in body_of(call)["sampling_params"]]
    assert [one["sampling_seed"] for one in sampling] == list(range(7, 137))
    assert sampling[0]["temperature"] == 0.8
    assert body_of(calls[1])["input_ids"] == [[1, 2]] * 2


def test_fewer_draws_than_asked_for_are_an_error() -> None:
    with pytest.raises(EngineAnswerError, match="2 answers were asked for, 1 came"):
        talk(conversation.sample("small", (1,), Draws(2, 1, 1.0, 0)), [[{"output_ids": [3]}]])

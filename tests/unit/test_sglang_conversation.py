"""Conversations with SGLang, with replies of the shapes that its versions give."""

import json
from collections.abc import Mapping
from typing import Any

import pytest
from pydantic import JsonValue

from adapters.exchange import Call, Candidate, EngineAnswerError, Generation
from adapters.profile import Profile
from adapters.sglang import conversation
from tests.unit.scripted import talk

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


def body(call: Call) -> Mapping[str, Any]:
    assert call.body is not None
    return call.body


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
    assert len(set(body(calls[1])["input_ids"])) == 1


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
    assert body(calls[0]) == {"model": "small", "prompt": "say"}
    assert body(calls[1])["input_ids"] == [1, 2]
    sampling = body(calls[1])["sampling_params"]
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
    assert set(body(calls[0])) == {"model", "messages", "chat_template_kwargs"}
    assert body(calls[1])["sampling_params"]["max_new_tokens"] == 4
    assert "messages" not in body(calls[1])["sampling_params"]
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
    assert body(calls[0])["sampling_params"].get("json_schema") == schema


def test_an_answer_without_token_ids_is_an_error() -> None:
    with pytest.raises(EngineAnswerError):
        talk(conversation.generate("small", {"prompt": [1]}), [answer() | {"output_ids": None}])


def test_candidates_are_sorted() -> None:
    top = [[-1.5, 7, None], [-0.25, 9, "x"], [-3.0, 8, None]]
    (call,), found = talk(
        conversation.candidates("small", (1, 2)), [answer(output_top_logprobs=[top])]
    )
    assert found == (Candidate(9, -0.25, "x"), Candidate(7, -1.5), Candidate(8, -3.0))
    assert body(call)["input_ids"] == [1, 2]
    assert (body(call)["return_logprob"], body(call)["top_logprobs_num"]) == (True, 5)

"""Screens: what is wrong with an answer without knowing the right one, told relative to plain."""

from dataclasses import replace
from typing import Any

import pytest

from adapters.exchange import Generation
from orchestrator.gate.evidence import Arm, Question
from orchestrator.gate.screen import repeated, screens

IDS = tuple(range(40))


def generation(**fields: Any) -> Generation:
    usual: dict[str, Any] = {"prompt_ids": (0,), "ids": IDS, "text": "some words", "seconds": 1.0}
    return Generation(**{**usual, "finish_reason": "length", **fields})


def question(**fields: Any) -> Question:
    usual: dict[str, Any] = {"id": "q", "prompt": "p", "type": "chat", "suite": "loaded"}
    return Question(**{**usual, "request": {"prompt": "x"}, **fields})


def screened(
    answer: Generation | None, *plain: Generation | None, asked: Question | None = None
) -> list[str]:
    """Names of the checks that find something in one answer beside plain's."""
    one = asked or question()
    arms = [Arm(f"A{n}", {one.id: p}) for n, p in enumerate(plain or (generation(),), start=1)]
    found = screens({one.id: one}, Arm("S1", {one.id: answer}), arms)
    assert all((f.question, f.type, f.arm) == (one.id, one.type, "S1") for f in found)
    assert all(f.message for f in found)
    return [f.check for f in found]


@pytest.mark.parametrize(
    "fields",
    [{}, {"text": ""}, {"ids": (), "text": ""}, {"text": "<|im_end|>"}, {"ids": (1,) * 40}],
)
def test_what_plain_answers_too_is_nothing_wrong(fields: dict[str, Any]) -> None:
    assert screened(generation(**fields), generation(**fields)) == []
    assert screened(generation(**fields), generation(), generation(**fields, seconds=2.0)) == []


@pytest.mark.parametrize(
    "fields", [{"ids": (), "text": ""}, {"text": ""}, {"text": " \n"}, {"ids": (1, 2), "text": ""}]
)
def test_empty_answers(fields: dict[str, Any]) -> None:
    assert screened(generation(**fields)) == ["empty"]
    empty = generation(ids=(), text="", finish_reason="stop")
    assert "empty" not in screened(generation(**fields), generation(), empty)


def test_a_call_of_a_tool_has_no_text() -> None:
    call = generation(ids=(1, 2), text="")
    assert screened(call, asked=question(suite="tools")) == []
    assert screened(replace(call, ids=()), asked=question(suite="tools")) == ["empty"]


def test_other_text_of_the_same_tokens() -> None:
    assert screened(generation(text="some")) == ["text"]
    assert screened(generation(text="some words�")) == [], "half a character is shown or not"
    assert screened(generation(text="some", ids=(1, 2))) == []


def test_another_reason_to_end_at_the_same_tokens() -> None:
    assert screened(generation(finish_reason="stop")) == ["finish_reason"]
    assert screened(generation(finish_reason="stop", ids=(1, 2))) == []


@pytest.mark.parametrize(
    "token",
    [
        "<|im_end|>", "<|endoftext|>", "<\uff5cend\u2581of\u2581sentence\uff5c>", "<s>", "</s>",
        "<bos>", "<pad>", "[INST]", "[/INST]", "<<SYS>>", "<start_of_turn>", "<end_of_turn>",
        "<unused12>", "<0x0A>",
    ],
)  # fmt: skip
def test_special_tokens_in_the_text(token: str) -> None:
    answer = generation(ids=(1, 2), text=f"some {token} words")
    assert screened(answer) == ["special"]
    assert screened(answer, generation(text=f"plain says {token} too")) == []
    assert screened(answer, asked=question(request={"prompt": f"what is {token}?"})) == []


@pytest.mark.parametrize("text", ["a < b | c > d", "<strong>", "x[INSTALL]", "List<String>", "<|"])
def test_ordinary_text_is_not_special(text: str) -> None:
    assert screened(generation(ids=(1, 2), text=text)) == []


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"text": '{"a": '}, ["json"]),
        ({"text": "no"}, ["json"]),
        ({"text": '{"a": 2}'}, []),
        ({"text": '{"a": ', "finish_reason": "length"}, []),
        ({"text": "[" * 100_000}, ["json"]),
    ],
)
def test_json_where_plain_has_it(fields: dict[str, Any], expected: list[str]) -> None:
    asked = question(request={"prompt": "x", "response_format": {"type": "json_object"}})
    plain = generation(text='{"a": 1}', finish_reason="stop")
    answer = generation(**{"ids": (1, 2), "finish_reason": "stop", **fields})
    assert screened(answer, plain, asked=asked) == expected
    assert screened(answer, plain) == [], "nobody asked for JSON"
    assert screened(answer, plain, generation(text="no"), asked=asked) == []


def test_nothing_is_said_where_an_answer_is_missing() -> None:
    assert screened(None) == []
    assert screened(generation(text=""), None) == []


def test_repetition() -> None:
    assert repeated(tuple(range(96))) == 0
    assert repeated((1, 2, 3, 4, 5, 6, 7, 8) * 12) == pytest.approx(1 - 8 / 95)
    assert repeated((7,) * 96) > 0.98
    assert repeated((7,) * 10) == 0, "too short to tell"


LOOP = generation(ids=(1, 2) * 20, text="a loop")
ENDED = generation(ids=IDS[:9], text="it ended", finish_reason="stop")


def many(answers: list[Generation], copies: int = 1) -> tuple[dict[str, Question], Arm]:
    asked = {
        f"{n}/{copy}": question(id=f"{n}/{copy}", prompt=str(n))
        for n in range(len(answers))
        for copy in range(copies)
    }
    return asked, Arm("S1", {name: answers[int(q.prompt)] for name, q in asked.items()})


def mixes(answers: list[Generation], plain: list[Generation], copies: int = 1) -> list[str]:
    asked, arm = many(answers, copies)
    found = screens(asked, arm, [many(plain, copies)[1], many(plain, copies)[1]])
    return [f.check for f in found]


USUAL = [generation()] * 20


@pytest.mark.parametrize(("other", "check"), [(LOOP, "loop"), (ENDED, "finish_reason")])
def test_a_property_of_many_prompts_is_found(other: Generation, check: str) -> None:
    assert mixes([other] * 10 + USUAL[10:], USUAL) == [check]
    assert mixes([other] * 9 + USUAL[9:], USUAL) == [], "so many may be chance"
    assert mixes([other] * 20, [other] * 20) == []


def test_answers_that_do_not_end_are_found() -> None:
    assert mixes(USUAL, [ENDED] * 20) == ["finish_reason"]


def test_a_property_that_goes_both_ways_is_chance() -> None:
    assert mixes([LOOP] * 10 + USUAL[10:], USUAL[:10] + [LOOP] * 10) == []


def test_answers_to_one_prompt_are_one_sample() -> None:
    assert mixes([LOOP, *USUAL[1:]], USUAL, copies=12) == []
    assert mixes([LOOP] * 10 + USUAL[10:], USUAL, copies=3) == ["loop"]

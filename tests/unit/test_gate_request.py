"""Requests made from earlier answers of the same arm."""

from collections.abc import Mapping
from typing import Any

import pytest

from adapters.exchange import Generation, How
from orchestrator.gate.evidence import Question, Suite
from orchestrator.gate.request import OWN, asked, how, stop_string

TEXT = "once upon a time there was a fox"


def generation(text: str = TEXT, prompt: tuple[int, ...] = (1, 2, 3)) -> Generation:
    return Generation(prompt, (7, 8), text, "length")


def question(request: Mapping[str, Any], suite: Suite = "greedy", **other: Any) -> Question:
    return Question("q", "p", "chat", suite, request, **other)


def test_a_request_without_gaps_goes_out_as_it_is() -> None:
    request = {"prompt": "x", "max_tokens": 4, "stop": ["."]}
    assert asked(question(request), {}) == request
    chat = {"messages": [{"role": "user", "content": "hi"}, {"role": "user"}]}
    assert asked(question(chat), {}) == chat


def test_a_prompt_grows_by_answers() -> None:
    request = {"prompt": ["a ", {"answer": "one"}, " b ", {"answer": "two"}, " c"]}
    answers = {"one": generation("1"), "two": generation("2")}
    assert asked(question(request, follows="two"), answers) == {"prompt": "a 1 b 2 c"}


def test_a_conversation_grows_by_answers() -> None:
    request = {"messages": [{"role": "assistant", "content": {"answer": "one"}, "name": "n"}]}
    sent = asked(question(request, follows="one"), {"one": generation("1")})
    assert sent == {"messages": [{"role": "assistant", "content": "1", "name": "n"}]}


def test_a_stop_string_is_from_the_middle_of_the_answer() -> None:
    request = {"prompt": "x", "stop": {"middle": "one"}}
    sent = asked(question(request), {"one": generation()})
    assert sent == {"prompt": "x", "stop": TEXT[16:22]}
    assert request == {"prompt": "x", "stop": {"middle": "one"}}


@pytest.mark.parametrize("text", ["", "short text", " " * 40, "half a �haracter ��� in it"])
def test_no_stop_string_where_the_text_gives_none(text: str) -> None:
    assert stop_string(text) is None
    request = {"prompt": "x", "stop": {"middle": "one"}}
    assert asked(question(request), {"one": generation(text)}) == {"prompt": "x"}


def test_a_long_prompt_repeats_the_ids_of_others() -> None:
    request = {"prompt": {"cycle": ["one", "two"], "length": 7}, "max_tokens": 2}
    answers = {"one": generation(), "two": generation(prompt=(4, 5))}
    assert asked(question(request), answers) == {"prompt": [1, 2, 3, 4, 5, 1, 2], "max_tokens": 2}


@pytest.mark.parametrize("ids", [(), (-1, -1)])
def test_no_long_prompt_of_ids_that_the_engine_does_not_tell(ids: tuple[int, ...]) -> None:
    request = {"prompt": {"cycle": ["one"], "length": 7}}
    assert asked(question(request), {"one": generation(prompt=ids)}) is None


@pytest.mark.parametrize(
    "request_",
    [
        {"prompt": ["a", {"answer": "one"}]},
        {"messages": [{"role": "assistant", "content": {"answer": "one"}}]},
        {"prompt": "a", "stop": {"middle": "one"}},
        {"prompt": {"cycle": ["two", "one"], "length": 7}},
    ],
)
@pytest.mark.parametrize("answers", [{}, {"one": None}])
def test_without_the_answer_there_is_no_request(
    request_: dict[str, Any], answers: dict[str, None]
) -> None:
    known = {**answers, "two": generation()}
    assert asked(question(request_), known) is None
    assert asked(question({"prompt": "a"}, follows="one"), known) is None


def test_how_questions_are_asked() -> None:
    assert how(question({})) == How()
    assert how(question({}, "stream")) == How(stream=True)
    assert how(question({}, "turns")) == How(keep_cache=True)
    assert how(question({}, note=OWN)) == How(own_margins=True)

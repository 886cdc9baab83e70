"""Checks between answers of one arm: each finds its fault, and nothing where plain has it too."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from adapters.exchange import Generation
from orchestrator.gate.check import check
from orchestrator.gate.evidence import Arm, Question
from orchestrator.gate.request import stop_string
from orchestrator.gate.suite import SuiteSettings, questions
from tests.unit.asked import SUITE_PROMPTS, answered

LIMITED = "limits-5/chat-0"
STOPPED = "limits-stop/chat-0"
STREAMED = "stream/chat-0"
OWNED = "greedy-own/chat-0"
UP, DOWN = "penalties-positive/chat-0", "penalties-negative/chat-0"

ASKED = {
    q.id: q
    for q in questions(
        SUITE_PROMPTS,
        SuiteSettings(
            frozenset({"greedy", "limits", "stream", "penalties"}), (2,), 512, 4, refused={}
        ),
    )[0]
}
PLAIN = answered("A1", ASKED)


def given(name: str, arm: Arm = PLAIN) -> Generation:
    answer = arm.answers[name]
    assert answer is not None
    return answer


STOP = stop_string(given("greedy/chat-0").text) or ""


def changed(name: str, arm: Arm = PLAIN, **fields: Any) -> Arm:
    return replace(arm, name="S1", answers={**arm.answers, name: replace(given(name), **fields)})


def found(arm: Arm, *plain: Arm, asked: Mapping[str, Question] = ASKED) -> list[tuple[str, str]]:
    return [(f.check, f.question) for f in check(asked, arm, plain or (PLAIN,))]


def test_the_healthy_arm_has_no_finding() -> None:
    assert found(replace(PLAIN, name="S1")) == []
    assert found(replace(PLAIN, name="S1"), answered("A2", ASKED, shift=1)) == []
    nothing = replace(PLAIN, answers=dict.fromkeys(ASKED))
    assert found(replace(PLAIN, name="S1"), nothing) == []
    assert found(nothing) == []


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"ids": given("greedy/chat-0").ids[:6]}, "6 tokens, although at most 5"),
        ({"ids": (1, 2, 3, 4, 5, 6)}, "6 tokens, although at most 5"),
        ({"ids": given(LIMITED).ids[:4]}, "4 tokens instead of 5"),
        ({"ids": ()}, "0 tokens instead of 5"),
        ({"finish_reason": "stop"}, "finish_reason is stop"),
    ],
)
def test_limits_are_exact(fields: dict[str, Any], words: str) -> None:
    (finding,) = check(ASKED, changed(LIMITED, **fields), [PLAIN])
    assert (finding.check, finding.question) == ("max_tokens", LIMITED)
    assert (finding.arm, finding.type) == ("S1", "chat")
    assert words in finding.message


def test_every_suite_keeps_to_its_limit() -> None:
    ids = tuple(range(200))
    assert found(changed("greedy/rag-1", ids=ids)) == [("max_tokens", "greedy/rag-1")]


def test_other_tokens_are_left_to_the_comparison() -> None:
    assert found(changed(LIMITED, ids=(9, 9, 9))) == []
    assert found(changed(STREAMED, ids=(9, 9, 9), text="other")) == []
    assert found(changed(STOPPED, ids=(9, 9, 9), text="other")) == []


def test_an_answer_may_end_before_its_limit() -> None:
    whole = replace(given("greedy/chat-0"), ids=(1, 2, 3), finish_reason="stop")
    answers = {**PLAIN.answers, "greedy/chat-0": whole, LIMITED: whole}
    assert found(replace(PLAIN, answers=answers, name="S1")) == []


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"text": given("greedy/chat-0").text}, "goes on past the stop string"),
        ({"text": given(STOPPED).text + STOP}, "goes on past the stop string"),
        ({"text": given(STOPPED).text[:-3]}, "the text before the stop string"),
        ({"text": given(STOPPED).text + STOP[:-1]}, "the text before the stop string"),
        ({"finish_reason": "length"}, "finish_reason is length"),
    ],
)
def test_stop_strings_end_the_text(fields: dict[str, Any], words: str) -> None:
    (finding,) = check(ASKED, changed(STOPPED, **fields), [PLAIN])
    assert (finding.check, finding.question) == ("stop", STOPPED)
    assert words in finding.message


def test_an_engine_that_keeps_the_stop_string_does_so_without_speculation_too() -> None:
    keeps = changed(STOPPED, text=given(STOPPED).text + STOP)
    assert found(keeps, keeps) == []


@pytest.mark.parametrize("fields", [{"text": "x"}, {"finish_reason": "stop"}])
def test_a_stream_says_the_same(fields: dict[str, Any]) -> None:
    assert found(changed(STREAMED, **fields)) == [("stream", STREAMED)]
    both = changed(STREAMED, **fields)
    assert found(both, both) == []


@pytest.mark.parametrize("margin", [0.4, float("nan"), float("inf")])
def test_tokens_are_the_best_by_the_engines_own_log_probabilities(margin: float) -> None:
    margins = (0.0, 1e-5, margin, margin, *([0.0] * 44))
    arm = changed(OWNED, own_margins=margins, ids=(*range(48),))
    (finding,) = check(ASKED, arm, [PLAIN])
    assert finding.check == "own-argmax"
    assert "2 of 48 tokens" in finding.message
    assert "first at token 2" in finding.message


def test_log_probabilities_that_are_none_show_nothing() -> None:
    ids = (5,) * 48
    assert found(changed(OWNED, own_margins=None, ids=ids)) == []
    assert found(changed(OWNED, own_margins=(1e-4,) * 48, ids=ids)) == []
    assert (
        found(changed(OWNED, own_margins=(0.4,), ids=ids), changed(OWNED, own_margins=(0.3,))) == []
    )
    assert found(changed(OWNED, own_margins=(0.4,))) == [], "the tokens are plain's"
    asked = {**ASKED, OWNED: replace(ASKED[OWNED], note="")}
    assert found(changed(OWNED, own_margins=(0.4,), ids=ids), asked=asked) == []


def test_penalties_that_make_no_difference_are_ignored_ones() -> None:
    same = changed(DOWN, ids=given(UP).ids, text=given(UP).text)
    assert found(same) == [("penalties", UP)]
    assert found(same, same) == [], "plain's do not differ either"
    assert found(same, PLAIN, same) == []
    assert found(same, replace(PLAIN, answers={**PLAIN.answers, DOWN: None})) == []
    assert found(changed(DOWN, ids=(1, 2, 3))) == [], "which tokens is for the comparison"

"""What the evidence covers: a lack is told once, and a defect is no lack."""

from dataclasses import replace

from orchestrator.gate.coverage import (
    draft_lacks,
    draft_notes,
    fingerprint_lacks,
    lacks,
    no_answers,
    unserved,
)
from orchestrator.gate.evidence import Arm, Question
from tests.unit.gate_arms import QUESTIONS, arm

GONE = {"greedy/p1": None}
TOOLS: dict[str, Question] = {
    **QUESTIONS,
    "tools/p1": replace(QUESTIONS["greedy/p1"], id="tools/p1", suite="tools"),
}


def test_a_suite_without_any_plain_answer_is_not_served() -> None:
    plain = [arm(name, {"tools/p1": None}) for name in ("A1", "A2")]
    assert unserved(TOOLS, plain) == {"tools": "the plain engine answers none of it: answered 400"}
    broken = [replace(one, errors={"tools/p1": "/v1 answered 500: boom"}) for one in plain]
    assert unserved(TOOLS, broken) == {}, "a failure is no refusal"
    assert unserved(TOOLS, [plain[0], broken[1]]) == {}
    half = [plain[0], arm("A2", {"tools/p1": (1,)})]
    assert unserved(TOOLS, half) == {}, "an engine that answers once serves it"


def test_prompts_alone_are_never_left_out() -> None:
    nothing: dict[str, tuple[int, ...] | None] = dict.fromkeys(QUESTIONS)
    assert unserved(QUESTIONS, [arm("A1", nothing)]) == {}


def test_what_only_plain_answers_is_a_defect() -> None:
    plain = [arm("A1"), arm("A2")]
    found = list(no_answers(QUESTIONS, plain, [arm("S1", GONE), arm("S2", GONE)]))
    assert [(f.check, f.question, f.arm) for f in found] == [
        ("no-answer", "greedy/p1", "S1 and S2")
    ]
    assert "answered 400" in found[0].message
    assert not list(no_answers(QUESTIONS, plain, [arm("S1", GONE), arm("S2")]))
    assert not list(no_answers(QUESTIONS, [arm("A1", GONE), arm("A2")], [arm("S1", GONE)]))


def test_missing_answers_are_counted_by_arm() -> None:
    arms = [arm("A1", GONE), arm("A2")], [arm("S1"), arm("S2")]
    words = "A1 has no answer to 1 of 3 questions (greedy/p1: answered 400)"
    assert lacks(QUESTIONS, *arms) == [words]
    assert lacks(QUESTIONS, [arm("A1"), arm("A2")], [arm("S1"), arm("S2")]) == []


def test_empty_text_everywhere_and_single_arms_are_lacks() -> None:
    empty: dict[str, tuple[int, ...] | None] = dict.fromkeys(QUESTIONS, ())
    found = lacks(QUESTIONS, [arm("A1")], [arm("S1", empty)])
    assert len(found) == 2
    assert "asked only once" in found[0]
    assert "nothing but empty text" in found[1]


def test_drafts_belong_to_the_speculating_arms_alone() -> None:
    def told(arm: Arm, drafted: float | None, accepted: float | None) -> Arm:
        return replace(arm, drafted=drafted, accepted=accepted)

    assert draft_lacks([arm("A1")], [arm("S1")]) == []
    assert draft_lacks([told(arm("A1"), None, None)], [told(arm("S1"), 9, None)]) == []
    assert len(draft_lacks([arm("A1", drafted=1)], [arm("S1", drafted=0)])) == 2
    none = draft_lacks([arm("A1")], [told(arm("S1"), 9, 0)])
    every = draft_lacks([arm("A1")], [told(arm("S1"), 9, 9)])
    assert none == ["S1: none of 9 drafted tokens was accepted, so that acceptance was not tested"]
    assert every == ["S1: all of 9 drafted tokens were accepted, so that refusal was not tested"]


def test_few_cases_of_a_kind_are_told_with_what_they_would_show() -> None:
    """0.95 to the power of 59 is 0.0485: the rule of three for one in twenty."""

    def told(drafted: float | None, accepted: float | None) -> list[str]:
        return draft_notes([replace(arm("S1"), drafted=drafted, accepted=accepted)])

    assert told(118, 59) == told(None, None) == told(9, None) == []
    assert told(200, 1) == [
        "S1: 1 of 200 drafted tokens were accepted; an error in 5% of such cases would be seen "
        "with 5%"
    ]
    assert told(100, 58)[0].endswith("would be seen with 95%")
    assert [note.partition(";")[0] for note in told(100, 58)] == [
        "S1: 58 of 100 drafted tokens were accepted",
        "S1: 42 of 100 drafted tokens were refused",
    ]


def test_both_arms_of_a_side_are_of_one_configuration() -> None:
    one, other = replace(arm("S1"), fingerprint="a"), replace(arm("S2"), fingerprint="b")
    plain = [arm("A1"), arm("A2")]
    assert fingerprint_lacks(plain, [one, one]) == []
    found = fingerprint_lacks(plain, [one, other])
    assert len(found) == 1
    assert "S1 and S2 were answered by engines of different configurations" in found[0]
    assert "fingerprints a, b" in found[0]

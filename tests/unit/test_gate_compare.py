"""Comparing arms: a speculating answer against the tree of all plain answers to its request."""

from collections.abc import Sequence
from dataclasses import replace

import pytest

from orchestrator.gate.compare import compare, first_divergence
from orchestrator.gate.evidence import END, Arm, Divergence
from tests.unit.gate_arms import IDS, QUESTIONS, TOKENS, arm, examine, generation, question


@pytest.mark.parametrize(
    ("one", "other", "position"),
    [
        ((), (), None),
        ((1, 2), (1, 2), None),
        ((1, 2), (1, 3), 1),
        ((1, 2), (2, 2), 0),
        ((1, 2), (1,), 1),
        ((1,), (1, 2), 1),
        ((), (1,), 0),
    ],
)
def test_first_divergence(one: Sequence[int], other: Sequence[int], position: int | None) -> None:
    assert first_divergence(one, other) == position


def test_equal_arms_have_no_divergence_and_every_token_counts_once() -> None:
    found = examine().compared
    assert found.divergences == found.noise == ()
    assert found.tokens == TOKENS
    assert found.noise_tokens == TOKENS


def places(found: Sequence[Divergence]) -> list[tuple[str, int, int, int]]:
    return [(d.question, d.position, d.expected, d.found) for d in found]


@pytest.mark.parametrize(
    ("ids", "place"),
    [
        ((1, 9, 3), (1, 2, 9)),
        ((1, 2), (2, 3, END)),
        ((1, 2, 3, 4), (3, END, 4)),
        ((), (0, 1, END)),
        ((2, 1, 3), (0, 1, 2)),
    ],
    ids=["changed", "dropped", "more", "empty", "swapped"],
)
def test_a_difference_has_its_place(ids: tuple[int, ...], place: tuple[int, int, int]) -> None:
    found = examine(S1={"greedy/p1": ids}).compared.divergences
    assert places(found) == [("greedy/p1", *place)]
    assert found[0].arms == ("S1",)
    assert found[0].explained == ()


def test_both_arms_at_one_place_are_one_divergence() -> None:
    other = {"greedy/p2": (4, 9)}
    found = examine(S1=other, S2=other).compared.divergences
    assert [d.arms for d in found] == [("S1", "S2")]


def test_what_plain_does_itself_is_explained_by_it() -> None:
    other = {"greedy/p1": (1, 2, 99)}
    found = examine(A2=other, S1=other).compared
    assert [d.explained for d in found.divergences] == [("A/A",)]
    assert places(found.noise) == [("greedy/p1", 2, 3, 99)]


def test_behind_plains_own_fork_the_answer_is_held_against_that_branch() -> None:
    found = examine(A2={"greedy/p3": (6, 0, 1, 2)}, S1={"greedy/p3": (6, 0, 1, 3)}).compared
    assert places(found.divergences) == [("greedy/p3", 1, 7, 0), ("greedy/p3", 3, 2, 3)]
    assert [d.explained for d in found.divergences] == [("A/A",), ()]


def test_another_token_than_plains_own_fork_is_not_explained() -> None:
    found = examine(A2={"greedy/p1": (1, 2, 99)}, S1={"greedy/p1": (1, 2, 98)}).compared
    assert [d.explained for d in found.divergences] == [()]


def test_plain_alone_explains_the_same_request_under_load() -> None:
    """Batches round differently: what plain says alone, a speculating engine may say under load."""
    questions = {**QUESTIONS, "loaded@4/p1": question("loaded@4/p1", 4)}
    alone, loaded = {"greedy/p1": (1, 2, 7)}, {"loaded@4/p1": (1, 2, 3)}
    arms = [arm(n, {**alone, **loaded}) for n in ("A1", "A2")]
    speculating = arm("S1", {**alone, "loaded@4/p1": (1, 2, 7)})
    found = compare(questions, arms, [speculating])
    assert [d.explained for d in found.divergences] == [("A/A",)]
    assert [d.concurrency for d in found.noise] == [4], "plain differs between 1 and 4 at once"


def test_other_prompt_ids_are_a_divergence_of_their_own() -> None:
    first, second = arm("A1"), arm("S1")
    answers = {**second.answers, "greedy/p1": generation(IDS["greedy/p1"], (0, 0))}
    found = compare(QUESTIONS, [first], [replace(second, answers=answers)])
    assert places(found.divergences) == [("greedy/p1", -1, 1, 2)]
    assert found.tokens == TOKENS - 3


def test_a_prompt_made_of_an_answer_that_differs_already_is_no_news() -> None:
    questions = {**QUESTIONS, "greedy/turn": question("greedy/turn", follows="greedy/p1")}

    def with_turn(name: str, ids: tuple[int, ...], prompt: tuple[int, ...]) -> Arm:
        made = arm(name, {"greedy/p1": ids})
        return replace(made, answers={**made.answers, "greedy/turn": generation((5,), prompt)})

    found = compare(
        questions, [with_turn("A1", (1, 2, 3), (1,))], [with_turn("S1", (1, 2, 9), (2,))]
    )
    assert places(found.divergences) == [("greedy/p1", 2, 3, 9)]
    same = compare(questions, [with_turn("A1", (1,), (1,))], [with_turn("S1", (1,), (2,))])
    assert places(same.divergences) == [("greedy/turn", -1, 1, 1)], "the engines read differently"


def test_missing_answers_are_compared_with_nothing() -> None:
    found = examine(S1={"greedy/p1": None}).compared
    assert found.divergences == ()
    assert found.tokens == TOKENS - 3

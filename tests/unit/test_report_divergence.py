"""Divergences in words: tokens where tokens differ, and prompts where prompts do."""

from dataclasses import replace

from adapters.exchange import Candidate
from orchestrator.gate.evidence import END, Divergence
from orchestrator.gate.report.divergence import (
    is_excused,
    is_outside,
    kinds,
    kinds_in_words,
    margin,
    prompts_in_words,
    sentence,
    swap,
    token,
    worst_first,
)
from tests.unit.report_samples import failing, numerics

FORK = Divergence("q", "p", "chat", "greedy", 1, ("S1",), 3, 10, 11)
TOLD = replace(FORK, candidates=(Candidate(10, -0.1, " the"), Candidate(11, -0.6, " a")))
PROMPT = replace(FORK, arms=("S1", "S2"), position=-1, expected=476, found=475)


def test_tokens_are_shown_with_their_text_where_plain_told_it() -> None:
    assert token(TOLD, 10) == "10 ' the'"
    assert token(TOLD, 12) == "12"
    assert token(TOLD, END) == "the end"
    assert swap(TOLD) == ("10 ' the'", "11 ' a'")


def test_margins_in_words() -> None:
    assert margin(FORK) == "not scored"
    assert margin(replace(FORK, margin=0.5, units=4.0)) == "0.5 nats (4 units)"
    assert margin(replace(FORK, margin=0.125, units=1.0)) == "0.125 nats (1 unit)"
    assert margin(replace(FORK, margin=0.5)) == "0.5 nats"
    ended = replace(TOLD, found=END)
    assert margin(ended) == "an end has no margin"
    assert not is_outside(ended)
    outside = replace(TOLD, candidates=TOLD.candidates[:1])
    assert is_outside(outside)
    assert margin(outside) == "outside plain's 1 likeliest"


def test_what_a_policy_excuses() -> None:
    tie = replace(FORK, kind="tie")
    assert not is_excused(tie, "strict")
    assert not is_excused(tie, "numerics")
    by_width, by_noise = replace(tie, explained=("W",)), replace(tie, explained=("A/A",))
    assert is_excused(by_width, "numerics")
    assert not is_excused(by_width, "strict")
    assert is_excused(by_noise, "strict")
    assert not is_excused(replace(by_width, kind="wrong"), "numerics")


def test_the_worst_comes_first_and_the_excused_last() -> None:
    found = worst_first(failing())
    excused = [is_excused(d, "strict") for d in found]
    assert excused == sorted(excused)
    assert found[0].position == -1
    unexcused = [d.kind for d in found[1:] if not is_excused(d, "strict")]
    order = ["wrong", "suspicious", "unscored", "near-tie", "tie"]
    assert [kind for kind in order if kind in unexcused] == list(dict.fromkeys(unexcused))


def test_kinds_are_counted_worst_first() -> None:
    assert list(kinds(numerics().divergences).items()) == [("near-tie", 1), ("tie", 6)]
    assert kinds_in_words(numerics().divergences) == "1 near-tie, 6 tie"
    assert kinds_in_words(()) == "none"


def test_a_fork_in_one_sentence() -> None:
    found = replace(TOLD, arms=("S1", "S2"), margin=0.5, units=4.0)
    words = "S1 and S2 at token 3: plain 10 ' the', found 11 ' a'; 0.5 nats (4 units)"
    assert sentence(found) == words
    assert swap(TOLD) == ("10 ' the'", "11 ' a'")


def test_prompts_that_were_read_differently_are_no_difference_of_tokens() -> None:
    assert sentence(PROMPT) == "S1 and S2: the arms read different prompts (476 and 475 tokens)"
    same = replace(PROMPT, expected=1476, found=1476)
    assert prompts_in_words(same) == "the arms read different prompts (1,476 tokens each)"
    assert kinds_in_words([PROMPT, replace(FORK, kind="tie")]) == "1 with another prompt, 1 tie"
    assert kinds([PROMPT]) == {"unscored": 1}

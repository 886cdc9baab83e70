"""Sampled output in words: each test with its p-value, its level, and what it could have seen."""

from dataclasses import replace

import pytest

from orchestrator.gate.evidence import Sampled, Verdict
from orchestrator.gate.report.sampled import headline, sentences

PASS = Sampled("pass", "no difference (p = 0.41)", 1.0, 24, 9600, 3, 0.01, 0.41, 0.73, 0.062, 900.0)


def test_a_pass_says_what_it_could_have_seen() -> None:
    assert headline(PASS) == "sampled output at temperature 1: pass, 900 tokens drafted"
    assert sentences(PASS) == [
        "next tokens: no difference in 9,600 draws at 24 places: p = 0.41 (0.008 or less fails); "
        "would have seen a total variation distance of 0.062 with 80 % probability",
        "whole answers: no difference as strings: p = 0.73 (0.002 or less fails); "
        "how small a difference it would have seen is not known",
    ]


@pytest.mark.parametrize(
    ("p_value", "mmd_p_value", "words"),
    [
        (0.008, 0.73, "next tokens: another distribution than plain's in 9,600 draws at 24 places"),
        (0.41, 0.002, "whole answers: they differ from plain's as strings: p = 0.002 (0.002 or"),
    ],
)
def test_the_test_that_fails_says_so(p_value: float, mmd_p_value: float, words: str) -> None:
    failed = replace(
        PASS, verdict="fail", message="differs", p_value=p_value, mmd_p_value=mmd_p_value
    )
    assert headline(failed) == "sampled output at temperature 1: fail"
    assert sum(words in sentence for sentence in sentences(failed)) == 1
    assert sum("no difference" in sentence for sentence in sentences(failed)) == 1


@pytest.mark.parametrize(
    ("repeated", "verdict", "words"),
    [(0.03, "fail", "another distribution than plain's"), (0.4, "pass", "no difference")],
)
def test_new_draws_decide_after_a_look_that_failed(
    repeated: float, verdict: Verdict, words: str
) -> None:
    again = replace(PASS, verdict=verdict, p_value=0.001, looks=2, repeated=repeated)
    assert sentences(again)[0].startswith(
        f"next tokens: {words} in 9,600 draws at 24 places, all of them new: p = {repeated} "
        "(0.1 or less fails); draws before them: p = 0.001 (0.008 or less fails)"
    )


def test_a_failure_of_neither_test_has_its_reason() -> None:
    cut = replace(PASS, verdict="fail", message="3 of 9 draws are shorter than asked")
    assert headline(cut).endswith(": fail: 3 of 9 draws are shorter than asked")


def test_short_evidence_has_its_reason_and_says_what_was_not_looked_at() -> None:
    short = replace(PASS, verdict="inconclusive", message="too few draws", looks=1, detectable=None)
    assert headline(short) == "sampled output at temperature 1: inconclusive: too few draws"
    assert sentences(short)[0].endswith(
        "at 24 places, 1 of 3 looks: p = 0.41 (0.008 or less fails); "
        "what it could have seen is not known"
    )
    none = replace(short, p_value=None, mmd_p_value=None)
    assert sentences(none) == [
        "next tokens: nothing was compared",
        "whole answers: nothing was compared",
    ]

"""The verdict. Whatever could not be compared is never equal."""

from dataclasses import replace

import pytest

from adapters.exchange import Candidate
from orchestrator.gate.compare import Compared
from orchestrator.gate.confirm import Confirmed
from orchestrator.gate.evidence import Divergence, Finding, Policy, Sampled, Verdict
from orchestrator.gate.statistics import rate
from orchestrator.gate.verdict import Case, Rules, decide
from orchestrator.gate.wide import Wide
from tests.unit.gate_arms import QUESTIONS, Answers, arm, examine, settings, trial

OTHER: Answers = {"greedy/p1": (1, 2, 99)}
GONE: Answers = {"greedy/p1": None}


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({}, "pass"),
        ({"S1": OTHER}, "fail"),
        ({"S2": OTHER}, "fail"),
        ({"S1": OTHER, "S2": OTHER}, "fail"),
        ({"S1": {"greedy/p1": (1, 2)}}, "fail"),
        ({"S1": {"greedy/p1": (1, 2, 3, 4)}}, "fail"),
        ({"S1": {"greedy/p1": ()}}, "fail"),
        ({"A2": OTHER}, "inconclusive"),
        ({"A2": OTHER, "S1": {"greedy/p2": (4, 99)}}, "fail"),
        ({"A1": GONE}, "inconclusive"),
        ({"A2": GONE}, "inconclusive"),
        ({"S1": GONE}, "inconclusive"),
        ({"S2": GONE}, "inconclusive"),
        ({"S1": GONE, "S2": GONE}, "fail"),
        ({"A1": GONE, "A2": GONE, "S1": GONE, "S2": GONE}, "inconclusive"),
        ({"S1": {"greedy/p1": None, "greedy/p2": (4, 99)}}, "fail"),
    ],
)
def test_strict(changes: dict[str, Answers], expected: Verdict) -> None:
    found = trial(**changes)
    assert found.verdict == expected, found.reasons
    assert found.reasons


def test_a_pass_says_what_it_rests_on() -> None:
    found = trial()
    assert found.reasons == ("3 of 3 answers identical",)
    assert found.rates["all"].tokens == 9
    assert found.rates["all"].high == pytest.approx(1000 * (1 - 0.05 ** (1 / 9)))
    assert set(found.rates) == {"all", "type chat", "at 1"}


def test_a_difference_names_its_arms_and_a_race_is_one_of_its_own() -> None:
    found = trial(S1=OTHER)
    assert found.reasons[0] == "1 of 3 answers differ from plain (in S1)"
    assert any(reason.startswith("race: greedy/p1") for reason in found.reasons)
    assert not any("race" in reason for reason in trial(S1=OTHER, S2=OTHER).reasons)


def test_a_difference_that_plain_shows_itself_does_not_fail() -> None:
    questions = {**QUESTIONS}
    found = examine(questions, A2=OTHER, S1=OTHER, S2=OTHER).trial(settings())
    assert found.verdict == "inconclusive", "plain differs on a third of the answers"
    assert "plain differs from itself on 1 of 3 answers" in found.reasons[0]
    assert found.divergences[0].explained == ("A/A",)


def test_too_few_tokens_show_nothing() -> None:
    found = examine().trial(settings(min_tokens=10))
    assert found.verdict == "inconclusive"
    assert found.reasons[0].startswith("9 tokens were compared, 10 are asked for: more prompts")


@pytest.mark.parametrize(
    ("drafted", "accepted", "words"),
    [
        (None, None, "tells no count"),
        (0.0, 0.0, "no token was drafted"),
        (10.0, 0.0, "none of 10 drafted tokens was accepted"),
    ],
)
def test_no_speculation_shows_nothing(
    drafted: float | None, accepted: float | None, words: str
) -> None:
    found = examine()
    found.speculating = [replace(a, drafted=drafted, accepted=accepted) for a in found.speculating]
    outcome = found.trial(settings())
    assert outcome.verdict == "inconclusive"
    assert words in outcome.reasons[0]
    assert found.trial(settings(control=True)).verdict == "pass", "a control guesses nothing"


def test_a_baseline_that_drafts_is_not_plain() -> None:
    found = examine()
    found.plain = [replace(a, drafted=3.0) for a in found.plain]
    outcome = found.trial(settings())
    assert outcome.verdict == "inconclusive"
    assert "it is not plain" in outcome.reasons[0]


def test_what_the_run_found_missing_counts() -> None:
    found = examine()
    found.more_lacks.append("S1: the engine stopped speculating")
    assert found.trial(settings()).verdict == "inconclusive"


def numeric(margin: float, wide: bool, tokens: int = 100_000, forks: int = 0) -> tuple[str, str]:
    """A divergence with this margin, and a W of `tokens` that takes it too or does not."""
    found = examine(S1=OTHER, S2=OTHER)
    candidates = (Candidate(3, -1.0), Candidate(99, -1.0 - margin))
    divergence = replace(
        found.compared.divergences[0], candidates=candidates, explained=("W",) if wide else ()
    )
    found.confirmed = Confirmed([divergence])
    found.wide = Wide((divergence,), (), forks, tokens)
    found.compared = replace(found.compared, tokens_of={"greedy/p1": 1000})
    outcome = found.trial(settings("numerics"))
    return outcome.verdict, " ".join(outcome.reasons)


def test_numerics_admits_ties_that_width_alone_explains() -> None:
    assert numeric(0.1, wide=True, forks=100)[0] == "pass"
    assert numeric(0.2, wide=True, forks=100)[0] == "pass"
    assert numeric(0.3, wide=True, forks=100)[0] == "fail", "beyond two units: suspicious"
    assert numeric(1.5, wide=True, forks=100)[0] == "fail"
    assert numeric(0.0, wide=False, forks=100)[0] == "fail", "nothing but guessing explains it"


def test_numerics_admits_no_more_forks_than_plain_makes() -> None:
    assert numeric(0.1, wide=True, tokens=1_000_000)[0] == "fail"


def test_strict_admits_no_tie() -> None:
    found = examine(S1=OTHER, S2=OTHER)
    tie = replace(found.compared.divergences[0], kind="tie", explained=("W", "prefill"))
    found.confirmed = Confirmed([tie])
    assert found.trial(settings()).verdict == "fail"


def divergence(**changes: object) -> Divergence:
    first = examine(S1=OTHER).compared.divergences[0]
    return replace(first, **changes)  # type: ignore[arg-type]  # by name, in tests


@pytest.mark.parametrize(
    ("forks", "tokens", "expected"),
    [(1, 2000, "pass"), (100, 2000, "fail"), (1, 200, "inconclusive")],
)
def test_numerics_bounds_the_rate(forks: int, tokens: int, expected: str) -> None:
    """10 in 1,000 are admitted; a rate that may be above it shows too little."""
    known = divergence(kind="tie", explained=("W",))
    divergences = [replace(known, position=i) for i in range(forks)]
    compared = Compared(tuple(divergences), (), {"greedy/p1": tokens}, 0)
    case = Case(QUESTIONS, [arm("S1")], compared, divergences, wide_rate=rate(900, 20_000))
    assert decide(case, Rules("numerics", 1))[0] == expected


def test_findings_and_sampled_output_fail_under_both_policies() -> None:
    compared = examine().compared
    finding = Finding("stop", "limits/p1", "chat", "S1", "text behind the stop string")
    sampled = Sampled("fail", "p 0.0001", 1.0, 4, 100, 1, 0.01, 0.0001, None, 0.1)
    policies: tuple[Policy, ...] = ("strict", "numerics")
    for policy in policies:
        rules = Rules(policy, 1)
        case = Case(QUESTIONS, [arm("S1")], compared, ())
        assert decide(case, rules)[0] == "pass"
        assert decide(replace(case, findings=(finding,)), rules)[0] == "fail"
        assert decide(replace(case, sampled=sampled), rules)[0] == "fail"
        short = replace(sampled, verdict="inconclusive")
        assert decide(replace(case, sampled=short), rules)[0] == "inconclusive"


def test_suites_that_plain_does_not_serve_are_left_out() -> None:
    tools = replace(next(iter(QUESTIONS.values())), id="tools/p1", suite="tools")
    none: Answers = {"tools/p1": None}
    found = examine({**QUESTIONS, "tools/p1": tools}, A1=none, A2=none, S1=none, S2=none)
    outcome = found.trial(settings())
    assert outcome.verdict == "pass"
    assert outcome.suites["tools"].startswith("the plain engine answers none of it: answered 400")

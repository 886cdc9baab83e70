"""The words that all reports share: nothing unprintable leaves them, no figure misleads."""

import math
from dataclasses import replace

import pytest

from adapters.exchange import Candidate
from orchestrator.gate.evidence import END, Arm, Divergence, Rate
from orchestrator.gate.report.words import (
    acceptance,
    bounds,
    by_position,
    count,
    duration,
    excerpt,
    figure,
    is_excused,
    is_outside,
    kinds,
    kinds_in_words,
    margin,
    not_run,
    of_tokens,
    printable,
    rows,
    short,
    speed,
    swap,
    token,
    worst_first,
)
from orchestrator.gate.statistics import rate
from tests.unit.report_samples import HOSTILE, failing, numerics, passing

FORK = Divergence("q", "p", "chat", "greedy", 1, ("S1",), 3, 10, 11)
TOLD = replace(FORK, candidates=(Candidate(10, -0.1, " the"), Candidate(11, -0.6, " a")))


@pytest.mark.parametrize("text", HOSTILE)
def test_what_is_shown_is_printable_and_encodable(text: str) -> None:
    for shown in (printable(text), short(text), excerpt(text), short(text * 9, 20)):
        assert shown.isprintable()
        assert shown.encode("utf-8").decode("utf-8") == shown


def test_printable_keeps_what_can_be_read() -> None:
    assert printable("naïve 漢字 مرحبا 👍") == "naïve 漢字 مرحبا 👍"
    assert printable("a\x00\n\u202eb\ud800") == "a\\x00\\n\\u202eb\\ud800"


def test_a_long_name_loses_its_middle() -> None:
    assert short("x" * 100 + "end", 9) == "xxxx…xend"
    assert len(short("y" * 1000)) == 40
    assert short("two\n lines") == "two lines"


def test_an_excerpt_is_the_end_of_the_prompt() -> None:
    assert excerpt("Write it.\nNow:") == "'Write it. Now:'"
    assert excerpt("z" * 1000 + "end", 5) == "…'zzend'"
    assert excerpt(None) == excerpt("") == ""


def test_tokens_are_shown_with_their_text_where_plain_told_it() -> None:
    assert token(TOLD, 10) == "10 ' the'"
    assert token(TOLD, 12) == "12"
    assert token(TOLD, END) == "the end"
    assert swap(TOLD) == ("10 ' the'", "11 ' a'")


def test_of_prompts_read_otherwise_the_lengths_are_shown() -> None:
    assert swap(replace(FORK, position=-1, expected=7, found=8)) == ("7 tokens", "8 tokens")


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0, "0"),
        (0.25, "0.25"),
        (0.00041, "0.00041"),
        (1.23456, "1.23"),
        (99.96, "100"),
        (999.7, "1,000"),
        (123456, "123,456"),
        (3e-7, "3e-07"),
        (None, "–"),
        (math.nan, "–"),
        (math.inf, "–"),
    ],
)
def test_figures(value: float | None, text: str) -> None:
    assert figure(value) == text


def test_counters_and_times() -> None:
    assert (count(None), count(0.0), count(12345.0)) == ("–", "0", "12,345")
    assert (duration(3.21), duration(600), duration(7200)) == ("3.2 s", "10 min", "2.0 h")


def test_a_rate_of_none_is_a_bound() -> None:
    assert bounds(rate(0, 30_000)) == "below 0.0999"
    assert of_tokens(rate(0, 30_000)) == "no fork in 30,000 tokens"
    assert of_tokens(rate(1, 10)) == "1 fork in 10 tokens"
    assert bounds(Rate(0, 0, 0, 0, 1000)) == "nothing compared"
    assert bounds(Rate(2, 1000, 2, 0.24, 7.21)) == "0.24 to 7.21"


def test_rates_come_in_the_order_of_reading() -> None:
    one = rate(0, 10)
    keys = ("at 8", "type chat", "all", "at 1", "type all", "type 3 at once")
    trial = replace(passing(), rates=dict.fromkeys(keys, one))
    names = [name for name, _ in rows(trial)]
    assert names == ["all", "chat", "type all", "type 3 at once", "8 at once", "1 at once"]


def test_no_rate_without_its_counters() -> None:
    assert acceptance(Arm("S1", {}, drafted=0, accepted=0)) is None
    assert acceptance(Arm("S1", {}, drafted=10)) is None
    assert acceptance(Arm("S1", {}, drafted=10, accepted=4)) == 0.4
    assert by_position(Arm("S1", {}, positions=(3, 1))) is None
    assert by_position(Arm("S1", {}, positions=(3, 1), steps=4)) == (0.75, 0.25)
    assert speed(Arm("S1", {})) == "–"


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


def test_suites_with_one_reason_stand_together() -> None:
    suites = {"greedy": "ran", "json": "no", "tools": "no", "long": "short\x1b"}
    assert list(not_run(suites)) == [("json, tools", "no"), ("long", "short\\x1b")]

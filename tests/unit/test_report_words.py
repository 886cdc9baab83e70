"""The words that all reports share: nothing unprintable leaves them, no figure misleads."""

import math
from dataclasses import replace

import pytest

from orchestrator.gate.evidence import Arm, Finding, Rate
from orchestrator.gate.report.words import (
    acceptance,
    bounds,
    by_position,
    cells,
    count,
    duration,
    excerpt,
    figure,
    finding,
    fingerprints,
    not_run,
    of_tokens,
    printable,
    rate_in_words,
    rows,
    short,
    speed,
)
from orchestrator.gate.statistics import rate
from tests.unit.report_samples import HOSTILE, passing


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


def test_suites_with_one_reason_stand_together() -> None:
    suites = {"greedy": "ran", "json": "no", "tools": "no", "long": "short\x1b"}
    assert list(not_run(suites)) == [("json, tools", "no"), ("long", "short\\x1b")]


def test_arms_of_one_fingerprint_stand_together_and_none_is_empty() -> None:
    told = ("0.32.0 pid 4711", "", "0.32.0 pid 4711")
    arms = [Arm(f"A{n}", {}, fingerprint=one) for n, one in enumerate(told, start=1)]
    assert fingerprints(arms) == [("A1, A3", "0.32.0 pid 4711"), ("A2", "")]


def test_a_rate_in_a_line_and_in_a_table() -> None:
    assert rate_in_words(Rate(2, 1000, 2, 0.24, 7.21)) == "2 (0.24 to 7.21)"
    assert rate_in_words(rate(0, 30_000)) == "below 0.0999"
    assert cells(Rate(2, 1000, 2, 0.24, 7.21)) == ("1,000", "2", "2", "0.24 to 7.21")
    assert cells(Rate(0, 0, 0, 0, 1000)) == ("0", "0", "–", "nothing compared")


def test_a_finding_without_a_question_is_of_its_arm() -> None:
    assert (
        finding(Finding("loop", "greedy/a", "chat", "S1", "x\x1b")) == "loop: S1, greedy/a: x\\x1b"
    )
    assert finding(Finding("loop", "", "", "S1 and S2", "x")) == "loop: S1 and S2: x"

"""The terminal's summary: short, complete, and harmless to a terminal."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from orchestrator.gate.evidence import Trial
from orchestrator.gate.report.summary import summary_lines
from tests.unit.report_samples import (
    failing,
    hostile,
    huge,
    inconclusive,
    nothing,
    numerics,
    passing,
    texts,
    without_positions,
)

REPORTS = {name: Path("gate") / name for name in ("report.html", "report.json")}


def summary(trial: Trial) -> list[str]:
    return list(summary_lines(trial, texts(), REPORTS))


@pytest.mark.parametrize("make", [passing, numerics, without_positions])
def test_a_pass_is_short(make: Callable[[], Trial]) -> None:
    assert len(summary(make())) <= 25


@pytest.mark.parametrize("make", [failing, huge, inconclusive, nothing])
def test_anything_else_fits_a_screen(make: Callable[[], Trial]) -> None:
    lines = summary(make())
    assert len(lines) <= 45
    assert max(map(len, lines)) <= 202


@pytest.mark.parametrize(("make", "most"), [(numerics, 25), (failing, 45)])
def test_however_much_there_is_to_say(make: Callable[[], Trial], most: int) -> None:
    base = make()
    full = replace(
        base,
        reasons=base.reasons[:1] * (1 if base.verdict == "pass" else 9),
        arms=base.arms * 3,
        findings=base.findings * 9,
        suites={f"suite {n}": f"why {n}" for n in range(9)},
        notes=tuple(f"note {n}" for n in range(9)),
        certificate="c.json",
    )
    assert len(summary(full)) == most


def test_a_pass_says_what_was_shown_and_how_well() -> None:
    lines = summary(passing())
    assert lines[0] == ("edit-0 (code-edit on engine 0.32.0) against plain-0, policy strict: PASS")
    text = "\n".join(lines)
    assert "S1 edit-0: 5,248 tokens, 83.2 tokens/s, 2,976 of 9,087 drafted tokens accepted" in text
    assert "all                    below 0.571, no fork in 5,248 tokens" in text
    assert "plain against itself" in text
    assert "  sampled output at temperature 1: pass, 9,000 tokens drafted\n" in text
    assert "    next tokens: no difference in 9,600 draws at 24 places: p = 0.41 (0.008 or" in text
    assert "not run: json: no prompt asks for structured output" in text
    assert "reports: gate: report.html, report.json" in text
    assert "certificate: certificates/" in text


def test_a_failure_shows_each_class_with_margins_and_explanations() -> None:
    text = "\n".join(summary(failing()))
    assert "policy strict: FAIL" in text
    for kind in ("wrong", "suspicious", "unscored", "near-tie", "tie"):
        assert f" {kind}: " in text
    assert "explained by nothing" in text
    assert "outside what plain told" in text
    assert "1 question with another prompt: one engine may have another tokenizer" in text
    assert "S1 and S2: the arms read different prompts (999 and 1,999 tokens)\n" in text
    assert "  2 unscored: 2 first forks" in text
    assert "'. Please answer in one line: 0'" in text
    assert "penalties: S1, loaded/chat:2: opposite penalties, same answer" in text
    assert "1 without an answer" in text
    assert "docs/gate.md" in text


def test_what_speculating_arms_do_not_prove_is_said() -> None:
    text = "\n".join(summary(inconclusive()))
    assert "INCONCLUSIVE" in text
    assert "S1 edit-0: 4,864 tokens, 54.0 tokens/s, nothing drafted, 3 without an answer" in text
    base = passing()
    uncounted = replace(base, arms=tuple(replace(a, drafted=None) for a in base.arms))
    assert "drafts not counted" in "\n".join(summary(uncounted))


def test_long_lists_say_how_much_they_leave_out() -> None:
    trial = replace(passing(), notes=tuple(f"note {n}" for n in range(9)))
    assert "  … and 7 more like this in the report" in summary(trial)


def test_a_terminal_takes_no_harm() -> None:
    trial, prompts = hostile()
    lines = list(summary_lines(trial, prompts))
    assert len(lines) <= 45
    assert all(line.isprintable() for line in lines)


def test_next_to_nothing_is_still_a_summary() -> None:
    assert list(summary_lines(nothing(), {})) == [
        "c against b, policy strict: INCONCLUSIVE",
        "  the baseline did not start",
    ]

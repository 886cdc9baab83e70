"""The pull-request comment: what an engine said stays text in every cell."""

import re
from collections.abc import Callable
from dataclasses import replace

import pytest

from orchestrator.gate.evidence import Finding, Trial
from orchestrator.gate.report.markdown import LONGEST_COMMENT, markdown, safe
from tests.unit.report_samples import (
    HOSTILE,
    MAKERS,
    failing,
    hostile,
    inconclusive,
    nothing,
    other_prompts,
    passing,
    texts,
)

OURS = {"code", "/code", "details", "/details", "summary", "/summary", "sub", "/sub"}


def tables(text: str) -> list[list[str]]:
    """The lines of each table."""
    blocks = [block.splitlines() for block in text.split("\n\n")]
    return [lines for lines in blocks if lines and lines[0].startswith("|")]


@pytest.mark.parametrize("make", MAKERS)
def test_tables_have_one_width(make: Callable[[], Trial]) -> None:
    for lines in tables(markdown(make(), texts())):
        assert len({line.count("|") for line in lines}) == 1
        assert all(line.startswith("| ") and line.endswith(" |") for line in lines)


def test_the_verdict_comes_first() -> None:
    assert markdown(passing(), {}).startswith(
        "### ✅ draftgate: PASS – <code>edit-0</code> against"
    )
    assert markdown(failing(), {}).startswith("### ❌ draftgate: FAIL – ")
    assert markdown(inconclusive(), {}).startswith("### ⚠️ draftgate: INCONCLUSIVE – ")


def test_rates_have_bounds_by_request_type() -> None:
    text = markdown(failing(), texts())
    assert "| requests | tokens | forks | per 1,000 tokens | 95 % bounds |" in text
    assert "| rag | 512 | 1 | 1.95 | 0.0494 to 10.8 |" in text
    assert "| plain at verify width |" in text
    assert "| all | 5,248 | 0 | 0 | below 0.571 |" in markdown(passing(), texts())


def test_the_first_five_divergences_are_shown() -> None:
    text = markdown(failing(), texts())
    assert "**199 divergences** (39 wrong, 46 suspicious, 2 unscored, 32 near-tie, 80 tie)" in text
    assert "the first 5:" in text
    (_, found) = tables(text)
    assert len(found) == 2 + 5
    assert "No answer left plain's." in markdown(passing(), texts())
    assert "No answer" not in markdown(inconclusive(), texts())


def test_other_prompts_are_told_in_words_and_not_as_tokens() -> None:
    text = markdown(other_prompts(), texts())
    assert "**2 questions with another prompt**: one engine may have another tokenizer" in text
    told = "S1 and S2&#58; the arms read different prompts (476 and 475 tokens)"
    assert f"- <code>greedy/chat&#58;1</code>: {told}\n" in text
    assert len(tables(text)) == 1, "that of the rates"
    assert "No answer left" not in text


def test_sampled_output_is_a_sentence_for_each_test() -> None:
    text = markdown(passing(), {})
    assert "**sampled output at temperature 1&#58; pass, 9,000 tokens drafted**\n\n- next" in text
    assert text.count("- whole answers&#58; no difference as strings&#58; p = 0.73 (0.002 or") == 1


def test_an_engine_without_a_fingerprint_is_said_to_have_none() -> None:
    text = markdown(passing(), {})
    assert (
        "fingerprint of A1, A2: the engine tells none · fingerprint of S1, S2: <code>0.32.0" in text
    )


def test_the_launch_diff_can_be_folded() -> None:
    text = markdown(passing(), {})
    assert "<details><summary>Launch diff, 3 lines</summary>\n\n```diff\n+ --spec" in text


@pytest.mark.parametrize("text", HOSTILE)
def test_foreign_text_has_no_character_of_meaning(text: str) -> None:
    said = safe(text)
    assert "\n" not in said
    assert said.isprintable()
    assert not re.search(r"[<>|`@*_\[\]{}~\\$:!]", re.sub(r"&#\d+;", "", said))
    assert not re.search(r"&(?!#\d+;)", said)
    assert "www." not in said


def test_a_name_is_not_called() -> None:
    assert safe("@octocat #12") == "&#64;&#8203;octocat &#35;&#8203;12"
    assert safe("a | b `c` <d>") == "a &#124; b &#96;c&#96; &#60;d&#62;"


def test_nothing_breaks_out_of_a_comment() -> None:
    trial, prompts = hostile()
    text = markdown(trial, prompts)
    head, _, folded = text.partition("````diff")
    diff, _, tail = folded.partition("\n````\n")
    assert "</details>" in diff  # literal, inside a fence that three backticks do not end
    for part in (head, tail):
        assert set(re.findall(r"<([^>]*)>", part)) <= OURS
        assert "@" not in part
        assert "`" not in part
    for lines in tables(text):
        assert len({line.count("|") for line in lines}) == 1
    assert all(line.isprintable() for line in text.split("\n"))


def test_a_comment_is_never_too_long_to_post() -> None:
    long = "<" * 300
    findings = tuple(Finding("x", long, "chat", "S1", long) for _ in range(50))
    base = failing()
    trial = replace(base, findings=findings, notes=(long,) * 50, reasons=(long,) * 50)
    trial = replace(trial, launch_diff=("+ " + "x" * 500,) * 500)
    text = markdown(trial, texts())
    assert len(text) < LONGEST_COMMENT + 200
    assert text.endswith("report.html holds it.*\n")
    assert text.count("<details>") == text.count("</details>")


def test_an_empty_trial_is_a_comment_too() -> None:
    assert "the baseline did not start" in markdown(nothing(), {})

"""JUnit XML: every class of requests is a case, and nothing but a pass is green."""

import re
from collections.abc import Callable
from dataclasses import replace
from xml.etree import ElementTree

import pytest

from orchestrator.gate.evidence import Trial
from orchestrator.gate.report.junit import junit_xml
from tests.unit.report_samples import (
    failing,
    hostile,
    huge,
    inconclusive,
    nothing,
    numerics,
    passing,
    without_positions,
)

MAKERS: list[Callable[[], Trial]] = [
    passing,
    failing,
    numerics,
    inconclusive,
    nothing,
    without_positions,
    huge,
]


def parsed(*trials: Trial) -> ElementTree.Element:
    return ElementTree.fromstring(junit_xml(trials))


def case(root: ElementTree.Element, group: str, name: str) -> ElementTree.Element:
    (found,) = (
        element
        for element in root.iter("testcase")
        if element.get("name") == name and str(element.get("classname")).endswith(f".{group}")
    )
    return found


def outcome(element: ElementTree.Element) -> str:
    kinds = [child.tag for child in element if child.tag != "system-out"]
    return kinds[0] if kinds else "passed"


@pytest.mark.parametrize("make", MAKERS)
def test_totals_are_those_of_the_cases(make: Callable[[], Trial]) -> None:
    root = parsed(make())
    cases = [outcome(element) for element in root.iter("testcase")]
    (suite,) = root.findall("testsuite")
    for element in (root, suite):
        assert element.get("tests") == str(len(cases))
        assert element.get("failures") == str(cases.count("failure"))
        assert element.get("errors") == str(cases.count("error"))
    assert suite.get("skipped") == str(cases.count("skipped"))


@pytest.mark.parametrize("make", MAKERS)
def test_only_a_pass_is_green(make: Callable[[], Trial]) -> None:
    trial = make()
    kinds = {outcome(element) for element in parsed(trial).iter("testcase")}
    assert (kinds <= {"passed", "skipped"}) == (trial.verdict == "pass")


def test_each_class_of_requests_is_a_case() -> None:
    root = parsed(passing())
    names = {(e.get("classname"), e.get("name")) for e in root.iter("testcase")}
    assert ("draftgate.edit-0.greedy", "chat") in names
    assert ("draftgate.edit-0.loaded", "json") in names
    assert ("draftgate.edit-0.stream", "chat") in names
    assert ("draftgate.edit-0.loaded", "rag") not in names
    assert len(names) == len(list(root.iter("testcase")))
    assert float(case(root, "greedy", "chat").get("time", "0")) == 4 * 4 * 1.5


def test_a_difference_fails_its_class_and_shows_the_first() -> None:
    root = parsed(failing())
    assert outcome(case(root, "gate", "verdict")) == "failure"
    found = case(root, "greedy", "chat").find("failure")
    assert found is not None
    assert found.get("type") == "difference"
    lines = str(found.text).splitlines()
    assert len(lines) == 11
    assert lines[0].startswith("greedy/chat:1, S1 and S2 at the prompt: plain 999 tokens")
    assert re.fullmatch(r"and \d+ more", lines[-1])


def test_findings_fail_the_screens() -> None:
    found = case(parsed(failing()), "gate", "screens").find("failure")
    assert found is not None
    assert "loop: S2, greedy/rag:1: 'and the ' stands 41 times in a row" in str(found.text)


def test_short_evidence_is_an_error() -> None:
    root = parsed(inconclusive())
    for group, name in (("gate", "verdict"), ("gate", "proof of speculation"), ("greedy", "chat")):
        found = case(root, group, name).find("error")
        assert found is not None
        assert found.get("type") == "inconclusive"
    assert "no answer within 600 s" in str(case(root, "greedy", "chat")[0].text)
    assert outcome(case(root, "gate", "sampled output")) == "error"
    assert outcome(case(root, "greedy", "rag")) == "passed"


def test_uncounted_drafts_are_no_proof() -> None:
    base = passing()
    silent = tuple(replace(arm, drafted=None) for arm in base.arms)
    trial = replace(base, arms=silent, verdict="inconclusive")
    assert outcome(case(parsed(trial), "gate", "proof of speculation")) == "error"


def test_the_verdict_decides_and_not_a_class() -> None:
    trial = replace(failing(), verdict="pass", findings=(), sampled=None)
    kinds = {outcome(element) for element in parsed(trial).iter("testcase")}
    assert kinds == {"passed", "skipped"}


def test_a_control_proves_no_speculation_and_is_green() -> None:
    base = passing()
    trial = replace(base, arms=tuple(replace(arm, drafted=0) for arm in base.arms))
    assert outcome(case(parsed(trial), "gate", "proof of speculation")) == "skipped"


def test_a_suite_that_did_not_run_is_skipped_with_its_reason() -> None:
    skipped = case(parsed(passing()), "suites", "json").find("skipped")
    assert skipped is not None
    assert skipped.get("message") == "no prompt asks for structured output"


def test_excused_divergences_are_green_but_told() -> None:
    root = parsed(numerics())
    passed = case(root, "greedy", "chat")
    assert outcome(passed) == "passed"
    assert "explained by W" in str(passed.findtext("system-out"))


def test_one_document_holds_several_candidates() -> None:
    root = parsed(passing(), replace(failing(), candidate="mtp-0"))
    assert [suite.get("name") for suite in root.findall("testsuite")] == ["edit-0", "mtp-0"]
    assert root.get("tests") == str(len(list(root.iter("testcase"))))
    assert root.get("skipped") is None  # unknown to the schema of Jenkins


def test_times_are_what_the_readers_parse() -> None:
    (suite,) = parsed(passing()).findall("testsuite")
    assert suite.get("timestamp") == "2026-03-02T09:41:07"
    assert suite.get("time") == "412.000"
    (strange,) = parsed(replace(passing(), created="yesterday")).findall("testsuite")
    assert strange.get("timestamp") is None


def test_hostile_text_is_well_formed_xml() -> None:
    trial, _ = hostile()
    text = junit_xml([trial])
    root = ElementTree.fromstring(text)
    assert not re.search(r"[\x00-\x08\x0b\x0c\x0e-\x1f\ufffe\uffff\ud800-\udfff]", text)
    assert not re.search(r"&#(x0*[0-8bcef]|x0*1[0-9a-f]|0*[0-8]|0*1[124-9]|0*2\d|0*3[01]);", text)
    assert {e.tag for e in root.iter()} <= {
        *("testsuites", "testsuite", "properties", "property", "testcase"),
        *("failure", "error", "skipped", "system-out"),
    }
    text.encode("utf-8")

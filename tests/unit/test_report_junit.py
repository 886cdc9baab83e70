"""JUnit XML: every class of requests is a case, and nothing but a pass is green."""

import re
from collections.abc import Callable
from dataclasses import replace
from xml.etree import ElementTree

import pytest

from orchestrator.gate.evidence import Trial
from orchestrator.gate.report.junit import junit_xml
from tests.unit.report_samples import MAKERS, failing, hostile, inconclusive, numerics, passing


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
    words = "S1 and S2: the arms read different prompts (999 and 1,999 tokens): one engine may have"
    assert lines[0].startswith(f"greedy/chat:1, {words}")
    assert str(found.get("message")).startswith("differs from plain: 1 with another prompt, ")
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


def test_sampled_output_is_told_in_sentences() -> None:
    passed = case(parsed(passing()), "gate", "sampled output")
    assert str(passed.findtext("system-out")).splitlines() == [
        "sampled output at temperature 1: pass, 9,000 tokens drafted",
        "next tokens: no difference in 9,600 draws at 24 places: p = 0.41 (0.008 or less fails); "
        "would have seen a total variation distance of 0.062 with 80 % probability",
        "whole answers: no difference as strings: p = 0.73 (0.002 or less fails); "
        "how small a difference it would have seen is not known",
    ]


def test_fingerprints_are_properties() -> None:
    found = {e.get("name"): e.get("value") for e in parsed(passing()).iter("property")}
    assert found["fingerprint of A1, A2"] == "the engine tells none"
    assert found["fingerprint of S1, S2"] == "0.32.0 pid 4711 since 1764523011"


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

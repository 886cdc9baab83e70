"""The outcome as JUnit XML: a test suite for each candidate, a case for each class of requests.

What CI must show red is a failure or an error: a difference fails, and short evidence is an error,
because CI has no word for inconclusive and "not shown" must not look like "shown".
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias
from xml.etree import ElementTree

from orchestrator.gate.evidence import Divergence, Question, Trial, Verdict
from orchestrator.gate.report.divergence import (
    PROMPT_HINT,
    explanation,
    is_excused,
    is_of_prompt,
    kinds_in_words,
    sentence,
    worst_first,
)
from orchestrator.gate.report.sampled import headline, sentences
from orchestrator.gate.report.words import (
    NO_FINGERPRINT,
    figure,
    finding,
    fingerprints,
    is_speculating,
    printable,
    several,
    short,
)
from orchestrator.gate.suite import RAN

Outcome: TypeAlias = Literal["passed", "failure", "error", "skipped"]
_OUTCOMES: Final[Mapping[Verdict, Outcome]] = {
    "pass": "passed",
    "fail": "failure",
    "inconclusive": "error",
}
_MOST_LINES = 10
_INSTANT = re.compile(r"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(?:\.\d+)?(?:Z|\+00:00)?")


@dataclass(frozen=True)
class _Case:
    """One test case. `group` is the last part of its class name."""

    group: str
    name: str
    outcome: Outcome = "passed"
    message: str = ""
    lines: tuple[str, ...] = ()
    seconds: float = 0.0


def junit_xml(trials: Sequence[Trial]) -> str:
    """One document for all candidates; every character is one that XML 1.0 allows.

    It keeps to the schema of Jenkins' xunit plugin (junit-10.xsd), the strictest of CI's readers.
    """
    suites = [_suite(trial) for trial in trials]
    root = ElementTree.Element("testsuites", {"name": "draftgate gate"})
    for key in ("tests", "failures", "errors"):
        root.set(key, str(sum(int(suite.get(key, "0")) for suite in suites)))
    root.set("time", f"{sum(trial.wall_seconds for trial in trials):.3f}")
    root.extend(suites)
    ElementTree.indent(root)
    text = ElementTree.tostring(root, encoding="unicode")
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{text}\n'


def _suite(trial: Trial) -> ElementTree.Element:
    cases = list(_cases(trial))
    suite = ElementTree.Element("testsuite", {"name": short(trial.candidate, 200)})
    suite.set("tests", str(len(cases)))
    for key, outcome in (("failures", "failure"), ("errors", "error"), ("skipped", "skipped")):
        suite.set(key, str(sum(1 for case in cases if case.outcome == outcome)))
    suite.set("time", f"{trial.wall_seconds:.3f}")
    if instant := _INSTANT.fullmatch(trial.created):
        suite.set("timestamp", instant[1])
    suite.append(_properties(trial))
    suite.extend(_element(case, trial) for case in cases)
    return suite


def _properties(trial: Trial) -> ElementTree.Element:
    element = ElementTree.Element("properties")
    facts = {
        "verdict": trial.verdict,
        "policy": trial.policy,
        "baseline": trial.baseline,
        "engine": trial.engine,
        "profile": trial.profile,
        "prompts_digest": trial.prompts_digest,
        "certificate": trial.certificate or "",
        "answers": trial.answers_folder or "",
        **{f"fingerprint of {n}": f or NO_FINGERPRINT for n, f in fingerprints(trial.arms)},
    }
    for name, value in facts.items():
        ElementTree.SubElement(element, "property", {"name": name, "value": printable(value)})
    return element


def _element(case: _Case, trial: Trial) -> ElementTree.Element:
    classname = f"draftgate.{short(trial.candidate, 200).replace('.', '_')}.{case.group}"
    element = ElementTree.Element("testcase", {"classname": classname, "name": case.name})
    element.set("time", f"{case.seconds:.3f}")
    text = "\n".join(case.lines)
    if case.outcome == "skipped":
        ElementTree.SubElement(element, "skipped", {"message": case.message})
    elif case.outcome != "passed":
        kind = "difference" if case.outcome == "failure" else "inconclusive"
        attributes = {"message": case.message, "type": kind}
        ElementTree.SubElement(element, case.outcome, attributes).text = text or case.message
    elif text:
        ElementTree.SubElement(element, "system-out").text = text
    return element


def _cases(trial: Trial) -> Iterator[_Case]:
    yield _verdict(trial)
    yield _proof(trial)
    yield from _classes(trial)
    yield _screens(trial)
    yield from _sampled(trial)
    for suite, outcome in trial.suites.items():
        if outcome != RAN:
            yield _Case("suites", suite, "skipped", printable(outcome))


def _verdict(trial: Trial) -> _Case:
    reasons = tuple(printable(reason) for reason in trial.reasons)
    notes = tuple(f"note: {printable(note)}" for note in trial.notes)
    message = reasons[0] if reasons else trial.verdict
    return _Case("gate", "verdict", _OUTCOMES[trial.verdict], message, (*reasons, *notes))


def _proof(trial: Trial) -> _Case:
    """A speculating arm that drafted nothing has shown nothing."""
    speculating = [arm for arm in trial.arms if is_speculating(arm)]
    told = tuple(
        f"{arm.name}: {figure(arm.accepted)} of {figure(arm.drafted)} drafted tokens accepted"
        for arm in speculating
    )
    silent = [arm.name for arm in speculating if not arm.drafted]
    if not speculating:
        return _Case("gate", "proof of speculation", "error", "no arm speculated")
    if silent and trial.verdict == "pass":  # a control: plain tried against plain
        message = f"{' and '.join(silent)}: nothing drafted, and nothing had to be"
        return _Case("gate", "proof of speculation", "skipped", message)
    if silent:
        message = f"{' and '.join(silent)}: no drafts were counted"
        return _Case("gate", "proof of speculation", "error", message, told)
    return _Case("gate", "proof of speculation", "passed", "", told)


def _classes(trial: Trial) -> Iterator[_Case]:
    """A case for each request type of each suite that was asked."""
    classes: dict[tuple[str, str], list[Question]] = {}
    for question in trial.questions.values():
        classes.setdefault((question.suite, question.type), []).append(question)
    found: dict[tuple[str, str], list[Divergence]] = {}
    for divergence in worst_first(trial):
        found.setdefault((divergence.suite, divergence.type), []).append(divergence)
    for key in dict.fromkeys([*classes, *found]):
        yield _class(trial, key, classes.get(key, []), found.get(key, []))


def _class(
    trial: Trial,
    key: tuple[str, str],
    questions: Sequence[Question],
    divergences: Sequence[Divergence],
) -> _Case:
    group, name = key[0], short(key[1], 80)
    seconds = _seconds(trial, questions)
    lines = tuple(_few([_line(d) for d in divergences]))
    bad = [d for d in divergences if not is_excused(d, trial.policy)]
    if bad and trial.verdict != "pass":
        message = f"differs from plain: {kinds_in_words(bad)}"
        return _Case(group, name, "failure", message, lines, seconds)
    missing = _missing(trial, questions)
    if missing and trial.verdict != "pass":
        message = f"{several(len(missing), 'answer')} missing"
        return _Case(group, name, "error", message, tuple(_few(missing)), seconds)
    lines = (
        f"{several(len(questions), 'question')}, divergences: {kinds_in_words(divergences)}",
        *lines,
    )
    return _Case(group, name, "passed", "", lines, seconds)


def _seconds(trial: Trial, questions: Sequence[Question]) -> float:
    """The time of all answers to these questions, in all arms."""
    answers = (arm.answers.get(q.id) for arm in trial.arms for q in questions)
    return sum(answer.seconds for answer in answers if answer)


def _missing(trial: Trial, questions: Sequence[Question]) -> list[str]:
    return [
        f"{arm.name}, {short(q.id)}: {printable(arm.errors.get(q.id, 'no answer'))}"
        for arm in trial.arms
        for q in questions
        if q.id in arm.errors or arm.answers.get(q.id, ...) is None
    ]


def _line(divergence: Divergence) -> str:
    line = f"{short(divergence.question)}, {sentence(divergence)}"
    if is_of_prompt(divergence):
        return f"{line}: {PROMPT_HINT}"
    return f"{line}; {divergence.kind}, explained by {explanation(divergence)}"


def _few(lines: Sequence[str]) -> Iterator[str]:
    yield from lines[:_MOST_LINES]
    if len(lines) > _MOST_LINES:
        yield f"and {len(lines) - _MOST_LINES} more"


def _screens(trial: Trial) -> _Case:
    """Checks that need no second arm to compare with."""
    if not trial.findings:
        return _Case("gate", "screens")
    lines = tuple(_few([finding(found) for found in trial.findings]))
    message = f"{several(len(trial.findings), 'finding')}, the first: {lines[0]}"
    return _Case("gate", "screens", "failure", message, lines)


def _sampled(trial: Trial) -> Iterator[_Case]:
    sampled = trial.sampled
    if sampled is None:
        return
    facts = (headline(sampled), *sentences(sampled), *map(printable, sampled.worst))
    message = printable(sampled.message)
    yield _Case("gate", "sampled output", _OUTCOMES[sampled.verdict], message, facts)

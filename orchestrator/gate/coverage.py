"""What the evidence covers: suites that the engine does not serve at all, and what is missing."""

import re
from collections.abc import Iterator, Mapping, Sequence

from orchestrator.gate.endpoint import told_fingerprint
from orchestrator.gate.evidence import Arm, Finding, Question

# Without an answer to these nothing was compared; the others are features that an engine may lack.
_ALWAYS = frozenset({"greedy", "loaded", "mixed"})
# What an engine says of a feature that it has not. Any other error is a failure: it shows nothing.
_REFUSED = re.compile(r"\banswered (400|404|405|415|422|501)\b")
# Cases of a kind after which an error in one of twenty was seen with 95 %: 0.95 ** 59 < 0.05.
_RARE, _ENOUGH = 0.05, 59


def unserved(questions: Mapping[str, Question], plain: Sequence[Arm]) -> dict[str, str]:
    """Suites that plain refuses throughout, and what it said: there is nothing to compare."""
    found: dict[str, str] = {}
    for suite in {q.suite for q in questions.values()} - _ALWAYS:
        names = [name for name, q in questions.items() if q.suite == suite]
        if any(arm.answers.get(name) for arm in plain for name in names):
            continue
        said = [arm.errors[n] for arm in plain for n in names if n in arm.errors]
        if said and all(map(_REFUSED.search, said)):
            found[suite] = f"the plain engine answers none of it: {said[0]}"[:300]
    return found


def no_answers(
    questions: Mapping[str, Question], plain: Sequence[Arm], speculating: Sequence[Arm]
) -> Iterator[Finding]:
    """What plain answers in every arm and the speculating engine in none: a defect, not a lack."""
    for name, question in questions.items():
        if not all(arm.answers.get(name) for arm in plain):
            continue
        if not any(arm.answers.get(name) for arm in speculating):
            said = next((arm.errors[name] for arm in speculating if name in arm.errors), "")
            names = " and ".join(arm.name for arm in speculating)
            message = f"no answer, where plain has one: {said}"[:300]
            yield Finding("no-answer", name, question.type, names, message)


def lacks(
    questions: Mapping[str, Question], plain: Sequence[Arm], speculating: Sequence[Arm]
) -> list[str]:
    """Why the evidence is short, in words."""
    found: list[str] = []
    if len(plain) < 2 or len(speculating) < 2:
        found.append("an engine was asked only once: that it repeats itself was not shown")
    for arm in [*plain, *speculating]:
        missing = [name for name in questions if arm.answers.get(name) is None]
        if missing:
            said = f": {arm.errors[missing[0]]}"[:200] if missing[0] in arm.errors else ""
            count = f"{len(missing)} of {len(questions)} questions"
            found.append(f"{arm.name} has no answer to {count} ({missing[0]}{said})")
        elif not arm.tokens:
            found.append(f"{arm.name} answered nothing but empty text")
    return found


def fingerprint_lacks(*sides: Sequence[Arm]) -> list[str]:
    """Arms of one side that were not answered by the same configuration, as engines tell it."""
    return [
        f"{' and '.join(arm.name for arm in arms)} were answered by engines of different "
        f"configurations: fingerprints {', '.join(told)}"
        for arms in sides
        if len(told := sorted({told_fingerprint(arm.fingerprint) for arm in arms})) > 1
    ]


def draft_lacks(plain: Sequence[Arm], speculating: Sequence[Arm]) -> list[str]:
    """What is missing to say that only the speculating arms speculated."""
    found = [
        f"{arm.name}: the baseline drafted {arm.drafted:.0f} tokens, it is not plain"
        for arm in plain
        if arm.drafted
    ]
    for arm in speculating:
        if arm.drafted is None:
            found.append(f"{arm.name}: the engine tells no count of drafted tokens")
        elif arm.drafted <= 0:
            message = "no token was drafted, so that no verification was tested"
            found.append(f"{arm.name}: {message}")
        elif arm.accepted is not None and arm.accepted <= 0:
            message = f"none of {arm.drafted:.0f} drafted tokens was accepted"
            found.append(f"{arm.name}: {message}, so that acceptance was not tested")
        elif arm.accepted is not None and arm.accepted >= arm.drafted:
            message = f"all of {arm.drafted:.0f} drafted tokens were accepted"
            found.append(f"{arm.name}: {message}, so that refusal was not tested")
    return found


def draft_notes(speculating: Sequence[Arm]) -> list[str]:
    """Arms in which few drafted tokens were accepted, or few refused: what they show is little.

    A refused one is where an engine could have accepted a wrong draft, an accepted one where it
    could have lost a right one.
    """
    found = []
    for arm in speculating:
        if arm.drafted is None or arm.accepted is None:
            continue
        for what, count in (("accepted", arm.accepted), ("refused", arm.drafted - arm.accepted)):
            if 0 < count < _ENOUGH:
                seen = 1 - (1 - _RARE) ** count
                found.append(
                    f"{arm.name}: {count:.0f} of {arm.drafted:.0f} drafted tokens were {what}; an "
                    f"error in {_RARE:.0%} of such cases would be seen with {seen:.0%}"
                )
    return found

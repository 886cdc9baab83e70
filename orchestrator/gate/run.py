"""What one run of the gate is asked to do, and the questions that follow from it."""

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain, count
from pathlib import Path
from typing import Any

from adapters.profile import Drafted, Profile
from orchestrator.deployment import Member
from orchestrator.gate.evidence import SUITES, Question
from orchestrator.gate.level import levels
from orchestrator.gate.prompt import Prompt
from orchestrator.gate.request import with_names
from orchestrator.gate.suite import SuiteSettings, questions
from orchestrator.gate.verdict import Rules


@dataclass(frozen=True)
class Settings:
    """One run, whatever it is run on. `reports` is the folder of reports and raw answers; `say`
    gets a line now and then.

    `is_control` compares plain with plain: what the gate says of an engine that guesses nothing.
    """

    rules: Rules
    prompts: Sequence[Prompt]
    prompts_source: str | None  # digest of the files that the prompts were chosen from
    say: Callable[[str], None]
    suites: frozenset[str] = frozenset(SUITES)
    concurrency: int = 16
    alpha: float = 0.01
    detectable: float = 0.1
    side_by_side: bool = True
    is_control: bool = False
    reports: Path = Path("reports")
    sign_key: Path | None = None


@dataclass(frozen=True)
class Plan:
    """What a candidate and its baseline are asked. `suites` says of each "ran" or why not."""

    questions: Mapping[str, Question]
    suites: Mapping[str, str]
    gamma: int
    notes: tuple[str, ...] = ()


def largest_gamma(profile: Profile) -> int:
    """The most guesses of a step, under any batch size; 0 for plain."""
    spec = profile.speculation
    if not isinstance(spec, Drafted):
        return 0
    return max([spec.gamma, *(tier.gamma for tier in spec.schedule or ())])


def plan_for(member: Member, settings: Settings, context: int | None) -> Plan:
    """The plan of one worker of a fleet."""
    most = member.adapter.most_at_once(member.spec.args)
    found, notes = levels(member.profile, most, settings.concurrency)
    wanted = SuiteSettings(
        suites=settings.suites,
        levels=found,
        context=context,
        gamma=largest_gamma(member.profile),
        refused=member.adapter.limits(member.profile, member.spec.engine_version),
    )
    asked, suites = questions(settings.prompts, wanted)
    by_id = {question.id: question for question in asked}
    return Plan(by_id, suites, wanted.gamma, notes)


def plan_of_urls(settings: Settings, context: int | None, gamma: int) -> Plan:
    """The plan for engines of which only the addresses are known."""
    usual = (2, min(8, settings.concurrency)) if settings.concurrency > 1 else ()
    wanted = SuiteSettings(settings.suites, usual, context, gamma, {})
    asked, suites = questions(settings.prompts, wanted)
    notes = ("gamma, schedule and options of engines elsewhere are not known to the gate",)
    return Plan({question.id: question for question in asked}, suites, gamma, notes)


def agreed(plans: Sequence[Plan]) -> list[Plan]:
    """Plans of which equal ids ask the same, so that one plain arm can be asked for all of them.

    What a suite asks depends on the candidate's gamma and on the fields that it refuses: a question
    whose id another plan has for another one gets a number behind its own.
    """
    known: dict[str, Question] = {}
    return [replace(plan, questions=_agreed(plan.questions, known)) for plan in plans]


def _agreed(
    questions: Mapping[str, Question], known: dict[str, Question]
) -> Mapping[str, Question]:
    names: dict[str, str] = {}
    found: dict[str, Question] = {}
    for name, question in questions.items():
        asks = with_names(question, names)
        numbered = (f"{name}~{number}" for number in count(2))
        for free in chain([name], numbered):
            candidate = replace(asks, id=free)
            if known.setdefault(free, candidate) == candidate:
                break
        names[name] = free
        found[free] = candidate
    return found


def run_key(*parts: Any) -> str:
    """Digest of all that decides what is asked of whom."""
    text = json.dumps(parts, sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()

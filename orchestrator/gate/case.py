"""From arms to a trial: compared, confirmed by plain, explained by W, judged."""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from adapters.contract import Adapter
from orchestrator.gate.check import check
from orchestrator.gate.compare import Compared, compare
from orchestrator.gate.confirm import Confirmation, Confirmed
from orchestrator.gate.coverage import (
    draft_lacks,
    draft_notes,
    fingerprint_lacks,
    lacks,
    no_answers,
    unserved,
)
from orchestrator.gate.endpoint import Endpoint
from orchestrator.gate.evidence import Arm, Finding, Question, Rate, Sampled, Trial
from orchestrator.gate.margin import judged, precision
from orchestrator.gate.run import Plan, Settings
from orchestrator.gate.screen import screens
from orchestrator.gate.statistics import rate
from orchestrator.gate.suite import NOT_ASKED, RAN
from orchestrator.gate.verdict import Case, decide
from orchestrator.gate.wide import Wide, ask_wide


@dataclass(frozen=True)
class Subject:
    """Who is tried: names for people, and what is known of the engine."""

    candidate: str
    baseline: str
    adapter: Adapter
    profile: str
    version: str = ""
    logit_type: str | None = None
    launch_diff: tuple[str, ...] = ()

    @property
    def engine(self) -> str:
        return f"{self.adapter.TITLE} {self.version}".strip()


@dataclass
class Examination:
    """One candidate's arms on the way to a verdict.

    `questions` are those that were compared: suites that plain does not serve at all are left out.
    `more_lacks` are what the run itself found missing.
    """

    plan: Plan
    subject: Subject
    plain: Sequence[Arm]
    speculating: Sequence[Arm]
    more_lacks: list[str] = field(default_factory=list)
    sampled: Sampled | None = None
    wide: Wide | None = None

    def __post_init__(self) -> None:
        self.unserved = unserved(self.plan.questions, self.plain)
        self.questions: Mapping[str, Question] = {
            n: q for n, q in self.plan.questions.items() if q.suite not in self.unserved
        }
        self.compared: Compared = compare(self.questions, self.plain, self.speculating)
        self.confirmed = Confirmed(list(self.compared.divergences))

    @property
    def is_in_question(self) -> bool:
        """Whether anything differs that plain itself did not show: worth asking plain and W."""
        return any(not d.explained and d.position >= 0 for d in self.compared.divergences)

    @property
    def width(self) -> int:
        """Rows of a verify step."""
        return self.plan.gamma + 1

    async def confirm(self, plain: Endpoint) -> None:
        """Ask plain about every divergence."""
        asking = Confirmation(plain, self.questions, self.plain[0], self.speculating)
        self.confirmed = await asking.confirm(self.compared.divergences)

    async def widen(self, wide: Endpoint) -> None:
        """Ask W about every divergence that plain was asked about."""
        arms = {arm.name: arm for arm in self.speculating}
        self.wide = await ask_wide(wide, self.width, self.confirmed, arms, self.plain[0])
        self.confirmed.divergences = list(self.wide.divergences)

    def trial(self, settings: Settings) -> Trial:
        """The outcome."""
        unit = precision(self.subject.logit_type, self.wide.wobbles if self.wide else ())
        divergences = tuple(judged(d, d.candidates, unit) for d in self.confirmed.divergences)
        wide_rate = self._wide_rate()
        case = Case(
            self.questions,
            self.speculating,
            self.compared,
            divergences,
            self._findings(),
            self._lacks(settings),
            self.sampled,
            wide_rate,
        )
        verdict, reasons = decide(case, settings.rules)
        return Trial(
            candidate=self.subject.candidate,
            baseline=self.subject.baseline,
            engine=self.subject.engine,
            profile=self.subject.profile,
            policy=settings.rules.policy,
            verdict=verdict,
            reasons=reasons,
            arms=(*self.plain, *self.speculating),
            questions=self.questions,
            divergences=divergences,
            noise=self.compared.noise,
            findings=tuple(case.findings),
            rates=case.rates(),
            noise_rate=case.noise_rate(),
            wide_rate=wide_rate,
            precision=unit if divergences else None,
            sampled=self.sampled,
            suites={**self.plan.suites, **self.unserved, "sampled": self._sampled_ran()},
            notes=self._notes(settings),
            launch_diff=self.subject.launch_diff,
            created=time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        )

    def _sampled_ran(self) -> str:
        return RAN if self.sampled else NOT_ASKED

    def _wide_rate(self) -> Rate | None:
        if self.wide is None or not self.wide.tokens:
            return None
        return rate(self.wide.forks, self.wide.tokens)

    def _findings(self) -> list[Finding]:
        found = [*no_answers(self.questions, self.plain, self.speculating)]
        for arm in self.speculating:
            found += check(self.questions, arm, self.plain)
            found += screens(self.questions, arm, self.plain)
        return found + _races(self.questions, self.plain, self.speculating)

    def _lacks(self, settings: Settings) -> list[str]:
        found = lacks(self.questions, self.plain, self.speculating)
        found += fingerprint_lacks(self.plain, self.speculating)
        if not settings.is_control:
            found += draft_lacks(self.plain, self.speculating)
        return found + self.more_lacks

    def _notes(self, settings: Settings) -> tuple[str, ...]:
        notes = list(self.plan.notes)
        if not settings.is_control:
            notes += draft_notes(self.speculating)
        if any(arm.boots == 0 for arm in (*self.plain, *self.speculating)):
            notes.append("the engines ran before: the two arms of each are one process")
        if self.confirmed.unconfirmed:
            notes.append(f"{self.confirmed.unconfirmed} divergences were not put to plain again")
        if self.is_in_question and self.wide is None:
            notes.append("arm W was not run: nothing tells numerics of the verify width from a bug")
        return tuple(notes)


def _races(
    questions: Mapping[str, Question], plain: Sequence[Arm], speculating: Sequence[Arm]
) -> list[Finding]:
    """Asked twice alone, plain repeats itself and the speculating engine does not: a race, or state
    left over from before (docs/gate.md). A bug whatever the margins."""
    found = []
    for name, question in questions.items():
        if question.concurrency > 1 or question.follows is not None:
            continue
        if _repeats(plain, name) is True and _repeats(speculating, name) is False:
            arms = " and ".join(arm.name for arm in speculating)
            message = "asked twice alone it answers differently, where plain repeats itself"
            found.append(Finding("race", name, question.type, arms, message))
    return found


def _repeats(arms: Sequence[Arm], question: str) -> bool | None:
    answers = [arm.answers.get(question) for arm in arms]
    given = [(a.prompt_ids, a.ids) for a in answers if a is not None]
    return None if len(given) < 2 else len(set(given)) == 1


def with_wall(trial: Trial, seconds: float, answers_folder: str) -> Trial:
    """The trial with what only the run knows."""
    return replace(trial, wall_seconds=round(seconds, 3), answers_folder=answers_folder)

"""Running the gate: a plain engine twice and each of its candidates twice, side by side.

Two lanes where the machine allows: the plain arms in one, the speculating arms in the other. The
second plain arm stays up until every candidate's divergences were put to it.
"""

import asyncio
import itertools
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from typing import TypeAlias

from orchestrator.errors import EngineError
from orchestrator.gate.arm import Collection, still_drafts
from orchestrator.gate.case import Examination, Subject, with_wall
from orchestrator.gate.draw_journal import DrawJournal
from orchestrator.gate.draws import Kept, Prefix, Sampling
from orchestrator.gate.endpoint import Endpoint
from orchestrator.gate.evidence import Arm, Question, Trial
from orchestrator.gate.journal import RunFolder
from orchestrator.gate.margin import sampling_noise
from orchestrator.gate.progress import Progress
from orchestrator.gate.run import Plan, Settings, agreed
from orchestrator.gate.sampled import SampledSettings

Boot: TypeAlias = Callable[[], AbstractAsyncContextManager[Endpoint]]
# The plain engine at verify width; None where it cannot be made to work so.
BootWide: TypeAlias = Callable[[int], AbstractAsyncContextManager[Endpoint] | None]
Planned: TypeAlias = Callable[[int | None], Plan]

# Prompts asked once more at the end of an arm, to see whether the engine drafts still.
_MOST_LOOKS = 8
# Draws are shared among them: few with many draws each see more than many with few.
_MOST_PREFIXES = 8
# Every batch of draws reads its prefix again, and an engine may read a longer one in pieces, which
# some builds do not survive with a seed (docs/verified.md).
_LONGEST_PREFIX = 1024


@dataclass
class Candidate:
    """One engine to be tried: how it is started, what it is asked, where its answers are kept."""

    subject: Subject
    boot: Boot
    planned: Planned
    folder: RunFolder
    plan: Plan | None = None
    arms: list[Arm] = field(default_factory=list)
    lacks: list[str] = field(default_factory=list)
    sampling: Sampling | None = None


@dataclass
class Baseline:
    """The plain engine."""

    boot: Boot
    boot_wide: BootWide
    folder: RunFolder


class Gate:
    """One baseline and its candidates, tried together."""

    def __init__(
        self,
        baseline: Baseline,
        candidates: Sequence[Candidate],
        settings: Settings,
    ):
        self._baseline = baseline
        self._candidates = candidates
        self._settings = settings
        self._say = settings.say
        self._start = time.monotonic()
        loop = asyncio.get_running_loop()
        self._first_plain: asyncio.Future[Arm] = loop.create_future()
        self._plain: asyncio.Future[tuple[Endpoint, Sequence[Arm]]] = loop.create_future()
        self._spoken = asyncio.Event()  # every speculating arm is whole
        self._done = asyncio.Event()  # plain is needed no more
        self._planned = asyncio.Event()
        self._progress: Progress | None = None

    async def run(self) -> list[Trial]:
        """Every candidate's outcome, in their order. Raises EngineError when an engine fails."""
        try:
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(self._plain_lane())
                examined = tasks.create_task(self._speculating_lane())
        except BaseExceptionGroup as several:
            raise several.exceptions[0] from several
        await self._widen(examined.result())
        seconds = time.monotonic() - self._start
        pairs = zip(self._candidates, examined.result(), strict=True)
        return [
            with_wall(examination.trial(self._settings), seconds, str(candidate.folder.path))
            for candidate, examination in pairs
        ]

    def _plan(self, endpoint: Endpoint) -> None:
        """Once, when the first engine has told how long a prompt may be."""
        if self._planned.is_set():
            return
        plans = agreed([candidate.planned(endpoint.context) for candidate in self._candidates])
        for candidate, plan in zip(self._candidates, plans, strict=True):
            candidate.plan = plan
        self._warn_of_few(plans)
        total = 2 * len(_united(plans)) + 2 * sum(len(plan.questions) for plan in plans)
        self._progress = Progress(self._say, total)
        self._planned.set()

    def _warn_of_few(self, plans: Sequence[Plan]) -> None:
        """Before the hours, not after: no verdict but a failure can come of it."""
        wanted = self._settings.rules.min_tokens
        for candidate, plan in zip(self._candidates, plans, strict=True):
            most = sum(q.request.get("max_tokens", 0) for q in plan.questions.values())
            if most < wanted and all("max_tokens" in q.request for q in plan.questions.values()):
                name = candidate.subject.candidate
                message = f"{name}: its answers have at most {most:,} tokens, and {wanted:,} are"
                self._say(f"{message} asked for: more prompts, or it cannot pass")

    async def _plain_lane(self) -> None:
        async with self._baseline.boot() as endpoint:
            first = await self._collect("A1", endpoint, self._baseline.folder, None)
            if self._wants_sampled:
                await self._score(endpoint, first)
        self._first_plain.set_result(first)
        if not self._settings.side_by_side:
            await self._spoken.wait()
        async with self._baseline.boot() as endpoint:
            second = await self._collect("A2", endpoint, self._baseline.folder, None)
            self._plain.set_result((endpoint, (first, second)))
            await self._done.wait()

    async def _speculating_lane(self) -> list[Examination]:
        if not self._settings.side_by_side:
            await self._first_plain
        for candidate in self._candidates:
            await self._speculate(candidate)
        self._spoken.set()
        endpoint, plain = await self._plain
        examined = [await self._examine(c, endpoint, plain) for c in self._candidates]
        self._done.set()
        return examined

    async def _speculate(self, candidate: Candidate) -> None:
        for name in ("S1", "S2"):
            async with candidate.boot() as endpoint:
                arm = await self._collect(name, endpoint, candidate.folder, candidate)
                candidate.arms.append(arm)
                await self._require_drafts(candidate, endpoint, arm)
                if name == "S2":
                    await self._sample(candidate, endpoint)

    async def _collect(
        self, name: str, endpoint: Endpoint, folder: RunFolder, candidate: Candidate | None
    ) -> Arm:
        self._plan(endpoint)
        plans = [_plan_of(c) for c in ([candidate] if candidate else self._candidates)]
        questions = list(_united(plans).values())
        if self._progress is None:
            raise EngineError("nothing was planned")
        shown = name if len(self._candidates) == 1 else f"{name} of {endpoint.name}"
        progress = self._progress.of(shown)
        arm = await Collection(name, endpoint, folder.journal(name), progress).collect(questions)
        self._say(f"{shown}: {arm.tokens} tokens in {arm.seconds:.0f} s")
        return arm

    async def _score(self, plain: Endpoint, first: Arm) -> None:
        """Plain's own probabilities, which draws are compared with."""
        for candidate in self._candidates:
            settings = SampledSettings(
                alpha=self._settings.alpha,
                detectable=self._settings.detectable,
                noise=sampling_noise(candidate.subject.logit_type),
            )
            prefixes = _prefixes(_plan_of(candidate), first)
            kept = Kept(
                DrawJournal(self._baseline.folder.path / "A1.draws.jsonl"),
                DrawJournal(candidate.folder.path / "S2.draws.jsonl", by_look=True),
            )
            candidate.sampling = Sampling(prefixes, settings, self._say, kept)
            await candidate.sampling.score(plain)

    async def _sample(self, candidate: Candidate, endpoint: Endpoint) -> None:
        await self._first_plain
        sampling = candidate.sampling
        while sampling is not None and not sampling.is_done:
            await sampling.draw(endpoint)

    async def _require_drafts(self, candidate: Candidate, endpoint: Endpoint, arm: Arm) -> None:
        """An engine may stop guessing and answer on: its counters rose before, and do not now."""
        if not arm.drafted:
            return
        greedy = [q for q in _plan_of(candidate).questions.values() if q.suite == "greedy"]
        if not await still_drafts(endpoint, greedy[:_MOST_LOOKS]):
            message = f"it drafted {arm.drafted:.0f} tokens, and at its end none for the same"
            candidate.lacks.append(f"{arm.name}: the engine stopped speculating: {message} prompts")

    @property
    def _wants_sampled(self) -> bool:
        return "sampled" in self._settings.suites

    async def _examine(
        self, candidate: Candidate, endpoint: Endpoint, plain: Sequence[Arm]
    ) -> Examination:
        found = Examination(
            _plan_of(candidate), candidate.subject, plain, candidate.arms, candidate.lacks
        )
        if candidate.sampling:
            found.sampled = await asyncio.to_thread(candidate.sampling.judge)
        if found.is_in_question:
            self._say(f"{candidate.subject.candidate}: asking plain about what differs")
            await found.confirm(endpoint)
            if candidate.subject.adapter.wide_arguments(found.width) == {}:
                await found.widen(endpoint)
        return found

    async def _widen(self, examined: Sequence[Examination]) -> None:
        """W where it needs an engine of its own, one for each width."""
        waiting = [e for e in examined if e.is_in_question and e.wide is None]
        for width in sorted({e.width for e in waiting}):
            boot = self._baseline.boot_wide(width)
            if boot is None:
                continue
            self._say(f"W: plain at {width} rows a step, without a drafter")
            async with boot as endpoint:
                for examination in (e for e in waiting if e.width == width):
                    await examination.widen(endpoint)


def _plan_of(candidate: Candidate) -> Plan:
    if candidate.plan is None:
        raise EngineError(f"{candidate.subject.candidate} was not planned")
    return candidate.plan


def _prefixes(plan: Plan, plain: Arm) -> list[Prefix]:
    """Prompts with half of plain's answer behind them, so that lookups find something; of each
    request type first."""
    by_type: dict[str, list[Prefix]] = {}
    for name, question in plan.questions.items():
        answer = plain.answers.get(name)
        if question.suite == "greedy" and not question.note and answer and len(answer.ids) > 1:
            half = answer.prompt_ids + answer.ids[: len(answer.ids) // 2]
            if len(half) > _LONGEST_PREFIX:
                continue
            by_type.setdefault(question.type, []).append(Prefix(name, half))
    rounds = itertools.zip_longest(*by_type.values())
    found = [prefix for prefixes in rounds for prefix in prefixes if prefix is not None]
    return found[:_MOST_PREFIXES]


def _united(plans: Sequence[Plan]) -> dict[str, Question]:
    """The questions of all plans, each once: equal ids ask the same (agreed)."""
    return {name: question for plan in plans for name, question in plan.questions.items()}

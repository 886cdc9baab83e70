"""Collecting the answers of one arm from a running engine."""

import asyncio
import itertools
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import httpx
import msgspec

from adapters.exchange import Call, Generation
from adapters.metric import read_metrics, read_positions, rise
from orchestrator.errors import EngineError, EngineGoneError
from orchestrator.gate.endpoint import Endpoint, changed_fingerprint
from orchestrator.gate.evidence import Arm, Question
from orchestrator.gate.journal import Journal
from orchestrator.gate.neighbours import LONGEST_PREFIX, sampled_neighbours
from orchestrator.gate.progress import ArmProgress
from orchestrator.gate.request import ALONE, asked, how
from orchestrator.wire import ask, engine_client, hold, timed

_COUNTED = ("drafted", "accepted", "drafts")
# An engine may count a little after it answers; nothing tells when.
_COUNT_PAUSE_S = 0.2
_LARGEST_ID = 2**31


@dataclass(frozen=True)
class Counts:
    """An engine's counters at one moment; None for those that it does not have."""

    totals: Mapping[str, float | None]
    positions: tuple[float, ...] | None


@dataclass
class Collection:
    """One arm under way: who is asked, and where its answers are kept."""

    name: str
    endpoint: Endpoint
    journal: Journal
    progress: ArmProgress
    _counts: Counts = Counts(dict.fromkeys(_COUNTED), None)  # when the last group ended

    async def collect(self, questions: Sequence[Question]) -> Arm:
        """Ask every question that the journal has no answer to, in order.

        The engine must be the same one before and after: its fingerprint is compared. An answer
        that fails is None in the arm; an engine that is gone raises EngineError.
        """
        asked_for = {question.id for question in questions}
        groups = list(_groups(questions))
        errors: dict[str, str] = {}
        async with engine_client(self.endpoint.url) as client:
            before = await hold(client, self.endpoint.adapter.api.complete(self.endpoint.model))
            self._go_on_with(before)
            for group in groups:
                if group[0].concurrency > 1 and any(
                    q.id not in self.journal.answers for q in group
                ):
                    self.journal.forget(q.id for q in group)
            kept = {name: a for name, a in self.journal.answers.items() if name in asked_for}
            answers: dict[str, Generation | None] = dict(kept)
            self.progress.begin(len(answers), len(questions))
            self.journal.booted(before)
            self._counts = await read_counts(client, self.endpoint)
            for group in groups:
                await self._ask_group(client, group, answers, errors)
            after = await hold(client, self.endpoint.adapter.api.complete(self.endpoint.model))
        if before != after:
            self.journal.begin_anew()
            message = f"another engine answered on {self.endpoint.url} during arm {self.name}"
            raise EngineError(f"{message}: {changed_fingerprint(before, after)}")
        return self._arm(answers, errors, before)

    def _go_on_with(self, fingerprint: str) -> None:
        """Answers of an earlier run count only when the same launch gave them: another engine may
        listen at an address of somebody else's by now."""
        is_same = self.journal.fingerprint in (None, fingerprint)
        if not (self.endpoint.is_known and is_same):
            self.journal.begin_anew()

    def _arm(
        self,
        answers: Mapping[str, Generation | None],
        errors: Mapping[str, str],
        fingerprint: str,
    ) -> Arm:
        counted = self.journal.counted
        given = [answer for answer in answers.values() if answer]
        return Arm(
            name=self.name,
            answers=answers,
            worker=self.endpoint.name,
            errors=errors,
            drafted=_total(counted, "drafted", given),
            accepted=_total(counted, "accepted", given),
            steps=_total(counted, "drafts", ()),
            positions=_positions(counted),
            seconds=sum(group["seconds"] for group in counted),
            fingerprint=fingerprint,
            boots=self.journal.boots if self.endpoint.boots else 0,
        )

    async def _ask_group(
        self,
        client: httpx.AsyncClient,
        group: Sequence[Question],
        answers: dict[str, Generation | None],
        errors: dict[str, str],
    ) -> None:
        """Questions of one company: so many are in flight until none is left to send.

        A prompt is sent whenever an answer is whole, so that prompts arrive while others decode.
        """
        concurrency, beside = _company(group[0])
        left = [question for question in group if question.id not in answers]
        if not left:
            return
        waiting, start = iter(left), time.perf_counter()

        async def ask_on() -> None:
            for question in waiting:
                answer = await self._answer(client, question, answers, errors)
                answers[question.id] = answer
                self.progress.answered()

        prefixes = _prefixes(group, answers) if beside else []
        company = sampled_neighbours(client, self.endpoint, prefixes, beside)
        async with company as neighbours, _group() as tasks:
            for _ in range(concurrency - beside):
                tasks.create_task(ask_on())
        if neighbours.failure:
            self._undo(group, f"sampled neighbours: {neighbours.failure}", answers, errors)
        seconds = time.perf_counter() - start
        before, self._counts = self._counts, await read_counts(client, self.endpoint)
        risen = _risen(before, self._counts)
        self.journal.count({**risen, "seconds": round(seconds, 6)})

    def _undo(
        self,
        group: Sequence[Question],
        why: str,
        answers: dict[str, Generation | None],
        errors: dict[str, str],
    ) -> None:
        """Answers that came without the company that they were asked for in are none."""
        for question in group:
            answers[question.id] = None
            errors[question.id] = why
            self.journal.failed(question, why)

    async def _answer(
        self,
        client: httpx.AsyncClient,
        question: Question,
        answers: Mapping[str, Generation | None],
        errors: dict[str, str],
    ) -> Generation | None:
        request = asked(question, answers)
        if request is None:
            errors[question.id] = f"the answer it follows, {question.follows}, is missing"
            return None
        api = self.endpoint.adapter.api
        talk = api.generate(self.endpoint.model, request, how(question))
        try:
            answer, seconds = await timed(client, talk)
        except EngineGoneError as error:
            raise EngineGoneError(f"{error}, while it was asked {question.id}") from error
        except EngineError as error:
            errors[question.id] = str(error)
            self.journal.failed(question, str(error))
            return None
        if not _is_sound(answer):
            raise EngineError(f"{client.base_url}: an answer to {question.id} of an unknown shape")
        answer = replace(answer, seconds=round(seconds, 6))
        self.journal.answered(question, answer)
        return answer


def _groups(questions: Sequence[Question]) -> Iterator[list[Question]]:
    """What is counted together: questions asked one at a time each for itself, so that a run that
    is killed loses none; of a load the whole."""
    for (concurrency, _), company in itertools.groupby(questions, _company):
        if concurrency > 1:
            yield list(company)
        else:
            yield from ([question] for question in company)


def _company(question: Question) -> tuple[int, int]:
    """How many requests are in flight with it, and how many of them are sampled."""
    return question.concurrency, question.beside


def _prefixes(
    group: Sequence[Question], answers: Mapping[str, Generation | None]
) -> list[tuple[int, ...]]:
    """What sampled neighbours go on from: the group's own prompts, with half of their answers, so
    that lookups find something."""
    found = []
    for question in group:
        answer = answers.get(f"{ALONE}/{question.prompt}")
        if answer and answer.prompt_ids and min(answer.prompt_ids) >= 0:
            found.append(answer.prompt_ids + answer.ids[: len(answer.ids) // 2])
    return [prefix for prefix in found if len(prefix) <= LONGEST_PREFIX]


def _is_sound(answer: Generation) -> bool:
    """Whether text is text and ids are numbers: engines answer what they like."""
    try:
        msgspec.convert(asdict(answer), Generation)
    except msgspec.ValidationError:
        return False
    return all(abs(token) < _LARGEST_ID for token in (*answer.prompt_ids, *answer.ids))


class _group(asyncio.TaskGroup):
    """A task group that raises the one error itself: callers know EngineError, not groups of it."""

    async def __aexit__(self, *error: Any) -> None:
        try:
            await super().__aexit__(*error)
        except BaseExceptionGroup as several:
            raise several.exceptions[0] from several


async def read_counts(client: httpx.AsyncClient, endpoint: Endpoint) -> Counts:
    """What the engine has counted so far. Raises EngineGoneError when it cannot be reached."""
    adapter = endpoint.adapter
    names = {name: adapter.METRICS[name] for name in _COUNTED if name in adapter.METRICS}
    try:
        reply = await ask(client, Call(adapter.METRICS_PATH))
    except httpx.HTTPError as error:
        what = str(error) or type(error).__name__
        raise EngineGoneError(f"{client.base_url}{adapter.METRICS_PATH}: {what}") from error
    text = reply.text if reply.status == 200 else ""
    by_position = adapter.METRICS.get("accepted_per_position")
    totals = dict.fromkeys(_COUNTED) | read_metrics(text, names)
    return Counts(totals, read_positions(text, by_position) if by_position else None)


def _risen(before: Counts, after: Counts) -> dict[str, Any]:
    totals = {name: rise(before.totals, after.totals, name) for name in _COUNTED}
    positions = None
    if after.positions is not None:
        earlier = before.positions or ()
        pairs = itertools.zip_longest(after.positions, earlier, fillvalue=0.0)
        positions = [late - early for late, early in pairs]
    return {**totals, "positions": positions}


def _total(
    counted: Sequence[Mapping[str, Any]], name: str, answers: Iterable[Generation]
) -> float | None:
    """A counter's rise over all groups; without that counter, the sum over the answers."""
    rises = [group[name] for group in counted if group[name] is not None]
    if rises:
        return float(sum(rises))
    told = [count for count in (getattr(a, name, None) for a in answers) if count is not None]
    return float(sum(told)) if told else None


def _positions(counted: Sequence[Mapping[str, Any]]) -> tuple[float, ...] | None:
    lists = [group["positions"] for group in counted if group["positions"] is not None]
    if not lists:
        return None
    return tuple(sum(column) for column in itertools.zip_longest(*lists, fillvalue=0.0))


async def still_drafts(endpoint: Endpoint, questions: Sequence[Question]) -> bool:
    """Whether the engine, at the end of its arm, drafts for one of these questions."""
    api = endpoint.adapter.api
    async with engine_client(endpoint.url) as client:
        before = await read_counts(client, endpoint)
        for question in questions:
            talk = api.generate(endpoint.model, question.request, how(question))
            try:
                answer = await hold(client, talk)
            except EngineGoneError:
                raise
            except EngineError:
                continue
            await asyncio.sleep(_COUNT_PAUSE_S)
            after = await read_counts(client, endpoint)
            if answer.drafted or rise(before.totals, after.totals, "drafted"):
                return True
    return False

"""Asking the plain engine about divergences: how sure it was, and what lies behind the first one.

Every position of a speculating answer that left plain is looked at: plain scores the whole text at
once to screen it, and a one-token answer after the same prefix confirms each position that stands
out. An engine that cannot score a text is made to go on from the speculating token instead.
"""

from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import httpx
from pydantic import JsonValue

from adapters.exchange import Candidate, Generation, Scored
from orchestrator.errors import EngineError
from orchestrator.gate.compare import first_divergence
from orchestrator.gate.endpoint import Endpoint
from orchestrator.gate.evidence import END, Arm, Divergence, Question
from orchestrator.wire import engine_client, hold

PREFILL = "prefill"
# Bounds on work for an engine that is wholly wrong: each confirmation is a request.
MOST_CONFIRMED = 256
MOST_BEHIND = 16  # positions confirmed behind the first, an answer
MOST_CONTINUED = 4  # continuations, an answer, where texts cannot be scored
MOST_REFERENCES = 48  # answers scored to learn plain's own wobble
SAMPLED_POSITIONS = 32  # the same where texts cannot be scored: positions
# Whatever else a request has bends the next token's distribution: plain's own says nothing then.
_NEUTRAL = frozenset({"prompt", "messages", "max_tokens", "stop", "ignore_eos", "tools"})


@dataclass(frozen=True)
class Place:
    """A prefix, and the plain engine's best tokens after it."""

    ids: tuple[int, ...]
    candidates: tuple[Candidate, ...]


@dataclass
class Confirmed:
    """What the plain engine told. `scores` and `places` are its own answers once more, by its own
    reckoning: what a verify step's width makes of them is compared with that (wide.py)."""

    divergences: list[Divergence] = field(default_factory=list)
    scores: dict[str, tuple[Scored, ...]] = field(default_factory=dict)
    places: list[Place] = field(default_factory=list)
    unconfirmed: int = 0


def is_scorable(question: Question) -> bool:
    """Whether plain's next-token distribution is the one that the answer was taken from."""
    return set(question.request) <= _NEUTRAL


def prefix_of(divergence: Divergence, arms: Mapping[str, Arm]) -> tuple[int, ...] | None:
    """The ids that stand before a divergence in the arm that took it."""
    answer = arms[divergence.arms[0]].answers.get(divergence.question)
    if answer is None or divergence.position < 0:
        return None
    return answer.prompt_ids + answer.ids[: divergence.position]


class Confirmation:
    """One candidate's divergences before the plain engine."""

    def __init__(
        self,
        endpoint: Endpoint,
        questions: Mapping[str, Question],
        plain: Arm,
        speculating: Sequence[Arm],
    ):
        self._endpoint = endpoint
        self._questions = questions
        self._plain = plain
        self._arms = {arm.name: arm for arm in speculating}
        self._asked: dict[tuple[int, ...], tuple[Candidate, ...]] = {}
        self._left = MOST_CONFIRMED

    async def confirm(self, divergences: Sequence[Divergence]) -> Confirmed:
        """Each with plain's candidates, and those behind it; "A/A" ones are left as they are."""
        found = Confirmed()
        async with engine_client(self._endpoint.url) as client:
            for divergence in divergences:
                await self._one(client, divergence, found)
            if any(not d.explained for d in divergences):
                await self._reference(client, found)
        return found

    async def _one(
        self, client: httpx.AsyncClient, divergence: Divergence, found: Confirmed
    ) -> None:
        prefix = prefix_of(divergence, self._arms)
        question = self._questions[divergence.question]
        if prefix is None or not is_scorable(question):
            found.divergences.append(divergence)
            return
        if self._left <= 0:
            found.unconfirmed += 1
            found.divergences.append(divergence)
            return
        candidates = await self._candidates(client, prefix)
        found.divergences.append(_told(divergence, candidates))
        if not divergence.explained and divergence.found != END:
            async for behind in self._behind(client, divergence):
                found.divergences.append(behind)

    async def _candidates(
        self, client: httpx.AsyncClient, ids: tuple[int, ...]
    ) -> tuple[Candidate, ...]:
        """Asked once a prefix; empty where the engine gives none: the verdict stands without."""
        if ids not in self._asked:
            self._left -= 1
            talk = self._endpoint.adapter.api.candidates(self._endpoint.model, ids)
            try:
                self._asked[ids] = await hold(client, talk)
            except EngineError:
                self._asked[ids] = ()
        return self._asked[ids]

    async def _behind(
        self, client: httpx.AsyncClient, first: Divergence
    ) -> AsyncIterator[Divergence]:
        """Divergences of the same answer behind its first, given what it said before each."""
        answer = self._arms[first.arms[0]].answers[first.question]
        if answer is None or first.position + 1 >= len(answer.ids):
            return
        start = first.position + 1
        whole = answer.prompt_ids + answer.ids
        api, model = self._endpoint.adapter.api, self._endpoint.model
        try:
            scored = await hold(client, api.score(model, whole, len(answer.prompt_ids) + start))
        except EngineError:
            scored = None
        if scored is None:
            async for found in self._continued(client, first, answer):
                yield found
            return
        flagged = [start + i for i, s in enumerate(scored) if s.token != s.best]
        for position in flagged[:MOST_BEHIND]:
            prefix = answer.prompt_ids + answer.ids[:position]
            candidates = await self._candidates(client, prefix)
            token = answer.ids[position]
            if candidates and candidates[0].token != token:
                yield _told(_later(first, position, candidates[0].token, token), candidates)

    async def _continued(
        self, client: httpx.AsyncClient, first: Divergence, answer: Generation
    ) -> AsyncIterator[Divergence]:
        position = first.position
        api, model = self._endpoint.adapter.api, self._endpoint.model
        for _ in range(MOST_CONTINUED):
            start = position + 1
            prefix, rest = answer.prompt_ids + answer.ids[:start], answer.ids[start:]
            if not rest:
                return
            request: dict[str, JsonValue] = {"prompt": list(prefix), "max_tokens": len(rest)}
            try:
                plain = (await hold(client, api.generate(model, request))).ids
            except EngineError:
                return
            offset = first_divergence(plain, rest)
            if offset is None or offset >= min(len(plain), len(rest)):
                return
            position = start + offset
            candidates = await self._candidates(client, answer.prompt_ids + answer.ids[:position])
            yield _told(_later(first, position, plain[offset], rest[offset]), candidates)

    async def _reference(self, client: httpx.AsyncClient, found: Confirmed) -> None:
        """Plain's own answers by its own reckoning, for its wobble and W's rate of forks."""
        api, model = self._endpoint.adapter.api, self._endpoint.model
        for name, answer in _references(self._questions, self._plain):
            whole = answer.prompt_ids + answer.ids
            try:
                scored = await hold(client, api.score(model, whole, len(answer.prompt_ids)))
            except EngineError:
                scored = None
            if scored is None:
                break
            found.scores[name] = scored
        if found.scores:
            return
        for prefix in _spread(self._questions, self._plain):
            candidates = await self._candidates(client, prefix)
            if candidates:
                found.places.append(Place(prefix, candidates))


def _told(divergence: Divergence, candidates: Sequence[Candidate]) -> Divergence:
    explained = divergence.explained
    if candidates and candidates[0].token == divergence.found:
        explained = (*explained, PREFILL)
    return replace(divergence, candidates=tuple(candidates), explained=explained)


def _later(first: Divergence, position: int, expected: int, found: int) -> Divergence:
    return replace(
        first, position=position, expected=expected, found=found, is_first=False, explained=()
    )


def _references(questions: Mapping[str, Question], plain: Arm) -> list[tuple[str, Generation]]:
    """Plain's answers to prompts asked alone."""
    found = [
        (name, answer)
        for name, question in questions.items()
        if question.suite == "greedy" and is_scorable(question)
        if (answer := plain.answers.get(name)) is not None and answer.ids
    ]
    return found[:MOST_REFERENCES]


def _spread(questions: Mapping[str, Question], plain: Arm) -> list[tuple[int, ...]]:
    """Prefixes spread evenly over plain's answers."""
    answers = [answer for _, answer in _references(questions, plain)]
    places = [(a, i) for a in answers for i in range(len(a.ids))]
    step = max(1, len(places) // SAMPLED_POSITIONS)
    return [a.prompt_ids + a.ids[:i] for a, i in places[::step]][:SAMPLED_POSITIONS]

"""Arm W: the plain engine without a drafter, computing as many rows at once as a verify step.

It tells numerics of the width from a bug: the same flip without any guess is no error of guessing
(docs/gate.md names who found it so).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import httpx

from adapters.exchange import Candidate
from orchestrator.errors import EngineError
from orchestrator.gate.confirm import Confirmed, prefix_of
from orchestrator.gate.endpoint import Endpoint
from orchestrator.gate.evidence import END, Arm, Divergence
from orchestrator.wire import engine_client, hold

W = "W"
MOST_ASKED = 256


@dataclass(frozen=True)
class Wide:
    """What W told: divergences that it takes too, where it left plain's own answers, and how far
    its log-probabilities were from plain's (`wobbles`, nats)."""

    divergences: tuple[Divergence, ...]
    wobbles: tuple[float, ...]
    forks: int
    tokens: int


async def ask_wide(
    endpoint: Endpoint, width: int, confirmed: Confirmed, arms: Mapping[str, Arm], plain: Arm
) -> Wide:
    """Each confirmed divergence, and plain's own answers, `width` rows at a time."""
    async with engine_client(endpoint.url) as client:
        told = [
            await _explained(client, endpoint, width, (divergence, arms))
            if number < MOST_ASKED
            else divergence
            for number, divergence in enumerate(confirmed.divergences)
        ]
        wobbles, forks, tokens = await _wobbles(client, endpoint, width, confirmed, plain)
    return Wide(tuple(told), tuple(wobbles), forks, tokens)


async def _explained(
    client: httpx.AsyncClient,
    endpoint: Endpoint,
    width: int,
    asked: tuple[Divergence, Mapping[str, Arm]],
) -> Divergence:
    divergence, arms = asked
    prefix = prefix_of(divergence, arms)
    if prefix is None or not divergence.candidates or divergence.found == END:
        return divergence
    candidates = await _candidates(client, endpoint, prefix, width)
    if candidates and candidates[0].token == divergence.found:
        return replace(divergence, explained=(*divergence.explained, W))
    return divergence


async def _candidates(
    client: httpx.AsyncClient, endpoint: Endpoint, ids: tuple[int, ...], width: int
) -> Sequence[Candidate]:
    """Empty where the engine could not be made to work at this width."""
    talk = endpoint.adapter.api.wide(endpoint.model, ids, width)
    try:
        return await hold(client, talk) or ()
    except EngineError:
        return ()


async def _wobbles(
    client: httpx.AsyncClient, endpoint: Endpoint, width: int, confirmed: Confirmed, plain: Arm
) -> tuple[list[float], int, int]:
    """Differences in nats, and how often W's best token is not plain's, of how many tokens."""
    wobbles: list[float] = []
    forks = tokens = 0
    api = endpoint.adapter.api
    for name, scores in confirmed.scores.items():
        answer = plain.answers[name]
        if answer is None:
            continue
        whole, start = answer.prompt_ids + answer.ids, len(answer.prompt_ids)
        try:
            scored = await hold(client, api.score(endpoint.model, whole, start)) or ()
        except EngineError:
            continue
        wobbles += [abs(w.logprob - p.logprob) for w, p in zip(scored, scores, strict=False)]
        forks += sum(w.best != w.token for w in scored)
        tokens += len(scored)
    for place in confirmed.places:
        candidates = await _candidates(client, endpoint, place.ids, width)
        if candidates:
            best = place.candidates[0]
            told = [c.logprob for c in candidates if c.token == best.token]
            wobbles += [abs(logprob - best.logprob) for logprob in told]
            forks += candidates[0].token != best.token
            tokens += 1
    return wobbles, forks, tokens

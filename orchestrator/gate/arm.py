"""Collecting the answers of one arm from a running engine."""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import httpx

from adapters.contract import Adapter
from adapters.exchange import Candidate, Generation
from adapters.metric import rise
from orchestrator.errors import EngineError, EngineGoneError
from orchestrator.gate.compare import END, Arm, Divergence
from orchestrator.gate.prompt import Prompt
from orchestrator.wire import engine_client, hold, read_counters, timed

PROGRESS_S = 10.0

Say = Callable[[str], None]


@dataclass(frozen=True)
class Endpoint:
    """A running engine: where it is, how to speak to it, and what it calls its model."""

    name: str
    url: str
    adapter: Adapter
    model: str


async def collect(name: str, endpoint: Endpoint, prompts: Sequence[Prompt], say: Say) -> Arm:
    """Ask every prompt in order, one at a time.

    The engine must be the same one before and after: its fingerprint is compared. An answer that
    fails is None in the arm; an engine that is gone raises EngineError.
    """
    api = endpoint.adapter.api
    counted = ("drafted", "accepted")
    answers: dict[str, Generation | None] = {}
    async with engine_client(endpoint.url) as client:
        before = await hold(client, api.complete(endpoint.model))
        start = await read_counters(client, endpoint.adapter, counted)
        told = time.monotonic()
        for number, prompt in enumerate(prompts):
            if number == 0 or time.monotonic() - told > PROGRESS_S:
                told = time.monotonic()
                say(f"{name} of {endpoint.name}: {number} of {len(prompts)} prompts")
            answers[prompt.id] = await _answer(client, endpoint, prompt, say)
        end = await read_counters(client, endpoint.adapter, counted)
        after = await hold(client, api.complete(endpoint.model))
    if before != after:
        message = f"another engine answered on {endpoint.url} during arm {name}"
        raise EngineError(f"{message}: its fingerprint went from {before} to {after}")
    given = [answer for answer in answers.values() if answer]
    drafted, accepted = (_counted(start, end, key, given) for key in counted)
    return Arm(name, answers, drafted, accepted, sum(answer.seconds for answer in given))


def _counted(
    start: Mapping[str, float | None],
    end: Mapping[str, float | None],
    name: str,
    answers: Sequence[Generation],
) -> float | None:
    """A counter's rise; of an engine without that counter, the sum over its answers."""
    counted = rise(start, end, name)
    told = [count for count in (getattr(a, name) for a in answers) if count is not None]
    return sum(told) if counted is None and told else counted


async def _answer(
    client: httpx.AsyncClient, endpoint: Endpoint, prompt: Prompt, say: Say
) -> Generation | None:
    api = endpoint.adapter.api
    try:
        answer, seconds = await timed(client, api.generate(endpoint.model, prompt.request))
    except EngineGoneError:
        raise
    except EngineError as error:
        say(f"{prompt.id}: {error}")
        return None
    return replace(answer, seconds=seconds)


async def with_gaps(
    plain: Endpoint, first: Arm, divergences: Sequence[Divergence]
) -> tuple[Divergence, ...]:
    """Ask the plain engine how sure it was at each divergence."""
    async with engine_client(plain.url) as client:
        return tuple([await _with_gap(client, plain, first, d) for d in divergences])


async def _with_gap(
    client: httpx.AsyncClient, plain: Endpoint, first: Arm, divergence: Divergence
) -> Divergence:
    answer = first.answers[divergence.prompt]
    if answer is None or divergence.position < 0 or divergence.expected == END:
        return divergence
    ids = answer.prompt_ids + answer.ids[: divergence.position]
    try:
        candidates = await hold(client, plain.adapter.api.candidates(plain.model, ids))
    except EngineError:
        return divergence  # the verdict stands without it
    return replace(divergence, gap=_gap(candidates), margin=_margin(candidates, divergence.found))


def _gap(candidates: Sequence[Candidate]) -> float | None:
    if len(candidates) < 2:
        return None
    return candidates[0].logprob - candidates[1].logprob


def _margin(candidates: Sequence[Candidate], token: int) -> float | None:
    found = [c.logprob for c in candidates if c.token == token]
    return candidates[0].logprob - found[0] if found else None

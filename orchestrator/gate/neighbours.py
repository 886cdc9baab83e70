"""Neighbours: sampled requests that share an engine's steps with the greedy ones that are compared.

Nobody compares what they answer. An engine that verifies both kinds in one step may let them spoil
each other: docs/gate-faults.md has one.
"""

import asyncio
import itertools
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Final

import httpx

from adapters.exchange import Draws
from orchestrator.errors import EngineError
from orchestrator.gate.endpoint import Endpoint
from orchestrator.wire import hold

LONGEST_PREFIX: Final = 1024  # tokens; each answer reads its own again
_TEMPERATURE: Final = 0.8
_LENGTH: Final = 48  # tokens of an answer


@dataclass
class Neighbours:
    """Those that are in flight now. `failure` is why one of them gave up, once it has."""

    client: httpx.AsyncClient
    endpoint: Endpoint
    prefixes: Sequence[tuple[int, ...]]
    count: int
    failure: str | None = None
    are_wanted: bool = True

    async def draw_on(self, number: int) -> None:
        """One answer after another, each from another prefix and with a seed of its own."""
        api, model = self.endpoint.adapter.api, self.endpoint.model
        seeds = itertools.count(number + 1, self.count)
        while self.are_wanted:
            seed = next(seeds)
            prefix = self.prefixes[seed % len(self.prefixes)]
            draws = Draws(1, _LENGTH, _TEMPERATURE, seed)
            try:
                await hold(self.client, api.sample(model, prefix, draws))
            except EngineError as error:
                self.failure = str(error)
                return


@asynccontextmanager
async def sampled_neighbours(
    client: httpx.AsyncClient,
    endpoint: Endpoint,
    prefixes: Sequence[tuple[int, ...]],
    count: int,
) -> AsyncIterator[Neighbours]:
    """`count` sampled requests in flight for the length of the block, whatever becomes of them.

    What is in flight at its end is waited for. An engine goes on for a while with an answer that
    nobody waits for any more, and the greedy requests that follow would have its company.
    """
    found = Neighbours(client, endpoint, prefixes, count if prefixes else 0)
    if count and not prefixes:
        found.failure = "the engine does not tell the ids of its prompts, or all are too long"
    tasks = [asyncio.create_task(found.draw_on(number)) for number in range(found.count)]
    try:
        yield found
    except BaseException:
        for task in tasks:
            task.cancel()
        raise
    finally:
        found.are_wanted = False
        ends = await asyncio.gather(*tasks, return_exceptions=True)
        for error in (end for end in ends if isinstance(end, Exception)):
            found.failure = found.failure or f"{type(error).__name__}: {error}"

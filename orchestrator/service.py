"""Service: what all connections of a router share."""

import asyncio
import logging
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass, field
from itertools import count
from typing import Protocol

from orchestrator.dispatch import Dispatch
from orchestrator.reader import Heads
from orchestrator.turn import Turn
from orchestrator.upstream import Connections
from orchestrator.waiting import WaitingRoom

LOG = logging.getLogger("draftgate.router")


@dataclass(frozen=True)
class Timeouts:
    """Longest waits, in seconds. Streams may pause for `stream_s` between two reads."""

    connect_s: float = 5.0
    first_byte_s: float = 600.0
    stream_s: float = 300.0
    handshake_s: float = 10.0
    head_s: float = 30.0
    body_s: float = 60.0
    keep_alive_s: float = 75.0
    linger_s: float = 5.0
    grace_s: float = 30.0
    drain_s: float = 0.0
    sweep_s: float = 1.0
    health_every_s: float = 2.0
    health_s: float = 1.0
    states_every_s: float = 0.25
    files_every_s: float = 1.0
    worker_s: float = 30.0  # for one that is free


class Sweepable(Protocol):
    """A client connection as the router's housekeeping sees it."""

    def sweep(self, now: float) -> None:
        """Ends what has waited too long."""

    def drain(self) -> None:
        """Closes when nothing is under way."""

    def abort(self) -> None:
        """Closes now."""


@dataclass
class Service:
    """What all connections share; built once, by the router.

    A reload puts others in the place of `dispatch`, `network`, `timeouts` and `body_limit`.
    """

    dispatch: Dispatch
    network: Mapping[str, Connections]
    timeouts: Timeouts
    body_limit: int
    group: asyncio.TaskGroup
    loop: asyncio.AbstractEventLoop
    turn: Turn
    request_prefix: bytes
    clients: set[Sweepable] = field(default_factory=set)
    is_stopping: bool = False  # answers say `connection: close`
    is_refusing: bool = False  # nothing new is begun
    is_empty: asyncio.Event = field(default_factory=asyncio.Event)
    heads: Heads = field(default_factory=Heads)
    numbers: "count[int]" = field(default_factory=count)
    room: WaitingRoom = field(default_factory=WaitingRoom)
    credential: bytes = b""  # a header line for engines, where clients' keys are ours

    def spawn(self, work: Callable[[], Coroutine[None, None, None]]) -> asyncio.Task[None]:
        """Runs a request's work; a fault in it is logged and stops nothing else."""
        return self.group.create_task(_guard(work))

    async def emptied(self) -> None:
        """Returns when no client is connected."""
        while self.clients:
            self.is_empty.clear()
            await self.is_empty.wait()


async def _guard(work: Callable[[], Coroutine[None, None, None]]) -> None:
    try:
        await work()
    except Exception:  # the request's edge: one request must not stop the router
        LOG.exception("relaying a request failed")

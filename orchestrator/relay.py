"""Relay: one request on its way to a worker, and the answer's bytes on their way back.

Everything runs on one event loop. A relay ends exactly once: whole, cut by the worker, or left by
the client.
"""

import asyncio
import logging
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass, field
from itertools import count
from typing import Protocol

from orchestrator.dechunk import Dechunker
from orchestrator.dispatch import Dispatch, Order, Outcome
from orchestrator.message import AnswerHead, refusal_answer
from orchestrator.pick import Choice
from orchestrator.refusal import Refusal
from orchestrator.upstream import Connection, Connections, Failure, Receiver

LOG = logging.getLogger("draftgate.router")

CLIENT_CLOSED = 499  # nginx's number for a client that left


@dataclass(frozen=True)
class Timeouts:
    """Longest waits, in seconds. Streams may pause for `stream_s` between two reads."""

    connect_s: float = 5.0
    first_byte_s: float = 600.0
    stream_s: float = 300.0
    head_s: float = 30.0
    body_s: float = 60.0
    keep_alive_s: float = 75.0
    linger_s: float = 5.0
    grace_s: float = 30.0
    sweep_s: float = 1.0
    health_every_s: float = 2.0
    health_s: float = 1.0
    states_every_s: float = 0.25


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
    """What all connections share; built once, by the router."""

    dispatch: Dispatch
    network: Mapping[str, Connections]
    timeouts: Timeouts
    body_limit: int
    group: asyncio.TaskGroup
    loop: asyncio.AbstractEventLoop
    request_prefix: bytes
    clients: set[Sweepable] = field(default_factory=set)
    is_stopping: bool = False
    is_empty: asyncio.Event = field(default_factory=asyncio.Event)
    numbers: "count[int]" = field(default_factory=count)

    def spawn(self, work: Callable[[], Coroutine[None, None, None]]) -> asyncio.Task[None]:
        """Runs a request's work; a fault in it is logged and stops nothing else."""
        return self.group.create_task(_guard(work))

    async def emptied(self) -> None:
        """Returns when no client is connected."""
        while self.clients:
            self.is_empty.clear()
            await self.is_empty.wait()


class Client(Protocol):
    """The client's connection, as its relay sees it."""

    def write(self, data: bytes) -> None:
        """Sends bytes; the relay is told to pause when too many wait."""

    def finish(self, keep_alive: bool) -> None:
        """The answer is whole: the next request may start, or the connection closes."""

    def cut(self, is_until_close: bool) -> None:
        """The answer will not be whole: closes so that the client can tell."""


class Relay(Receiver):
    """One order. The client calls start, pause, resume, client_gone and sweep."""

    def __init__(self, service: Service, client: Client, order: Order) -> None:
        self._service = service
        self._client = client
        self._order = order
        self._started_at = service.loop.time()
        self._deadline = self._started_at + service.timeouts.first_byte_s
        self._choice: Choice | None = None
        self._connection: Connection | None = None
        self._connecting: asyncio.Task[None] | None = None
        self._head: AnswerHead | None = None
        self._dechunker: Dechunker | None = None
        self._keep_alive = order.incoming.keep_alive
        self._sent = 0
        self._is_retry = False
        self._is_over = False

    def start(self) -> None:
        """Picks a worker and sends the request; refuses it when there is none."""
        found = self._service.dispatch.choose(self._order)
        if isinstance(found, Choice):
            self._go(found, may_reuse=True)
        else:
            self._refuse(found, "refused")

    def pause(self) -> None:
        """The client reads more slowly than the worker writes."""
        if self._connection is not None:
            self._connection.pause()

    def resume(self) -> None:
        if self._connection is not None:
            self._connection.resume()

    def client_gone(self) -> None:
        """The client left: the worker's connection is dropped, so that the engine stops."""
        if self._is_over:
            return
        if self._choice is not None:
            self._service.dispatch.tally.cancels[self._choice.upstream.name,] += 1
        self._drop()
        self._end(CLIENT_CLOSED, "client_gone")

    def sweep(self, now: float) -> None:
        """Ends a relay whose worker has been silent for too long."""
        if now < self._deadline or self._is_over:
            return
        self._drop()
        waited = "its answer" if self._head is None else "more of its answer"
        self.failed(Failure("timeout", f"kept us waiting too long for {waited}"))

    # What the worker's connection calls.

    def head_received(self, head: AnswerHead, data: bytes) -> None:
        service = self._service
        self._head = head
        is_http10 = self._order.incoming.is_http10
        if head.framing == "chunked" and is_http10:
            self._dechunker = Dechunker()
        is_delimited = head.framing != "until_close" and not is_http10
        self._keep_alive = self._keep_alive and is_delimited and not service.is_stopping
        added = service.dispatch.headers(self._order, self._choice)
        first = head.forward(added, self._keep_alive, not is_http10)
        self._deadline = service.loop.time() + service.timeouts.stream_s
        self._write(first + (self._dechunker.feed(data) if self._dechunker else data))

    def data_received(self, data: bytes) -> None:
        self._deadline = self._service.loop.time() + self._service.timeouts.stream_s
        if self._dechunker is not None:
            data = self._dechunker.feed(data)
        self._write(data)

    def completed(self) -> None:
        self._connection = None
        self._end(self._head.status if self._head else 0, "whole")
        self._client.finish(self._keep_alive)

    def failed(self, failure: Failure) -> None:
        self._connection = None
        if self._is_over:
            return
        self._note(failure)
        if self._head is not None:
            self._end(self._head.status, failure.kind)
            self._client.cut(self._head.framing == "until_close" or self._dechunker is not None)
        elif not self._retry(failure):
            status = 504 if failure.kind == "timeout" else 502
            name = self._choice.upstream.name if self._choice else "the worker"
            refusal = Refusal(status, f"worker {name} {failure.message}", failure.kind)
            self._refuse(refusal, failure.kind)

    def _go(self, choice: Choice, may_reuse: bool) -> None:
        self._choice = choice
        name = choice.upstream.name
        self._service.dispatch.standing.in_flight[name] += 1
        connections = self._service.network[name]
        connection = connections.take() if may_reuse else None
        if connection is None:
            self._connecting = self._service.spawn(lambda: self._connect(connections))
        else:
            self._send(connection, connections)

    async def _connect(self, connections: Connections) -> None:
        """Cancelled when the client leaves; the connection then closes with its task."""
        try:
            connection = await connections.connect(self._service.timeouts.connect_s)
        except OSError as error:
            self._connecting = None
            why = str(error) or "no connection in time"
            self.failed(Failure("unreachable", f"cannot be reached: {why}"))
            return
        self._connecting = None
        if self._is_over:
            connection.abort()
        else:
            self._send(connection, connections)

    def _send(self, connection: Connection, connections: Connections) -> None:
        self._connection = connection
        incoming = self._order.incoming
        request_id = b"%b-%d" % (self._service.request_prefix, next(self._service.numbers))
        connection.send(self, incoming.forward(connections.host_header, request_id), incoming.body)

    def _retry(self, failure: Failure) -> bool:
        """Once, and only where the engine cannot have started on the request."""
        if self._is_retry or failure.kind not in ("unreachable", "stale") or self._choice is None:
            return False
        failed = self._choice.upstream.name
        is_stale = failure.kind == "stale"
        found = self._service.dispatch.choose(self._order, None if is_stale else failed)
        if not isinstance(found, Choice):
            return False
        self._is_retry = True
        self._release()
        self._go(found, may_reuse=False)
        return True

    def _note(self, failure: Failure) -> None:
        if self._choice is None:
            return
        name = self._choice.upstream.name
        self._service.dispatch.tally.failures[name, failure.kind] += 1
        if failure.kind in ("unreachable", "died"):
            self._service.dispatch.standing.mark_down(name, "unreachable")
            self._service.network[name].close_idle()

    def _write(self, data: bytes) -> None:
        self._sent += len(data)
        self._client.write(data)

    def _refuse(self, refusal: Refusal, end: str) -> None:
        keep_alive = self._keep_alive and not self._service.is_stopping
        added = self._service.dispatch.headers(self._order, self._choice)
        self._write(refusal_answer(refusal, added, keep_alive))
        self._end(refusal.status, end)
        self._client.finish(keep_alive)

    def _drop(self) -> None:
        if self._connecting is not None:
            self._connecting.cancel()
            self._connecting = None
        if self._connection is not None:
            self._connection.abort()
            self._connection = None

    def _release(self) -> None:
        if self._choice is not None:
            self._service.dispatch.standing.in_flight[self._choice.upstream.name] -= 1

    def _end(self, status: int, end: str) -> None:
        self._is_over = True
        self._release()
        seconds = self._service.loop.time() - self._started_at
        self._service.dispatch.record(
            self._order.incoming,
            self._order,
            self._choice,
            Outcome(status, seconds, self._sent, end),
        )


async def _guard(work: Callable[[], Coroutine[None, None, None]]) -> None:
    try:
        await work()
    except Exception:  # the request's edge: one request must not stop the router
        LOG.exception("relaying a request failed")

"""Relay: one request on its way to a worker, and the answer's bytes on their way back.

Everything runs on one event loop. A relay ends exactly once: whole, cut by the worker, or left by
the client.
"""

import asyncio
import logging
from typing import Protocol

from orchestrator.answer import AnswerHead
from orchestrator.caller import CLIENT_CLOSED
from orchestrator.dechunk import Dechunker
from orchestrator.dispatch import Order, Outcome
from orchestrator.message import body_size, refusal_answer
from orchestrator.pick import WORKERS_FULL, Choice
from orchestrator.refusal import Refusal
from orchestrator.service import Service
from orchestrator.upstream import Connection, Connections, Failure, Receiver
from orchestrator.wait import BEHIND, Wait, is_behind, too_long

LOG = logging.getLogger("draftgate.router")


class Client(Protocol):
    """The client's connection, as its relay sees it."""

    peer: tuple[str | None, int | None]

    def write(self, data: bytes) -> None:
        """Sends bytes; the relay is told to pause when too many wait."""

    def finish(self, keep_alive: bool) -> None:
        """The answer is whole: the next request may start, or the connection closes."""

    def cut(self, is_until_close: bool) -> None:
        """The answer will not be whole: closes so that the client can tell."""

    def abort(self) -> None:
        """Closes now, with what the client has not read."""


class Relay(Receiver):
    """One order. The client calls start, pause, resume, client_gone and sweep."""

    __slots__ = (
        "_choice",
        "_client",
        "_connecting",
        "_connection",
        "_connections",
        "_deadline",
        "_dechunker",
        "_dispatch",
        "_first_at",
        "_head",
        "_is_heard",
        "_is_held",
        "_is_over",
        "_is_retry",
        "_keep_alive",
        "_last",
        "_order",
        "_request_id",
        "_sent",
        "_service",
        "_started_at",
        "_wait",
        "_waited_s",
        "_write",
    )

    def __init__(self, service: Service, client: Client, order: Order) -> None:
        self._service = service
        self._dispatch = service.dispatch  # a reload concerns only what comes after it
        self._client = client
        self._write = client.write  # for every piece of an answer
        self._order = order
        self._started_at = service.loop.time()
        self._deadline = self._started_at + service.timeouts.first_byte_s
        self._choice: Choice | None = None
        self._connection: Connection | None = None
        self._connections: Connections | None = None  # those of the chosen worker
        self._connecting: asyncio.Task[None] | None = None
        self._head: AnswerHead | None = None
        self._dechunker: Dechunker | None = None
        self._keep_alive = order.incoming.keep_alive
        self._first_at = 0.0
        self._request_id = order.incoming.named.get(b"x-request-id", b"")
        self._last = (b"", b"")  # pieces of the answer, as they came
        self._sent = 0
        self._is_heard = False
        self._is_held = False
        self._is_retry = False
        self._is_over = False
        self._wait: Wait | None = None  # for a worker that is free
        self._waited_s: float | None = None

    def start(self) -> None:
        """Picks a worker and sends the request; refuses it when there is none."""
        if is_behind(self._service, self._order):
            found: Choice | Refusal = BEHIND
        else:
            found = self._dispatch.choose(self._order)
        if isinstance(found, Choice):
            self._go(found, may_reuse=True)
        elif not (found.code == WORKERS_FULL and self._service.room.most and self._begin_wait()):
            self._refuse(found, "refused")

    def _begin_wait(self) -> bool:
        wait = Wait(self._service, self._dispatch.tally, self._look, self._wait_over)
        if not wait.begin(self._order, self._client.peer[0]):
            return False
        self._wait, self._deadline = wait, wait.deadline
        return True

    def _look(self) -> Choice | None:
        """A worker that can take the order now."""
        return self._dispatch.look(self._order) if self._renew() else None

    def _wait_over(self, choice: Choice, waited_s: float) -> None:
        self._wait, self._waited_s = None, waited_s
        self._deadline = self._service.loop.time() + self._service.timeouts.first_byte_s
        self._go(choice, may_reuse=True)

    def pause(self) -> None:
        """The client reads more slowly than the worker writes."""
        self._is_held = True
        if self._connection is not None:
            self._connection.pause()

    def resume(self) -> None:
        self._is_held = self._is_heard = False
        self._deadline = self._service.loop.time() + self._service.timeouts.stream_s
        if self._connection is not None:
            self._connection.resume()

    def client_gone(self) -> None:
        """The client left: the worker's connection is dropped, so that the engine stops."""
        if self._is_over:
            return
        if self._wait is not None:
            wait, self._wait = self._wait, None
            self._waited_s = wait.leave("client_gone")
        if self._choice is not None:
            self._dispatch.tally.cancels[self._choice.upstream.name,] += 1
        self._drop()
        self._end(CLIENT_CLOSED, "client_gone")

    def sweep(self, now: float) -> None:
        """Ends a relay whose worker has been silent for too long."""
        if self._is_heard:
            self._is_heard = False
            self._deadline = now + self._service.timeouts.stream_s
        if now < self._deadline or self._is_over:
            return
        if self._wait is not None:
            wait, self._wait = self._wait, None
            self._waited_s = wait.leave("timeout")
            self._refuse(too_long(self._waited_s), "refused")
            return
        if self._is_held:
            self._leave_behind()
            return
        self._drop()
        waited = "its answer" if self._head is None else "more of its answer"
        self.failed(Failure("timeout", f"kept us waiting too long for {waited}"))

    # What the worker's connection calls.

    def head_received(self, head: AnswerHead, data: bytes) -> None:
        self._head = head
        self._is_heard = True
        is_http10 = self._order.incoming.is_http10
        if is_http10 and head.framing == "chunked":
            self._dechunker = Dechunker()
        if is_http10 or head.framing == "until_close" or self._service.is_stopping:
            self._keep_alive = False
        added = self._dispatch.headers(self._order, self._choice)
        first = head.forward(added, self._keep_alive, not is_http10)
        if data:
            self._first_at = self._service.loop.time()
            self._last = (b"", data)
            data = self._dechunker.feed(data) if self._dechunker else data
        self._sent = len(data)
        self._write(first + data)

    def data_received(self, data: bytes) -> None:
        self._is_heard = True
        if not self._first_at:
            self._first_at = self._service.loop.time()
        self._last = (self._last[1], data)
        if self._dechunker is not None:
            data = self._dechunker.feed(data)
        self._sent += len(data)
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
        choice.pool.add(choice.upstream.name, 1)
        connections = self._connections = self._service.network[choice.upstream.name]
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
        named = incoming.named
        if not self._request_id:
            number = next(self._service.numbers)
            self._request_id = b"%b-%d" % (self._service.request_prefix, number)
        added = b"x-request-id: %b\r\n" % self._request_id
        if self._order.trace is not None:
            added += b"traceparent: %b\r\n" % self._order.trace.header
        elif b"traceparent" in named:
            added += b"traceparent: %b\r\n" % named[b"traceparent"]
        added += self._service.credential
        is_trusted = self._dispatch.callers is None
        head = incoming.forward(connections.host_header, added, is_trusted)
        connection.send(self, head, incoming.body)

    def _retry(self, failure: Failure) -> bool:
        """Once, and only where the engine cannot have started on the request."""
        if self._is_retry or failure.kind not in ("unreachable", "stale") or self._choice is None:
            return False
        failed, held = self._choice, self._dispatch
        if not self._renew():
            return False
        name = None if failure.kind == "stale" else failed.upstream.name
        found = self._dispatch.choose(self._order, name)
        if not isinstance(found, Choice):
            self._dispatch = held  # which counted it, and names its worker
            return False
        self._is_retry = True
        self._release()
        self._go(found, may_reuse=False)
        return True

    def _renew(self) -> bool:
        """Whether the order is one under the files as they are now: after a reload the pools of
        before may have workers that are gone."""
        dispatch = self._service.dispatch
        if dispatch is not self._dispatch:
            renewed = dispatch.renew(self._order)
            if not isinstance(renewed, Order):
                return False
            self._dispatch, self._order = dispatch, renewed
        return True

    def _note(self, failure: Failure) -> None:
        if self._choice is None:
            return
        name = self._choice.upstream.name
        self._dispatch.tally.failures[name, failure.kind] += 1
        if failure.kind in ("unreachable", "died") and self._connections is not None:
            self._connections.close_idle()
            if self._service.network.get(name) is self._connections:  # still there, since a reload
                self._service.dispatch.standing.mark_down(name, "unreachable")

    def _refuse(self, refusal: Refusal, end: str) -> None:
        keep_alive = self._keep_alive and not self._service.is_stopping
        added = self._dispatch.headers(self._order, self._choice)
        path, has_body = self._order.incoming.path, self._order.incoming.method != "HEAD"
        data = refusal_answer(refusal, path, added, keep_alive, has_body)
        self._sent = body_size(data)
        self._write(data)
        self._end(refusal.status, end)
        self._client.finish(keep_alive)

    def _leave_behind(self) -> None:
        """The client takes nothing: the worker, which had to wait, is not to blame."""
        if self._choice is not None:
            self._dispatch.tally.cancels[self._choice.upstream.name,] += 1
        self._drop()
        self._end(self._head.status if self._head else CLIENT_CLOSED, "client_slow")
        self._client.abort()

    def _drop(self) -> None:
        if self._connecting is not None:
            self._connecting.cancel()
            self._connecting = None
        if self._connection is not None:
            self._connection.abort()
            self._connection = None

    def _release(self) -> None:
        if self._choice is not None:
            self._choice.pool.add(self._choice.upstream.name, -1)

    def _end(self, status: int, end: str) -> None:
        self._is_over = True
        self._release()
        if self._service.room.count:
            self._service.room.wake()
        try:
            self._record(status, end, self._choice)
        except Exception:  # the client is answered, whatever becomes of the books
            LOG.exception("recording a request failed")

    def _record(self, status: int, end: str, choice: Choice | None) -> None:
        seconds = self._service.loop.time() - self._started_at
        retries = 1 if self._is_retry else 0
        outcome = Outcome(
            status, seconds, self._sent, end, self._client.peer, self._request_id, retries
        )
        outcome.waited_s = self._waited_s
        if self._first_at:
            outcome.first_byte_s = self._first_at - self._started_at
        if choice is not None and self._head is not None:
            outcome.is_events = self._head.is_events
            outcome.usage = choice.pool.usage[choice.upstream.name](self._last)
        self._dispatch.record(self._order.incoming, self._order, choice, outcome)

"""Client: the server side of one client connection; requests are answered in order."""

import asyncio
import logging
import socket
import struct
from typing import cast

from orchestrator.dispatch import NOBODY, Answer, Order, Outcome
from orchestrator.message import Incoming, body_size, own_answer, refusal_answer
from orchestrator.reader import RequestReader
from orchestrator.refusal import Refusal
from orchestrator.relay import Relay
from orchestrator.service import Service

LOG = logging.getLogger("draftgate.router")

# Bytes that a client may send ahead of its running request. We go on reading while a request runs,
# because that is how a client's leaving is noticed.
PIPELINE_LIMIT = 256 * 1024
# What a client that came just before the router stopped has for its first request.
FIRST_REQUEST_S = 1.0
_CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"


class ClientConnection(asyncio.Protocol):
    """One connection. At most one relay runs on it."""

    __slots__ = (
        "_begun_at",
        "_closed_at",
        "_deadline",
        "_is_advancing",
        "_is_closing",
        "_is_reading",
        "_is_write_paused",
        "_phase",
        "_reader",
        "_relay",
        "_service",
        "_transport",
        "_turn",
        "peer",
    )

    def __init__(self, service: Service) -> None:
        self._service = service
        self._turn = service.turn
        self._reader = RequestReader(service.body_limit, service.heads)
        self._relay: Relay | None = None
        self._phase = "head"
        self._begun_at = service.loop.time()  # when a request that is not whole yet began to come
        self._deadline = self._begun_at + service.timeouts.head_s
        self._is_reading = True
        self._is_write_paused = False
        self._is_advancing = False
        self._is_closing = False
        self._closed_at = 0.0
        self.peer = NOBODY

    # What the transport calls.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)  # uvloop's is no subclass
        self._service.clients.add(self)
        if self._service.dispatch.wants_peers:
            peer = transport.get_extra_info("peername") or NOBODY
            self.peer = peer[0], peer[1]

    def data_received(self, data: bytes) -> None:
        self._turn.bring(self, data)

    def take(self, data: bytes) -> None:
        """Looks at bytes that came."""
        if self._is_closing:  # lingering, so that the client can read why
            return
        reader = self._reader
        if self._relay is None and not self._is_write_paused and self._is_reading:
            incoming = reader.whole(data)
            if incoming is not None:
                self._phase = "idle"
                self._answer(incoming)
                return
        if reader.phase == "idle":
            self._begun_at = self._service.loop.time()
        reader.feed(data)
        self._advance()

    def connection_lost(self, exc: Exception | None) -> None:
        self._is_closing = True
        relay, self._relay = self._relay, None
        if relay is not None:
            relay.client_gone()
        self._service.clients.discard(self)
        if not self._service.clients:
            self._service.is_empty.set()

    def pause_writing(self) -> None:
        self._is_write_paused = True
        if self._relay is not None:
            self._relay.pause()

    def resume_writing(self) -> None:
        self._is_write_paused = False
        if self._relay is not None:
            self._relay.resume()
        else:
            self._advance()

    # What the relay calls.

    def write(self, data: bytes) -> None:
        self._turn.write(self._transport, data)

    def finish(self, keep_alive: bool) -> None:
        self._relay = None
        is_idle = self._reader.phase == "idle" and not self._reader.ready
        if not keep_alive or (self._service.is_stopping and is_idle):
            self._close()
        elif is_idle and self._is_reading:
            self._phase = "idle"
            self._deadline = self._service.loop.time() + self._service.timeouts.keep_alive_s
        else:
            self._advance()

    def cut(self, is_until_close: bool) -> None:
        self._relay = None
        self._start_closing()
        self._turn.flush()
        if is_until_close:  # a plain close would look like a whole answer
            sock: socket.socket = self._transport.get_extra_info("socket")
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            self._transport.abort()
        else:
            self._transport.close()

    # What the router's housekeeping calls.

    def sweep(self, now: float) -> None:
        if self._relay is not None:
            self._relay.sweep(now)
        elif now >= self._deadline:
            self._expire()

    def drain(self) -> None:
        """Closes what is idle. A client that has just come may have sent a request already."""
        if self._relay is not None or self._reader.phase != "idle" or self._reader.ready:
            return
        if self._is_new:
            self._deadline = min(self._deadline, self._service.loop.time() + FIRST_REQUEST_S)
        else:
            self._start_closing()
            self._deadline = self._closed_at  # TLS would wait for the other side's goodbye
            self._transport.close()

    def abort(self) -> None:
        self._transport.abort()

    def _advance(self) -> None:
        """Starts what may start, then settles reading and the deadline."""
        if self._is_advancing:
            return  # a request that ended at once called back: the loop below goes on by itself
        self._is_advancing = True
        reader = self._reader
        try:
            while reader.ready and not (
                self._relay is not None or self._is_write_paused or self._is_closing
            ):
                self._answer(reader.take())
        finally:
            self._is_advancing = False
        if self._is_closing:
            return
        if self._relay is not None:  # which has a deadline of its own
            if reader.backlog or reader.ready or not self._is_reading:
                self._throttle()
            return
        if reader.wants_continue and not self._is_write_paused:
            reader.wants_continue = False
            self.write(_CONTINUE)
        self._throttle()
        self._set_deadline()

    def _answer(self, item: Incoming | Refusal) -> None:
        if isinstance(item, Refusal):
            self._turn_away(item)
            return
        decision = self._decide(item)
        if isinstance(decision, Order):
            relay = self._relay = Relay(self._service, self, decision)
            relay.start()
        else:
            self._answer_here(item, decision, self._service.loop.time())

    def _turn_away(self, refusal: Refusal) -> None:
        """Of a request that is not whole, or no HTTP: nothing more can be read."""
        self._answer_here(self._reader.refused, refusal, self._begun_at, may_go_on=False)

    def _decide(self, incoming: Incoming) -> Order | Answer | Refusal:
        if self._service.is_refusing:
            return Refusal(503, "this router is stopping", "stopping", retry_after_s=1)
        try:
            return self._service.dispatch.decide(incoming)
        except Exception:
            LOG.exception("deciding on a request failed")
            return Refusal(500, "draftgate failed on this request; its log has the details")

    def _answer_here(
        self,
        incoming: Incoming | None,
        decision: Answer | Refusal,
        started_at: float,
        may_go_on: bool = True,
    ) -> None:
        keep_alive = (
            may_go_on
            and incoming is not None
            and incoming.keep_alive
            and not self._service.is_stopping
        )
        has_body = incoming is None or incoming.method != "HEAD"
        added = self._service.dispatch.page_headers(incoming)
        if isinstance(decision, Refusal):
            path = self._reader.path if incoming is None else incoming.path
            data = refusal_answer(decision, path, added, keep_alive, has_body)
        else:
            added += decision.added
            data = own_answer(decision.status, decision.body, added, keep_alive, has_body)
        self.write(data)
        seconds = self._service.loop.time() - started_at
        outcome = Outcome(decision.status, seconds, body_size(data), peer=self.peer)
        try:
            self._service.dispatch.record(incoming, None, None, outcome)
        except Exception:  # it is answered, whatever becomes of the books
            LOG.exception("recording a request failed")
        if not keep_alive:
            self._close()

    def _throttle(self) -> None:
        is_ahead = self._relay is not None or self._is_write_paused
        may_read = not is_ahead or self._waiting() < PIPELINE_LIMIT
        if may_read == self._is_reading or self._transport.is_closing():
            return
        self._is_reading = may_read
        if may_read:
            self._transport.resume_reading()
        else:
            self._transport.pause_reading()

    def _waiting(self) -> int:
        """Bytes read ahead, each request counted with a little for its head."""
        return self._reader.backlog + 1024 * len(self._reader.ready)

    def _set_deadline(self) -> None:
        phase = self._reader.phase
        if phase == self._phase and phase == "head":
            return  # a slow head gets no more time
        self._phase = phase
        timeouts = self._service.timeouts
        limits = {"idle": timeouts.keep_alive_s, "head": timeouts.head_s, "body": timeouts.body_s}
        self._deadline = self._service.loop.time() + limits[phase]

    def _expire(self) -> None:
        """Nothing came, or nothing left, for too long."""
        if self._is_closing and self._transport.get_write_buffer_size() > 0:
            self._give_up_later()
        elif self._is_closing or self._is_write_paused:
            self._transport.abort()
        elif self._is_new and self._service.is_stopping:
            self._transport.abort()  # TLS would wait for the other side's goodbye
        elif self._phase == "idle":
            self._transport.close()
        else:
            self._reader.refuse(Refusal(408, "the request took too long to arrive"))
            self._advance()

    @property
    def _is_new(self) -> bool:
        """Whether nothing came yet."""
        return self._phase == "head" and self._reader.phase == "idle"

    def _give_up_later(self) -> None:
        """A slow reader still takes its last answer."""
        now = self._service.loop.time()
        if now - self._closed_at > self._service.timeouts.stream_s:
            self._transport.abort()
        else:
            self._deadline = now + self._service.timeouts.linger_s

    def _close(self) -> None:
        """Says goodbye and reads on for a while: closing at once could destroy the answer."""
        if self._is_closing:
            return
        self._start_closing()
        self._turn.flush()
        if not self._is_reading and not self._transport.is_closing():
            self._transport.resume_reading()
        if self._transport.is_closing():
            return
        if self._transport.can_write_eof():
            self._transport.write_eof()
        else:  # TLS, whose goodbye is followed by the other side's
            self._deadline = self._closed_at + self._service.timeouts.keep_alive_s
            self._transport.close()

    def _start_closing(self) -> None:
        self._is_closing = True
        self._closed_at = self._service.loop.time()
        self._deadline = self._closed_at + self._service.timeouts.linger_s

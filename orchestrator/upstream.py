"""Upstream: connections to one worker, kept alive and used again; answers stay raw bytes."""

import asyncio
import ssl
from dataclasses import dataclass
from typing import Literal, Protocol, TypeAlias, cast

import httptools

from orchestrator.answer import AnswerHead, AnswerHeads
from orchestrator.delivery import SYN, acknowledged
from orchestrator.turn import Turn

# uvicorn, which most engines use, closes an idle connection after 5 s.
IDLE_S = 4.0

HTTPS = 443  # its port, which a Host header leaves out

_HEAD_LIMIT = 64 * 1024
_SMALL = 64 * 1024  # a copy is cheaper than a second write
_SWITCHING = b"101"
_TWO_ANSWERS = "it sent more than one answer"

FailureKind: TypeAlias = Literal["unreachable", "stale", "died", "malformed", "timeout"]


@dataclass(frozen=True)
class Failure:
    """Why an answer will not come or will not end. Only `unreachable` and `stale` (a kept
    connection was closed) are sure not to have started anything."""

    kind: FailureKind
    message: str


class Receiver(Protocol):
    """Who waits for an answer. Calls come in the order head, data*, then completed or failed."""

    def head_received(self, head: AnswerHead, data: bytes) -> None:
        """The head, and the bytes of the body that came with it."""

    def data_received(self, data: bytes) -> None:
        """More of the body, as it is on the wire."""

    def completed(self) -> None:
        """The answer is whole; the connection is no longer the receiver's."""

    def failed(self, failure: Failure) -> None:
        """No more will come; the connection is closed."""


class Connection(asyncio.Protocol):
    """One connection to an engine, with at most one request on it."""

    __slots__ = (
        "_before",
        "_buffer",
        "_feed",
        "_head",
        "_is_head_only",
        "_is_last",
        "_is_paused",
        "_is_whole",
        "_may_keep",
        "_messages",
        "_parser",
        "_pool",
        "_receiver",
        "_transport",
        "_uses",
        "_written",
        "idle_since",
    )

    def __init__(self, pool: "Connections") -> None:
        self.idle_since = 0.0
        self._pool = pool
        self._parser = httptools.HttpResponseParser(self)
        self._feed = self._parser.feed_data
        self._receiver: Receiver | None = None
        self._head: AnswerHead | None = None
        self._buffer = b""
        self._uses = 0
        self._written = 0
        self._before: int | None = None  # what was acknowledged of earlier requests, with the SYN
        self._messages = 0
        self._is_whole = False
        self._may_keep = False
        self._is_head_only = False
        self._is_last = False
        self._is_paused = False

    def send(
        self, receiver: Receiver, head: bytes, body: bytes = b"", is_last: bool = False
    ) -> None:
        """Sends a request; the receiver hears of its answer.

        After the last request the connection is closed, and so it is after HEAD, to whose answer
        nothing belongs but its head; after any other it may already be somebody else's when the
        receiver hears that the answer is whole.
        """
        self._is_head_only = head.startswith(b"HEAD ")
        self._is_last = is_last or self._is_head_only
        self._receiver = receiver
        self._head = None
        self._messages = 0
        self._is_whole = False
        self._uses += 1
        if self._pool.is_secure:  # what TLS makes of our bytes is not ours to count
            self._before = acknowledged(self._transport)
        else:
            self._before = self._written + SYN
            self._written += len(head) + len(body)
        turn = self._pool.turn
        if len(body) < _SMALL:
            turn.write(self._transport, head + body)
        else:
            turn.write(self._transport, head)
            turn.write(self._transport, body)

    def abort(self) -> None:
        """Drops the connection, so that the engine sees its client go; nobody is told."""
        self._receiver = None
        self._transport.abort()

    @property
    def is_closing(self) -> bool:
        return self._transport.is_closing()

    def pause(self) -> None:
        if not self._is_paused and not self._transport.is_closing():
            self._is_paused = True
            self._transport.pause_reading()

    def resume(self) -> None:
        if self._is_paused and not self._transport.is_closing():
            self._is_paused = False
            self._transport.resume_reading()

    # What the transport calls.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)  # uvloop's is no subclass

    def data_received(self, data: bytes) -> None:
        if self._head is None:
            self._pool.turn.bring(self, data)
        else:  # more of a body: there is nothing to decide
            self.take(data)

    def take(self, data: bytes) -> None:
        """Looks at bytes that came."""
        receiver = self._receiver
        if receiver is None:  # nobody asked
            self._transport.abort()
            return
        try:
            if self._head is None:
                self._read_head(receiver, data)
            else:
                self._feed(data)
                if self._messages > 1:
                    raise ValueError(_TWO_ANSWERS)
                receiver.data_received(data)
        except (httptools.HttpParserError, ValueError) as error:
            self._fail(Failure("malformed", f"answered no valid HTTP: {error}"))
            return
        if self._is_whole and self._receiver is not None:
            self._complete()

    def connection_lost(self, exc: Exception | None) -> None:
        self._pool.forget(self)
        if self._receiver is None:
            return
        head = self._head
        if head is not None and head.framing == "until_close" and exc is None:
            self._hand_over().completed()
        else:
            self._fail(self._loss())

    # What the parser calls.

    def on_message_begin(self) -> None:
        self._messages += 1

    def on_message_complete(self) -> None:
        self._is_whole = True
        self._may_keep = self._parser.should_keep_alive()  # true only during this call

    def _read_head(self, receiver: Receiver, data: bytes) -> None:
        if self._buffer:
            data = self._buffer + data
            self._buffer = b""
        end = data.find(b"\r\n\r\n") + 4
        while end >= 4 and data[9:10] == b"1":  # an interim answer, such as 103
            if data[9:12] == _SWITCHING:
                raise ValueError("it switched protocols, which it was not asked for")
            data = data[end:]
            end = data.find(b"\r\n\r\n") + 4
        if end < 4:
            if len(data) > _HEAD_LIMIT:
                raise ValueError("its head is too long")
            self._buffer = data
            return
        self._feed(data)
        if self._messages > 1:
            raise ValueError(_TWO_ANSWERS)
        head = self._head = self._pool.heads.read(data[:end])
        if self._is_head_only:
            self._is_whole = True
            receiver.head_received(head, b"")
        else:
            receiver.head_received(head, data[end:])

    def _complete(self) -> None:
        """Gives the connection back before the receiver may want one for the next request."""
        receiver = self._hand_over()
        if self._is_paused:
            self.resume()
        if (
            self._may_keep
            and not self._is_last
            and self._transport.get_write_buffer_size() == 0  # the engine took all of the request
        ):
            self._pool.give(self)
        else:
            self._transport.close()
        receiver.completed()

    def _hand_over(self) -> Receiver:
        receiver, self._receiver = self._receiver, None
        if receiver is None:
            raise RuntimeError("nobody waits on this connection")
        return receiver

    def _fail(self, failure: Failure) -> None:
        receiver = self._hand_over()
        self._transport.abort()
        receiver.failed(failure)

    def _loss(self) -> Failure:
        if self._head is not None:
            return Failure("died", "closed the connection in the middle of its answer")
        if self._buffer or self._may_have_arrived():
            return Failure("died", "closed the connection without an answer")
        if self._uses > 1:
            return Failure("stale", "had closed the kept connection")
        return Failure("unreachable", "closed the connection before it took the request")

    def _may_have_arrived(self) -> bool:
        """Whether the engine may have seen the request, or a part of it."""
        taken = acknowledged(self._transport)
        return taken is None or self._before is None or taken > self._before


class Connections:
    """The connections of one worker: the one used last is used first."""

    def __init__(
        self,
        host: str,
        port: int,
        turn: Turn,
        heads: AnswerHeads,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        self.turn = turn
        self.loop = turn.loop
        self.heads = heads
        name = f"[{host}]" if ":" in host else host
        self.host_header = (name if tls and port == HTTPS else f"{name}:{port}").encode()
        self.is_secure = tls is not None
        self._tls = tls
        self._host = host
        self._port = port
        self._idle: dict[Connection, None] = {}
        self._is_closed = False

    def take(self) -> Connection | None:
        """A kept connection that the engine has hardly closed yet, if there is one."""
        if not self._idle:
            return None
        connection, _ = self._idle.popitem()
        if self.loop.time() - connection.idle_since < IDLE_S and not connection.is_closing:
            return connection
        connection.abort()
        self.close_idle()  # the others are older
        return None

    async def connect(self, timeout_s: float) -> Connection:
        """A new connection. Raises OSError, TimeoutError included."""
        async with asyncio.timeout(timeout_s):
            _, connection = await self.loop.create_connection(
                lambda: Connection(self), self._host, self._port, ssl=self._tls
            )
        if connection.is_closing:
            raise ConnectionResetError("the connection was closed at once")
        return connection

    def give(self, connection: Connection) -> None:
        """Takes back a connection whose answer is whole."""
        if self._is_closed:
            connection.abort()
            return
        connection.idle_since = self.loop.time()
        self._idle[connection] = None

    def forget(self, connection: Connection) -> None:
        self._idle.pop(connection, None)

    def close_idle(self) -> None:
        while self._idle:
            self._idle.popitem()[0].abort()

    def close(self) -> None:
        """Closes what is idle now, and what is given back later."""
        self._is_closed = True
        self.close_idle()

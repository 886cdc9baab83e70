"""A stream of bytes as two HTTP stacks read it: the router's reader, and h11; and such streams."""

import random
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

import h11
import httptools

from orchestrator.message import Incoming
from orchestrator.reader import RequestReader
from orchestrator.refusal import Refusal

BODY_LIMIT: Final = 1000
_LARGEST: Final = 1 << 20

# Method, target and body: what an engine acts on.
Read: TypeAlias = tuple[str, bytes, bytes]


@dataclass(frozen=True)
class Outcome:
    """Requests that were read whole, in order; `error` is why the rest was refused. None: it was
    not, and what is not whole may still become so. Nothing more is read when it `is_closed`."""

    requests: tuple[Read, ...]
    error: str | None
    is_closed: bool


def ours(pieces: Sequence[bytes]) -> Outcome:
    """As the router reads them, the way a connection does: what is known whole first."""
    reader = RequestReader(BODY_LIMIT)
    found: list[Read] = []
    for piece in pieces:
        whole = reader.whole(piece)
        items: list[Incoming | Refusal] = [] if whole is None else [whole]
        if whole is None:
            reader.feed(piece)
        while reader.ready:
            items.append(reader.take())
        for item in items:
            if isinstance(item, Refusal):
                return Outcome(tuple(found), f"{item.status} {item.message}", True)
            found.append((item.method, item.target, item.body))
            if not item.keep_alive:
                return Outcome(tuple(found), None, True)
    return Outcome(tuple(found), None, False)


def theirs(data: bytes) -> Outcome:
    """As h11 reads them, where it is as lenient as llhttp in what does not touch the framing: line
    ends before a request (RFC 9112, 2.2), and more than one space in its first line."""
    found: list[Read] = []
    while True:
        data = _SPACES.sub(rb"\1 \2 \3", data.lstrip(b"\r\n"), count=1)
        connection = h11.Connection(h11.SERVER, max_incomplete_event_size=_LARGEST)
        connection.receive_data(data)
        try:
            request = _one(connection)
        except h11.RemoteProtocolError as error:
            return Outcome(tuple(found), str(error), True)
        if request is None:
            return Outcome(tuple(found), None, False)
        found.append(request)
        if connection.their_state is not h11.DONE:
            return Outcome(tuple(found), None, True)
        data = connection.trailing_data[0]


_SPACES = re.compile(rb"\A(\S+) +(\S+) +(HTTP/\d\.\d\r?\n)")


def _one(connection: h11.Connection) -> Read | None:
    """The first request, None when it is not whole. Raises RemoteProtocolError."""
    request: h11.Request | None = None
    body = b""
    while True:
        event = connection.next_event()
        if isinstance(event, h11.Request):
            request = event
        elif isinstance(event, h11.Data):
            body += bytes(event.data)
        elif isinstance(event, h11.EndOfMessage) and request is not None:
            return request.method.decode(), _path(request.target), body
        else:
            return None


def _path(target: bytes) -> bytes:
    """Without a scheme and a host, as the router sends it on."""
    if target.startswith(b"/"):
        return target
    try:
        url = httptools.parse_url(target)
    except httptools.HttpParserInvalidURLError:
        return target
    return (url.path or b"/") + (b"?" + url.query if url.query else b"")


def difference(data: bytes) -> str | None:
    """How the router reads more, or other things, than h11 does; None where it does not.

    It may read less: it is stricter, and h11 goes on after what the router ends a connection for.
    """
    one, other = ours([data]), theirs(data)
    shared = min(len(one.requests), len(other.requests))
    if one.requests[:shared] != other.requests[:shared]:
        return f"another request: {one} where h11 has {other}"
    if len(one.requests) > shared and other.error is not None:
        return f"more requests: {one} where h11 has {other}"
    return None


# Streams: valid requests with mistakes in them.

_HEAD: Final = b"POST /a HTTP/1.1\r\nhost: x\r\n"
VALID: Final = (
    b"GET / HTTP/1.1\r\nhost: x\r\n\r\n",
    _HEAD + b"content-length: 3\r\n\r\nabc",
    _HEAD + b"transfer-encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n",
    _HEAD + b"transfer-encoding: chunked\r\n\r\n3;a=b\r\nabc\r\n0\r\nt: u\r\n\r\n",
    _HEAD + b"expect: 100-continue\r\ncontent-length: 3\r\n\r\nabc",
    _HEAD + b"upgrade: h2c\r\nconnection: upgrade\r\ncontent-length: 3\r\n\r\nabc",
    b"POST /a HTTP/1.0\r\ncontent-length: 3\r\nconnection: keep-alive\r\n\r\nabc",
    b"GET http://x/b?c HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n",
)
_PIECES: Final = (
    *(b"\r\n", b"\n", b"\r", b" ", b"\t", b":", b"0", b"1", b"3", b"a", b"\x00", b"\x80", b","),
    *(b";", b"+3", b"-1", b"0x3", b"HTTP/1.0", b"HTTP/1.1", b"HTTP/2.0", b"\x0b", b"*", b"#"),
    *(b"chunked", b"xchunked", b"GET", b"http://x", b"3\r\nabc\r\n", b"0\r\n\r\n"),
    *(b"content-length: 3\r\n", b"Content-Length: 3, 3\r\n", b"transfer-encoding: chunked\r\n"),
    *(b"Transfer-Encoding: gzip, chunked\r\n", b"transfer-encoding: identity\r\n", b"host: y\r\n"),
    *(b"connection: close\r\n", b"connection: content-length\r\n", b"x: a\r\n b\r\n"),
)


def stream(dice: random.Random) -> bytes:
    """One to three requests, with up to four bytes or words put in, taken away or replaced."""
    data = b"".join(dice.choices(VALID, k=dice.randint(1, 3)))
    for _ in range(dice.randint(0, 4)):
        at = dice.randint(0, len(data))
        gone = dice.choice((0, 0, 1, 2, 6))
        put = dice.choice(_PIECES) if gone == 0 or dice.random() < 0.5 else b""
        data = data[:at] + put + data[at + gone :]
    return data


def cut(data: bytes, dice: random.Random) -> list[bytes]:
    """The same bytes in pieces."""
    ends = sorted(dice.randint(0, len(data)) for _ in range(dice.randint(1, 5)))
    return [data[a:b] for a, b in zip([0, *ends], [*ends, len(data)], strict=True) if a < b]

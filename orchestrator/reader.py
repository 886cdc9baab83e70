"""Reader: a client's bytes as complete requests and refusals, in order. No I/O, no clock.

llhttp in its strict mode refuses what request smuggling needs (Content-Length beside
Transfer-Encoding, two lengths, folded headers, bare LF, bad chunks); the limits are ours.
"""

import re
from collections import deque
from collections.abc import Sequence
from typing import Literal, TypeAlias

import httptools

from orchestrator.message import Header, Incoming, read_head
from orchestrator.refusal import Refusal

HEAD_LIMIT = 64 * 1024  # bytes of target, header names and values
# The transport reads up to 256 KiB at once, of which a body's end may be a part.
_UNFINISHED_HEAD_LIMIT = HEAD_LIMIT + 256 * 1024

# Bytes of chunk heads, chunk extensions and trailers for each byte of content: a chunk of one byte
# has five of them.
_MOST_BESIDE = 16

_LENGTH = re.compile(rb"\r\ncontent-length: ([0-9]{1,12})\r\n", re.IGNORECASE)
_MOST_KNOWN = 1024
_LONGEST_KNOWN = 4096  # bytes

Phase: TypeAlias = Literal["idle", "head", "body"]


class _Refused(Exception):
    """Stops the parser from within a callback."""

    def __init__(self, refusal: Refusal) -> None:
        super().__init__(refusal.message)
        self.refusal = refusal


class Heads:
    """Request heads that llhttp has read before, by their bytes but for the body's length.

    A client sends the same head again and again; the same bytes read the same. One for a router.
    """

    __slots__ = ("_known",)

    def __init__(self) -> None:
        self._known: dict[tuple[bytes, bytes], Incoming] = {}

    def find(self, data: bytes) -> Incoming | None:
        """The request that the data are, whole and no more, where its head is known."""
        end = data.find(b"\r\n\r\n") + 4
        length = _LENGTH.search(data, 0, end)
        if length is None:
            return None
        start, stop = length.span(1)
        known = self._known.get((data[:start], data[stop:end]))
        if known is None or len(data) != end + int(data[start:stop]):
            return None
        return known.with_body(data[end:])

    def learn(self, data: bytes, incoming: Incoming) -> None:
        """Remembers a head that llhttp read from the beginning of the data."""
        end = data.find(b"\r\n\r\n") + 4
        length = _LENGTH.search(data, 0, end)
        if length is None or end > _LONGEST_KNOWN or b"expect" in incoming.named:
            return
        if len(self._known) >= _MOST_KNOWN:
            del self._known[next(iter(self._known))]
        start, stop = length.span(1)
        self._known[data[:start], data[stop:end]] = incoming.with_body(b"")


class RequestReader:
    """Collects requests in `ready`; a refusal is the last thing that it ever puts there."""

    __slots__ = (
        "_body",
        "_body_limit",
        "_body_size",
        "_headers",
        "_heads",
        "_incoming",
        "_is_deaf",
        "_length",
        "_parser",
        "_target",
        "_unfinished",
        "_upgraded",
        "backlog",
        "phase",
        "ready",
        "refused",
        "wants_continue",
    )

    def __init__(self, body_limit: int, heads: Heads | None = None) -> None:
        self._heads = heads or Heads()
        self.ready: deque[Incoming | Refusal] = deque()
        self.refused: Incoming | None = None  # the request of the refusal, if its head was read
        self.phase: Phase = "idle"
        self.backlog = 0  # bytes of bodies not yet taken
        self.wants_continue = False
        self._body_limit = body_limit
        self._is_deaf = False
        self._unfinished = 0
        self._upgraded: Incoming | None = None  # waits for the body that the parser leaves alone
        self._incoming: Incoming | None = None
        self._target = b""
        self._headers: list[Header] = []
        self._body: list[bytes] = []
        self._body_size = 0
        self._length = 0
        self._parser = httptools.HttpRequestParser(self)

    @property
    def path(self) -> str:
        """Of the request that is being read or was refused; empty where its head is not known."""
        return self._incoming.path if self._incoming is not None else ""

    def feed(self, data: bytes) -> None:
        """Takes bytes as they came; what follows an error, an upgrade or a close is ignored."""
        if self._is_deaf:
            self._take_body(data)
            return
        is_start = self.phase == "idle"
        seen = len(self.ready)
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserUpgrade as upgrade:
            self._is_deaf = True  # the request is answered as plain HTTP/1.1, then we close
            self._take_body(data[upgrade.args[0] :])
        except httptools.HttpParserError as error:
            self.refuse(_refusal_of(error))
        else:
            if self.phase != "idle":
                self._limit_unfinished(len(data))
            elif is_start and len(self.ready) == seen + 1:
                self._learn(data)

    def _learn(self, data: bytes) -> None:
        """From data that were one whole request, of a connection that goes on."""
        item = self.ready[-1]
        if isinstance(item, Incoming) and item.keep_alive and not self._is_deaf:
            self._heads.learn(data, item)

    def whole(self, data: bytes) -> Incoming | None:
        """The request that the data are, where nothing else is under way and its head is known.

        It is then read, and does not go through `ready`. Most requests are such.
        """
        if self._is_deaf or self.ready or self.phase != "idle":
            return None
        known = self._heads.find(data)
        return known if known is not None and len(known.body) <= self._body_limit else None

    def take(self) -> Incoming | Refusal:
        """The next request or refusal."""
        item = self.ready.popleft()
        if isinstance(item, Incoming):
            self.backlog -= len(item.body)
        return item

    def refuse(self, refusal: Refusal) -> None:
        """Ends here: what is under way will not be whole."""
        if not self._is_deaf:
            self.ready.append(refusal)
            self.refused = self._incoming
        self._is_deaf = True

    def _limit_unfinished(self, size: int) -> None:
        """Of a head that goes on; and of a body that does, with its chunk extensions and trailers,
        of which the parser tells nothing or only the end."""
        self._unfinished += size
        most = _UNFINISHED_HEAD_LIMIT
        if self.phase == "body":
            most += (_MOST_BESIDE + 1) * self._body_size
        if self._unfinished > most or _size(self._headers) > (
            _UNFINISHED_HEAD_LIMIT if self.phase == "head" else HEAD_LIMIT
        ):
            self.refuse(_too_large())

    # What the parser calls.

    def on_message_begin(self) -> None:
        self.phase = "head"  # from the first byte on
        self._unfinished = 0

    def on_url(self, url: bytes) -> None:
        self._target += url

    def on_header(self, name: bytes, value: bytes) -> None:
        self._headers.append((name, value))

    def on_headers_complete(self) -> None:
        parser = self._parser
        self._unfinished = 0
        target, headers = self._target, self._headers
        self._target, self._headers = b"", []  # trailers come there; they are not forwarded
        if not target.startswith(b"/"):
            target = _origin_form(target)
        incoming = self._incoming = read_head(parser.get_method(), target, headers)
        self.phase = "body"
        if _size(headers) + len(target) > HEAD_LIMIT:
            raise _Refused(_too_large())
        self._check_head(incoming, headers)

    def on_body(self, body: bytes) -> None:
        self._body_size += len(body)
        self.backlog += len(body)
        if self._body_size > self._body_limit:
            raise _Refused(self._body_too_large())
        self._body.append(body)

    def on_message_complete(self) -> None:
        incoming, parts = self._incoming, self._body
        if incoming is None:
            raise RuntimeError("a request ended that had no head")
        is_upgrade = self._parser.should_upgrade()
        incoming.keep_alive = self._parser.should_keep_alive() and not is_upgrade
        self._is_deaf = not incoming.keep_alive
        self.phase = "idle"
        self.wants_continue = False
        self._incoming = None
        if is_upgrade and self._length:
            self._upgraded, self.phase = incoming, "body"
            return
        if parts:
            incoming.body = parts[0] if len(parts) == 1 else b"".join(parts)
            self._body = []
            self._body_size = 0
        if self._headers:
            self._headers = []
        self.ready.append(incoming)

    def _take_body(self, data: bytes) -> None:
        """Of a request that offers another protocol (h2c): llhttp stops at its head.

        We decline by answering as plain HTTP/1.1 (RFC 9110, 7.8), so that the body is still due.
        """
        waiting = self._upgraded
        if waiting is None:
            return
        self._body.append(data)
        self._body_size += len(data)
        if self._body_size >= self._length:
            waiting.body = b"".join(self._body)[: self._length]
            self._body = []
            self.backlog += self._length
            self.ready.append(waiting)
            self._upgraded, self.phase = None, "idle"

    def _check_head(self, incoming: Incoming, headers: Sequence[Header]) -> None:
        version, named = self._parser.get_http_version(), incoming.named
        incoming.is_http10 = version == "1.0"
        if version != "1.1" and version != "1.0":
            raise _Refused(Refusal(505, f"HTTP/{version} is not spoken here; use HTTP/1.1"))
        if incoming.hosts != 1 and (incoming.hosts or not incoming.is_http10):
            raise _Refused(Refusal(400, "an HTTP/1.1 request has exactly one Host header"))
        if b"transfer-encoding" in named:
            self._check_chunked(incoming, headers)
        self._length = int(named.pop(b"content-length", 0))  # the body tells it from now on
        if self._length > self._body_limit:
            raise _Refused(self._body_too_large())
        if b"expect" in named:
            self.wants_continue = named[b"expect"].lower() == b"100-continue"

    def _check_chunked(self, incoming: Incoming, headers: Sequence[Header]) -> None:
        if incoming.is_http10:
            raise _Refused(Refusal(400, "HTTP/1.0 has no Transfer-Encoding"))
        codings = [value for name, value in headers if name.lower() == b"transfer-encoding"]
        if [coding.lower() for coding in codings] != [b"chunked"]:
            told = b", ".join(codings).decode("latin-1")
            message = f"Transfer-Encoding: {told} is not taken; send the body in chunks, not coded"
            raise _Refused(Refusal(501, message))
        if self._parser.should_upgrade():
            message = "a chunked body with Upgrade is not taken; send it without Upgrade"
            raise _Refused(Refusal(400, message))

    def _body_too_large(self) -> Refusal:
        message = f"the request body is larger than {self._body_limit} bytes"
        return Refusal(413, f"{message} (router.body_limit_mb)")


def _refusal_of(error: httptools.HttpParserError) -> Refusal:
    """Of the parser, or of one of the callbacks that it called. Raises what is neither."""
    if not isinstance(error, httptools.HttpParserCallbackError):
        return Refusal(400, f"not valid HTTP/1.1: {error}")
    if not isinstance(error.__context__, _Refused):
        raise error
    return error.__context__.refusal


def _size(headers: list[Header]) -> int:
    return sum([len(name) + len(value) + 4 for name, value in headers])


def _too_large() -> Refusal:
    return Refusal(431, f"the request head is larger than {HEAD_LIMIT} bytes")


def _origin_form(target: bytes) -> bytes:
    """A target as path and query, also where it came with a scheme and a host."""
    try:
        url = httptools.parse_url(target)
    except httptools.HttpParserInvalidURLError:
        return target  # CONNECT and OPTIONS have targets of their own; nothing is served there
    return (url.path or b"/") + (b"?" + url.query if url.query else b"")

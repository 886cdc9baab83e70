"""Reader: a client's bytes as complete requests and refusals, in order. No I/O, no clock.

llhttp in its strict mode refuses what request smuggling needs (Content-Length beside
Transfer-Encoding, two lengths, folded headers, bare LF, bad chunks); the limits are ours.
"""

from collections import deque
from dataclasses import replace
from typing import Literal, TypeAlias

import httptools

from orchestrator.message import Incoming
from orchestrator.refusal import Refusal

HEAD_LIMIT = 64 * 1024  # bytes of target, header names and values
# The transport reads up to 256 KiB at once, of which a body's end may be a part.
_UNFINISHED_HEAD_LIMIT = HEAD_LIMIT + 256 * 1024

Phase: TypeAlias = Literal["idle", "head", "body"]


class _Refused(Exception):
    """Stops the parser from within a callback."""

    def __init__(self, refusal: Refusal) -> None:
        super().__init__(refusal.message)
        self.refusal = refusal


class RequestReader:
    """Collects requests in `ready`; a refusal is the last thing that it ever puts there."""

    def __init__(self, body_limit: int) -> None:
        self.ready: deque[Incoming | Refusal] = deque()
        self.phase: Phase = "idle"
        self.backlog = 0  # bytes of bodies not yet taken
        self.wants_continue = False
        self._body_limit = body_limit
        self._is_deaf = False
        self._unfinished = 0
        self._upgraded: Incoming | None = None  # waits for the body that the parser leaves alone
        self._parser = httptools.HttpRequestParser(self)
        self._reset()

    def feed(self, data: bytes) -> None:
        """Takes bytes as they came; what follows an error, an upgrade or a close is ignored."""
        if self._upgraded is not None:
            self._take_body(data)
        if self._is_deaf:
            return
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserUpgrade as upgrade:
            self._is_deaf = True  # the request is answered as plain HTTP/1.1, then we close
            self._take_body(data[upgrade.args[0] :])
        except httptools.HttpParserCallbackError as error:
            if not isinstance(error.__context__, _Refused):
                raise
            self._refuse(error.__context__.refusal)
        except httptools.HttpParserError as error:
            self._refuse(Refusal(400, f"not valid HTTP/1.1: {error}"))
        else:
            self._limit_unfinished(len(data))

    def take(self) -> Incoming | Refusal:
        """The next request or refusal."""
        item = self.ready.popleft()
        if isinstance(item, Incoming):
            self.backlog -= len(item.body)
        return item

    def _refuse(self, refusal: Refusal) -> None:
        if not self._is_deaf:
            self.ready.append(refusal)
        self._is_deaf = True

    def _limit_unfinished(self, size: int) -> None:
        self._unfinished = self._unfinished + size if self.phase == "head" else 0
        if self._unfinished > _UNFINISHED_HEAD_LIMIT:
            self._refuse(_too_large())

    def _reset(self) -> None:
        self._target = b""
        self._headers: list[tuple[bytes, bytes]] = []
        self._body: list[bytes] = []
        self._head_size = 0
        self._body_size = 0

    # What the parser calls.

    def on_message_begin(self) -> None:
        self._reset()
        self.phase = "head"

    def on_url(self, url: bytes) -> None:
        self._target += url
        self._count(len(url))

    def on_header(self, name: bytes, value: bytes) -> None:
        self._count(len(name) + len(value) + 4)
        if self.phase == "head":  # trailers, after the body, are not forwarded
            self._headers.append((name.lower(), value))

    def on_headers_complete(self) -> None:
        self._check_head(dict(self._headers))
        self.phase = "body"

    def on_body(self, body: bytes) -> None:
        self._body_size += len(body)
        self.backlog += len(body)
        if self._body_size > self._body_limit:
            raise _Refused(self._body_too_large())
        self._body.append(body)

    def on_message_complete(self) -> None:
        parser = self._parser
        keep_alive = parser.should_keep_alive() and not parser.should_upgrade()
        self._is_deaf = not keep_alive
        self.phase = "idle"
        self.wants_continue = False
        target = _origin_form(self._target)
        body = self._body[0] if len(self._body) == 1 else b"".join(self._body)
        incoming = Incoming(
            method=parser.get_method().decode("ascii"),
            target=target,
            path=target.partition(b"?")[0].decode("latin-1"),
            headers=self._headers,
            body=body,
            keep_alive=keep_alive,
            is_http10=parser.get_http_version() == "1.0",
        )
        if parser.should_upgrade() and _length(dict(self._headers)):
            self._upgraded, self.phase = incoming, "body"
        else:
            self.ready.append(incoming)
        self._reset()

    def _take_body(self, data: bytes) -> None:
        """Of a request that offers another protocol (h2c): llhttp stops at its head.

        We decline by answering as plain HTTP/1.1 (RFC 9110, 7.8), so that the body is still due.
        """
        waiting = self._upgraded
        if waiting is None:
            return
        self._body.append(data)
        self._body_size += len(data)
        length = _length(dict(waiting.headers))
        if self._body_size >= length:
            body = b"".join(self._body)[:length]
            self.backlog += length
            self.ready.append(replace(waiting, body=body))
            self._upgraded, self.phase = None, "idle"
            self._reset()

    def _count(self, size: int) -> None:
        self._head_size += size
        if self._head_size > HEAD_LIMIT:
            raise _Refused(_too_large())

    def _check_head(self, headers: dict[bytes, bytes]) -> None:
        version = self._parser.get_http_version()
        if version not in ("1.0", "1.1"):
            raise _Refused(Refusal(505, f"HTTP/{version} is not spoken here; use HTTP/1.1"))
        if self._parser.should_upgrade() and b"transfer-encoding" in headers:
            message = "a chunked body with Upgrade is not taken; send it without Upgrade"
            raise _Refused(Refusal(400, message))
        is_http10 = version == "1.0"
        hosts = sum(1 for name, _ in self._headers if name == b"host")
        if hosts > 1 or (hosts == 0 and not is_http10):
            raise _Refused(Refusal(400, "an HTTP/1.1 request has exactly one Host header"))
        if is_http10 and b"transfer-encoding" in headers:
            raise _Refused(Refusal(400, "HTTP/1.0 has no Transfer-Encoding"))
        if _length(headers) > self._body_limit:
            raise _Refused(self._body_too_large())
        self.wants_continue = headers.get(b"expect", b"").lower() == b"100-continue"

    def _body_too_large(self) -> Refusal:
        message = f"the request body is larger than {self._body_limit} bytes"
        return Refusal(413, f"{message} (router.body_limit_mb)")


def _length(headers: dict[bytes, bytes]) -> int:
    return int(headers.get(b"content-length", b"0"))


def _too_large() -> Refusal:
    return Refusal(431, f"the request head is larger than {HEAD_LIMIT} bytes")


def _origin_form(target: bytes) -> bytes:
    """A target as path and query, also where it came with a scheme and a host."""
    if target.startswith(b"/"):
        return target
    try:
        url = httptools.parse_url(target)
    except httptools.HttpParserInvalidURLError:
        return target  # CONNECT and OPTIONS have targets of their own; nothing is served there
    return (url.path or b"/") + (b"?" + url.query if url.query else b"")

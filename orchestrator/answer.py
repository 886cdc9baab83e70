"""Answer: the head of an engine's answer, and what of it goes to the client."""

import re
from http import HTTPStatus
from typing import Literal, TypeAlias

from orchestrator.message import OWN_PREFIX, connection_options

Framing: TypeAlias = Literal["sized", "chunked", "until_close"]
# What a header line is to us; those that tell of the framing are kept, whatever Connection says.
# coded: a transfer coding beside chunks, which we did not offer to take (RFC 9112, 7).
Kind: TypeAlias = Literal["kept", "hop", "options", "sized", "chunked", "coded", "events"]

# The connection is ours to tell.
_HOP_BY_HOP = frozenset(
    {
        b"connection",
        b"keep-alive",
        b"proxy-authenticate",
        b"proxy-authorization",
        b"proxy-connection",
        b"te",
        b"upgrade",
    }
)
_FRAMING = frozenset({b"content-length", b"transfer-encoding"})
_BODILESS = (HTTPStatus.NO_CONTENT, HTTPStatus.NOT_MODIFIED)
_LENGTH = re.compile(rb"\r\ncontent-length:[ \t]*([0-9]{1,15})[ \t]*\r\n", re.IGNORECASE)
_CORS = b"access-control-"
_MOST_KNOWN = 1024
_LONGEST_KNOWN = 4096  # bytes


class AnswerHead:
    """The head of an engine's answer, read.

    `before`, `length` and `after` are its first line and its end-to-end headers, byte for byte and
    each with its line end; `length` has the digits of Content-Length, if there is one.
    """

    __slots__ = ("after", "before", "framing", "is_events", "length", "status")

    def __init__(  # noqa: PLR0913  a record that is made for every answer
        self,
        status: int,
        framing: Framing,
        is_events: bool,
        before: bytes,
        length: bytes,
        after: bytes,
    ) -> None:
        self.status = status
        self.framing = framing
        self.is_events = is_events
        self.before = before
        self.length = length
        self.after = after

    def with_length(self, length: bytes) -> "AnswerHead":
        """The same head before a body of another length."""
        if self.length == length or not self.length:
            return self
        return AnswerHead(
            self.status, self.framing, self.is_events, self.before, length, self.after
        )

    def forward(self, added: bytes, keep_alive: bool, is_chunked: bool) -> bytes:
        """The head for the client. Without chunks (HTTP/1.0) the end of the answer is a close."""
        last = b"\r\n" if keep_alive else b"connection: close\r\n\r\n"
        if self.framing == "chunked" and not is_chunked:
            lines = self.before.split(b"\r\n")
            kept = [line for line in lines if not line.lower().startswith(b"transfer-encoding:")]
            return b"\r\n".join(kept) + added + last
        return b"%b%b%b%b%b" % (self.before, self.length, self.after, added, last)


class AnswerHeads:
    """Reads heads; those read before are looked up, by their bytes but for the body's length.

    An engine's heads differ by length and by the second of their date. One for a router.
    """

    __slots__ = ("_has_cors", "_known")

    def __init__(self, has_cors: bool = False) -> None:
        """`has_cors`: the router tells browsers about pages; what engines say of it is dropped."""
        self._has_cors = has_cors
        self._known: dict[tuple[bytes, bytes], AnswerHead] = {}

    def read(self, head: bytes) -> AnswerHead:
        """Reads a head, up to its empty line. Raises ValueError when it is not HTTP."""
        found = _LENGTH.search(head)
        start, stop = found.span(1) if found else (len(head), len(head))
        key = head[:start], head[stop:]
        known = self._known.get(key)
        if known is None:
            known = read_answer_head(head, _CORS if self._has_cors else OWN_PREFIX)
            if len(head) <= _LONGEST_KNOWN:
                self._remember(key, known)
        return known.with_length(head[start:stop])

    def _remember(self, key: tuple[bytes, bytes], head: AnswerHead) -> None:
        if len(self._known) >= _MOST_KNOWN:
            del self._known[next(iter(self._known))]
        self._known[key] = head


def read_answer_head(head: bytes, dropped: bytes = OWN_PREFIX) -> AnswerHead:
    """Reads a head, up to its empty line, without headers whose names begin with `dropped`.

    Raises ValueError when it is not HTTP.
    """
    first, *lines = head[:-4].split(b"\r\n")
    if not first.startswith(b"HTTP/1.") or not first[9:12].isdigit():
        raise ValueError(f"the engine does not answer in HTTP: {first[:40]!r}")
    kinds = [_kind_of(line) for line in lines]
    if "coded" in kinds or {"sized", "chunked"} <= set(kinds):
        raise ValueError("the end of its answer cannot be told")
    gone = frozenset[bytes]()
    for line, kind in zip(lines, kinds, strict=True):
        if kind == "options":
            gone |= connection_options(line.partition(b":")[2])
    kept = [
        line
        for line, kind in zip(lines, kinds, strict=True)
        if kind not in ("hop", "options") and not _is_dropped(line, gone, dropped)
    ]
    status = int(first[9:12])
    text = b"".join(b"%b\r\n" % line for line in (b"HTTP/1.1 %b" % first[9:], *kept))
    found = _LENGTH.search(text)
    start, stop = found.span(1) if found else (len(text), len(text))
    before, length, after = text[:start], text[start:stop], text[stop:]
    return AnswerHead(status, _framing(status, kinds), "events" in kinds, before, length, after)


def _is_dropped(line: bytes, gone: frozenset[bytes], prefix: bytes) -> bool:
    name = line[: line.find(b":")].lower()
    return (name in gone and name not in _FRAMING) or name.startswith(prefix)


def _framing(status: int, kinds: list[Kind]) -> Framing:
    if "sized" in kinds or status in _BODILESS:
        return "sized"
    return "chunked" if "chunked" in kinds else "until_close"


def _kind_of(line: bytes) -> Kind:
    name = line[: line.find(b":")].lower()
    if name == b"connection":
        return "options"
    if name in _HOP_BY_HOP or name.startswith(OWN_PREFIX):
        return "hop"
    if name == b"content-length":
        return "sized"
    if name == b"transfer-encoding":
        return "chunked" if line.partition(b":")[2].strip().lower() == b"chunked" else "coded"
    return "events" if name == b"content-type" and b"text/event-stream" in line else "kept"

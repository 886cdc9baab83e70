"""Message: HTTP/1.1 heads as bytes, and what is kept, dropped and added on their way. Pure."""

from collections.abc import Iterable
from dataclasses import dataclass
from http import HTTPStatus
from typing import Literal, TypeAlias

from orchestrator.refusal import Refusal

Framing: TypeAlias = Literal["sized", "chunked", "until_close"]

OWN_PREFIX = b"x-draftgate-"
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
# The body is forwarded whole, with a length of our own.
_REWRITTEN = frozenset({b"host", b"content-length", b"transfer-encoding", b"trailer", b"expect"})
_LONGEST_REASON = 500


@dataclass(slots=True)
class Incoming:
    """One request of a client, complete. Header names are in lower case."""

    method: str
    target: bytes
    path: str
    headers: list[tuple[bytes, bytes]]
    body: bytes
    keep_alive: bool
    is_http10: bool

    def header(self, name: bytes) -> str | None:
        value = next((value for key, value in self.headers if key == name), None)
        return None if value is None else value.decode("latin-1")

    def forward(self, host: bytes, request_id: bytes) -> bytes:
        """The head for an engine: end-to-end headers, our Host, an x-request-id if it has none."""
        gone = _connection_options(v for k, v in self.headers if k == b"connection")
        lines = [b"POST %b HTTP/1.1\r\nhost: %b\r\n" % (self.target, host)]
        has_id = False
        for name, value in self.headers:
            if name in gone or name in _REWRITTEN or name.startswith(OWN_PREFIX):
                continue
            has_id = has_id or name == b"x-request-id"
            lines.append(b"%b: %b\r\n" % (name, value))
        if not has_id:
            lines.append(b"x-request-id: %b\r\n" % request_id)
        lines.append(b"content-length: %d\r\n\r\n" % len(self.body))
        return b"".join(lines)


@dataclass(slots=True)
class AnswerHead:
    """The head of an engine's answer; `lines` are its end-to-end headers, byte for byte."""

    status: int
    reason: bytes
    lines: list[bytes]
    framing: Framing

    def forward(self, added: bytes, keep_alive: bool, is_chunked: bool) -> bytes:
        """The head for the client. Without chunks (HTTP/1.0) the end of the answer is a close."""
        kept = self.lines
        if self.framing == "chunked" and not is_chunked:
            kept = [line for line in kept if not line.lower().startswith(b"transfer-encoding:")]
        last = b"" if keep_alive else b"connection: close\r\n"
        first = b"HTTP/1.1 %d%b" % (self.status, self.reason)
        return b"\r\n".join([first, *kept, added + last + b"\r\n"])


def read_answer_head(head: bytes) -> AnswerHead:
    """Reads an engine's head, up to its empty line. Raises ValueError when it is not HTTP."""
    first, *lines = head[:-4].split(b"\r\n")
    if not first.startswith(b"HTTP/1.") or not first[9:12].isdigit():
        raise ValueError(f"the engine does not answer in HTTP: {first[:40]!r}")
    headers = [(line.partition(b":")[0].lower(), line) for line in lines]
    options = (line.partition(b":")[2] for name, line in headers if name == b"connection")
    gone = _connection_options(options)
    kept = [line for name, line in headers if name not in gone and not name.startswith(OWN_PREFIX)]
    status = int(first[9:12])
    return AnswerHead(status, first[12:], kept, _framing(status, {name for name, _ in headers}))


def _framing(status: int, names: set[bytes]) -> Framing:
    if status in (HTTPStatus.NO_CONTENT, HTTPStatus.NOT_MODIFIED) or b"content-length" in names:
        return "sized"
    return "chunked" if b"transfer-encoding" in names else "until_close"


def own_answer(
    status: int, body: bytes, added: bytes, keep_alive: bool, has_body: bool = True
) -> bytes:
    """A whole JSON answer of the router's own; `has_body` is false for HEAD."""
    last = b"" if keep_alive else b"connection: close\r\n"
    phrase = HTTPStatus(status).phrase.encode()
    head = b"HTTP/1.1 %d %b\r\ncontent-type: application/json\r\n" % (status, phrase)
    size = b"content-length: %d\r\n" % len(body)
    return head + size + added + last + b"\r\n" + (body if has_body else b"")


def refusal_answer(
    refusal: Refusal, added: bytes, keep_alive: bool, has_body: bool = True
) -> bytes:
    """A refusal as a whole answer."""
    if refusal.allow is not None:
        added += b"allow: %b\r\n" % refusal.allow.encode()
    return own_answer(refusal.status, refusal.body(), added, keep_alive, has_body)


def own_headers(values: Iterable[tuple[str, str]]) -> bytes:
    """Our headers on an answer, as printable ASCII."""
    return b"".join(
        b"%b%b: %b\r\n" % (OWN_PREFIX, name.encode(), _printable(value)) for name, value in values
    )


def _printable(text: str) -> bytes:
    return text[:_LONGEST_REASON].encode("unicode_escape")


def _connection_options(values: Iterable[bytes]) -> frozenset[bytes]:
    """Names that a Connection header declares hop-by-hop, beside the usual ones."""
    named = {option.strip().lower() for value in values for option in value.split(b",")}
    named -= {b"close", b""}
    return _HOP_BY_HOP | named if named else _HOP_BY_HOP

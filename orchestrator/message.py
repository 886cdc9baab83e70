"""Message: HTTP/1.1 heads as bytes, and what is kept, dropped and added on their way. Pure."""

from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from http import HTTPStatus
from typing import Literal, TypeAlias

from orchestrator.refusal import Refusal

Header: TypeAlias = tuple[bytes, bytes]
# What becomes of a request's header.
# kept: goes to the engine as it is; hop: between two neighbours only; framing: the body is sent on
# whole, with a length of our own; own: for us; noted: goes to the engine and we look at it too;
# credential: goes to the engine unless the router keeps keys itself; options: may name others.
Fate: TypeAlias = Literal["kept", "hop", "framing", "own", "noted", "credential", "options"]

OWN_PREFIX = b"x-draftgate-"
_FATES: Mapping[bytes, Fate] = {
    b"connection": "options",
    b"keep-alive": "hop",
    b"proxy-authenticate": "hop",
    b"proxy-authorization": "hop",
    b"proxy-connection": "hop",
    b"te": "hop",
    b"upgrade": "hop",
    b"http2-settings": "hop",
    b"trailer": "hop",
    b"host": "framing",
    b"content-length": "framing",
    b"transfer-encoding": "framing",
    b"expect": "framing",
    b"x-draftgate-type": "own",
    b"x-request-id": "own",
    b"traceparent": "own",
    b"origin": "noted",
    b"access-control-request-method": "noted",
    b"access-control-request-headers": "noted",
    b"authorization": "credential",
    b"x-api-key": "credential",
}
_USUAL_OPTIONS = frozenset({b"keep-alive", b"close", b""})
_LONGEST_REASON = 500
# Names and lines that were judged before are remembered: clients and engines repeat themselves.
_REMEMBERED = 1024


@lru_cache(_REMEMBERED)
def fate_of(name: bytes) -> tuple[bytes, Fate]:
    """A header's name in lower case, and what becomes of it."""
    key = name.lower()
    fallback: Fate = "hop" if key.startswith(OWN_PREFIX) else "kept"
    return key, _FATES.get(key, fallback)


class Incoming:
    """One request of a client; its body comes after its head.

    `lines` are the end-to-end headers for the engine, byte for byte; `credentials` the same of
    keys; `named` has the values of headers that the router or the framing needs, by name in lower
    case; `hosts` counts Host headers.
    """

    __slots__ = (
        "body",
        "credentials",
        "hosts",
        "is_http10",
        "keep_alive",
        "lines",
        "method",
        "named",
        "path",
        "target",
    )

    def __init__(  # noqa: PLR0913  a record that is made for every request
        self,
        method: str,
        target: bytes,
        path: str,
        lines: bytes,
        credentials: bytes,
        named: dict[bytes, bytes],
        hosts: int,
    ) -> None:
        self.method = method
        self.target = target
        self.path = path
        self.lines = lines
        self.credentials = credentials
        self.named = named
        self.hosts = hosts
        self.body = b""
        self.keep_alive = True
        self.is_http10 = False

    def with_body(self, body: bytes) -> "Incoming":
        """The same head before another body; what both share is not changed later."""
        other = Incoming(
            self.method,
            self.target,
            self.path,
            self.lines,
            self.credentials,
            self.named,
            self.hosts,
        )
        other.body = body
        other.keep_alive = self.keep_alive
        other.is_http10 = self.is_http10
        return other

    def header(self, name: bytes) -> str | None:
        """A header that the router looks at, by its name in lower case."""
        value = self.named.get(name)
        return None if value is None else value.decode("latin-1")

    def forward(self, host: bytes, added: bytes, is_trusted: bool = True) -> bytes:
        """The head for an engine: end-to-end headers, our Host, and whole lines of our own.

        `is_trusted`: the client's credentials are for the engine.
        """
        return b"%b %b HTTP/1.1\r\nhost: %b\r\n%b%b%bcontent-length: %d\r\n\r\n" % (
            b"POST" if self.method == "POST" else self.method.encode(),
            self.target,
            host,
            self.lines,
            self.credentials if is_trusted else b"",
            added,
            len(self.body),
        )


def read_head(method: bytes, target: bytes, headers: Sequence[Header]) -> Incoming:
    """A request by its head, whose framing a parser has found valid."""
    path = target.partition(b"?")[0] if b"?" in target else target
    gone = _named_by_connection(headers)
    lines: list[bytes] = []
    credentials: list[bytes] = []
    named: dict[bytes, bytes] = {}
    hosts = 0
    for name, value in headers:
        key, fate = fate_of(name)
        if fate == "kept":
            if key not in gone:
                lines += (name, b": ", value, b"\r\n")
        elif fate != "hop" and fate != "options":
            named[key] = value
            hosts += key == b"host"
            if fate == "credential" or fate == "noted":
                kept = credentials if fate == "credential" else lines
                kept += (name, b": ", value, b"\r\n")
    return Incoming(
        method.decode("ascii"),
        target,
        path.decode("latin-1"),
        b"".join(lines),
        b"".join(credentials),
        named,
        hosts,
    )


def _named_by_connection(headers: Sequence[Header]) -> frozenset[bytes]:
    values = [value for name, value in headers if fate_of(name)[1] == "options"]
    return frozenset[bytes]().union(*(connection_options(value) for value in values))


def own_answer(
    status: int, body: bytes, added: bytes, keep_alive: bool, has_body: bool = True
) -> bytes:
    """A whole JSON answer of the router's own; `has_body` is false for HEAD. A 204 has no body."""
    last = b"" if keep_alive else b"connection: close\r\n"
    phrase = HTTPStatus(status).phrase.encode()
    head = b"HTTP/1.1 %d %b\r\n" % (status, phrase)
    if status == HTTPStatus.NO_CONTENT:  # RFC 9110, 8.6: without a length
        return head + added + last + b"\r\n"
    size = b"content-type: application/json\r\ncontent-length: %d\r\n" % len(body)
    return head + size + added + last + b"\r\n" + (body if has_body else b"")


def refusal_answer(
    refusal: Refusal, path: str, added: bytes, keep_alive: bool, has_body: bool = True
) -> bytes:
    """A refusal as a whole answer to a request to this path."""
    if refusal.allow is not None:
        added += b"allow: %b\r\n" % refusal.allow.encode()
    if refusal.status == HTTPStatus.UNAUTHORIZED:  # RFC 9110, 11.6.1
        added += b"www-authenticate: Bearer\r\n"
    if refusal.retry_after_s is not None:
        added += b"retry-after: %d\r\n" % refusal.retry_after_s
    return own_answer(refusal.status, refusal.body(path), added, keep_alive, has_body)


def body_size(answer: bytes) -> int:
    """Bytes of a whole answer's body."""
    return len(answer) - answer.index(b"\r\n\r\n") - 4


def own_headers(values: Iterable[tuple[str, str]]) -> bytes:
    """Our headers on an answer, as printable ASCII."""
    return b"".join(
        b"%b%b: %b\r\n" % (OWN_PREFIX, name.encode(), printable(value)) for name, value in values
    )


def printable(text: str) -> bytes:
    """Text as a header's value."""
    return text[:_LONGEST_REASON].encode("unicode_escape")


def connection_options(value: bytes) -> frozenset[bytes]:
    """Names that a Connection header declares hop-by-hop, beside the usual ones."""
    return frozenset(v.strip().lower() for v in value.split(b",")) - _USUAL_OPTIONS

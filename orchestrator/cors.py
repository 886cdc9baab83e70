"""CORS: which web pages may read the router's answers (Fetch standard, "HTTP CORS protocol"). Pure.

It protects users of browsers from pages that they did not mean to give their keys or their network
to. It is no protection of the router: other clients than browsers send whatever Origin they like.
"""

import re
from typing import Annotated, TypeAlias

from pydantic import AfterValidator, Field, model_validator

from adapters.profile import Model
from orchestrator.message import Incoming
from orchestrator.refusal import Refusal

ANY = "*"
_ORIGIN = re.compile(r"[a-z][a-z0-9+.-]*://(\[[0-9a-f:.]+\]|[a-z0-9._-]+)(:[0-9]{1,5})?")
_TOKEN = r"[A-Za-z0-9!#$%&'*+.^_`|~-]+"
_HEADER = re.compile(_TOKEN)
_HEADER_LIST = re.compile(rf"{_TOKEN}(?:[ \t]*,[ \t]*{_TOKEN})*".encode())
_USUAL_PORTS = {"http": ":80", "https": ":443"}
# A page may read these of an answer; without being named it may not.
_EXPOSED = ", ".join(
    [
        *(f"x-draftgate-{name}" for name in ("type", "profile", "worker", "reason")),
        *("x-request-id", "retry-after"),
    ]
)


def _origin(text: str) -> str:
    if text == ANY:
        return text
    found = _ORIGIN.fullmatch(text)
    if found is None:
        message = "an origin is written as browsers do: https://app.example, in lower case, no path"
        raise ValueError(message)
    if found[2] and found[2] == _USUAL_PORTS.get(text.partition("://")[0]):
        raise ValueError(f"browsers leave out the usual port: write it without {found[2]}")
    return text


def _header(text: str) -> str:
    if not _HEADER.fullmatch(text):
        raise ValueError("this is no name of a header")
    return text.lower()


Origin: TypeAlias = Annotated[str, AfterValidator(_origin)]
HeaderName: TypeAlias = Annotated[str, AfterValidator(_header)]


class CorsEntry(Model):
    """Web pages that may use the router."""

    origins: tuple[Origin, ...] = Field(
        min_length=1, description='As in https://app.example; "*": every page.'
    )
    headers: tuple[HeaderName, ...] = Field(
        default=(ANY,), description='Headers that a page may send; "*": any.'
    )
    max_age_s: int = Field(
        default=600, ge=0, le=86_400, description="How long browsers may keep a preflight's answer."
    )
    credentials: bool = Field(
        default=False, description="Pages may have the browser send cookies and passwords along."
    )

    @model_validator(mode="after")
    def _credentials_are_for_named_origins(self) -> "CorsEntry":
        if self.credentials and ANY in self.origins:
            raise ValueError('credentials are not for every page: name the origins instead of "*"')
        return self


class Cors:
    """The headers of one entry, made once."""

    __slots__ = ("_answers", "_entry", "_names", "_other")

    def __init__(self, entry: CorsEntry) -> None:
        self._entry = entry
        is_open = ANY in entry.origins
        # An answer that depends on the origin says so, also to those who get nothing by it: a cache
        # may keep it (Fetch standard, "CORS protocol and HTTP caches").
        self._other = _allow(ANY, entry) if is_open else b"vary: origin\r\n"
        self._answers = {
            origin.encode(): _allow(origin, entry) + self._other
            for origin in entry.origins
            if not is_open
        }
        self._names = None if ANY in entry.headers else ", ".join(entry.headers).encode()

    def headers(self, incoming: Incoming) -> bytes:
        """Whole lines for an answer to this request."""
        return self._answers.get(incoming.named.get(b"origin", b""), self._other)

    def is_preflight(self, incoming: Incoming) -> bool:
        """Whether a browser asks on its own, before a page's request."""
        named = incoming.named
        return b"origin" in named and b"access-control-request-method" in named

    def preflight(self, incoming: Incoming) -> bytes | Refusal:
        """Whole lines of the answer to a preflight, beside those of `headers`."""
        if self._answers and incoming.named[b"origin"] not in self._answers:
            origin = incoming.header(b"origin")
            message = f"pages of {origin} may not use this router: router.cors.origins"
            return Refusal(403, message, "origin_not_allowed")
        asked = incoming.named.get(b"access-control-request-headers", b"").strip()
        names = asked if self._names is None else self._names
        lines = b"access-control-allow-methods: GET, HEAD, POST\r\naccess-control-max-age: %d\r\n"
        allowed = lines % self._entry.max_age_s
        if not names or (names is asked and not _HEADER_LIST.fullmatch(names)):
            return allowed
        # Named, because "*" would not stand for authorization.
        return allowed + b"access-control-allow-headers: %b\r\n" % names


def _allow(origin: str, entry: CorsEntry) -> bytes:
    lines = [f"access-control-allow-origin: {origin}", f"access-control-expose-headers: {_EXPOSED}"]
    if entry.credentials:
        lines.append("access-control-allow-credentials: true")
    return "".join(f"{line}\r\n" for line in lines).encode()

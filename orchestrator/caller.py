"""Caller: who sent a request, by its API key, and what of its limits is left."""

import math
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from orchestrator.keys import KeyEntry, digest
from orchestrator.ledger import Page
from orchestrator.message import Incoming
from orchestrator.refusal import Refusal
from orchestrator.usage import Usage
from orchestrator.window import OwnTotal, Total, Window

# Bytes of a request for each token of its prompt, until the engine has counted them.
BYTES_PER_TOKEN: Final = 4
CLIENT_CLOSED: Final = 499  # nginx's number for a client that left
_ERROR: Final = 400
_SCHEME: Final = b"bearer "


class PageTotal:
    """A total that several processes have together: a column of the ledger."""

    __slots__ = ("_column", "_page")

    def __init__(self, page: Page) -> None:
        self._page = page
        self._column = page.take(1)

    def add(self, change: int) -> None:
        self._page.add(self._column, change)

    def read(self) -> int:
        return self._page.total(self._column)


class Use:
    """What a caller has used: it outlives a reload of the files."""

    __slots__ = ("in_flight", "requests", "running", "tokens")

    def __init__(self) -> None:
        self.requests = Window()
        self.tokens = Window()
        self.in_flight: Total = OwnTotal()
        self.running = 0  # of in_flight, those of this process

    def share(self, page: Page | None) -> None:
        """Counts with other processes from now on, or alone."""
        totals: list[Total] = [OwnTotal() if page is None else PageTotal(page) for _ in range(3)]
        self.requests.total, self.tokens.total, self.in_flight = totals
        for total, own in zip(
            totals, (self.requests.own, self.tokens.own, self.running), strict=True
        ):
            total.add(own)


class Booking:
    """What one request has taken of its caller's limits."""

    __slots__ = ("at_s", "caller", "reserved")

    def __init__(self, caller: "Caller", at_s: float, reserved: int) -> None:
        self.caller = caller
        self.at_s = at_s
        self.reserved = reserved

    def end(self, status: int, usage: Usage | None) -> None:
        """Gives back what was reserved beyond what the answer took: of an error, everything. An
        answer that does not tell its tokens, or was cut, has taken what was reserved."""
        use = self.caller.use
        use.in_flight.add(-1)
        use.running -= 1
        if usage is not None and usage.completion is not None:
            taken = (usage.prompt or 0) + usage.completion
        elif status < _ERROR or status == CLIENT_CLOSED:
            return
        else:
            taken = 0
        if taken > self.reserved:
            use.tokens.add(time.monotonic(), taken - self.reserved)
        else:
            use.tokens.give_back(self.at_s, self.reserved - taken)


@dataclass(slots=True)
class Caller:
    """One key's holder."""

    entry: KeyEntry
    use: Use

    @property
    def name(self) -> str:
        return self.entry.name

    def may_use(self, model: str) -> bool:
        """Whether the key is for this model."""
        return not self.entry.models or model in self.entry.models

    def book(self, tokens: int) -> Booking | Refusal:
        """Takes one request of about so many tokens, where the limits have room for it.

        The last request may go beyond the limit of tokens by what it takes itself: how long an
        answer will be is not known.
        """
        entry, use, now = self.entry, self.use, time.monotonic()
        if entry.in_flight is not None and use.in_flight.read() >= entry.in_flight:
            what = f"it may have {entry.in_flight} requests at once"
            return self._refuse(what, "key_in_flight", 1.0)
        if entry.requests_per_minute is not None:
            wait_s = use.requests.wait_s(now, entry.requests_per_minute - 1)
            if wait_s > 0:
                what = f"it may send {entry.requests_per_minute} requests a minute"
                return self._refuse(what, "key_requests", wait_s)
        if entry.tokens_per_minute is not None:
            wait_s = use.tokens.wait_s(now, entry.tokens_per_minute - 1)
            if wait_s > 0:
                what = f"it may use {entry.tokens_per_minute} tokens a minute"
                return self._refuse(what, "key_tokens", wait_s)
        use.requests.add(now, 1)
        use.tokens.add(now, tokens)
        use.in_flight.add(1)
        use.running += 1
        return Booking(self, now, tokens)

    def headers(self) -> bytes:
        """What is left of the limits, in the headers of OpenAI's API."""
        now, lines = time.monotonic(), []
        kinds = (
            (b"requests", self.entry.requests_per_minute, self.use.requests),
            (b"tokens", self.entry.tokens_per_minute, self.use.tokens),
        )
        for name, limit, window in kinds:
            if limit is not None:
                left = max(0, limit - window.used(now))
                reset_s = window.wait_s(now, 0)
                lines.append(
                    b"x-ratelimit-limit-%b: %d\r\nx-ratelimit-remaining-%b: %d\r\n"
                    b"x-ratelimit-reset-%b: %ds\r\n"
                    % (name, limit, name, left, name, math.ceil(reset_s))
                )
        return b"".join(lines)

    def _refuse(self, what: str, code: str, wait_s: float) -> Refusal:
        message = f"the key {self.name!r} is at its limit: {what}"
        return Refusal(429, message, code, retry_after_s=max(1, math.ceil(wait_s)))


class Callers:
    """All holders of keys, by the digests of these."""

    def __init__(self, entries: Iterable[KeyEntry]) -> None:
        self._callers = {entry.sha256: Caller(entry, Use()) for entry in entries}

    def __iter__(self) -> Iterator[Caller]:
        return iter(self._callers.values())

    def find(self, incoming: Incoming) -> Caller | Refusal:
        """Whose key a request has. A digest is looked up, so that time tells nothing of a key."""
        key = _key_of(incoming.named)
        if key is None:
            hint = "send it as Authorization: Bearer KEY, or as x-api-key"
            return Refusal(401, f"an API key is needed: {hint}", "no_api_key")
        found = self._callers.get(digest(key))
        if found is None:
            return Refusal(401, "this API key is not known here", "invalid_api_key")
        return found

    def take_over(self, before: "Callers") -> None:
        """Knows what callers of the same names have used. Those that are gone count alone."""
        uses = {caller.name: caller.use for caller in before}
        for caller in self:
            caller.use = uses.pop(caller.name, caller.use)
        for use in uses.values():
            use.share(None)

    def share(self, page: Page) -> int:
        """Counts with other processes from now on; returns how many columns that takes."""
        before = page.used
        for caller in self:
            caller.use.share(page)
        return page.used - before

    def describe(self) -> list[dict[str, object]]:
        """How callers stand, for operators."""
        now = time.monotonic()
        return [
            {
                "key": caller.name,
                "in_flight": caller.use.in_flight.read(),
                "requests_last_minute": caller.use.requests.used(now),
                "tokens_last_minute": caller.use.tokens.used(now),
            }
            for caller in self
        ]

    def expire(self) -> None:
        """Forgets what is older than a minute, for other processes to see."""
        now = time.monotonic()
        for caller in self:
            caller.use.requests.expire(now)
            caller.use.tokens.expire(now)


def _key_of(named: Mapping[bytes, bytes]) -> bytes | None:
    value = named.get(b"authorization")
    if value is not None and value[: len(_SCHEME)].lower() == _SCHEME:
        return value[len(_SCHEME) :].strip()
    return named.get(b"x-api-key")

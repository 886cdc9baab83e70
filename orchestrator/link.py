"""Link: what the router's processes say to each other, over a socket that ends with either."""

import asyncio
import pickle
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, cast

from orchestrator.configuration import RouterConfig
from orchestrator.counts import Counts

_SIZE = 8  # bytes before each message


# What the parent says.


@dataclass(frozen=True)
class Begin:
    """Serve this from now on. `number` is the generation's, `states` are those of its workers."""

    number: int
    config: RouterConfig
    states: Mapping[str, str]


@dataclass(frozen=True)
class States:
    """Workers of a generation stand differently."""

    number: int
    states: Mapping[str, str]


@dataclass(frozen=True)
class Tell:
    """Say what you have counted."""


@dataclass(frozen=True)
class Reopen:
    """Go on in the file that has the access log's name now."""


@dataclass(frozen=True)
class Stop:
    """End; said twice, at once."""


# What a child says.


@dataclass(frozen=True)
class Serving:
    """A generation is in use; or `problem`, and the child ends."""

    number: int
    problem: str = ""


@dataclass(frozen=True)
class Told:
    """All that was counted since the process began."""

    counts: Counts


@dataclass(frozen=True)
class Down:
    """A worker of a generation failed a request in a way that says that it is gone."""

    number: int
    name: str
    why: str


class Link(asyncio.Protocol):
    """One end. `heard` gets every message in order; `ended` is set when the other end is gone."""

    def __init__(self, heard: Callable[[Any], None]) -> None:
        self.ended = asyncio.Event()
        self._heard = heard
        self._buffer = bytearray()
        self._transport: asyncio.Transport | None = None

    def send(self, message: object) -> None:
        """Nothing happens when the other end is gone."""
        if self._transport is not None and not self._transport.is_closing():
            data = pickle.dumps(message, pickle.HIGHEST_PROTOCOL)
            self._transport.write(len(data).to_bytes(_SIZE, "big") + data)

    async def close(self) -> None:
        """Once all is sent."""
        if self._transport is not None:
            self._transport.close()
            await self.ended.wait()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)  # uvloop's is no subclass

    def connection_lost(self, exc: Exception | None) -> None:
        self.ended.set()

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        while len(self._buffer) >= _SIZE:
            end = _SIZE + int.from_bytes(self._buffer[:_SIZE], "big")
            if len(self._buffer) < end:
                return
            message = pickle.loads(self._buffer[_SIZE:end])
            del self._buffer[:end]
            self._heard(message)

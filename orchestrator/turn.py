"""Turn: what one round of the event loop brings: all is read, then decided on, then written.

Between two system calls a processor forgets much of the program. Doing the same step for all
connections before the next step costs a quarter less.
"""

import asyncio
import logging
from typing import Protocol

LOG = logging.getLogger("draftgate.router")

# Bytes that may wait to be looked at. Beyond it they are looked at at once: somebody who reads
# slowly must be able to hold back somebody who writes fast.
_MOST_READ = 256 * 1024


class Reader(Protocol):
    """A connection that bytes came on."""

    def take(self, data: bytes) -> None:
        """Looks at the bytes."""

    def abort(self) -> None:
        """Closes the connection now."""


class Turn:
    """The bytes of one turn. One for a router; used by its event loop only."""

    __slots__ = ("_is_running", "_read", "_size", "_written", "loop")

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.loop = loop
        self._read: list[tuple[Reader, bytes]] = []
        self._written: list[tuple[asyncio.Transport, bytes]] = []
        self._size = 0
        self._is_running = False

    def bring(self, reader: Reader, data: bytes) -> None:
        """Bytes that came on a connection; they are looked at before the loop waits again."""
        if not self._read:
            self.loop.call_soon(self.run)
        self._read.append((reader, data))
        self._size += len(data)
        if self._size > _MOST_READ:
            self.run()

    def write(self, transport: asyncio.Transport, data: bytes) -> None:
        """Writes at the end of the turn; at once outside of one."""
        if self._is_running:
            self._written.append((transport, data))
        elif not transport.is_closing():
            transport.write(data)

    def flush(self) -> None:
        """Writes what waits, as before a connection is closed."""
        written, self._written = self._written, []
        for transport, data in written:
            if not transport.is_closing():
                transport.write(data)

    def run(self) -> None:
        """Looks at everything that was read, then writes."""
        read, self._read = self._read, []
        self._size = 0
        self._is_running = True
        try:
            for reader, data in read:
                try:
                    reader.take(data)
                except Exception:  # the edge of a connection: the others go on
                    LOG.exception("a connection failed")
                    reader.abort()
        finally:
            self._is_running = False
            self.flush()

"""Child process: one of the router's, as its parent sees it."""

import asyncio
import contextlib
import logging
import os
import socket
import subprocess
import sys
from collections.abc import Awaitable, Callable, Iterable

from orchestrator.counts import Counts
from orchestrator.ledger import Ledger
from orchestrator.link import Begin, Down, Link, Serving, Stop, Tell, Told

LOG = logging.getLogger("draftgate.router")

_EXIT_S = 5.0  # from its last word to its end


class ChildProcess:
    """Started again and again in one place, by its `row` in the ledger. `run` is one life."""

    def __init__(self, row: int, ledger: Ledger, down: Callable[[Down], None]) -> None:
        self.row = row
        self.pid: int | None = None
        self.counts = Counts()  # as they were told last
        self.problem = ""
        self.silent_s = 0  # seconds without a word
        self._ledger = ledger
        self._down = down
        self._link: Link | None = None
        self._process: subprocess.Popen[bytes] | None = None
        self._number = -1  # of the generation that it serves
        self._has_ended = False
        self._news = asyncio.Event()
        self._told = 0

    @property
    def is_alive(self) -> bool:
        return self._link is not None

    def has(self, number: int) -> bool:
        """Whether it serves this generation."""
        return self._number >= number

    def send(self, message: object) -> None:
        if self._link is not None:
            self._link.send(message)

    def kill(self) -> None:
        if self._process is not None and self._process.poll() is None:
            self._process.kill()

    async def run(self, begin: Begin) -> int:
        """Starts it and returns how it ended, as Popen.returncode."""
        self.problem, self.silent_s, self._number, self._has_ended = "", 0, -1, False
        ours, theirs = socket.socketpair()
        with theirs:
            process = self._process = self._start(theirs.fileno())
        self.pid = process.pid
        loop = asyncio.get_running_loop()
        link = self._link = Link(self._heard)
        await loop.create_unix_connection(lambda: link, sock=ours)
        link.send(begin)
        try:
            await link.ended.wait()
        finally:
            self._link, self.pid, self._has_ended = None, None, True
            self._news.set()
        return await asyncio.to_thread(_wait, process)

    async def serves(self, number: int) -> bool:
        """Returns once it serves a generation; False when it has ended instead."""
        while self._number < number and not self._has_ended:
            await self._hear()
        return self.has(number) and not self.problem

    async def tell(self) -> None:
        """Returns once its counts are of now, or it has ended."""
        before = self._told
        self.send(Tell())
        while self._told == before and self.is_alive:
            await self._hear()

    def stop(self) -> None:
        self.send(Stop())

    async def _hear(self) -> None:
        self._news.clear()
        await self._news.wait()

    def _heard(self, message: object) -> None:
        self.silent_s = 0
        match message:
            case Serving():
                self._number, self.problem = message.number, message.problem
            case Told():
                self.counts = message.counts
                self._told += 1
            case Down():
                self._down(message)
        self._news.set()

    def _start(self, link: int) -> subprocess.Popen[bytes]:
        numbers = (os.getpid(), link, self._ledger.fd, self._ledger.rows, self.row)
        level = logging.getLevelName(LOG.getEffectiveLevel())
        return subprocess.Popen(
            [sys.executable, "-P", "-m", "orchestrator.child", *map(str, numbers), level],
            stdin=subprocess.DEVNULL,
            pass_fds=(link, self._ledger.fd),
            env=os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
            start_new_session=True,  # ctrl-C is for the parent, who tells its children
        )


def _wait(process: subprocess.Popen[bytes]) -> int:
    try:
        return process.wait(_EXIT_S)
    except subprocess.TimeoutExpired:
        process.kill()
        return process.wait()


async def within(seconds: float, waits: Iterable[Awaitable[object]]) -> None:
    """Waits for all of them, and no longer than that."""
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await asyncio.gather(*waits)

"""Child: one of several router processes on a port; its parent tells it what to serve."""

import asyncio
import contextlib
import ctypes
import logging
import os
import signal
import socket
import sys
from collections.abc import Mapping

import uvloop

from orchestrator import log
from orchestrator.counts import Counts
from orchestrator.equipment import Equipment
from orchestrator.errors import OrchestratorError
from orchestrator.front import Front, listening_socket
from orchestrator.generation import Generation
from orchestrator.ledger import Ledger
from orchestrator.link import Begin, Down, Link, Reopen, Serving, States, Stop, Tell, Told
from orchestrator.pool import READY
from orchestrator.share import REFRESH_S, Sharing
from orchestrator.start import prepare_process

TELL_S = 1.0
_DEATH_SIGNAL = 1  # PR_SET_PDEATHSIG


class Child:
    """Serves what it is told to over the link, until it is told to stop or the link ends."""

    def __init__(self, ledger: Ledger, own: int) -> None:
        self._ledger = ledger
        self._own = own
        self.link = Link(self._heard)
        self._loop = asyncio.get_running_loop()
        self._begun = asyncio.Event()
        self._number = 0
        self._generation: Generation | None = None
        self._sharing: Sharing | None = None
        self._front: Front | None = None
        self._stops = 0

    async def run(self) -> None:
        """Until everything has ended; the counts are told before."""
        await self._begun.wait()
        if self._generation is not None:
            await self._live()
            self._generation.equipment.close()
        await self.link.close()

    async def _live(self) -> None:
        async with asyncio.TaskGroup() as group:
            timers = [group.create_task(self._refresh()), group.create_task(self._tell())]
            watch = group.create_task(self._end_with_parent())
            try:
                await self._serve(group)
            except OrchestratorError as error:
                self.link.send(Serving(self._number, str(error)))
            self.link.send(self._told())
            for task in (*timers, watch):
                task.cancel()

    def stop(self) -> None:
        self._stops += 1
        if self._front is not None:
            self._front.stop()

    async def _serve(self, group: asyncio.TaskGroup) -> None:
        """Raises OrchestratorError when it cannot listen."""
        listener = listening_socket(self._current().config.listen, is_shared=True)
        front = self._front = Front(self._current(), group)
        server = await front.listen(listener)
        front.take(self._current())
        self.link.send(Serving(self._number))
        for _ in range(self._stops):
            front.stop()
        await front.serve(server)

    def _current(self) -> Generation:
        if self._generation is None:
            raise RuntimeError("nothing was said of what to serve")
        return self._generation

    def _heard(self, message: object) -> None:
        match message:
            case Begin() if self._generation is None:
                self._begin(message)
            case Begin():
                self._follow(message)
            case States() if message.number == self._number:
                self._current().standing.publish(message.states)
            case Tell():
                self.link.send(self._told())
            case Reopen():
                self._current().equipment.reopen()
            case Stop():
                self.stop()

    def _begin(self, begin: Begin) -> None:
        try:
            equipment = Equipment(begin.config, self._loop)
            self._switch(begin, Generation.first(begin.config, equipment))
        except OrchestratorError as error:
            self.link.send(Serving(begin.number, str(error)))
        self._begun.set()

    def _follow(self, begin: Begin) -> None:
        """The next generation, at once."""
        before = self._current()
        new = before.next(begin.config)
        new.take_over(before)
        self._switch(begin, new)
        if self._front is not None:
            self._front.take(new)
            self.link.send(Serving(begin.number))

    def _switch(self, begin: Begin, new: Generation) -> None:
        if self._generation is not None:
            self._generation.standing.on_change = None
            for pool in self._generation.standing.pools:
                pool.share(None)
        self._generation, self._number = new, begin.number
        page = self._ledger.page(begin.number, self._own)
        self._sharing = Sharing(new.standing.pools, page, new.dispatch.callers)
        new.standing.publish(_turned(begin.states, self._own))
        new.standing.on_change = self._changed

    def _changed(self, name: str, state: str) -> None:
        if state != READY:
            self.link.send(Down(self._number, name, state))

    def _told(self) -> Told:
        now = self._current()
        equipment = now.equipment
        return Told(Counts(now.tally, equipment.lost_lines(), equipment.spans()))

    async def _refresh(self) -> None:
        while True:
            await asyncio.sleep(REFRESH_S)
            if self._sharing is not None:
                self._sharing.refresh()
            if self._front is not None:
                self._front.wake()

    async def _tell(self) -> None:
        while True:
            await asyncio.sleep(TELL_S)
            if (callers := self._current().dispatch.callers) is not None:
                callers.expire()
            self.link.send(self._told())

    async def _end_with_parent(self) -> None:
        await self.link.ended.wait()
        for _ in range(2):
            self.stop()


def _turned(states: Mapping[str, str], by: int) -> dict[str, str]:
    """Processes begin with different workers, or all would send their first request to the same."""
    names = list(states)
    start = by % len(names) if names else 0
    return {name: states[name] for name in (*names[start:], *names[:start])}


def die_with(parent: int) -> None:
    """The system ends this process with its parent, however that ends."""
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(_DEATH_SIGNAL, signal.SIGKILL)
    if os.getppid() != parent:
        sys.exit(1)


async def _run(link: socket.socket, ledger: Ledger, own: int) -> None:
    child = Child(ledger, own)
    loop = asyncio.get_running_loop()
    loop.add_signal_handler(signal.SIGTERM, child.stop)
    for number in (signal.SIGINT, signal.SIGHUP):
        loop.add_signal_handler(number, lambda: None)  # the parent's business
    await loop.create_unix_connection(lambda: child.link, sock=link)
    await child.run()


def main(arguments: list[str]) -> None:
    """Of the parent: its pid, the link, the ledger with its rows, our row; then the log's level."""
    parent, link, ledger, rows, own = map(int, arguments[:5])
    die_with(parent)
    log.to_stderr()
    logging.getLogger("draftgate").setLevel(arguments[5])
    prepare_process()
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(_run(socket.socket(fileno=link), Ledger(ledger, rows), own))


if __name__ == "__main__":
    main(sys.argv[1:])

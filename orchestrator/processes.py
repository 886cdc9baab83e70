"""Processes: several routers on one port, and the parent that starts, watches and ends them.

The parent moves no bytes. It checks health, follows the supervisor and the files, has the admin
port, and tells its children what they serve; they tell it what they have counted.
"""

import asyncio
import logging
import socket
from dataclasses import replace

import uvloop

from orchestrator.addition import added
from orchestrator.child_process import ChildProcess, within
from orchestrator.configuration import RouterConfig
from orchestrator.control import Control
from orchestrator.counts import Counts
from orchestrator.equipment import Equipment
from orchestrator.errors import InputError, OrchestratorError
from orchestrator.front import listening_socket
from orchestrator.generation import Generation
from orchestrator.ledger import COLUMNS, Ledger
from orchestrator.link import Begin, Down, Reopen, States
from orchestrator.reload import Watched
from orchestrator.share import Sharing
from orchestrator.start import on_signals, prepare_process

LOG = logging.getLogger("draftgate.router")

FIRST_DELAY_S, LONGEST_DELAY_S = 0.1, 10.0
SOUND_S = 30.0  # a process that lived so long is started again without delay
SILENT_S = 30  # without a word, though it speaks every second: it hangs
SWITCH_S = 10.0  # for a process to take up a generation
TELL_S = 1.0
EXTRA_S = 5.0  # beyond the grace, for a process to end


class Parent:
    """Of `count` children. `port` and `admin_port` are the real ones once it has started."""

    def __init__(self, config: RouterConfig, watched: Watched | None, count: int) -> None:
        self.port = config.listen[1]
        self._host = config.listen[0]
        self._ledger = Ledger.create(count)
        self._counts = self._dead = Counts()  # of all; of those that are no more
        quiet = replace(config, access_log=None, traces=None)  # who answers has these
        first = Generation.first(config, Equipment(quiet, asyncio.get_running_loop()))
        self.control = Control(first, watched, self._take, lambda: self._counts, self._refresh)
        self._children = [ChildProcess(row, self._ledger, self._down) for row in range(count)]
        self._number = 0
        self._sharing: Sharing | None = None
        self._stopping = asyncio.Event()
        self._problem = ""

    async def serve(self) -> None:
        """Serves until stopped, then until every child has ended.

        Raises OrchestratorError when an address cannot be listened on, or a child not be started.
        """
        config = self.control.current.config
        keeper, self.port = reserved(config.listen)
        with keeper:
            admin = listening_socket(config.admin) if config.admin else None
            async with asyncio.TaskGroup() as group, self.control.running(admin, group):
                self._attach(self.control.current)
                await self._run_children(group)
        if self._problem:
            raise OrchestratorError(self._problem)

    def stop(self) -> None:
        """Tells every child to end; told twice, they do not wait for running requests."""
        self.control.hold()
        self._stopping.set()
        for child in self._children:
            child.stop()

    def hang_up(self) -> None:
        """Goes on with the files that have the names now: the access log, and all that is read."""
        for child in self._children:
            child.send(Reopen())
        self.control.ask()

    async def _run_children(self, group: asyncio.TaskGroup) -> None:
        keeping = [group.create_task(self._keep(child)) for child in self._children]
        watching = group.create_task(self._watch())
        ended = group.create_task(self._end())
        try:
            await self._say_started()
            await asyncio.wait(keeping)
        finally:
            watching.cancel()
            ended.cancel()
            for child in self._children:
                child.kill()

    async def _say_started(self) -> None:
        """Where one of them cannot even start, all end."""
        if not all(await asyncio.gather(*(child.serves(0) for child in self._children))):
            told = next((child.problem for child in self._children if child.problem), "")
            self._problem = told or "a router process ended before it served; see above"
            self.stop()
            return
        config = self.control.current.config
        suffix = ", TLS" if config.tls else ""
        LOG.info("listening on %s:%d%s", config.listen[0], self.port, suffix)
        LOG.info("serving with %d processes", len(self._children))
        if config.admin:
            LOG.info("admin on %s:%d", config.admin[0], self.control.admin_port)

    async def _keep(self, child: ChildProcess) -> None:
        """Runs a child, and another one in its place when it ends before it shall."""
        loop, delay = asyncio.get_running_loop(), FIRST_DELAY_S
        while not self._stopping.is_set():
            started = loop.time()
            code = await child.run(self._begin())
            self._bury(child)
            if self._stopping.is_set():
                return
            lived = loop.time() - started
            delay = FIRST_DELAY_S if lived > SOUND_S else min(2 * delay, LONGEST_DELAY_S)
            text = "router process %d ended (%d); another one starts in %.1f s"
            LOG.error(text, child.row, code, delay)
            await within(delay, [self._stopping.wait()])

    async def _end(self) -> None:
        """Kills what has not ended long after it was told to."""
        await self._stopping.wait()
        timeouts = self.control.current.config.timeouts
        await asyncio.sleep(timeouts.drain_s + timeouts.grace_s + EXTRA_S)
        for child in self._children:
            child.kill()

    async def _watch(self) -> None:
        """Kills a child that says nothing any more; another one is started then."""
        while True:
            await asyncio.sleep(1)
            for child in self._children:
                child.silent_s += 1
                if child.is_alive and child.silent_s > SILENT_S:
                    LOG.error("router process %d hangs", child.row)
                    child.kill()

    def _begin(self) -> Begin:
        """What a child serves: the current generation, on the port that is really ours."""
        generation = self.control.current
        config = replace(
            generation.config,
            listen=(self._host, self.port),
            admin=None,
            worker_states=None,
            release=None,
        )
        return Begin(self._number, config, generation.standing.states)

    async def _take(self, generation: Generation) -> None:
        """Every child takes up the generation, or is started again with it."""
        self._number += 1
        self._ledger.clear_page(self._number)
        self._attach(generation)
        begin = self._begin()
        for child in self._children:
            child.send(begin)
        await within(SWITCH_S, [child.serves(self._number) for child in self._children])
        for child in self._children:
            if child.is_alive and not child.has(self._number):
                child.kill()

    def _attach(self, generation: Generation) -> None:
        page = self._ledger.page(self._number)
        callers = generation.dispatch.callers
        self._sharing = Sharing(generation.standing.pools, page, callers)
        generation.standing.on_change = self._changed

    def _changed(self, name: str, state: str) -> None:
        for child in self._children:
            child.send(States(self._number, {name: state}))

    def _down(self, down: Down) -> None:
        if down.number == self._number:
            self.control.current.standing.mark_down(down.name, down.why)

    def _bury(self, child: ChildProcess) -> None:
        """Its requests are gone, its counts are not."""
        self._ledger.clear_row(child.row)
        self._dead, child.counts = added(self._dead, child.counts), Counts()

    async def _refresh(self) -> None:
        """Brings counts and loads up to date, for the admin port."""
        await within(TELL_S, [child.tell() for child in self._children])
        total = self._dead
        for child in self._children:
            total = added(total, child.counts)
        self._counts = total
        self.control.current.dispatch.tally = total.tally
        if self._sharing is not None:
            self._sharing.refresh()


def checked(config: RouterConfig) -> RouterConfig:
    """The same. Raises InputError when it has more numbers than processes can share."""
    hops = sum(len(route) for route in config.routes.values())
    most = 3 * len(config.upstreams) + hops * len(config.models)  # workers, pools, crossovers
    if most > COLUMNS:
        message = f"{len(config.upstreams):,} workers are more than several processes can share"
        raise InputError(f"{message}; use --workers 1")
    return config


def reserved(address: tuple[str, int]) -> tuple[socket.socket, int]:
    """A socket that keeps a port for our processes, and the port. Raises OrchestratorError.

    Another router on the port is found out first: a shared port would let both have it.
    """
    with listening_socket(address) as alone:
        family, port = alone.family, alone.getsockname()[1]
    keeper = socket.socket(family)
    keeper.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    keeper.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    keeper.bind((address[0], port))
    return keeper, port


async def _serve_until_signal(config: RouterConfig, watched: Watched, count: int) -> None:
    parent = Parent(config, watched, count)
    on_signals(parent.stop, parent.hang_up)
    await parent.serve()


def run_processes(config: RouterConfig, watched: Watched, count: int) -> None:
    """Runs a router of several processes until SIGTERM or SIGINT; a second one ends it at once."""
    prepare_process()
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(_serve_until_signal(config, watched, count))

"""Control: what stands beside the data plane: health, the supervisor, reloading, the admin port."""

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping

from orchestrator.admin import AdminServer, View, admin_app
from orchestrator.configuration import RouterConfig, needs_restart
from orchestrator.counts import Counts
from orchestrator.generation import Generation
from orchestrator.health import Health
from orchestrator.reload import Reload, Watched

# Told of a new generation, in the moment in which it takes over.
Take = Callable[[Generation], Awaitable[None]]


class Control:
    """Keeps one generation current. `admin_port` is the real port while it runs."""

    def __init__(
        self,
        first: Generation,
        watched: Watched | None,
        take: Take,
        counts: Callable[[], Counts] | None = None,
        refresh: Callable[[], Awaitable[None]] | None = None,
    ) -> None:
        self.current = first
        self.admin_port = first.config.admin[1] if first.config.admin else None
        self._started_with = first.config
        self._group: asyncio.TaskGroup | None = None
        self._take = take
        self._health = Health(first.standing, first.network, first.config.timeouts)
        every_s = first.config.timeouts.files_every_s
        self._reload = Reload(watched, self.apply, every_s) if watched else None
        self._following: asyncio.Task[None] | None = None
        self._view = View(
            lambda: self.current.dispatch,
            counts or self._counts,
            lambda: self.current.config.release,
            self._reload,
            refresh,
        )

    @contextlib.asynccontextmanager
    async def running(
        self, admin: socket.socket | None, group: asyncio.TaskGroup
    ) -> AsyncIterator[None]:
        """The first health check is over when this is entered."""
        self._group = group
        if (states := self._states()) is not None:
            self._health.supervise(states)
        await self._health.check_all()
        self._health.start(group)
        supervisor = group.create_task(self._health.follow(self._states))
        if self._reload is not None:
            self._following = group.create_task(self._reload.run())
        async with self._admin(admin, group):
            try:
                yield
            finally:
                self.hold()
                supervisor.cancel()
                self._health.stop()

    def ask(self) -> None:
        """Reads the files at once; those of the certificate in any case."""
        if self._reload is not None:
            self._reload.ask()
        else:
            self.current.equipment.renew(self.current.config)

    def hold(self) -> None:
        """Reads no files any more: what runs, ends under what it has."""
        if self._following is not None:
            self._following.cancel()

    async def apply(self, config: RouterConfig) -> tuple[str, ...]:
        """Puts a configuration to use; returns what it could not change.

        Until new workers are checked, everything is as it was.
        """
        before, group = self.current, self._group
        new = before.next(config)
        first = Health(new.standing, new.network, config.timeouts)
        await first.check_all(new.newcomers(before))
        new.take_over(before)
        self.current = new
        self._health.turn(new.standing, new.network, config.timeouts)
        if (states := self._states()) is not None:
            self._health.supervise(states)
        if group is not None:
            self._health.start(group)
        await self._take(new)
        return needs_restart(self._started_with, config)

    def _counts(self) -> Counts:
        equipment = self.current.equipment
        return Counts(self.current.tally, equipment.lost_lines(), equipment.spans())

    def _states(self) -> Mapping[str, str] | None:
        read = self.current.config.worker_states
        return None if read is None else read()

    @contextlib.asynccontextmanager
    async def _admin(
        self, listener: socket.socket | None, group: asyncio.TaskGroup
    ) -> AsyncIterator[None]:
        if listener is None:
            yield
            return
        self.admin_port = listener.getsockname()[1]
        tls = self.current.equipment.tls if self._started_with.admin_tls else None
        server = AdminServer(admin_app(self._view), tls)
        task = group.create_task(server.serve(sockets=[listener]))
        try:
            yield
        finally:
            server.should_exit = True
            await task

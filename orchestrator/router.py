"""Router: puts the data plane together and runs it until it is told to stop."""

import asyncio
import logging

import uvloop

from orchestrator.configuration import RouterConfig
from orchestrator.control import Control
from orchestrator.dispatch import Dispatch
from orchestrator.equipment import Equipment
from orchestrator.front import Front, listening_socket
from orchestrator.generation import Generation
from orchestrator.reload import Watched
from orchestrator.start import on_signals, prepare_process

LOG = logging.getLogger("draftgate.router")

__all__ = ("Router", "RouterConfig", "run_router")


class Router:
    """One router in one process. `port` and `admin_port` are the real ones once it has started.

    With `watched`, it follows the files that its configuration was read from.
    """

    def __init__(self, config: RouterConfig, watched: Watched | None = None) -> None:
        self.started = asyncio.Event()
        self.port = config.listen[1]
        self._equipment = Equipment(config, asyncio.get_running_loop())
        self._control = Control(Generation.first(config, self._equipment), watched, self._take)
        self._front: Front | None = None
        self._stops = 0

    @property
    def dispatch(self) -> Dispatch:
        return self._control.current.dispatch

    @property
    def admin_port(self) -> int | None:
        return self._control.admin_port

    async def serve(self) -> None:
        """Serves until cancelled or stopped, then lets running requests finish for a grace.

        Raises OrchestratorError when an address cannot be listened on; nothing was started then.
        """
        try:
            await self._serve()
        finally:  # in a thread: who the last spans are sent to may share our loop
            await asyncio.to_thread(self._equipment.close)

    def stop(self) -> None:
        """Asks `serve` to end; asked twice, it does not wait for running requests."""
        self._stops += 1
        self._control.hold()
        if self._front is not None:
            self._front.stop()

    def hang_up(self) -> None:
        """Goes on with the files that have the names now: the access log, and all that is read."""
        self._equipment.reopen()
        self._control.ask()

    async def _serve(self) -> None:
        config = self._control.current.config
        listener = listening_socket(config.listen)
        self.port = listener.getsockname()[1]
        admin = listening_socket(config.admin) if config.admin else None
        async with asyncio.TaskGroup() as group:
            front = self._front = Front(self._control.current, group)
            async with self._control.running(admin, group):
                server = await front.listen(listener)
                self.started.set()
                suffix = ", TLS" if config.tls else ""
                LOG.info("listening on %s:%d%s", config.listen[0], self.port, suffix)
                if config.admin:
                    LOG.info("admin on %s:%d", config.admin[0], self.admin_port)
                for _ in range(self._stops):
                    front.stop()
                await front.serve(server)

    async def _take(self, generation: Generation) -> None:
        if self._front is not None:
            self._front.take(generation)


async def _serve_until_signal(config: RouterConfig, watched: Watched | None) -> None:
    router = Router(config, watched)
    on_signals(router.stop, router.hang_up)
    await router.serve()


def run_router(config: RouterConfig, watched: Watched | None = None) -> None:
    """Runs a router in this process until SIGTERM or SIGINT; a second signal ends it at once."""
    prepare_process()
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(_serve_until_signal(config, watched))

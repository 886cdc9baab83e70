"""Router: puts the data plane together and runs it until it is told to stop."""

import asyncio
import contextlib
import gc
import logging
import os
import resource
import signal
import socket
import sys
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass, field

import uvloop

from orchestrator.access_log import AccessLog, open_lines
from orchestrator.admin import AdminServer, admin_app
from orchestrator.answer import AnswerHeads
from orchestrator.classify import Classifier
from orchestrator.client import ClientConnection
from orchestrator.cors import Cors
from orchestrator.dispatch import Dispatch
from orchestrator.errors import InputError, OrchestratorError
from orchestrator.fleet import Hop
from orchestrator.health import Health
from orchestrator.pool import Pools, Upstream
from orchestrator.release import Release
from orchestrator.service import Service, Timeouts
from orchestrator.standing import Standing
from orchestrator.tls import Tls, context_of, engine_trust, renew
from orchestrator.trace import Traces, tracer_of
from orchestrator.turn import Turn
from orchestrator.type_rule import TypeRule
from orchestrator.upstream import Connections

LOG = logging.getLogger("draftgate.router")

_BACKLOG = 2048


@dataclass(frozen=True)
class RouterConfig:
    """What the router is built from. `body_limit` is in bytes; port 0 takes a free port.

    `worker_states` gives the supervisor's states by worker name; a worker in another state than
    "ready" gets nothing new. Workers that it does not name are judged by their health alone.
    `release` answers the admin port's release hooks. `names` are other names of models.
    `access_log` is a path, "-" (standard error) or None.
    """

    upstreams: tuple[Upstream, ...]
    rules: tuple[TypeRule, ...]
    routes: Mapping[str, tuple[Hop, ...]]
    models: tuple[str, ...]
    listen: tuple[str, int]
    admin: tuple[str, int] | None
    type_header: bool
    body_limit: int
    worker_states: Callable[[], Mapping[str, str]] | None
    timeouts: Timeouts = field(default_factory=Timeouts)
    release: Release | None = None
    names: Mapping[str, str] = field(default_factory=dict)
    access_log: str | None = None
    log_prompts: bool = False
    cors: Cors | None = None
    tls: Tls | None = None
    admin_tls: bool = False
    traces: Traces | None = None


class Router:
    """One router. `port` and `admin_port` are the real ports once `started` is set."""

    def __init__(self, config: RouterConfig) -> None:
        self.started = asyncio.Event()
        self.port = config.listen[1]
        self.admin_port = config.admin[1] if config.admin else None
        self._tls = context_of(config.tls) if config.tls else None
        self._lines = open_lines(config.access_log, config.log_prompts)
        standing = Standing(Pools(config.upstreams, config.models, config.names))
        self.dispatch = Dispatch(
            Classifier(config.rules),
            config.routes,
            standing,
            config.type_header,
            access=AccessLog(self._lines, config.log_prompts) if self._lines else None,
            cors=config.cors,
            tracer=tracer_of(config.traces),
        )
        self._config = config
        self._stop = asyncio.Event()
        self._hurry = asyncio.Event()

    async def serve(self) -> None:
        """Serves until cancelled or stopped, then lets running requests finish for a grace.

        Raises OrchestratorError when an address cannot be listened on; nothing was started then.
        """
        try:
            await self._serve()
        finally:
            if self._lines is not None:
                self._lines.close()
            if self.dispatch.tracer is not None:
                self.dispatch.tracer.close()

    def stop(self) -> None:
        """Asks `serve` to end; asked twice, it does not wait for running requests."""
        if self._stop.is_set():
            self._hurry.set()
        self._stop.set()

    def hang_up(self) -> None:
        """Goes on with the files that have the names now: the access log's, the certificate's."""
        if self._lines is not None:
            self._lines.reopen()
        if self._config.tls is not None:
            try:
                self.renew_certificate(self._config.tls)
            except InputError as error:
                LOG.error("the certificate stays as it was: %s", error)

    async def _serve(self) -> None:
        listener = listening_socket(self._config.listen)
        self.port = listener.getsockname()[1]
        admin = listening_socket(self._config.admin) if self._config.admin else None
        async with asyncio.TaskGroup() as group:
            service = self._service(group)
            async with self._background(service, group), self._admin(admin, group):
                server = await self._listen(service, listener)
                self.started.set()
                suffix = ", TLS" if self._tls else ""
                LOG.info("listening on %s:%d%s", self._config.listen[0], self.port, suffix)
                if self._config.admin:
                    LOG.info("admin on %s:%d", self._config.admin[0], self.admin_port)
                try:
                    await self._stop.wait()
                finally:
                    server.close()
                    await self._drain(service)

    def renew_certificate(self, tls: Tls) -> None:
        """New connections see what the files hold now. Raises InputError; then nothing changes."""
        if self._tls is not None:
            renew(self._tls, tls)

    async def _listen(self, service: Service, listener: socket.socket) -> asyncio.Server:
        def connect() -> ClientConnection:
            return ClientConnection(service)

        if self._tls is None:
            return await service.loop.create_server(connect, sock=listener)
        timeouts = service.timeouts
        return await service.loop.create_server(
            connect,
            sock=listener,
            ssl=self._tls,
            ssl_handshake_timeout=timeouts.handshake_s,
            ssl_shutdown_timeout=timeouts.keep_alive_s,
        )

    def _service(self, group: asyncio.TaskGroup) -> Service:
        loop = asyncio.get_running_loop()
        turn, heads = Turn(loop), AnswerHeads(self._config.cors is not None)
        upstreams = self._config.upstreams
        trust = engine_trust() if any(u.is_secure for u in upstreams) else None
        network = {
            u.name: Connections(u.host, u.port, turn, heads, trust if u.is_secure else None)
            for u in upstreams
        }
        return Service(
            dispatch=self.dispatch,
            network=network,
            timeouts=self._config.timeouts,
            body_limit=self._config.body_limit,
            group=group,
            loop=loop,
            turn=turn,
            request_prefix=b"dg-" + os.urandom(6).hex().encode(),
        )

    @contextlib.asynccontextmanager
    async def _background(self, service: Service, group: asyncio.TaskGroup) -> AsyncIterator[None]:
        """Health, housekeeping and admin; the first health check is over when this is entered."""
        standing = self.dispatch.standing
        health = Health(standing, service.network, service.timeouts)
        states = self._config.worker_states
        if states is not None:
            health.supervise(states())
        await health.check_all()
        tasks = [group.create_task(health.watch(u)) for u in standing.upstreams.values()]
        tasks.append(group.create_task(_sweep(service)))
        if states is not None:
            tasks.append(group.create_task(health.follow(states)))
        try:
            yield
        finally:
            for task in tasks:
                task.cancel()

    @contextlib.asynccontextmanager
    async def _admin(
        self, listener: socket.socket | None, group: asyncio.TaskGroup
    ) -> AsyncIterator[None]:
        if listener is None:
            yield
            return
        self.admin_port = listener.getsockname()[1]
        tls = self._tls if self._config.admin_tls else None
        server = AdminServer(admin_app(self.dispatch, self._config.release), tls)
        task = group.create_task(server.serve(sockets=[listener]))
        try:
            yield
        finally:
            server.should_exit = True
            await task

    async def _drain(self, service: Service) -> None:
        """Running requests may finish; then every connection is closed."""
        service.is_stopping = True
        for client in tuple(service.clients):
            client.drain()
        emptied = service.group.create_task(service.emptied())
        hurry = service.group.create_task(_wait(self._hurry))
        await asyncio.wait(
            (emptied, hurry),
            timeout=service.timeouts.grace_s,
            return_when=asyncio.FIRST_COMPLETED,
        )
        hurry.cancel()
        for client in tuple(service.clients):
            client.abort()
        await emptied
        for connections in service.network.values():
            connections.close()


def listening_socket(address: tuple[str, int]) -> socket.socket:
    """A socket that listens, before anything else is started. Raises OrchestratorError."""
    host, port = address
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server(address, family=family, backlog=_BACKLOG)
    except OSError as error:
        reason, hint = error.strerror or error, "see router: in the fleet, or --listen and --admin"
        raise OrchestratorError(f"cannot listen on {host}:{port}: {reason}; {hint}") from error


def raise_file_limit() -> None:
    """As many connections as the system lets this process have: the soft limit is often 1,024."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
        LOG.info("open files: %d, raised from %d", hard, soft)


async def _wait(event: asyncio.Event) -> None:
    await event.wait()


async def _sweep(service: Service) -> None:
    """Ends what has waited too long, for ever. One timer for all connections costs the least."""
    while True:
        await asyncio.sleep(service.timeouts.sweep_s)
        now = service.loop.time()
        for client in tuple(service.clients):
            client.sweep(now)


async def _serve_until_signal(config: RouterConfig) -> None:
    router = Router(config)
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, router.stop)
    loop.add_signal_handler(signal.SIGHUP, router.hang_up)
    await router.serve()


def run_router(config: RouterConfig) -> None:
    """Runs a router in this process until SIGTERM or SIGINT; a second signal ends it at once."""
    logger = logging.getLogger("draftgate")
    if not logger.hasHandlers():
        logger.addHandler(logging.StreamHandler(sys.stderr))
        logger.setLevel(logging.INFO)
    raise_file_limit()
    # What was made until here lives as long as the router: the collector need not look at it again.
    gc.collect()
    gc.freeze()
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(_serve_until_signal(config))

"""Front: where one process meets its clients: a listener, their connections, and how these end."""

import asyncio
import contextlib
import gc
import os
import socket

from orchestrator.client import ClientConnection
from orchestrator.errors import OrchestratorError
from orchestrator.generation import Generation
from orchestrator.keys import engine_key
from orchestrator.service import Service

_BACKLOG = 2048


class Front:
    """Serves what a generation says, from `serve` on until it is stopped."""

    def __init__(self, generation: Generation, group: asyncio.TaskGroup) -> None:
        self.service = Service(
            dispatch=generation.dispatch,
            network=generation.network,
            timeouts=generation.config.timeouts,
            body_limit=generation.config.body_limit,
            group=group,
            loop=generation.equipment.turn.loop,
            turn=generation.equipment.turn,
            request_prefix=b"dg-" + os.urandom(6).hex().encode(),
        )
        self._tls = generation.equipment.tls
        self._fit(generation)
        self._stop = asyncio.Event()
        self._hurry = asyncio.Event()

    def take(self, generation: Generation) -> None:
        """Requests that begin from now on meet another generation."""
        service, config = self.service, generation.config
        service.dispatch, service.network = generation.dispatch, generation.network
        service.timeouts, service.body_limit = config.timeouts, config.body_limit
        self._fit(generation)
        self.wake()
        # A generation refers to itself. What was frozen at the start is not looked at.
        gc.collect()

    def _fit(self, generation: Generation) -> None:
        """What waits stays, also where there is less room now."""
        service, queue = self.service, generation.config.queue
        service.room.most = 0 if queue is None else queue.size
        service.room.most_bytes = 0 if queue is None else queue.bodies_mb * 2**20
        key = None if generation.config.keys is None else engine_key()
        service.credential = b"" if key is None else b"authorization: Bearer %b\r\n" % key.encode()

    def wake(self) -> None:
        """Workers may be free, by what other processes did."""
        if self.service.room.count:
            self.service.room.wake()

    def stop(self) -> None:
        """Asks `serve` to end; asked twice, it does not wait for running requests."""
        if self._stop.is_set():
            self._hurry.set()
        self._stop.set()

    async def listen(self, listener: socket.socket) -> asyncio.Server:
        """Accepts clients from now on."""
        service = self.service

        def connect() -> ClientConnection:
            return ClientConnection(service)

        if self._tls is None:
            return await service.loop.create_server(connect, sock=listener)
        return await service.loop.create_server(
            connect,
            sock=listener,
            ssl=self._tls,
            ssl_handshake_timeout=service.timeouts.handshake_s,
            ssl_shutdown_timeout=service.timeouts.keep_alive_s,
        )

    async def serve(self, server: asyncio.Server) -> None:
        """Serves until cancelled or stopped; then running requests may finish."""
        sweeping = self.service.group.create_task(self._sweep())
        try:
            await self._stop.wait()
            await self._say_goodbye()
        finally:
            server.close()
            await self._drain()
            sweeping.cancel()

    async def _say_goodbye(self) -> None:
        """A load balancer learns that nothing new shall come, while everything is still served."""
        self.service.is_stopping = True
        self.service.dispatch.is_draining = True
        if self.service.timeouts.drain_s > 0:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(self.service.timeouts.drain_s):
                    await self._hurry.wait()

    async def _drain(self) -> None:
        """Running requests get a grace; then every connection is closed."""
        service = self.service
        service.is_stopping = service.is_refusing = True
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

    async def _sweep(self) -> None:
        """Ends what has waited too long. One timer for all connections costs the least."""
        service = self.service
        while True:
            await asyncio.sleep(service.timeouts.sweep_s)
            now = service.loop.time()
            for client in tuple(service.clients):
                client.sweep(now)
            self.wake()  # workers may have come


def listening_socket(address: tuple[str, int], is_shared: bool = False) -> socket.socket:
    """A socket that listens, before anything else is started. Raises OrchestratorError.

    A shared one leaves room for other processes on the same port.
    """
    host, port = address
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server(address, family=family, backlog=_BACKLOG, reuse_port=is_shared)
    except OSError as error:
        reason, hint = error.strerror or error, "see router: in the fleet, or --listen and --admin"
        raise OrchestratorError(f"cannot listen on {host}:{port}: {reason}; {hint}") from error


async def _wait(event: asyncio.Event) -> None:
    await event.wait()

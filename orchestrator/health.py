"""Health: asks every worker whether it is well, and keeps their standing current."""

import asyncio
import logging
from collections.abc import Callable, Iterable, Mapping

from orchestrator.answer import AnswerHead
from orchestrator.pool import Upstream
from orchestrator.service import Timeouts
from orchestrator.standing import Standing
from orchestrator.upstream import Connections, Failure, Receiver

LOG = logging.getLogger("draftgate.router")

MOST_CHECKS_PER_S = 250
# In a fleet too large for a check of each every time, a worker that has answered a request since is
# passed over so many times in a row.
MOST_PASSES = 4
_MOST_AT_ONCE = 256  # of the first checks


class Check(Receiver):
    """Waits for one answer to a health request."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.status: asyncio.Future[int] = loop.create_future()

    def head_received(self, head: AnswerHead, data: bytes) -> None:
        if not self.status.done():
            self.status.set_result(head.status)

    def data_received(self, data: bytes) -> None:
        pass

    def completed(self) -> None:
        pass

    def failed(self, failure: Failure) -> None:
        if not self.status.done():
            self.status.set_exception(ConnectionError(failure.message))


async def ask(connections: Connections, path: str, timeout_s: float) -> int:
    """The status of a GET on a connection of its own. Raises OSError, TimeoutError included."""
    request = b"GET %b HTTP/1.1\r\nhost: %b\r\nconnection: close\r\n\r\n"
    check = Check(connections.loop)
    async with asyncio.timeout(timeout_s):
        connection = await connections.connect(timeout_s)
        try:
            head = request % (path.encode(), connections.host_header)
            connection.send(check, head, is_last=True)
            return await check.status
        finally:
            connection.abort()


class Health:
    """The checks of all workers; one task a worker once it watches."""

    def __init__(
        self, standing: Standing, network: Mapping[str, Connections], timeouts: Timeouts
    ) -> None:
        self._standing = standing
        self._network = network
        self._timeouts = timeouts
        self._wake = {name: asyncio.Event() for name in standing.upstreams}
        self._tasks: dict[str, asyncio.Task[None]] = {}

    async def check(self, upstream: Upstream) -> None:
        """One check; its result is in the standing afterwards."""
        name = upstream.name
        before = self._standing.state(name)
        wait_s = self._timeouts.health_s * self._standing.patience(name)
        try:
            status = await ask(self._network[name], upstream.health, wait_s)
        except TimeoutError:
            self._standing.mark_slow(name)
        except OSError:
            self._standing.mark_down(name, "unreachable")
            self._network[name].close_idle()
        else:
            if status == 200:
                self._standing.mark_up(name)
            else:
                self._standing.mark_down(name, f"unhealthy ({upstream.health}: {status})")
        after = self._standing.state(name)
        if after != before:
            LOG.info("worker %s is %s", name, after)

    def start(self, group: asyncio.TaskGroup) -> None:
        """Watches every worker that is not watched yet."""
        new = [name for name in self._standing.upstreams if name not in self._tasks]
        for index, name in enumerate(new):
            first_s = self._every_s() * (index + 1) / len(new)  # not all at the same moment
            self._tasks[name] = group.create_task(self._watch(name, first_s))

    def stop(self) -> None:
        for task in self._tasks.values():
            task.cancel()
        self._tasks.clear()

    def turn(
        self, standing: Standing, network: Mapping[str, Connections], timeouts: Timeouts
    ) -> None:
        """Concerns other workers from now on; `start` watches those that are new."""
        for name in tuple(self._wake):
            if network.get(name) is not self._network[name]:  # gone, or elsewhere
                del self._wake[name]
                if name in self._tasks:
                    self._tasks.pop(name).cancel()
        for name in standing.upstreams:
            self._wake.setdefault(name, asyncio.Event())
        self._standing, self._network, self._timeouts = standing, network, timeouts

    async def _watch(self, name: str, wait_s: float) -> None:
        """Checks one worker for ever, and at once when it is called ready."""
        wake, passes = self._wake[name], 0
        while True:
            try:
                async with asyncio.timeout(wait_s):
                    await wake.wait()
            except TimeoutError:
                pass
            wait_s = self._every_s()
            is_large = wait_s > self._timeouts.health_every_s
            passes = passes + 1 if is_large and self._may_pass(name, passes) else 0
            wake.clear()
            if passes == 0:
                await self.check(self._standing.upstreams[name])

    def _may_pass(self, name: str, passes: int) -> bool:
        has_answered = self._standing.has_answered(name)
        return has_answered and passes < MOST_PASSES and not self._wake[name].is_set()

    def _every_s(self) -> float:
        """Checks of thousands of workers would be most of what a router does."""
        return max(self._timeouts.health_every_s, len(self._wake) / MOST_CHECKS_PER_S)

    async def follow(self, states: Callable[[], Mapping[str, str] | None]) -> None:
        """Follows the supervisor's states, where there are any, for ever."""
        while True:
            await asyncio.sleep(self._timeouts.states_every_s)
            found = states()
            if found is not None:
                self.supervise(found)

    def supervise(self, states: Mapping[str, str]) -> None:
        """Takes the supervisor's states once; workers newly ready are checked at once."""
        for name in self._standing.supervise(states):
            self._wake[name].set()

    async def check_all(self, names: Iterable[str] | None = None) -> None:
        """The first check of these workers, side by side; of all, where none are named."""
        free = asyncio.Semaphore(_MOST_AT_ONCE)

        async def first(name: str) -> None:
            async with free:
                await self.check(self._standing.upstreams[name])

        async with asyncio.TaskGroup() as group:
            for name in self._standing.upstreams if names is None else names:
                group.create_task(first(name))

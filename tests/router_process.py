"""The router as a process of its own, started by `draftgate serve` on a fleet file in a folder."""

import asyncio
import json
import os
import re
import signal
import sys
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.router_harness import CHAT, FakeEngine, ask, call, wire

ROOT = Path(__file__).parents[1]
_LISTENING = re.compile(r"listening on [^ ]+:(\d+)")
_ADMIN = re.compile(r"admin on [^ ]+:(\d+)")


def fleet_text(workers: Iterable[tuple[str, str, FakeEngine]], **more: Any) -> str:
    """A fleet of fake engines, as JSON, which is YAML too; `more` adds to it or replaces."""
    entries = [
        {"name": name, "engine": "vllm", "model": "small", "profile": profile}
        | {"url": f"http://127.0.0.1:{fake.port}"}
        for name, profile, fake in workers
    ]
    profiles = {entry["profile"] for entry in entries}
    router = {"listen": "127.0.0.1:0", "admin": "127.0.0.1:0"} | more.pop("router", {})
    whole = {
        "fleet": "test",
        "models": {"small": {"target": "org/small"}},
        "engines": {"vllm": {"version": "0.32.0"}},
        "workers": entries,
        "types": [{"type": "chat"}],
        "routes": {"chat": [p for p in ("code-edit", "plain") if p in profiles]},
        "gate": {"required": False},
        "router": router,
    }
    return json.dumps(whole | more)


@dataclass
class Served:
    """A router that runs, and what it has said."""

    process: asyncio.subprocess.Process
    lines: list[str] = field(default_factory=list)
    port: int = 0
    admin_port: int = 0
    has_ended: bool = False

    def signal(self, number: signal.Signals) -> None:
        self.process.send_signal(number)

    async def status(self) -> Any:
        return (await call(self.admin_port, "/status")).json()

    async def reloads(self) -> dict[str, int]:
        found = await self.metrics()
        return {o: int(found.get(f'draftgate_reloads_total{{outcome="{o}"}}', 0)) for o in OUTCOMES}

    async def metrics(self) -> dict[str, float]:
        text = (await call(self.admin_port, "/metrics")).raw.decode()
        pairs = (line.rsplit(" ", 1) for line in text.splitlines() if not line.startswith("#"))
        return {name: float(value) for name, value in pairs}

    async def reloaded(self, outcome: str, times: int = 1) -> Any:
        """The status, once so many reloads have ended so."""
        while (await self.reloads())[outcome] < times:  # noqa: ASYNC110  another process's
            await asyncio.sleep(0.02)
        return await self.status()

    async def said(self, text: str) -> str:
        """The line with this text, once it is there."""
        while True:
            for line in self.lines:
                if text in line:
                    return line
            assert not self.has_ended, self.lines
            await asyncio.sleep(0.01)


OUTCOMES = ("applied", "refused")


@asynccontextmanager
async def served(fleet: Path, *options: str) -> AsyncIterator[Served]:
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "orchestrator.cli", "serve", str(fleet), *options),
        cwd=ROOT,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.PIPE,
        start_new_session=True,
    )
    found = Served(process)
    async with asyncio.TaskGroup() as group:
        reading = group.create_task(_read(found))
        try:
            async with asyncio.timeout(20):
                found.port = _port(_LISTENING, await found.said("listening on"))
                found.admin_port = _port(_ADMIN, await found.said("admin on"))
            yield found
        finally:
            if process.returncode is None:
                process.kill()
            await process.wait()
            await reading


async def _read(found: Served) -> None:
    assert found.process.stderr is not None
    async for line in found.process.stderr:
        found.lines.append(line.decode().rstrip())
    found.has_ended = True


def _port(pattern: re.Pattern[str], line: str) -> int:
    match = pattern.search(line)
    assert match is not None
    return int(match[1])


async def eventually(is_so: Callable[[], Awaitable[bool]]) -> None:
    """Waits for another process's state."""
    while not await is_so():  # noqa: ASYNC110  there is no event to wait on
        await asyncio.sleep(0.02)


class Load:
    """Clients that ask without a pause; `ends` counts what became of their requests."""

    def __init__(self, port: int) -> None:
        self.ends: Counter[str] = Counter()
        self.workers: Counter[str] = Counter()
        self.over = asyncio.Event()
        self._port = port

    def stop(self) -> None:
        self.over.set()

    @asynccontextmanager
    async def running(self, clients: int = 8) -> AsyncIterator["Load"]:
        async with asyncio.TaskGroup() as group:
            for number in range(clients):
                group.create_task(self._ask(is_stream=number % 2 == 0))
            try:
                yield self
            finally:
                self.stop()

    async def _ask(self, is_stream: bool) -> None:
        while not self.over.is_set():
            try:
                async with wire(self._port) as client:
                    while not self.over.is_set():
                        client.post(CHAT, ask(stream=is_stream))
                        reply = await client.reply()
                        wrong = f"{reply.status} {reply.raw!r}" if reply.is_whole else "cut"
                        is_right = reply.status == 200 and reply.is_whole
                        self.ends["right" if is_right else wrong] += 1
                        self.workers[reply.headers.get("x-draftgate-worker", "-")] += 1
            except (OSError, asyncio.IncompleteReadError) as error:
                self.ends[type(error).__name__] += 1
                await asyncio.sleep(0.01)

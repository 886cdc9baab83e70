"""A router in this process before fake engines, and HTTP by hand: what matters is the bytes."""

import asyncio
import json
import sys
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import uvloop

from orchestrator.fleet import Hop
from orchestrator.pool import Upstream
from orchestrator.router import Router, RouterConfig
from orchestrator.service import Timeouts
from orchestrator.type_rule import TypeRule, When

FAKE_ENGINE = Path(__file__).parent / "fake_engine.py"
CHAT = "/v1/chat/completions"
QUICK = Timeouts(
    connect_s=1, sweep_s=0.05, health_every_s=0.1, health_s=0.5, states_every_s=0.02, linger_s=1
)
# For tests in which nothing but the request itself may find out that a worker is gone.
NO_CHECKS = replace(QUICK, health_every_s=60)


def run(scenario: Callable[[], Coroutine[Any, Any, None]], limit_s: float = 20) -> None:
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(asyncio.wait_for(scenario(), limit_s))


# HTTP, by hand: what matters here is the bytes.


@dataclass
class Reply:
    status: int
    headers: dict[str, str]
    raw: bytes  # the body as it was on the wire
    is_whole: bool = True

    def json(self) -> Any:
        return json.loads(self.raw)

    @property
    def reason(self) -> str:
        return self.headers["x-draftgate-reason"]

    @property
    def worker(self) -> str:
        return self.headers["x-draftgate-worker"]


class Wire:
    """One client connection."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer

    def post(self, path: str, data: Mapping[str, Any] | bytes, **headers: str) -> None:
        body = data if isinstance(data, bytes) else json.dumps(data).encode()
        lines = [f"{name.replace('_', '-')}: {value}\r\n" for name, value in headers.items()]
        head = f"POST {path} HTTP/1.1\r\nhost: x\r\ncontent-length: {len(body)}\r\n"
        self.send((head + "".join(lines) + "\r\n").encode() + body)

    def send(self, data: bytes) -> None:
        self.writer.write(data)

    async def head(self) -> Reply:
        text = (await self.reader.readuntil(b"\r\n\r\n")).decode()
        first, *lines = text[:-4].split("\r\n")
        pairs = (line.partition(": ") for line in lines)
        headers = {name.lower(): value for name, _, value in pairs}
        return Reply(int(first.split()[1]), headers, b"")

    async def reply(self, has_body: bool = True) -> Reply:
        found = await self.head()
        if not has_body:
            return found
        try:
            found.raw = await self._body(found.headers)
        except asyncio.IncompleteReadError as error:
            found.raw, found.is_whole = error.partial, False
        return found

    async def _body(self, headers: Mapping[str, str]) -> bytes:
        if "content-length" in headers:
            return await self.reader.readexactly(int(headers["content-length"]))
        if "transfer-encoding" not in headers:
            return await self.reader.read()
        return await self._until(b"\r\n0\r\n\r\n")

    async def _until(self, end: bytes) -> bytes:
        got = bytearray()
        while not got.endswith(end):
            data = await self.reader.read(65536)
            if not data:
                raise asyncio.IncompleteReadError(bytes(got), None)
            got += data
        return bytes(got)

    async def event(self) -> bytes:
        """One event of a stream, with its chunk framing."""
        size = await self.reader.readline()
        return size + await self.reader.readexactly(int(size, 16) + 2)


@asynccontextmanager
async def wire(port: int) -> AsyncIterator[Wire]:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        yield Wire(reader, writer)
    finally:
        writer.close()


async def call(port: int, path: str, data: Any = None, **headers: str) -> Reply:
    """One request on a connection of its own; a GET without data."""
    async with wire(port) as client:
        if data is None:
            client.send(f"GET {path} HTTP/1.1\r\nhost: x\r\n\r\n".encode())
        else:
            client.post(path, data, **headers)
        return await client.reply()


# Engines and routers.


@dataclass
class FakeEngine:
    process: asyncio.subprocess.Process
    port: int

    async def log(self, **wanted: int) -> Any:
        """What it saw, once it has seen that much."""
        query = "&".join(f"{name}={count}" for name, count in wanted.items())
        return (await call(self.port, f"/log?{query}")).json()

    async def control(self, **values: Any) -> None:
        await call(self.port, "/control", values)

    async def kill(self) -> None:
        self.process.kill()
        await self.process.wait()


@asynccontextmanager
async def engine(*options: str) -> AsyncIterator[FakeEngine]:
    process = await asyncio.create_subprocess_exec(
        sys.executable, str(FAKE_ENGINE), *options, stdout=asyncio.subprocess.PIPE
    )
    assert process.stdout is not None
    try:
        yield FakeEngine(process, int(await process.stdout.readline()))
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()
        await process.stdout.read()  # lets the pipe's transport close


def worker(name: str, profile: str, fake: FakeEngine, **changes: Any) -> Upstream:
    whole = Upstream(
        name=name,
        profile=profile,
        model="small",
        engine="fake",
        host="127.0.0.1",
        port=fake.port,
        is_plain=profile == "plain",
        limits={"min_p": "not while speculating"},
        health="/health",
        batch_limit=None,
        refused=None,
    )
    return replace(whole, **changes)


RULES = (
    TypeRule(type="code_edit", when=When(last_user="(?i)fix")),
    TypeRule(type="chat"),
)
ROUTES = {
    "code_edit": (Hop(profile="code-edit"), Hop(profile="plain")),
    "chat": (Hop(profile="plain"),),
}


def config(*upstreams: Upstream, **changes: Any) -> RouterConfig:
    whole = RouterConfig(
        upstreams=upstreams,
        rules=RULES,
        routes=ROUTES,
        models=("small",),
        listen=("127.0.0.1", 0),
        admin=None,
        type_header=True,
        body_limit=1024 * 1024,
        worker_states=None,
        timeouts=QUICK,
    )
    return replace(whole, **changes)


@asynccontextmanager
async def running(settings: RouterConfig) -> AsyncIterator[Router]:
    router = Router(settings)
    async with asyncio.TaskGroup() as group:
        group.create_task(router.serve())
        await router.started.wait()
        try:
            yield router
        finally:
            router.stop()
            router.stop()


@asynccontextmanager
async def one_plain(*options: str, **changes: Any) -> AsyncIterator[tuple[FakeEngine, Router]]:
    async with (
        engine(*options) as fake,
        running(config(worker("plain-0", "plain", fake), **changes)) as router,
    ):
        yield fake, router


def ask(text: str = "please fix this", **fields: Any) -> dict[str, Any]:
    return {"model": "small", "messages": [{"role": "user", "content": text}], **fields}


async def until(is_so: Callable[[], bool]) -> None:
    """Waits for the router's own state."""
    while not is_so():  # noqa: ASYNC110  there is no event to wait on
        await asyncio.sleep(0.01)


# Relaying.

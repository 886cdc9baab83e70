"""Browsers and the router: preflights, answers of workers, and the router's own."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace

from orchestrator.cors import Cors, CorsEntry
from orchestrator.pool import Upstream
from tests.router_harness import (
    CHAT,
    FakeEngine,
    Reply,
    ask,
    call,
    config,
    engine,
    run,
    running,
    wire,
    worker,
)

APP, EVIL = "https://app.example", "https://evil.example"
CORS = Cors(CorsEntry(origins=(APP,)))
ALLOWED = "access-control-allow-origin"
ENGINE = (
    b"HTTP/1.1 200 OK\r\naccess-control-allow-origin: *\r\n"
    b"access-control-allow-credentials: true\r\ncontent-length: 2\r\n\r\n{}"
)


@asynccontextmanager
async def one_that_answers_browsers(fake: FakeEngine) -> AsyncIterator[Upstream]:
    """A worker that says of every page that it may use it, as engines do."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                size = head.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0]
                await reader.readexactly(int(size or 0))
                writer.write(ENGINE)
        except (asyncio.IncompleteReadError, ConnectionError):
            writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    async with server:
        port = server.sockets[0].getsockname()[1]
        yield replace(worker("plain-0", "plain", fake), port=port)


async def options(port: int, origin: str, path: str = CHAT) -> Reply:
    async with wire(port) as client:
        head = f"OPTIONS {path} HTTP/1.1\r\nhost: x\r\norigin: {origin}\r\n"
        asked = "access-control-request-headers: authorization\r\n"
        client.send(f"{head}access-control-request-method: POST\r\n{asked}\r\n".encode())
        found = await client.head()
        if "content-length" in found.headers:
            found.raw = await client.reader.readexactly(int(found.headers["content-length"]))
        return found


def test_preflights_are_answered_without_a_worker() -> None:
    async def scenario() -> None:
        async with running(config(cors=CORS)) as router:
            for path in (CHAT, "/nothing", "/v1/models"):
                reply = await options(router.port, APP, path)
                assert reply.status == 204
                assert reply.headers[ALLOWED] == APP
                assert reply.headers["access-control-allow-headers"] == "authorization"
                assert reply.headers["access-control-max-age"] == "600"
                assert reply.headers["vary"] == "origin"
            reply = await options(router.port, EVIL)
            assert (reply.status, ALLOWED in reply.headers) == (403, False)
            assert reply.json()["error"]["code"] == "origin_not_allowed"

    run(scenario)


def test_answers_of_workers_and_of_the_router_can_be_read_by_allowed_pages() -> None:
    async def scenario() -> None:
        async with (
            engine() as fake,
            one_that_answers_browsers(fake) as upstream,
            running(config(upstream, cors=CORS)) as router,
        ):
            for path, data, status in (
                (CHAT, ask("hello"), 200),
                (CHAT, ask(model="unknown"), 404),
                (CHAT, b"[]", 400),
                ("/nothing", {}, 404),
            ):
                reply = await call(router.port, path, data, origin=APP)
                assert (reply.status, reply.headers[ALLOWED]) == (status, APP)
                assert "x-draftgate-type" in reply.headers["access-control-expose-headers"]
                assert "access-control-allow-credentials" not in reply.headers
                reply = await call(router.port, path, data, origin=EVIL)
                assert (reply.status, ALLOWED in reply.headers) == (status, False)
                assert reply.headers["vary"] == "origin"

    run(scenario)


def test_without_cors_the_engine_speaks_for_itself() -> None:
    async def scenario() -> None:
        async with (
            engine() as fake,
            one_that_answers_browsers(fake) as upstream,
            running(config(upstream)) as router,
        ):
            reply = await call(router.port, CHAT, ask("hello"), origin=APP)
            assert (reply.headers[ALLOWED], "vary" in reply.headers) == ("*", False)
            assert (await options(router.port, APP)).status == 405

    run(scenario)


def test_a_preflight_keeps_its_connection() -> None:
    async def scenario() -> None:
        async with running(config(cors=CORS)) as router, wire(router.port) as client:
            head = f"OPTIONS {CHAT} HTTP/1.1\r\nhost: x\r\norigin: {APP}\r\n"
            client.send(f"{head}access-control-request-method: POST\r\n\r\n".encode() * 2)
            assert [(await client.head()).status for _ in range(2)] == [204, 204]
            client.send(b"GET /v1/models HTTP/1.1\r\nhost: x\r\n\r\n")
            assert (await client.reply()).status == 200

    run(scenario)

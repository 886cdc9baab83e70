"""What an engine may say in HTTP: what is passed on is framed for the client, the rest is a 502."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from types import SimpleNamespace
from typing import cast

import pytest

from orchestrator.router import Router
from tests.router_harness import CHAT, NO_CHECKS, FakeEngine, Wire, ask, config, run, running, wire
from tests.router_harness import worker as made_worker

ALLOWED = "/v1/engine"
OK = b"HTTP/1.1 200 OK\r\n"


@asynccontextmanager
async def says(answer: bytes, is_closing: bool = False) -> AsyncIterator[Router]:
    """A router before an engine that answers every request for an answer with these bytes."""

    async def connection(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while head := await reader.readuntil(b"\r\n\r\n"):
                length = int(head.lower().partition(b"content-length: ")[2].split(b"\r\n")[0] or 0)
                await reader.readexactly(length)
                is_health = head.startswith(b"GET /health")
                writer.write(OK + b"content-length: 0\r\n\r\n" if is_health else answer)
                if is_closing and not is_health:
                    break
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()

    server = await asyncio.start_server(connection, "127.0.0.1", 0)
    fake = cast("FakeEngine", SimpleNamespace(port=server.sockets[0].getsockname()[1]))
    settings = config(made_worker("plain-0", "plain", fake), timeouts=NO_CHECKS, paths=(ALLOWED,))
    try:
        async with running(settings) as router:
            yield router
    finally:
        server.close()


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (b"HTTP/1.1 101 Switching Protocols\r\nupgrade: x\r\n\r\nraw", "switched protocols"),
        (OK + b"transfer-encoding: gzip, chunked\r\n\r\n0\r\n\r\n", "the end of its answer"),
        (OK + b"transfer-encoding: gzip\r\n\r\nraw", "answered no valid HTTP"),
        (OK + b"content-length: 2\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n", "no valid HTTP"),
        (OK + b"content-length: 2\r\ncontent-length: 3\r\n\r\nokk", "no valid HTTP"),
        (OK + b"content-length: 2x\r\n\r\nok", "no valid HTTP"),
        (OK + b"x: a\r\n b\r\ncontent-length: 2\r\n\r\nok", "no valid HTTP"),
        (OK + b"x: " + b"a" * 70_000, "its head is too long"),
        (b"SSH-2.0-OpenSSH_9.6\r\n\r\n", "no valid HTTP"),
    ],
)
def test_answers_that_are_a_502(answer: bytes, words: str) -> None:
    async def scenario() -> None:
        async with says(answer) as router, wire(router.port) as client:
            client.post(CHAT, ask())
            reply = await client.reply()
            assert reply.status == 502
            assert words in reply.json()["error"]["message"]
            assert router.dispatch.tally.failures == {("plain-0", "malformed"): 1}

    run(scenario)


async def two(client: Wire, method: str = "POST", has_body: bool = True) -> list[bytes]:
    """The bodies of two answers on one connection: the first must end where it says."""
    bodies = []
    for _ in range(2):
        if method == "POST":
            client.post(CHAT, ask())
        else:
            client.send(f"{method} {ALLOWED} HTTP/1.1\r\nhost: x\r\n\r\n".encode())
        reply = await client.reply(has_body)
        assert reply.is_whole
        bodies.append(reply.raw)
    return bodies


@pytest.mark.parametrize(
    "answer",
    [
        OK + b"connection: content-length\r\ncontent-length: 2\r\n\r\nok",
        OK + b"connection: x-a, Content-Length\r\ncontent-length: 2\r\n\r\nok",
        b"HTTP/1.1 103 Early Hints\r\nlink: x\r\n\r\n" + OK + b"content-length: 2\r\n\r\nok",
    ],
)
def test_an_answers_length_reaches_the_client_whatever_stands_beside_it(answer: bytes) -> None:
    async def scenario() -> None:
        async with says(answer) as router, wire(router.port) as client:
            assert await two(client) == [b"ok", b"ok"]

    run(scenario)


def test_chunks_stay_chunks_though_connection_names_them() -> None:
    answer = OK + b"connection: transfer-encoding\r\ntransfer-encoding: chunked\r\n\r\n"

    async def scenario() -> None:
        async with says(answer + b"2\r\nok\r\n0\r\n\r\n") as router, wire(router.port) as client:
            assert await two(client) == [b"2\r\nok\r\n0\r\n\r\n"] * 2

    run(scenario)


@pytest.mark.parametrize(
    "head",
    [b"content-length: 1000\r\n\r\n", b"transfer-encoding: chunked\r\n\r\n"],
)
def test_nothing_belongs_to_an_answer_to_head(head: bytes) -> None:
    async def scenario() -> None:
        async with says(OK + head) as router, wire(router.port) as client:
            assert await two(client, "HEAD", has_body=False) == [b"", b""]

    run(scenario)


def test_a_refused_head_has_no_body_either() -> None:
    async def scenario() -> None:
        async with says(b"no HTTP at all\r\n\r\n") as router, wire(router.port) as client:
            for _ in range(2):
                client.send(f"HEAD {ALLOWED} HTTP/1.1\r\nhost: x\r\n\r\n".encode())
                assert (await client.head()).status == 502

    run(scenario)


@pytest.mark.parametrize("status", [b"204 No Content", b"304 Not Modified"])
def test_nothing_belongs_to_these_statuses(status: bytes) -> None:
    async def scenario() -> None:
        answer = b"HTTP/1.1 %b\r\n\r\n" % status
        async with says(answer) as router, wire(router.port) as client:
            assert await two(client, "GET", has_body=False) == [b"", b""]

    run(scenario)


def test_an_answer_that_ends_with_its_connection() -> None:
    async def scenario() -> None:
        async with says(OK + b"\r\nok", is_closing=True) as router, wire(router.port) as client:
            client.post(CHAT, ask())
            reply = await client.reply()
            assert reply.raw == b"ok"
            assert reply.headers["connection"] == "close"

    run(scenario)

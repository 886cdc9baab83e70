"""What goes wrong around a router: nothing hangs, nothing is sent twice, the books are right."""

import asyncio
import contextlib
import json
import resource
import socket
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import psutil
import pytest

from orchestrator.cors import Cors, CorsEntry
from orchestrator.dispatch import Dispatch
from tests.router_harness import (
    CHAT,
    NO_CHECKS,
    QUICK,
    FakeEngine,
    ask,
    call,
    engine,
    one_plain,
    run,
    wire,
)
from tests.router_process import Served, eventually, fleet_text, served

SHORT = replace(QUICK, stream_s=0.3)
MIB = 1024 * 1024
IDLE = 10_000


async def settled(router: Served, requests: int) -> dict[str, float]:
    """The metrics, once all of so many requests have ended: their sum by status is all of them."""
    found: dict[str, float] = {}

    async def has_all() -> bool:
        found.update(await router.metrics())
        return sum_of(found, "draftgate_requests_total") == requests

    async with asyncio.timeout(20):
        await eventually(has_all)
    assert sum_of(found, "draftgate_requests_in_flight") == 0
    return found


def sum_of(metrics: dict[str, float], name: str) -> float:
    return sum(value for key, value in metrics.items() if key.partition("{")[0] == name)


@asynccontextmanager
async def process(folder: Path, *engines: FakeEngine, **router: Any) -> AsyncIterator[Served]:
    """A router in a process of its own, with a plain worker before each engine."""
    workers = [(f"plain-{n}", "plain", fake) for n, fake in enumerate(engines)]
    file = folder / "fleet.yaml"
    file.write_text(fleet_text(workers, router=router))
    async with served(file) as found:
        yield found


# Workers that die or fall silent.


@pytest.mark.parametrize("has_begun", [True, False])
def test_a_worker_is_killed_before_or_amid_its_answers(tmp_path: Path, has_begun: bool) -> None:
    """Every client is told, and no other worker gets what the dead one may have begun."""

    async def scenario() -> None:
        clients = 8
        options = ("--tokens", "8", "--tokens-before-hold", "3")
        async with (
            engine("--hold", *options) as first,
            process(tmp_path, first) as router,
            contextlib.AsyncExitStack() as stack,
        ):
            wires = [await stack.enter_async_context(wire(router.port)) for _ in range(clients)]
            for client in wires:
                client.post(CHAT, ask(stream=has_begun))
            await first.log(requests=clients)
            if has_begun:
                heads = [await client.head() for client in wires]
                for client in wires:
                    for _ in range(3):
                        await client.event()
            await first.kill()
            if has_begun:
                assert {head.status for head in heads} == {200}
                ends = [await client.reader.read() for client in wires]
                assert not any(b"[DONE]" in end or end.endswith(b"0\r\n\r\n") for end in ends)
            else:
                replies = [await client.reply() for client in wires]
                assert {reply.status for reply in replies} == {502}
                codes = {reply.json()["error"]["code"] for reply in replies}
                assert codes == {"died"}
            metrics = await settled(router, clients)
            died = 'draftgate_upstream_failures_total{kind="died",worker="plain-0"}'
            assert metrics[died] == clients

    run(scenario, limit_s=40)


def test_a_worker_that_takes_connections_and_says_nothing(tmp_path: Path) -> None:
    """Not even to its health check: it is asked once and passed over then."""

    async def scenario() -> None:
        silent = socket.create_server(("127.0.0.1", 0))  # the system takes connections for it
        port = silent.getsockname()[1]
        async with (
            engine() as well,
            process(tmp_path, well, timeouts={"first_byte_s": 1}) as router,
        ):
            file = tmp_path / "fleet.yaml"
            fleet = json.loads(file.read_text())
            fleet["workers"].append({**fleet["workers"][0], "name": "plain-1"})
            fleet["workers"][1]["url"] = f"http://127.0.0.1:{port}"
            file.write_text(json.dumps(fleet))
            status = await router.reloaded("applied")
            assert {u["name"]: u["state"] for u in status["upstreams"]} == {
                "plain-0": "ready",
                "plain-1": "not answering its health check",
            }
            for _ in range(10):
                reply = await call(router.port, CHAT, ask())
                assert (reply.status, reply.worker) == (200, "plain-0")
        silent.close()

    run(scenario, limit_s=40)


# Clients that read slowly, leave, or stay for nothing.


def test_a_client_that_takes_nothing_is_left_and_the_worker_is_not_blamed(tmp_path: Path) -> None:
    log = tmp_path / "access.jsonl"

    async def scenario() -> None:
        options = ("--tokens", "1000", "--padding", "65536")
        made = one_plain(*options, timeouts=replace(SHORT, health_every_s=60), access_log=str(log))
        async with made as (fake, router), wire(router.port) as client:
            client.post(CHAT, ask(stream=True))
            await client.head()
            await fake.log(aborted=1)
            assert router.dispatch.tally.failures == {}
            assert router.dispatch.tally.cancels == {("plain-0",): 1}
            assert router.dispatch.standing.states == {"plain-0": "ready"}
            assert router.dispatch.standing.in_flight == {"plain-0": 0}
        line = json.loads(log.read_text())
        assert (line["end"], line["status"]) == ("client_slow", 200)

    run(scenario)


def test_a_client_that_stops_reading_for_less_gets_everything() -> None:
    """The wait for the client is not the worker's: its time begins anew."""
    tokens = 300

    async def scenario() -> None:
        options = ("--tokens", str(tokens), "--padding", "65536")
        made = one_plain(*options, timeouts=replace(SHORT, stream_s=1))
        async with made as (_, router), wire(router.port) as client:
            client.post(CHAT, ask(stream=True))
            await client.head()
            await asyncio.sleep(0.7)
            rest = await client._until(b"\r\n0\r\n\r\n")
            assert rest.count(b"data: {") == tokens
            assert router.dispatch.tally.failures == {}

    run(scenario)


def test_many_slow_readers_cost_little_memory(tmp_path: Path) -> None:
    """30 clients that read nothing of 20 MiB each: held are buffers, not answers."""
    clients, tokens, padding = 30, 320, 65536

    async def scenario() -> None:
        options = ("--tokens", str(tokens), "--padding", str(padding))
        async with (
            engine(*options) as fake,
            process(tmp_path, fake) as router,
            contextlib.AsyncExitStack() as stack,
        ):
            assert (await call(router.port, CHAT, ask(max_tokens=1))).status == 200
            memory = psutil.Process(router.process.pid).memory_info
            start = memory().rss
            wires = [await stack.enter_async_context(wire(router.port)) for _ in range(clients)]
            for client in wires:
                client.post(CHAT, ask(stream=True))
                await client.head()
            await still(fake)
            grown = memory().rss - start
            assert grown < clients * MIB, f"{grown / MIB:.0f} MiB for {clients} slow readers"
            rests = await asyncio.gather(*(c._until(b"\r\n0\r\n\r\n") for c in wires))
            assert {rest.count(b"data: {") for rest in rests} == {tokens}
            await settled(router, clients + 1)

    run(scenario, limit_s=90)


async def still(fake: FakeEngine) -> None:
    """Until the engine generates no more: everything between it and the clients is full."""
    before, now = -2.0, -1.0
    while now != before:
        await asyncio.sleep(0.5)
        text = (await call(fake.port, "/metrics")).raw.decode()
        before, now = now, float(text.split("generation_tokens_total ")[1].split()[0])


@pytest.fixture
def many_files() -> Iterator[None]:
    """As many open files as the system lets this process and those that it starts have."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard < IDLE + 500:
        pytest.skip(f"this system allows {hard} open files: fewer than {IDLE} connections need")
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@pytest.mark.usefixtures("many_files")
def test_ten_thousand_idle_connections(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with engine() as fake, process(tmp_path, fake) as router:
            assert (await call(router.port, CHAT, ask())).status == 200
            memory = psutil.Process(router.process.pid).memory_info
            start = memory().rss
            address = ("127.0.0.1", router.port)
            idle = [socket.create_connection(address) for _ in range(IDLE)]
            try:
                for _ in range(20):
                    assert (await call(router.port, CHAT, ask())).status == 200
                grown = memory().rss - start
                assert grown / IDLE < 16 * 1024, f"{grown / IDLE:.0f} bytes a connection"
            finally:
                for sock in idle:
                    sock.close()
            assert (await call(router.port, CHAT, ask())).status == 200
            await settled(router, 22)

    run(scenario, limit_s=90)


# Clocks and books.


@pytest.mark.parametrize("jump_s", [3600.0, -3600.0])
def test_a_clock_that_is_set_changes_nothing(
    jump_s: float, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Deadlines, health and durations go by a clock that nobody sets."""
    log = tmp_path / "access.jsonl"
    now = time.time

    async def scenario() -> None:
        async with (
            one_plain("--hold", access_log=str(log)) as (fake, router),
            wire(router.port) as client,
        ):
            client.post(CHAT, ask(stream=True))
            await client.head()
            monkeypatch.setattr(time, "time", lambda: now() + jump_s)
            await asyncio.sleep(3 * QUICK.health_every_s)
            await fake.control(release=1)
            assert (await client._until(b"\r\n0\r\n\r\n")).count(b"data: {") > 1
            assert router.dispatch.standing.states == {"plain-0": "ready"}
            assert router.dispatch.tally.failures == {}
        line = json.loads(log.read_text())
        assert (line["end"], line["status"]) == ("whole", 200)
        assert 0 < line["first_byte_ms"] <= line["ms"] < 20_000

    run(scenario)


def test_clients_are_answered_when_recording_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(self: Dispatch, *request: object) -> None:
        raise OSError("no room for it")

    async def scenario() -> None:
        async with one_plain() as (_, router), wire(router.port) as client:
            monkeypatch.setattr(Dispatch, "record", broken)
            for path, status in ((CHAT, 200), ("/nothing", 404), (CHAT, 200)):
                client.post(path, ask())
                assert (await client.reply()).status == status
            assert router.dispatch.standing.in_flight == {"plain-0": 0}

    run(scenario)


# Requests that are turned away before they are whole.

PAGE = "https://app.example"


@pytest.mark.parametrize(
    ("rest", "status"),
    [
        (b"content-length: 9000000\r\n\r\n", 413),
        (b"transfer-encoding: chunked\r\n\r\n200000\r\n" + b"a" * 0x110000, 413),
        (b"transfer-encoding: gzip, chunked\r\n\r\n", 501),
        (b"content-length: 10\r\n\r\n12345", 408),
        (b"transfer-encoding: chunked\r\n\r\n1;" + b"x" * 400_000, 431),
        (b"transfer-encoding: chunked\r\n\r\n1\r\nx\r\n0\r\nt: " + b"x" * 400_000, 431),
    ],
    ids=["length", "chunks", "coded", "late", "extension", "trailer"],
)
def test_pages_and_the_log_are_told_of_what_is_turned_away(
    rest: bytes, status: int, tmp_path: Path
) -> None:
    log = tmp_path / "access.jsonl"
    head = f"POST {CHAT} HTTP/1.1\r\nhost: x\r\norigin: {PAGE}\r\n".encode()
    waits = replace(NO_CHECKS, head_s=0.3, body_s=0.3)

    async def scenario() -> None:
        cors = Cors(CorsEntry(origins=(PAGE,)))
        made = one_plain(cors=cors, timeouts=waits, access_log=str(log))
        async with made as (fake, router), wire(router.port) as client:
            client.send(head + rest)
            reply = await client.reply()
            assert reply.status == status
            assert reply.headers["access-control-allow-origin"] == PAGE
            assert reply.headers["connection"] == "close"
            assert (await fake.log())["counts"]["requests"] == 0
        line = json.loads(log.read_text())
        assert (line["status"], line["path"]) == (status, CHAT)
        assert line["ms"] < 20_000
        assert status != 408 or line["ms"] >= 300

    run(scenario)


@pytest.mark.parametrize("size", [1, 3])
def test_small_chunks_are_no_overhead(size: int) -> None:
    """A client may send a byte at a time."""
    body = json.dumps(ask("x" * 60_000)).encode()
    pieces = [body[at : at + size] for at in range(0, len(body), size)]
    chunks = b"".join(b"%x\r\n%b\r\n" % (len(piece), piece) for piece in pieces)

    async def scenario() -> None:
        async with one_plain() as (fake, router), wire(router.port) as client:
            head = f"POST {CHAT} HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n"
            client.send(head.encode() + chunks + b"0\r\n\r\n")
            assert (await client.reply()).status == 200
            [seen] = (await fake.log(requests=1))["requests"]
            assert seen["body"].encode() == body

    run(scenario)


def test_who_comes_just_before_a_router_stops_is_answered() -> None:
    async def scenario() -> None:
        async with one_plain() as (_, router), wire(router.port) as client:
            assert (await call(router.port, "/health")).status == 200  # it came after this client
            router.stop()
            client.post(CHAT, ask())
            reply = await client.reply()
            assert (reply.status, reply.headers["connection"]) == (503, "close")
            assert reply.json()["error"]["code"] == "stopping"

    run(scenario)

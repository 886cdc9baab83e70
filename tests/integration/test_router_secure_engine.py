"""Engines behind TLS: asked for health and answers only where their certificate is trusted."""

import asyncio
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from orchestrator.tls import Tls, context_of
from orchestrator.wire import engine_client
from tests.certificates import Issued, issue
from tests.router_harness import (
    CHAT,
    FakeEngine,
    ask,
    call,
    config,
    engine,
    run,
    running,
    wire,
    worker,
)


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Issued:
    return issue(tmp_path_factory.mktemp("ca"), "authority")


@asynccontextmanager
async def behind_tls(fake: FakeEngine, context: ssl.SSLContext) -> AsyncIterator[int]:
    """The port of a proxy that speaks TLS before the engine."""

    async def copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while data := await reader.read(65536):
                writer.write(data)
                await writer.drain()
        except ConnectionError:
            pass
        finally:
            writer.close()

    async def connect(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        back, forth = await asyncio.open_connection("127.0.0.1", fake.port)
        await asyncio.gather(copy(reader, forth), copy(back, writer))

    server = await asyncio.start_server(connect, "127.0.0.1", 0, ssl=context)
    async with server:
        yield server.sockets[0].getsockname()[1]


@pytest.mark.parametrize("is_trusted", [True, False])
def test_an_engine_behind_tls(
    authority: Issued, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_trusted: bool
) -> None:
    signer = authority if is_trusted else issue(tmp_path, "stranger")
    server = issue(tmp_path, "server", by=signer)
    monkeypatch.setenv("SSL_CERT_FILE", str(authority.pem))

    async def scenario() -> None:
        async with engine() as fake:
            context = context_of(Tls(server.pem, server.key_pem))
            async with behind_tls(fake, context) as port:
                upstream = worker("plain-0", "plain", fake, port=port, is_secure=True)
                async with running(config(upstream)) as router, wire(router.port) as client:
                    if is_trusted:
                        for is_stream in (True, False, True):
                            client.post(CHAT, ask(stream=is_stream))
                            reply = await client.reply()
                            assert (reply.status, reply.is_whole) == (200, True)
                        log = await fake.log()
                        assert len({r["connection"] for r in log["requests"]}) == 1
                        assert log["requests"][0]["headers"]["host"] == f"127.0.0.1:{port}"
                    else:
                        assert (await call(router.port, CHAT, ask())).status == 503
                        assert router.dispatch.standing.states == {"plain-0": "unreachable"}

    run(scenario)


def test_what_is_asked_of_engines_elsewhere_trusts_the_same(
    authority: Issued, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = issue(tmp_path, "server", by=authority)
    monkeypatch.setenv("SSL_CERT_FILE", str(authority.pem))

    async def scenario() -> None:
        async with engine() as fake:
            context = context_of(Tls(server.pem, server.key_pem))
            async with (
                behind_tls(fake, context) as port,
                engine_client(f"https://127.0.0.1:{port}") as client,
            ):
                assert (await client.get("/health")).status_code == 200

    run(scenario)

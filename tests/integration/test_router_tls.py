"""TLS on the router's ports: real handshakes, slow and wrong ones too."""

import asyncio
import json
import logging
import socket
import ssl
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import psutil
import pytest

from orchestrator.router import Router
from orchestrator.tls import Tls
from tests.certificates import Issued, issue
from tests.router_harness import CHAT, QUICK, Wire, ask, call, config, one_plain, run


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Issued:
    return issue(tmp_path_factory.mktemp("ca"), "authority")


@pytest.fixture(scope="module")
def server(authority: Issued) -> Issued:
    return issue(authority.pem.parent, "server", by=authority)


@pytest.fixture
def tls(server: Issued) -> Tls:
    return Tls(server.pem, server.key_pem)


def trusting(authority: Issued, own: Issued | None = None) -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=str(authority.pem))
    if own is not None:
        context.load_cert_chain(own.pem, own.key_pem)
    return context


@asynccontextmanager
async def secure_wire(port: int, context: ssl.SSLContext) -> AsyncIterator[Wire]:
    reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=context)
    try:
        yield Wire(reader, writer)
    finally:
        writer.close()


def test_requests_and_streams_by_https(tls: Tls, authority: Issued) -> None:
    async def scenario() -> None:
        async with one_plain(tls=tls) as (_, router):
            base = f"https://127.0.0.1:{router.port}"
            async with httpx.AsyncClient(base_url=base, verify=trusting(authority)) as client:
                for _ in range(3):
                    reply = await client.post(CHAT, json=ask("hello"))
                    assert reply.status_code == 200
                async with client.stream("POST", CHAT, json=ask("hello", stream=True)) as answer:
                    lines = [line async for line in answer.aiter_lines()]
                assert lines[-2] == "data: [DONE]"
                refused = await client.post(CHAT, content=b"[]")
                assert refused.json()["error"]["source"] == "draftgate"
            assert router.dispatch.tally.requests_by(3) == {"200": 4, "400": 1}

    run(scenario)


def test_a_large_answer_is_whole_and_in_order(tls: Tls, authority: Issued) -> None:
    async def scenario() -> None:
        options = ("--tokens", "300", "--padding", "65536")
        async with (
            one_plain(*options, tls=tls) as (_, router),
            secure_wire(router.port, trusting(authority)) as client,
            secure_wire(router.port, trusting(authority)) as other,
        ):
            for one in (client, other):
                one.post(CHAT, ask(stream=True))
            first, second = await asyncio.gather(client.reply(), other.reply())
            assert first.raw == second.raw
            assert first.raw.count(b"data: {") == 300

    run(scenario)


@pytest.mark.parametrize("version", ["1.0", "1.1"])
def test_an_answer_that_ends_its_connection_ends_it_cleanly(
    tls: Tls, authority: Issued, version: str
) -> None:
    """By a goodbye (close_notify): without one a client must take the answer for cut."""

    async def scenario() -> None:
        async with (
            one_plain(tls=tls) as (_, router),
            secure_wire(router.port, trusting(authority)) as client,
        ):
            start = time.monotonic()
            head = f"GET /v1/models HTTP/{version}\r\nhost: x\r\nconnection: close\r\n\r\n"
            client.send(head.encode())
            assert (await client.reply()).status == 200
            assert await client.reader.read() == b""
            assert time.monotonic() - start < 0.5

    run(scenario)


def test_an_http_1_0_stream_ends_with_the_goodbye(tls: Tls, authority: Issued) -> None:
    async def scenario() -> None:
        async with (
            one_plain(tls=tls) as (_, router),
            secure_wire(router.port, trusting(authority)) as client,
        ):
            body = json.dumps(ask(stream=True)).encode()
            head = f"POST {CHAT} HTTP/1.0\r\ncontent-length: {len(body)}\r\n\r\n"
            client.send(head.encode() + body)
            assert (await client.reply()).raw.endswith(b"data: [DONE]\n\n")

    run(scenario)


def test_a_stream_that_the_engine_cut_has_no_clean_end(tls: Tls, authority: Issued) -> None:
    async def scenario() -> None:
        async with (
            one_plain("--fail", "die_mid_stream", tls=tls) as (_, router),
            secure_wire(router.port, trusting(authority)) as client,
        ):
            client.post(CHAT, ask(stream=True))
            reply = await client.reply()
            assert not reply.is_whole
            assert b"[DONE]" not in reply.raw

    run(scenario)


def test_a_slow_reader_holds_the_engine_back(tls: Tls, authority: Issued) -> None:
    tokens = 1000

    async def scenario() -> None:
        async with (
            one_plain("--tokens", str(tokens), "--padding", "65536", tls=tls) as (fake, router),
            secure_wire(router.port, trusting(authority)) as client,
        ):
            client.post(CHAT, ask(stream=True))
            await client.head()
            start = psutil.Process().memory_info().rss
            generated, before = -1, -2
            while generated != before:  # until the engine is stuck
                await asyncio.sleep(0.1)
                text = (await call(fake.port, "/metrics")).raw.decode()
                before = generated
                generated = int(text.split("generation_tokens_total ")[1].split()[0])
            assert generated < tokens
            assert psutil.Process().memory_info().rss - start < 8 * 1024 * 1024
            rest = await client._until(b"\r\n0\r\n\r\n")
            assert rest.count(b"data: {") == tokens

    run(scenario)


def test_the_engine_sees_a_client_leave(tls: Tls, authority: Issued) -> None:
    async def scenario() -> None:
        async with one_plain("--hold", tls=tls) as (fake, router):
            async with secure_wire(router.port, trusting(authority)) as client:
                client.post(CHAT, ask(stream=True))
                await client.head()
            await fake.log(aborted=1)
            assert router.dispatch.tally.cancels == {("plain-0",): 1}

    run(scenario)


def test_plain_http_on_the_port_is_closed_at_once_and_quietly(
    tls: Tls, authority: Issued, caplog: pytest.LogCaptureFixture
) -> None:
    async def scenario() -> None:
        async with one_plain(tls=tls) as (_, router):
            reader, writer = await asyncio.open_connection("127.0.0.1", router.port)
            writer.write(b"GET /v1/models HTTP/1.1\r\nhost: x\r\n\r\n")
            got = await reader.read()
            assert b"HTTP" not in got
            writer.close()
            async with secure_wire(router.port, trusting(authority)) as client:
                client.send(b"GET /v1/models HTTP/1.1\r\nhost: x\r\n\r\n")
                assert (await client.reply()).status == 200
            assert router.dispatch.tally.requests_by(3) == {"200": 1}

    run(scenario)
    assert [r for r in caplog.records if r.levelno >= logging.WARNING] == []


@pytest.mark.parametrize("start", [b"", b"\x16\x03\x01"])
def test_a_handshake_that_does_not_go_on_is_ended(tls: Tls, start: bytes) -> None:
    async def scenario() -> None:
        timeouts = replace(QUICK, handshake_s=0.2)
        async with one_plain(tls=tls, timeouts=timeouts) as (_, router):
            began = time.monotonic()
            reader, writer = await asyncio.open_connection("127.0.0.1", router.port)
            writer.write(start)
            with pytest.raises((asyncio.IncompleteReadError, ConnectionError)):
                await reader.readexactly(100)
            assert 0.1 < time.monotonic() - began < 2
            writer.close()

    run(scenario)


def test_old_versions_are_refused(tls: Tls, authority: Issued) -> None:
    old = trusting(authority)
    with pytest.warns(DeprecationWarning, match="TLSv1_1 is deprecated"):
        old.minimum_version = old.maximum_version = ssl.TLSVersion.TLSv1_1
    old.set_ciphers("ALL:@SECLEVEL=0")

    async def scenario() -> None:
        async with one_plain(tls=tls) as (_, router):
            with pytest.raises((ssl.SSLError, ConnectionError)):
                async with secure_wire(router.port, old):
                    pass

    run(scenario)


def test_clients_show_certificates_where_that_is_asked_for(
    tls: Tls, authority: Issued, tmp_path: Path
) -> None:
    mine = issue(tmp_path, "client", by=authority)
    stranger = issue(tmp_path, "stranger")

    async def scenario() -> None:
        asked = replace(tls, client_ca=authority.pem)
        async with one_plain(tls=asked) as (_, router):
            url = f"https://127.0.0.1:{router.port}/v1/models"
            async with httpx.AsyncClient(verify=trusting(authority, mine)) as client:
                assert (await client.get(url)).status_code == 200
            for own in (None, stranger):
                async with httpx.AsyncClient(verify=trusting(authority, own)) as client:
                    with pytest.raises(httpx.TransportError):
                        await client.get(url)

    run(scenario)


@pytest.mark.parametrize("is_secure", [True, False])
def test_the_admin_port_speaks_tls_unless_told_otherwise(
    tls: Tls, authority: Issued, is_secure: bool
) -> None:
    async def scenario() -> None:
        settings: dict[str, Any] = {"admin": ("127.0.0.1", 0), "admin_tls": is_secure}
        async with one_plain(tls=tls, **settings) as (_, router):
            scheme = "https" if is_secure else "http"
            base = f"{scheme}://127.0.0.1:{router.admin_port}"
            async with httpx.AsyncClient(base_url=base, verify=trusting(authority)) as client:
                for path in ("/health", "/status", "/metrics"):
                    assert (await client.get(path)).status_code == 200

    run(scenario)


def test_a_new_certificate_is_shown_after_a_hang_up(
    authority: Issued, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    first = issue(tmp_path, "server", by=authority)

    async def shown(port: int | None) -> int:
        assert port is not None
        async with secure_wire(port, trusting(authority)) as client:
            found = client.writer.get_extra_info("peercert")
            return int(found["serialNumber"], 16)

    async def scenario() -> None:
        settings: dict[str, Any] = {"admin": ("127.0.0.1", 0), "admin_tls": True}
        async with one_plain(tls=Tls(first.pem, first.key_pem), **settings) as (_, router):
            async with secure_wire(router.port, trusting(authority)) as old:
                second = issue(tmp_path, "server", by=authority)
                router.hang_up()
                for port in (router.port, router.admin_port):
                    assert await shown(port) == second.certificate.serial_number
                old.send(b"GET /v1/models HTTP/1.1\r\nhost: x\r\n\r\n")
                assert (await old.reply()).status == 200
            issue(tmp_path, "other")
            (tmp_path / "other.key").replace(first.key_pem)
            router.hang_up()
            assert await shown(router.port) == second.certificate.serial_number

    run(scenario)
    assert "the certificate stays as it was" in caplog.text


def test_stopping_does_not_wait_for_the_goodbyes_of_idle_clients(
    tls: Tls, authority: Issued
) -> None:
    """Of pools that nobody reads: their connections are dropped at the next sweep."""

    async def scenario() -> None:
        timeouts = replace(QUICK, linger_s=10, keep_alive_s=10)
        router = Router(config(tls=tls, timeouts=timeouts))
        async with asyncio.TaskGroup() as group:
            group.create_task(router.serve())
            await router.started.wait()
            client = await asyncio.to_thread(_connected, router.port, trusting(authority))
            began = time.monotonic()
            router.stop()
        client.close()
        assert time.monotonic() - began < 5  # goodbyes have 10 s, and the grace is 30 s

    run(scenario)


def _connected(port: int, context: ssl.SSLContext) -> ssl.SSLSocket:
    return context.wrap_socket(
        socket.create_connection(("127.0.0.1", port)), server_hostname="127.0.0.1"
    )

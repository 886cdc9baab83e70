"""What the router takes as HTTP, and what it refuses before an engine could see it."""

import json
from dataclasses import replace

import pytest

from tests.router_harness import CHAT, QUICK, ask, call, config, one_plain, run, running, wire


@pytest.mark.parametrize(
    ("request_bytes", "status"),
    [
        (b"content-length: 5\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n", 400),
        (b"transfer-encoding: chunked\r\ncontent-length: 5\r\n\r\n0\r\n\r\n", 400),
        (b"content-length: 2\r\ncontent-length: 2\r\n\r\n{}", 400),
        (b"content-length: +2\r\n\r\n{}", 400),
        (b"transfer-encoding: chunked\r\n\r\nzz\r\n{}\r\n0\r\n\r\n", 400),
        (b"transfer-encoding : chunked\r\n\r\n0\r\n\r\n", 400),
        (b"host: y\r\ncontent-length: 2\r\n\r\n{}", 400),
        (b"x: a\r\n b\r\n\r\n", 400),
        (b"x: " + b"a" * 70_000 + b"\r\n\r\n", 431),
        (b"x: " + b"a" * 400_000, 431),
        (b"content-length: 1048577\r\n\r\n", 413),
        (b"transfer-encoding: chunked\r\n\r\n200000\r\n" + b"a" * 0x110000, 413),
        (b"content-length: 5\r\n\r\nhello", 400),
    ],
)
def test_what_no_engine_should_see_is_refused(request_bytes: bytes, status: int) -> None:
    async def scenario() -> None:
        async with running(config()) as router, wire(router.port) as client:
            client.send(b"POST /v1/completions HTTP/1.1\r\nhost: x\r\n" + request_bytes)
            reply = await client.reply()
            assert (reply.status, reply.json()["error"]["source"]) == (status, "draftgate")
            if request_bytes.endswith(b"hello"):
                return  # valid HTTP: the connection lives on
            assert reply.headers["connection"] == "close"
            assert await client.reader.read() == b""

    run(scenario)


def test_pipelined_requests_are_answered_in_order() -> None:
    async def scenario() -> None:
        async with one_plain("--hold") as (fake, router), wire(router.port) as client:
            client.send(b"GET /v1/models HTTP/1.1\r\nhost: x\r\n\r\n")
            client.post(CHAT, ask(stream=True))
            client.post("/v1/completions", {"prompt": "second"})
            client.send(b"GET /nothing HTTP/1.1\r\nhost: x\r\n\r\nNOT HTTP\r\n\r\n")
            models = await client.reply()
            assert [m["id"] for m in models.json()["data"]] == ["small"]
            await client.head()
            await fake.control(release=1)
            assert b"[DONE]" in await client.reader.readuntil(b"\r\n0\r\n\r\n")
            assert (await client.reply()).json()["object"] == "text_completion"
            missing, broken = await client.reply(), await client.reply()
            assert (missing.status, broken.status) == (404, 400)
            assert CHAT in missing.json()["error"]["message"]

    run(scenario)


def test_hundreds_of_pipelined_refusals_are_all_answered() -> None:
    """Requests that end at once must not call back into each other: the stack is finite."""

    async def scenario() -> None:
        async with one_plain() as (_, router), wire(router.port) as client:
            for _ in range(400):
                client.post("/v1/completions", {"model": "nope", "prompt": "x"})
            statuses = {(await client.reply()).status for _ in range(400)}
            assert statuses == {404}

    run(scenario)


@pytest.mark.parametrize("cut", [0, 5])
def test_an_offered_upgrade_is_declined_and_the_body_is_kept(cut: int) -> None:
    """JDK's HttpClient and `curl --http2` offer h2c with every request, its body after the head."""
    body = json.dumps(ask()).encode()
    head = (
        b"POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\n"
        b"connection: Upgrade, HTTP2-Settings\r\nupgrade: h2c\r\nhttp2-settings: AAMAAABk\r\n"
        b"content-length: %d\r\n\r\n" % len(body)
    )

    async def scenario() -> None:
        async with one_plain() as (_, router), wire(router.port) as client:
            client.send(head + body[:cut])
            await client.writer.drain()
            client.send(body[cut:])
            reply = await client.reply()
            assert reply.status == 200
            assert reply.json()["choices"]

    run(scenario)


def test_methods_paths_and_models() -> None:
    async def scenario() -> None:
        async with one_plain() as (_, router), wire(router.port) as client:
            client.send(b"HEAD /nothing HTTP/1.1\r\nhost: x\r\n\r\n")
            assert (await client.reply(has_body=False)).status == 404
            client.send(b"HEAD /health HTTP/1.1\r\nhost: x\r\n\r\n")
            assert (await client.reply(has_body=False)).status == 200
            client.send(f"GET http://x{CHAT}?a=1 HTTP/1.1\r\nhost: x\r\n\r\n".encode())
            wrong = await client.reply()
            assert (wrong.status, wrong.headers["allow"]) == (405, "POST")
            client.post(CHAT, ask() | {"model": "large"})
            unknown = await client.reply()
            assert (unknown.status, unknown.json()["error"]["code"]) == (404, "model_not_found")

    run(scenario)


def test_each_model_can_be_asked_for() -> None:
    async def scenario() -> None:
        async with one_plain(names={"org/small-270m": "small"}) as (_, router):
            listed = (await call(router.port, "/v1/models")).json()["data"]
            for path, model in zip(("small", "org%2Fsmall-270m"), listed, strict=True):
                assert (await call(router.port, f"/v1/models/{path}")).json() == model
            unknown = await call(router.port, "/v1/models/large?a=1")
            assert (unknown.status, unknown.json()["error"]["code"]) == (404, "model_not_found")
            assert "served are: small, org/small-270m" in unknown.json()["error"]["message"]
            posted = await call(router.port, "/v1/models/small", {})
            assert (posted.status, posted.headers["allow"]) == (405, "GET, HEAD")

    run(scenario)


def test_a_client_that_waits_for_100_continue_is_told_to_go_on() -> None:
    async def scenario() -> None:
        async with one_plain() as (_, router), wire(router.port) as client:
            body = json.dumps(ask()).encode()
            head = f"POST {CHAT} HTTP/1.1\r\nhost: x\r\nexpect: 100-continue\r\n"
            client.send(f"{head}content-length: {len(body)}\r\n\r\n".encode())
            assert await client.reader.readuntil(b"\r\n\r\n") == b"HTTP/1.1 100 Continue\r\n\r\n"
            client.send(body)
            assert (await client.reply()).status == 200
            client.send(f"{head}content-length: 99999999\r\n\r\n".encode())
            assert (await client.reply()).status == 413

    run(scenario)


def test_a_head_that_takes_too_long_is_refused() -> None:
    async def scenario() -> None:
        settings = config(timeouts=replace(QUICK, head_s=0.2))
        async with running(settings) as router, wire(router.port) as client:
            client.send(b"POST /v1/completions HTTP/1.1\r\nhost: x\r\n")
            assert (await client.reply()).status == 408

    run(scenario)


@pytest.mark.parametrize(
    ("request_bytes", "status", "kind"),
    [
        (b"content-length: 1048577\r\n\r\n", 413, "request_too_large"),
        (b"transfer-encoding: chunked\r\n\r\nzz\r\n", 400, "invalid_request_error"),
        (b"content-length: 5\r\n\r\nhell", 408, "invalid_request_error"),
        (b"content-length: 5\r\n\r\nhello", 400, "invalid_request_error"),
        (b"content-length: 2\r\n\r\n{}", 503, "overloaded_error"),
    ],
)
def test_refusals_are_in_anthropics_form_where_that_is_spoken(
    request_bytes: bytes, status: int, kind: str
) -> None:
    """Also before the request was whole, and where no worker was found for it."""

    async def scenario() -> None:
        settings = config(timeouts=replace(QUICK, body_s=0.2))
        async with running(settings) as router, wire(router.port) as client:
            client.send(b"POST /v1/messages?beta=true HTTP/1.1\r\nhost: x\r\n" + request_bytes)
            reply = await client.reply()
            told = reply.json()
            assert (reply.status, told["type"], told["error"]["type"]) == (status, "error", kind)
            assert told["error"]["source"] == "draftgate"

    run(scenario)


# The router's own life.

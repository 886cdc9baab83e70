"""The router before fake engines: faults and races that a real engine does not show on demand."""

import asyncio
import json
import signal
import sys
from dataclasses import replace
from typing import Any

import psutil
import pytest

from orchestrator.fleet import Hop, Until
from orchestrator.router import Router
from orchestrator.upstream import Connections, Failure, Receiver
from tests.router_harness import (
    CHAT,
    FAKE_ENGINE,
    NO_CHECKS,
    QUICK,
    Reply,
    ask,
    call,
    config,
    engine,
    one_plain,
    run,
    running,
    until,
    wire,
    worker,
)


def test_a_stream_is_relayed_byte_for_byte_and_at_once() -> None:
    async def scenario() -> None:
        async with (
            one_plain("--hold") as (fake, router),
            wire(router.port) as client,
            wire(fake.port) as direct,
        ):
            client.post(CHAT, ask(stream=True))
            direct.post(CHAT, ask(stream=True))
            head, plain_head = await client.head(), await direct.head()
            first = await client.event()
            assert first == await direct.event()
            assert (await fake.log())["counts"]["finished"] == 0
            await fake.control(release=1)
            rest = await client.reader.readuntil(b"\r\n0\r\n\r\n")
            assert rest == await direct.reader.readuntil(b"\r\n0\r\n\r\n")
            assert b"[DONE]" in rest
            ours = {n: v for n, v in head.headers.items() if n.startswith("x-draftgate-")}
            assert head.headers == plain_head.headers | ours
            assert ours == {
                "x-draftgate-type": "code_edit",
                "x-draftgate-profile": "plain",
                "x-draftgate-worker": "plain-0",
                "x-draftgate-reason": head.reason,
            }

    run(scenario)


def test_a_body_reaches_the_engine_unchanged() -> None:
    body = '{ "model":"small", "messages": 5,"temperature":"hot", "ünknown": [1e3, null],  "é":{}}'

    async def scenario() -> None:
        async with one_plain() as (fake, router):
            headers = {"authorization": "Bearer k", "x-draftgate-profile": "spoof"}
            reply = await call(router.port, CHAT, body.encode(), **headers, connection="x-hop")
            seen = (await fake.log(requests=1))["requests"][0]
            assert reply.status == 200
            assert seen["body"] == body
            assert seen["headers"]["authorization"] == "Bearer k"
            assert seen["headers"]["host"] == f"127.0.0.1:{fake.port}"
            assert seen["headers"]["x-request-id"].startswith("dg-")
            assert not {"connection", "x-draftgate-profile"} & seen["headers"].keys()

    run(scenario)


def test_an_engines_error_passes_untouched() -> None:
    async def scenario() -> None:
        async with one_plain("--fail", "error_500") as (fake, router):
            theirs = await call(fake.port, CHAT, ask())
            reply = await call(router.port, CHAT, ask())
            assert (reply.status, reply.raw) == (500, theirs.raw)
            assert reply.worker == "plain-0"

    run(scenario)


def test_connections_are_kept_on_both_sides() -> None:
    async def scenario() -> None:
        async with one_plain(timeouts=NO_CHECKS) as (fake, router), wire(router.port) as client:
            for number in range(1, 4):
                client.post(CHAT, ask())
                assert (await client.reply()).status == 200
                await fake.log(finished=number)
            connections = {seen["connection"] for seen in (await fake.log())["requests"]}
            assert len(connections) == 1

    run(scenario)


def test_an_http_1_0_client_gets_no_chunks() -> None:
    async def scenario() -> None:
        async with one_plain() as (_, router), wire(router.port) as client:
            body = json.dumps(ask(stream=True)).encode()
            head = f"POST {CHAT} HTTP/1.0\r\ncontent-length: {len(body)}\r\n\r\n"
            client.send(head.encode() + body)
            reply = await client.reply()
            assert "transfer-encoding" not in reply.headers
            assert reply.headers["connection"] == "close"
            assert reply.raw.startswith(b"data: {")
            assert reply.raw.endswith(b"data: [DONE]\n\n")

    run(scenario)


def test_a_slow_reader_holds_the_engine_back() -> None:
    tokens, padding = 1000, 65536

    async def scenario() -> None:
        options = ("--tokens", str(tokens), "--padding", str(padding))
        async with one_plain(*options) as (fake, router), wire(router.port) as client:
            client.post(CHAT, ask(stream=True))
            await client.head()
            memory = psutil.Process().memory_info
            start = memory().rss
            generated, before = -1, -2
            while generated != before:  # until the engine is stuck
                await asyncio.sleep(0.1)
                text = (await call(fake.port, "/metrics")).raw.decode()
                before = generated
                generated = int(text.split("generation_tokens_total ")[1].split()[0])
            assert generated < tokens  # sockets hold much, we hold little
            assert memory().rss - start < 8 * 1024 * 1024
            rest = await client._until(b"\r\n0\r\n\r\n")
            assert rest.count(b"data: {") == tokens

    run(scenario)


# Clients that leave.


@pytest.mark.parametrize("is_stream", [True, False])
def test_the_engine_sees_a_client_leave(is_stream: bool) -> None:
    async def scenario() -> None:
        async with one_plain("--hold") as (fake, router):
            async with wire(router.port) as client:
                client.post(CHAT, ask(stream=is_stream))
                await fake.log(requests=1)
                if is_stream:
                    await client.head()
            log = await fake.log(aborted=1)
            assert log["counts"]["finished"] == 0
            assert router.dispatch.tally.cancels == {("plain-0",): 1}
            assert router.dispatch.standing.in_flight == {"plain-0": 0}

    run(scenario)


def test_a_client_may_leave_while_we_connect() -> None:
    async def scenario() -> None:
        async with one_plain(timeouts=NO_CHECKS) as (_, router):
            for _ in range(20):
                async with wire(router.port) as client:
                    client.post(CHAT, ask())
                    await client.writer.drain()
            await until(lambda: router.dispatch.standing.in_flight["plain-0"] == 0)
            assert (await call(router.port, CHAT, ask())).status == 200

    run(scenario)


# Engines that fail.


def test_a_worker_that_refuses_connections_is_passed_over_once() -> None:
    async def scenario() -> None:
        async with engine() as gone, engine() as well:
            upstreams = (worker("edit-0", "code-edit", gone), worker("edit-1", "code-edit", well))
            async with running(config(*upstreams, timeouts=NO_CHECKS)) as router:
                await gone.kill()
                replies = [await call(router.port, CHAT, ask()) for _ in range(3)]
                assert [r.status for r in replies] == [200, 200, 200]
                assert {r.worker for r in replies} == {"edit-1"}
                assert router.dispatch.standing.states["edit-0"] == "unreachable"
                assert router.dispatch.tally.failures == {("edit-0", "unreachable"): 1}

    run(scenario)


def test_a_kept_connection_that_the_engine_had_closed_is_replaced(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """tests/integration/test_upstream_delivery.py has how that is known."""

    class Closed:
        def send(self, receiver: Receiver, *request: bytes) -> None:
            receiver.failed(Failure("stale", "had closed the kept connection"))

    async def scenario() -> None:
        async with one_plain(timeouts=NO_CHECKS) as (fake, router), wire(router.port) as client:
            kept = [Closed()]
            monkeypatch.setattr(Connections, "take", lambda self: kept.pop() if kept else None)
            client.post(CHAT, ask())
            assert (await client.reply()).status == 200
            assert (await fake.log(finished=1))["counts"]["requests"] == 1
            assert router.dispatch.tally.failures == {("plain-0", "stale"): 1}
            assert router.dispatch.standing.states["plain-0"] == "ready"

    run(scenario)


def test_a_request_that_came_on_a_kept_connection_is_not_sent_again() -> None:
    """The engine reads it and closes at once, as one does that dies."""

    async def scenario() -> None:
        async with (
            one_plain("--fail", "close_reused", timeouts=NO_CHECKS) as (fake, router),
            wire(router.port) as client,
        ):
            statuses = []
            for _ in range(2):
                client.post(CHAT, ask())
                statuses.append((await client.reply()).status)
            assert statuses == [200, 502]
            log = await fake.log(requests=2)
            connections = [seen["connection"] for seen in log["requests"]]
            assert connections[0] == connections[1]
            assert router.dispatch.tally.failures == {("plain-0", "died"): 1}

    run(scenario)


def test_a_request_that_an_engine_may_have_started_is_not_sent_again() -> None:
    async def scenario() -> None:
        async with engine("--fail", "close_first") as one, engine("--fail", "close_first") as two:
            upstreams = (worker("edit-0", "code-edit", one), worker("edit-1", "code-edit", two))
            async with running(config(*upstreams, timeouts=NO_CHECKS)) as router:
                reply = await call(router.port, CHAT, ask())
                error = reply.json()["error"]
                assert reply.status == 502
                assert error["source"] == "draftgate"
                assert "closed the connection without an answer" in error["message"]
                seen = [(await fake.log())["counts"]["requests"] for fake in (one, two)]
                assert sorted(seen) == [0, 1]

    run(scenario)


def test_a_stream_cut_by_the_engine_has_no_clean_end() -> None:
    async def scenario() -> None:
        async with one_plain("--fail", "die_mid_stream") as (_, router):
            reply = await call(router.port, CHAT, ask(stream=True))
            assert reply.status == 200
            assert not reply.is_whole
            assert reply.raw.count(b"data: {") == 4
            assert b"[DONE]" not in reply.raw
            assert router.dispatch.tally.failures == {("plain-0", "died"): 1}
            assert router.dispatch.standing.in_flight == {"plain-0": 0}

    run(scenario)


def test_an_engine_that_speaks_no_http_is_a_502() -> None:
    async def scenario() -> None:
        async with one_plain("--fail", "garbage") as (_, router):
            reply = await call(router.port, CHAT, ask())
            assert (reply.status, reply.json()["error"]["code"]) == (502, "malformed")

    run(scenario)


def test_an_engine_that_never_answers_is_a_504() -> None:
    async def scenario() -> None:
        timeouts = replace(QUICK, first_byte_s=0.2)
        async with one_plain("--fail", "hang", timeouts=timeouts) as (fake, router):
            reply = await call(router.port, CHAT, ask())
            assert (reply.status, reply.json()["error"]["code"]) == (504, "timeout")
            await fake.log(aborted=1)

    run(scenario)


def test_a_worker_comes_back_when_its_health_does() -> None:
    async def scenario() -> None:
        async with one_plain() as (fake, router):
            await fake.control(fail="unhealthy")
            await until(lambda: router.dispatch.standing.states["plain-0"] != "ready")
            assert (await call(router.port, "/health")).status == 503
            reply = await call(router.port, CHAT, ask())
            assert (reply.status, reply.json()["error"]["code"]) == (503, "no_worker")
            assert "plain-0 is unhealthy (/health: 503)" in reply.json()["error"]["message"]
            await fake.control(fail="none")
            await until(lambda: router.dispatch.standing.states["plain-0"] == "ready")
            assert (await call(router.port, "/health")).status == 200

    run(scenario)


def test_health_checks_take_no_connection_from_a_request() -> None:
    async def scenario() -> None:
        timeouts = replace(QUICK, health_every_s=0.001)
        async with one_plain(timeouts=timeouts) as (_, router), wire(router.port) as client:
            for _ in range(300):
                client.post(CHAT, ask())
                assert (await client.reply()).status == 200

    run(scenario)


# Choosing.


def test_limits_types_and_the_type_header() -> None:
    async def scenario() -> None:
        async with engine() as edit, engine() as plain:
            upstreams = (worker("edit-0", "code-edit", edit), worker("plain-0", "plain", plain))
            async with running(config(*upstreams)) as router:

                async def worker_for(*args: Any, **headers: str) -> Reply:
                    return await call(router.port, CHAT, *args, **headers)

                assert (await worker_for(ask())).worker == "edit-0"
                assert (await worker_for(ask(min_p=0))).worker == "edit-0"
                limited = await worker_for(ask(min_p=0.1))
                assert limited.worker == "plain-0"
                assert "min_p: not while speculating" in limited.reason
                assert (await worker_for(ask("hello"))).worker == "plain-0"
                named = await worker_for(ask("hello"), x_draftgate_type="code_edit")
                assert named.worker == "edit-0"
                in_body = await worker_for(ask("hello", metadata={"draftgate_type": "code_edit"}))
                assert in_body.worker == "edit-0"
                for kind in ("poem", "other"):
                    unknown = await worker_for(ask(), x_draftgate_type=kind)
                    assert unknown.status == 400
                    assert "code_edit, chat, default" in unknown.json()["error"]["message"]

    run(scenario)


@pytest.mark.parametrize("way", ["until", "batch_limit"])
def test_load_beyond_the_limit_spills_to_plain(way: str) -> None:
    async def scenario() -> None:
        async with engine("--hold") as edit, engine() as plain:
            limit = 1 if way == "batch_limit" else None
            upstreams = (
                worker("edit-0", "code-edit", edit, batch_limit=limit),
                worker("plain-0", "plain", plain),
            )
            stop_at = Until(in_flight=1) if way == "until" else None
            routes = {"code_edit": (Hop(profile="code-edit", until=stop_at), Hop(profile="plain"))}
            async with running(config(*upstreams, routes=routes)) as router:
                async with wire(router.port) as client:
                    client.post(CHAT, ask(stream=True))
                    assert (await client.head()).worker == "edit-0"
                    spilled = await call(router.port, CHAT, ask())
                    assert spilled.worker == "plain-0"
                    assert "1 in flight" in spilled.reason
                    await edit.control(release=1)
                    await client._until(b"\r\n0\r\n\r\n")
                    assert (await call(router.port, CHAT, ask())).worker == "edit-0"
                assert router.dispatch.tally.picks[way,] == 1

    run(scenario)


def test_a_worker_without_admission_is_never_used() -> None:
    async def scenario() -> None:
        async with engine() as fake:
            upstream = worker("edit-0", "code-edit", fake, refused="no certificate for this launch")
            async with running(config(upstream)) as router:
                reply = await call(router.port, CHAT, ask())
                assert reply.status == 503
                assert reply.headers["x-draftgate-type"] == "code_edit"
                assert reply.json()["error"]["message"] == (
                    "no worker can take a request of type code_edit for small now: code-edit:"
                    " edit-0 is not admitted: no certificate for this launch; plain: no worker of"
                    " this profile serves the model; plain refuge: no worker of this profile"
                    " serves the model"
                )
                assert (await fake.log())["counts"]["requests"] == 0

    run(scenario)


def test_a_draining_worker_finishes_and_gets_nothing_new() -> None:
    async def scenario() -> None:
        async with engine("--hold") as old, engine() as new:
            upstreams = (worker("edit-0", "code-edit", old), worker("edit-1", "code-edit", new))
            states = {"edit-0": "ready", "edit-1": "starting"}
            settings = config(*upstreams, worker_states=lambda: states)
            async with running(settings) as router, wire(router.port) as client:
                client.post(CHAT, ask(stream=True))
                assert (await client.head()).worker == "edit-0"
                states |= {"edit-0": "stopping", "edit-1": "ready"}
                await until(lambda: router.dispatch.standing.is_usable("edit-1"))
                replies = [await call(router.port, CHAT, ask()) for _ in range(4)]
                assert {r.worker for r in replies} == {"edit-1"}
                await old.control(release=1)
                assert b"[DONE]" in await client._until(b"\r\n0\r\n\r\n")
                assert (await old.log())["counts"] | {"connections": 0} == {
                    "requests": 1, "finished": 1, "aborted": 0, "connections": 0,
                }  # fmt: skip

    run(scenario)


# HTTP hygiene.


def test_stopping_lets_a_running_stream_finish() -> None:
    async def scenario() -> None:
        async with engine("--hold") as fake:
            router = Router(config(worker("plain-0", "plain", fake)))
            async with asyncio.TaskGroup() as group:
                group.create_task(router.serve())
                await router.started.wait()
                async with wire(router.port) as client:
                    client.post(CHAT, ask(stream=True))
                    await client.head()
                    router.stop()
                    await asyncio.sleep(0)
                    with pytest.raises(ConnectionRefusedError):
                        await call(router.port, "/health")
                    await fake.control(release=1)
                    assert (await client._until(b"\r\n0\r\n\r\n")).count(b"data: {") == 8
                    assert await client.reader.read() == b""

    run(scenario)


def test_the_admin_port_tells_what_happened() -> None:
    async def scenario() -> None:
        async with one_plain(admin=("127.0.0.1", 0)) as (_, router):
            assert router.admin_port is not None
            await call(router.port, CHAT, ask("hello"))
            status = (await call(router.admin_port, "/status")).json()
            assert status["upstreams"][0]["state"] == "ready"
            assert status["requests"]["type"] == {"chat": 1}
            assert status["picks"] == {"preferred": 1}
            text = (await call(router.admin_port, "/metrics")).raw.decode()
            labels = 'type="chat",profile="plain",worker="plain-0",status="200"'
            named = dict(line.rsplit(" ", 1) for line in text.splitlines() if line[0] != "#")
            counted = next(v for k, v in named.items() if k.startswith("draftgate_requests_total{"))
            assert counted == "1.0"
            assert all(label in text for label in labels.split(","))
            assert 'draftgate_requests_in_flight{worker="plain-0"} 0.0' in text

    run(scenario)


PROGRAM = """
import sys
from orchestrator.router import RouterConfig, run_router
here = ("127.0.0.1", 0)
run_router(RouterConfig((), (), {}, ("small",), here, here, True, 99, None, access_log=sys.argv[1]))
"""


def test_a_router_process_ends_on_sigterm() -> None:
    async def scenario() -> None:
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-c",
            PROGRAM,
            "-",
            cwd=FAKE_ENGINE.parents[1],
            stderr=asyncio.subprocess.PIPE,
        )
        assert process.stderr is not None
        line = (await process.stderr.readline()).decode()
        assert line.startswith("listening on 127.0.0.1:")
        reply = await call(int(line.rsplit(":", 1)[1]), "/v1/models")
        process.send_signal(signal.SIGTERM)
        *_, access = (await process.stderr.read()).decode().splitlines()
        assert (reply.status, await process.wait()) == (200, 0)
        assert json.loads(access)["path"] == "/v1/models"

    run(scenario)

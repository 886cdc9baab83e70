"""The access log of a running router: a line for every request, whatever became of it."""

import asyncio
import json
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.integration.test_router import PROGRAM
from tests.router_harness import (
    CHAT,
    FAKE_ENGINE,
    NO_CHECKS,
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


def lines_of(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def has(path: Path, count: int) -> Callable[[], bool]:
    return lambda: path.exists() and path.read_text().count("\n") >= count


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "access.jsonl"


@pytest.mark.parametrize("is_stream", [True, False])
def test_a_whole_answer(path: Path, is_stream: bool) -> None:
    async def scenario() -> None:
        async with one_plain(access_log=str(path)) as (fake, router), wire(router.port) as client:
            client.post(f"{CHAT}?secret=1", ask("hello there", stream=is_stream))
            reply = await client.reply()
            [seen] = (await fake.log())["requests"]
            port = client.writer.get_extra_info("sockname")[1]
        [line] = lines_of(path)
        assert line["request_id"] == seen["headers"]["x-request-id"]
        assert line["bytes_in"] == len(seen["body"])
        assert line["bytes_out"] == len(reply.raw)
        assert 0 <= line["first_byte_ms"] <= line["ms"]
        assert (line["client"], line["client_port"]) == ("127.0.0.1", port)
        known: dict[str, Any] = {
            "model": "small",
            "type": "chat",
            "profile": "plain",
            "worker": "plain-0",
        }
        known |= {"path": CHAT, "status": 200, "end": "whole", "retries": 0}
        assert known.items() <= line.items()
        assert line["reason"] in reply.reason
        assert line.get("completion_tokens") == (None if is_stream else 8)
        assert "hello" not in json.dumps(line)

    run(scenario)


def test_prompts_where_the_fleet_asks_for_them(path: Path) -> None:
    async def scenario() -> None:
        async with one_plain(access_log=str(path), log_prompts=True) as (_, router):
            await call(router.port, CHAT, ask("hello there"))
        assert json.loads(lines_of(path)[0]["body"]) == ask("hello there")

    run(scenario)


def test_refusals_malformed_requests_and_own_answers(path: Path) -> None:
    async def scenario() -> None:
        async with one_plain(access_log=str(path)) as (_, router):
            await call(router.port, CHAT, ask(model="unknown"))
            await call(router.port, CHAT, b"[]")
            await call(router.port, "/nothing")
            await call(router.port, "/v1/models")
            async with wire(router.port) as client:
                client.send(b"nonsense\r\n\r\n")
                answer = await client.reply()
        found = [(line["status"], line.get("path"), line["end"]) for line in lines_of(path)]
        assert found == [
            (404, CHAT, "refused"),
            (400, CHAT, "whole"),
            (404, "/nothing", "whole"),
            (200, "/v1/models", "whole"),
            (400, None, "whole"),
        ]
        assert lines_of(path)[-1]["bytes_out"] == len(answer.raw)
        assert {line["client"] for line in lines_of(path)} == {"127.0.0.1"}

    run(scenario)


def test_a_client_that_leaves_and_a_worker_that_is_gone(path: Path) -> None:
    async def scenario() -> None:
        async with engine("--hold") as gone, engine("--hold") as well:
            upstreams = (worker("edit-0", "code-edit", gone), worker("plain-0", "plain", well))
            settings = config(*upstreams, timeouts=NO_CHECKS, access_log=str(path))
            async with running(settings) as router:
                await gone.kill()
                async with wire(router.port) as client:
                    client.post(CHAT, ask(), x_request_id="mine")
                    await well.log(requests=1)
                await well.log(aborted=1)
                await until(has(path, 1))
        [line] = lines_of(path)
        expected = {"status": 499, "end": "client_gone", "worker": "plain-0", "retries": 1}
        assert expected.items() <= line.items()
        assert line["request_id"] == "mine"

    run(scenario)


def test_lines_are_counted_where_the_disk_is_full() -> None:
    async def scenario() -> None:
        settings = {"access_log": "/dev/full", "admin": ("127.0.0.1", 0)}
        async with one_plain(**settings) as (_, router):
            assert router.admin_port is not None
            for _ in range(3):
                assert (await call(router.port, CHAT, ask())).status == 200
            text = ""
            while "draftgate_access_log_lost_total 3.0" not in text:
                text = (await call(router.admin_port, "/metrics")).raw.decode()

    run(scenario)


def test_a_router_process_goes_on_in_the_new_file_after_sighup(path: Path) -> None:
    old = path.with_suffix(".1")

    async def scenario() -> None:
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-c",
            PROGRAM,
            str(path),
            cwd=FAKE_ENGINE.parents[1],
            stderr=asyncio.subprocess.PIPE,
        )
        assert process.stderr is not None
        port = int((await process.stderr.readline()).decode().rsplit(":", 1)[1])
        await call(port, "/v1/models")
        await until(has(path, 1))
        path.rename(old)  # noqa: ASYNC240  as logrotate does
        process.send_signal(signal.SIGHUP)
        await until(has(path, 0))
        await call(port, "/health")
        process.send_signal(signal.SIGTERM)
        await process.stderr.read()
        assert await process.wait() == 0
        assert [line["path"] for line in (*lines_of(old), *lines_of(path))] == [
            "/v1/models",
            "/health",
        ]

    run(scenario)

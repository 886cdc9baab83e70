"""API keys, their limits and the waiting room, in a router before engines."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from orchestrator.keys import KeyEntry, digest
from orchestrator.router import Router
from orchestrator.router_entry import QueueEntry
from tests.router_harness import (
    CHAT,
    QUICK,
    FakeEngine,
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
from tests.router_process import eventually, fleet_text, served

ALICE, BOB = "dg-alice", "dg-bob"


def entry(key: str, **limits: Any) -> KeyEntry:
    return KeyEntry(name=key.removeprefix("dg-"), sha256=digest(key.encode()), **limits)


def bearer(key: str) -> dict[str, str]:
    return {"authorization": f"Bearer {key}"}


def code(reply: Reply) -> str:
    return str(reply.json()["error"]["code"])


def test_a_key_is_asked_for_and_goes_no_further(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The engine gets its own; neither stands in logs or status."""
    monkeypatch.setenv("DRAFTGATE_ENGINE_API_KEY", "engine-secret")
    log = tmp_path / "access.jsonl"
    told = ""

    async def scenario() -> None:
        nonlocal told
        keys = (entry(ALICE), entry(BOB, models=("small",)))
        made = one_plain(keys=keys, access_log=str(log), admin=("127.0.0.1", 0))
        async with made as (fake, router):
            for headers in ({}, bearer("dg-nobody"), {"x_api_key": ""}):
                reply = await call(router.port, CHAT, ask(), **headers)
                assert reply.status == 401
                assert reply.headers["www-authenticate"] == "Bearer"
            for path in ("/v1/models", "/v1/models/small", "/nothing"):
                assert (await call(router.port, path)).status == 401
            error = (await call(router.port, "/v1/messages", ask())).json()
            assert (error["type"], error["error"]["type"]) == ("error", "authentication_error")
            assert (await call(router.port, "/health")).status == 200
            assert (await call(router.port, CHAT, ask(), **bearer(ALICE))).status == 200
            assert (await call(router.port, CHAT, ask(), x_api_key=BOB)).status == 200
            seen = (await fake.log(finished=2))["requests"]
            assert [s["headers"]["authorization"] for s in seen] == ["Bearer engine-secret"] * 2
            assert not any("x-api-key" in s["headers"] for s in seen)
            assert router.admin_port is not None
            for path in ("/status", "/metrics"):
                told += (await call(router.admin_port, path)).raw.decode()

    run(scenario)
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    assert [line.get("key") for line in lines if line["status"] == 200][-2:] == ["alice", "bob"]
    assert 'draftgate_key_requests_total{key="alice",status="200"} 1' in told
    assert 'draftgate_key_tokens_total{key="bob",kind="completion"}' in told
    for secret in (ALICE, BOB, "engine-secret", digest(ALICE.encode())):
        assert secret not in told + log.read_text()


def test_without_keys_what_a_client_sends_goes_on() -> None:
    async def scenario() -> None:
        async with one_plain() as (fake, router):
            assert (await call(router.port, CHAT, ask(), **bearer("its own"))).status == 200
            [seen] = (await fake.log(requests=1))["requests"]
            assert seen["headers"]["authorization"] == "Bearer its own"

    run(scenario)


def test_limits_are_told_and_kept() -> None:
    async def scenario() -> None:
        keys = (entry(ALICE, requests_per_minute=2, tokens_per_minute=1000), entry(BOB))
        async with one_plain(keys=keys) as (fake, router):
            replies = [await call(router.port, CHAT, ask(), **bearer(ALICE)) for _ in range(3)]
            assert [reply.status for reply in replies] == [200, 200, 429]
            left = [r.headers["x-ratelimit-remaining-requests"] for r in replies[:2]]
            assert left == ["1", "0"]
            assert code(replies[2]) == "key_requests"
            assert 0 < int(replies[2].headers["retry-after"]) <= 65
            assert (await call(router.port, CHAT, ask(), **bearer(BOB))).status == 200
            assert (await fake.log())["counts"]["requests"] == 3

    run(scenario)


def test_tokens_that_the_answer_did_not_take_come_back() -> None:
    async def scenario() -> None:
        keys = (entry(ALICE, tokens_per_minute=2000),)
        async with one_plain("--tokens", "8", keys=keys) as (_, router):
            for _ in range(4):
                reply = await call(router.port, CHAT, ask(max_tokens=1500), **bearer(ALICE))
                assert reply.status == 200
            reply = await call(router.port, CHAT, ask(model="none"), **bearer(ALICE))
            assert reply.status == 404
            assert router.dispatch.callers is not None
            [caller] = router.dispatch.callers
            assert caller.use.in_flight.read() == 0
            assert caller.use.tokens.total.read() < 200

    run(scenario)


def test_models_of_a_key() -> None:
    async def scenario() -> None:
        keys = (entry(ALICE, models=("other",)),)
        async with (
            engine() as fake,
            running(
                config(worker("plain-0", "plain", fake), keys=keys, models=("small", "other"))
            ) as router,
        ):
            reply = await call(router.port, CHAT, ask(), **bearer(ALICE))
            assert (reply.status, code(reply)) == (403, "model_not_allowed")

    run(scenario)


# Waiting.


def full(fake: FakeEngine, limit: int, **changes: Any) -> Any:
    return config(worker("plain-0", "plain", fake, in_flight_limit=limit), **changes)


async def waiting(router: Router, count: int) -> None:
    await until(lambda: router.dispatch.tally.waiting == count)


def test_requests_wait_and_nobody_is_forgotten(tmp_path: Path) -> None:
    log = tmp_path / "access.jsonl"

    async def scenario() -> None:
        queue = QueueEntry(size=10)
        async with (
            engine("--hold") as fake,
            running(full(fake, 2, queue=queue, access_log=str(log))) as router,
        ):
            asked = [asyncio.create_task(call(router.port, CHAT, ask())) for _ in range(8)]
            await waiting(router, 6)
            assert (await fake.log(requests=2))["counts"]["requests"] == 2
            await fake.control(release=1)
            replies = await asyncio.gather(*asked)
            assert [reply.status for reply in replies] == [200] * 8
            assert router.dispatch.tally.waiting == 0
            assert router.dispatch.tally.wait_ends == {("served",): 6}
            assert router.dispatch.standing.in_flight == {"plain-0": 0}

    run(scenario)
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    assert sum("waited_ms" in line for line in lines) == 6


def test_a_full_room_a_client_that_leaves_and_a_wait_that_is_too_long() -> None:
    async def scenario() -> None:
        queue = QueueEntry(size=2)
        waits = QUICK.__class__(**{**vars(QUICK), "worker_s": 0.5})
        async with (
            engine("--hold") as fake,
            running(full(fake, 1, queue=queue, timeouts=waits)) as router,
        ):
            first = asyncio.create_task(call(router.port, CHAT, ask()))
            await fake.log(requests=1)
            async with wire(router.port) as leaving:
                leaving.post(CHAT, ask())
                await waiting(router, 1)
                late = asyncio.create_task(call(router.port, CHAT, ask()))
                await waiting(router, 2)
                reply = await call(router.port, CHAT, ask())
                assert (reply.status, code(reply)) == (503, "workers_full")
                assert reply.headers["retry-after"] == "1"
            reply = await late
            assert (reply.status, code(reply)) == (503, "workers_full")
            assert "no worker was free" in reply.json()["error"]["message"]
            await waiting(router, 0)
            ends = router.dispatch.tally.wait_ends
            assert ends == {("full",): 1, ("client_gone",): 1, ("timeout",): 1}
            await fake.control(release=1)
            assert (await first).status == 200
            assert (await fake.log())["counts"]["requests"] == 1

    run(scenario)


def test_turns_go_by_shares() -> None:
    """Bob has few requests and Alice many: his are not behind all of hers."""

    async def scenario() -> None:
        keys = (entry(ALICE), entry(BOB))
        ends: list[str] = []

        async def one(router: Router, key: str) -> None:
            assert (await call(router.port, CHAT, ask(), **bearer(key))).status == 200
            ends.append(key)

        async with (
            engine("--hold") as fake,
            running(full(fake, 1, queue=QueueEntry(), keys=keys)) as router,
            asyncio.TaskGroup() as group,
        ):
            for number, key in enumerate([ALICE] * 11 + [BOB] * 3):
                group.create_task(one(router, key))
                await waiting(router, number)
            await fake.control(release=1)
        assert ends.index(BOB) <= 3
        assert [n for n, key in enumerate(ends) if key == BOB][-1] <= 7

    run(scenario)


def test_what_waits_finds_a_worker_that_a_reload_brings(tmp_path: Path) -> None:
    """And keys that a reload takes away are not served any more."""
    (tmp_path / "keys.yaml").write_text(
        json.dumps({"keys": [entry(ALICE).model_dump(), entry(BOB).model_dump()]})
    )
    file = tmp_path / "fleet.yaml"

    def fleet(*workers: tuple[str, str, FakeEngine]) -> dict[str, Any]:
        router = {"keys": "keys.yaml", "queue": {"size": 10}}
        made: dict[str, Any] = json.loads(fleet_text(workers, router=router))
        for one in made["workers"]:
            one["in_flight_limit"] = 1
        return made

    async def scenario() -> None:
        async with engine("--hold") as held, engine() as free:
            file.write_text(json.dumps(fleet(("plain-0", "plain", held))))
            async with served(file) as router:
                first = asyncio.create_task(call(router.port, CHAT, ask(), **bearer(ALICE)))
                await held.log(requests=1)
                second = asyncio.create_task(call(router.port, CHAT, ask(), **bearer(ALICE)))

                async def waits() -> bool:
                    return bool((await router.status())["waiting"])

                await eventually(waits)
                [alice, _] = (await router.status())["callers"]
                assert (alice["key"], alice["in_flight"]) == ("alice", 2)
                two = fleet(("plain-0", "plain", held), ("plain-1", "plain", free))
                file.write_text(json.dumps(two))
                (tmp_path / "keys.yaml").write_text(
                    json.dumps({"keys": [entry(ALICE).model_dump()]})
                )
                reply = await second
                assert (reply.status, reply.worker) == (200, "plain-1")
                assert (await call(router.port, CHAT, ask(), **bearer(BOB))).status == 401
                await held.control(release=1)
                assert (await first).status == 200
                assert (await router.status())["callers"][0]["in_flight"] == 0

    run(scenario, limit_s=40)


def test_a_bad_key_file_changes_nothing_and_says_why(tmp_path: Path) -> None:
    keys = tmp_path / "keys.yaml"
    keys.write_text(json.dumps({"keys": [entry(ALICE).model_dump()]}))
    file = tmp_path / "fleet.yaml"

    async def scenario() -> None:
        async with engine() as fake:
            workers = [("plain-0", "plain", fake)]
            file.write_text(fleet_text(workers, router={"keys": "keys.yaml"}))
            async with served(file) as router:
                keys.write_text("keys: [{name: a, sha: 1}]")
                await router.reloaded("refused")
                await router.said("keys.yaml:1:")
                assert (await call(router.port, CHAT, ask(), **bearer(ALICE))).status == 200

    run(scenario, limit_s=40)


def test_processes_keep_one_limit(tmp_path: Path) -> None:
    keys = tmp_path / "keys.yaml"
    limited = entry(ALICE, requests_per_minute=20, in_flight=6)
    keys.write_text(json.dumps({"keys": [limited.model_dump()]}))
    file = tmp_path / "fleet.yaml"

    async def scenario() -> None:
        async with engine() as fake:
            workers = [("plain-0", "plain", fake)]
            file.write_text(fleet_text(workers, router={"keys": "keys.yaml"}))
            async with served(file, "--workers", "2") as router:
                replies = [await call(router.port, CHAT, ask(), **bearer(ALICE)) for _ in range(40)]
                statuses = [reply.status for reply in replies]
                assert statuses == [200] * 20 + [429] * 20
                [alice] = (await router.status())["callers"]
                assert (alice["requests_last_minute"], alice["in_flight"]) == (20, 0)

    run(scenario, limit_s=40)

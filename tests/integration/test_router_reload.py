"""Reloading and draining, by a router process and real sockets."""

import asyncio
import json
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.router_harness import CHAT, ask, call, engine, run, wire
from tests.router_process import Load, Served, fleet_text, served

EDIT_FIRST = {"chat": [{"profile": "code-edit", "until": {"in_flight": 4, "back_at": 1}}, "plain"]}


def write(file: Path, text: str) -> None:
    file.write_text(text, encoding="utf-8")


@asynccontextmanager
async def one_served(file: Path) -> AsyncIterator[tuple[str, Served]]:
    """A router on a file with one plain worker, and the file's text."""
    async with engine() as fake:
        text = fleet_text([("plain-0", "plain", fake)])
        write(file, text)
        async with served(file) as router:
            yield text, router


def states(status: Any) -> dict[str, str]:
    return {worker["name"]: worker["state"] for worker in status["upstreams"]}


def in_flight(status: Any) -> dict[str, int]:
    return {worker["name"]: worker["in_flight"] for worker in status["upstreams"]}


def test_a_changed_fleet_is_used_without_being_asked(tmp_path: Path) -> None:
    fleet = tmp_path / "fleet.yaml"

    async def scenario() -> None:
        async with engine() as one, engine() as two:
            write(fleet, fleet_text([("plain-0", "plain", one)]))
            async with served(fleet) as router:
                before = await call(router.port, CHAT, ask())
                both = [("plain-0", "plain", one), ("edit-0", "code-edit", two)]
                write(fleet, fleet_text(both))
                status = await router.reloaded("applied")
                after = await call(router.port, CHAT, ask())
                assert (before.worker, after.worker) == ("plain-0", "edit-0")
                assert states(status) == {"plain-0": "ready", "edit-0": "ready"}
                assert status["reload"]["outcome"] == "applied"
                assert status["requests"]["worker"] == {"plain-0": 1}
                assert (await router.status())["requests"]["worker"] == {"plain-0": 1, "edit-0": 1}
                assert 0 <= (await router.metrics())["draftgate_config_age_seconds"] < 10

    run(scenario)


def test_a_changed_profile_is_used_and_a_bad_one_is_not(tmp_path: Path) -> None:
    fleet, profile = tmp_path / "fleet.yaml", tmp_path / "profiles" / "plain.yaml"
    profile.parent.mkdir()

    async def scenario() -> None:
        async with engine() as one:
            write(fleet, fleet_text([("plain-0", "plain", one)]))
            async with served(fleet) as router:
                write(profile, "profile: plain\nspeculation: {method: non}\n")
                bad = await router.reloaded("refused")
                assert any("profiles/plain.yaml" in line for line in bad["reload"]["problems"])
                assert (await call(router.port, CHAT, ask())).status == 200
                write(profile, "profile: plain\nspeculation: {method: none}\n")
                good = await router.reloaded("applied")
                assert good["reload"]["problems"] == []

    run(scenario)


def test_a_bad_file_changes_nothing_and_says_all_that_is_wrong(tmp_path: Path) -> None:
    fleet = tmp_path / "fleet.yaml"

    async def scenario() -> None:
        async with one_served(fleet) as (text, router):
            broken = json.loads(text)
            broken["workers"][0]["profile"] = "plian"
            broken["routes"] = {"chatt": ["plain"]}
            write(fleet, json.dumps(broken))
            status = await router.reloaded("refused")
            told = "\n".join(status["reload"]["problems"])
            assert "plian" in told
            assert "chatt" in told
            assert await router.said("not reloaded, nothing changes")
            assert (await call(router.port, CHAT, ask())).worker == "plain-0"
            write(fleet, text[: len(text) // 2])
            await router.reloaded("refused", 2)
            assert (await call(router.port, CHAT, ask())).worker == "plain-0"
            fleet.unlink()
            await router.reloaded("refused", 3)
            write(fleet, text)
            await router.reloaded("applied")
            assert await router.reloads() == {"applied": 1, "refused": 3}

    run(scenario)


def test_half_a_file_is_not_read(tmp_path: Path) -> None:
    """A file that grows between two looks is left alone until it stands still."""
    fleet = tmp_path / "fleet.yaml"

    async def scenario() -> None:
        async with one_served(fleet) as (text, router):
            for end in range(10):
                write(fleet, text[: 100 + end])
                await asyncio.sleep(0.3)
            write(fleet, text)
            await router.reloaded("applied")
            assert await router.reloads() == {"applied": 1, "refused": 0}

    run(scenario)


def test_what_needs_a_restart_is_told(tmp_path: Path) -> None:
    fleet = tmp_path / "fleet.yaml"

    async def scenario() -> None:
        async with engine() as one:
            workers = [("plain-0", "plain", one)]
            write(fleet, fleet_text(workers))
            async with served(fleet) as router:
                write(fleet, fleet_text(workers, router={"listen": "127.0.0.1:1"}))
                router.signal(signal.SIGHUP)
                status = await router.reloaded("applied")
                (note,) = status["reload"]["needs_restart"]
                assert note.startswith("router.listen: 127.0.0.1:1 needs a restart")
                assert (await call(router.port, CHAT, ask())).status == 200

    run(scenario)


def test_requests_that_run_stay_counted_and_end_where_they_are(tmp_path: Path) -> None:
    """Four requests hold the pool at its crossover across two reloads, and one of them leaves."""
    fleet = tmp_path / "fleet.yaml"

    async def scenario() -> None:
        async with engine("--hold") as edit, engine() as plain, engine() as other:
            workers = [("plain-0", "plain", plain), ("edit-0", "code-edit", edit)]
            write(fleet, fleet_text(workers, routes=EDIT_FIRST))
            async with served(fleet) as router, asyncio.TaskGroup() as group:
                held = [group.create_task(call(router.port, CHAT, ask())) for _ in range(4)]
                await edit.log(requests=4)
                write(fleet, fleet_text([*workers, ("plain-1", "plain", other)], routes=EDIT_FIRST))
                router.signal(signal.SIGHUP)
                status = await router.reloaded("applied")
                assert in_flight(status) == {"plain-0": 0, "edit-0": 4, "plain-1": 0}
                found = await call(router.port, CHAT, ask())
                assert "code-edit: 4 in flight, until 4" in found.reason
                await edit.control(release=1)  # all that are held go on
                assert [(await task).worker for task in held] == ["edit-0"] * 4
                assert in_flight(await router.status())["edit-0"] == 0
                router.signal(signal.SIGHUP)
                status = await router.reloaded("applied", 2)
                assert in_flight(status) == {"plain-0": 0, "edit-0": 0, "plain-1": 0}
                assert (await call(router.port, CHAT, ask())).worker == "edit-0"

    run(scenario)


def test_a_worker_that_is_taken_out_finishes_and_gets_nothing_new(tmp_path: Path) -> None:
    fleet = tmp_path / "fleet.yaml"

    async def scenario() -> None:
        async with engine("--hold") as edit, engine() as plain:
            workers = [("plain-0", "plain", plain), ("edit-0", "code-edit", edit)]
            write(fleet, fleet_text(workers))
            async with served(fleet) as router, wire(router.port) as client:
                client.post(CHAT, ask(stream=True))
                await client.head()
                write(fleet, fleet_text(workers[:1]))
                router.signal(signal.SIGHUP)
                status = await router.reloaded("applied")
                assert in_flight(status) == {"plain-0": 0}
                assert (await call(router.port, CHAT, ask())).worker == "plain-0"
                await edit.control(release=1)
                assert (await client._until(b"\r\n0\r\n\r\n")).count(b"data: {") == 8
                counts = (await edit.log(finished=1))["counts"]
                assert (counts["requests"], counts["aborted"]) == (1, 0)
                client.post(CHAT, ask())  # the same connection meets the new fleet
                assert (await client.reply()).worker == "plain-0"

    run(scenario)


def test_a_new_worker_that_is_not_well_gets_nothing(tmp_path: Path) -> None:
    fleet = tmp_path / "fleet.yaml"

    async def scenario() -> None:
        async with engine() as one, engine("--fail", "unhealthy") as ill:
            write(fleet, fleet_text([("plain-0", "plain", one)]))
            async with served(fleet) as router:
                write(fleet, fleet_text([("plain-0", "plain", one), ("edit-0", "code-edit", ill)]))
                router.signal(signal.SIGHUP)
                status = await router.reloaded("applied")
                assert states(status)["edit-0"].startswith("unhealthy")
                assert (await call(router.port, CHAT, ask())).worker == "plain-0"

    run(scenario)


def test_nothing_is_lost_while_files_change_under_load(tmp_path: Path) -> None:
    fleet = tmp_path / "fleet.yaml"

    async def scenario() -> None:
        async with engine() as one, engine() as two, engine() as three:
            plain = [("plain-0", "plain", one)]
            fleets = [
                fleet_text([*plain, ("edit-0", "code-edit", two)]),
                fleet_text([*plain, ("edit-0", "code-edit", three)]),  # elsewhere
                fleet_text([*plain, ("plain-1", "plain", two)]),  # another profile
                fleet_text(plain),
            ]
            write(fleet, fleets[0])
            async with served(fleet) as router:
                load = Load(router.port)
                async with load.running():
                    for number in range(1, 13):
                        write(fleet, fleets[number % 4])
                        router.signal(signal.SIGHUP)
                        await router.reloaded("applied", number)
                        await asyncio.sleep(0.05)
                status = await router.status()
                asked = load.ends.total()
                assert load.ends == {"right": asked}
                assert asked > 100
                assert set(load.workers) == {"plain-0", "plain-1", "edit-0"}
                assert status["requests"]["worker"] == dict(load.workers)
                assert status["requests"]["status"] == {"200": asked}
                assert set(in_flight(status).values()) == {0}

    run(scenario)


# Draining.


def test_health_turns_first_while_everything_is_served(tmp_path: Path) -> None:
    fleet = tmp_path / "fleet.yaml"

    async def scenario() -> None:
        async with engine() as one:
            router_entry = {"drain_s": 30, "grace_s": 20}
            write(fleet, fleet_text([("plain-0", "plain", one)], router=router_entry))
            async with served(fleet) as router, wire(router.port) as kept:
                kept.post(CHAT, ask())
                assert "connection" not in (await kept.reply()).headers
                router.signal(signal.SIGTERM)
                while (await call(router.port, "/health")).status == 200:  # noqa: ASYNC110
                    await asyncio.sleep(0.01)
                kept.post(CHAT, ask())
                last = await kept.reply()
                assert (last.status, last.headers["connection"]) == (200, "close")
                assert (await call(router.port, CHAT, ask())).status == 200
                router.signal(signal.SIGTERM)  # hurries
                assert await asyncio.wait_for(router.process.wait(), 5) == 0

    run(scenario)


def test_what_comes_after_a_running_answer_is_refused_when_it_stops(tmp_path: Path) -> None:
    fleet = tmp_path / "fleet.yaml"

    async def scenario() -> None:
        async with engine("--hold") as one:
            write(fleet, fleet_text([("plain-0", "plain", one)]))
            async with (
                served(fleet) as router,
                wire(router.port) as busy,
                wire(router.port) as idle,
            ):
                busy.post(CHAT, ask(stream=True))
                await busy.head()
                router.signal(signal.SIGTERM)
                assert await idle.reader.read() == b""
                busy.post(CHAT, ask())
                with pytest.raises(ConnectionRefusedError):
                    await call(router.port, CHAT, ask())
                await one.control(release=1)
                whole = await busy.reader.readuntil(b"\r\n0\r\n\r\n")
                assert whole.count(b"data: {") == 8
                refused = await busy.reply()
                assert refused.status == 503
                assert refused.headers["connection"] == "close"
                assert refused.headers["retry-after"] == "1"
                assert refused.json()["error"]["code"] == "stopping"
                assert await busy.reader.read() == b""
                busy.writer.close()
                assert await asyncio.wait_for(router.process.wait(), 5) == 0
                assert (await one.log())["counts"]["requests"] == 1

    run(scenario)


def test_the_grace_is_the_fleets(tmp_path: Path) -> None:
    fleet = tmp_path / "fleet.yaml"

    async def scenario() -> None:
        async with engine("--hold") as one:
            write(fleet, fleet_text([("plain-0", "plain", one)], router={"grace_s": 0.3}))
            async with served(fleet) as router, wire(router.port) as client:
                client.post(CHAT, ask(stream=True))
                await client.head()
                router.signal(signal.SIGTERM)
                assert await asyncio.wait_for(router.process.wait(), 5) == 0
                assert (await one.log(aborted=1))["counts"]["aborted"] == 1

    run(scenario)

"""A router of several processes: what they share, and what becomes of it when one of them dies."""

import asyncio
import os
import signal
import sys
from collections import Counter
from pathlib import Path

import psutil
import pytest

from tests.router_harness import CHAT, Reply, ask, call, engine, run, until, wire
from tests.router_process import Load, Served, eventually, fleet_text, served

TWO = ("--workers", "2")
LIMIT_S = 50  # processes take a second or two to start
UNTIL_4 = {"chat": [{"profile": "code-edit", "until": {"in_flight": 4, "back_at": 1}}, "plain"]}


def children(router: Served) -> list[psutil.Process]:
    return [c for c in psutil.Process(router.process.pid).children() if is_living(c)]


async def requests(router: Served) -> int:
    found = await router.metrics()
    return int(sum(v for k, v in found.items() if k.startswith("draftgate_requests_total")))


async def serving(router: Served) -> bool:
    """Whether both processes listen."""
    return sum(map(is_listening, children(router))) == 2


def is_listening(process: psutil.Process) -> bool:
    try:
        return any(c.status == psutil.CONN_LISTEN for c in process.net_connections("tcp"))
    except psutil.NoSuchProcess:
        return False


async def in_flight(router: Served) -> dict[str, int]:
    return {u["name"]: u["in_flight"] for u in (await router.status())["upstreams"]}


def is_living(process: psutil.Process) -> bool:
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


async def answered(router: Served, path: str = CHAT) -> str:
    """How a request ended."""
    try:
        return str((await call(router.port, path, ask() if path == CHAT else None)).status)
    except (OSError, asyncio.IncompleteReadError):
        return "lost"


def test_counts_are_of_all_processes(tmp_path: Path) -> None:
    fleet = tmp_path / "fleet.yaml"

    async def scenario() -> None:
        async with engine() as one, engine() as two:
            fleet.write_text(fleet_text([("plain-0", "plain", one), ("plain-1", "plain", two)]))
            async with served(fleet, *TWO) as router:
                assert len(children(router)) == 2
                load = Load(router.port)
                async with load.running(16):
                    await asyncio.sleep(1)
                asked = load.ends.total()
                status = await router.status()
                assert load.ends == {"right": asked}
                assert status["requests"]["status"] == {"200": asked}
                assert status["requests"]["worker"] == dict(load.workers)
                assert {u["in_flight"] for u in status["upstreams"]} == {0}
                cpu = [sum(child.cpu_times()[:2]) for child in children(router)]
                assert min(cpu) > 0.2 * max(cpu)  # both took part
                router.signal(signal.SIGTERM)
                assert await asyncio.wait_for(router.process.wait(), 10) == 0

    run(scenario, LIMIT_S)


def test_a_crossover_is_of_all_processes(tmp_path: Path) -> None:
    """Held requests come one by one over many connections: exactly four are let into the pool."""
    fleet = tmp_path / "fleet.yaml"

    async def scenario() -> None:
        async with engine("--hold") as edit, engine("--hold") as plain:
            workers = [("plain-0", "plain", plain), ("edit-0", "code-edit", edit)]
            fleet.write_text(fleet_text(workers, routes=UNTIL_4))
            async with served(fleet, *TWO) as router, asyncio.TaskGroup() as group:
                held: list[asyncio.Task[Reply]] = []
                for number in range(1, 17):
                    held.append(group.create_task(call(router.port, CHAT, ask())))
                    await edit.log(requests=min(number, 4))
                    await plain.log(requests=max(number - 4, 0))
                assert await in_flight(router) == {"plain-0": 12, "edit-0": 4}
                await edit.control(release=1)
                edited = [await task for task in held[:4]]
                assert {reply.worker for reply in edited} == {"edit-0"}
                # Below the band, every process uses the pool again.
                again = [group.create_task(call(router.port, CHAT, ask())) for _ in range(4)]
                await edit.log(requests=8)
                await plain.control(release=1)
                await edit.control(release=1)
                assert [(await task).worker for task in again] == ["edit-0"] * 4

    run(scenario, LIMIT_S)


def test_a_killed_process_loses_only_its_own_connections(tmp_path: Path) -> None:
    fleet = tmp_path / "fleet.yaml"

    async def scenario() -> None:
        async with engine("--hold") as one:
            fleet.write_text(fleet_text([("plain-0", "plain", one)]))
            async with served(fleet, *TWO) as router, asyncio.TaskGroup() as group:
                held = [group.create_task(answered(router)) for _ in range(24)]
                await one.log(requests=24)
                victim, other = children(router)
                victim.kill()
                await router.said("another one starts")
                lost = 24 - (await in_flight(router))["plain-0"]
                assert 0 < lost < 24
                await one.control(release=1)
                results = Counter([await task for task in held])
                assert results == {"200": 24 - lost, "lost": lost}
                assert (await one.log(finished=24 - lost))["counts"]["aborted"] == lost
                await eventually(lambda: serving(router))
                assert is_living(other)
                assert await in_flight(router) == {"plain-0": 0}
                assert (await router.status())["requests"]["status"] == {"200": 24 - lost}

    run(scenario, LIMIT_S)


def test_metrics_never_go_backwards_while_processes_are_killed_under_load(tmp_path: Path) -> None:
    fleet = tmp_path / "fleet.yaml"

    async def scenario() -> None:
        async with engine("--pace-ms", "5", "--tokens", "4") as one:
            fleet.write_text(fleet_text([("plain-0", "plain", one)]))
            async with served(fleet, *TWO) as router:
                load = Load(router.port)
                counted = [0]
                async with load.running(8):
                    for _ in range(2):
                        counted.append(await requests(router))
                        victim = children(router)[0]
                        victim.kill()
                        await until(lambda victim=victim: not is_living(victim))  # type: ignore[misc]
                        while not await serving(router):
                            counted.append(await requests(router))
                            await asyncio.sleep(0.02)
                        await asyncio.sleep(0.3)
                counted.append(await requests(router))
                assert counted == sorted(counted)
                right = load.ends["right"]
                assert right > 100
                assert 0 <= right - counted[-1] <= right / 2  # of the dead, what was told is kept
                wrong = {end for end in load.ends if end[0].isdigit()}
                assert wrong == set()  # connections that broke, no wrong answers
                assert await in_flight(router) == {"plain-0": 0}

    run(scenario, LIMIT_S)


def test_a_reload_reaches_every_process_and_loses_nothing(tmp_path: Path) -> None:
    fleet = tmp_path / "fleet.yaml"

    async def scenario() -> None:
        async with engine() as one, engine() as two, engine("--hold") as slow:
            plain = ("plain-0", "plain", one)
            fleets = [
                fleet_text([plain, ("edit-0", "code-edit", two)]),
                fleet_text([plain, ("plain-1", "plain", two)]),
                fleet_text([plain]),
            ]
            fleet.write_text(fleet_text([("slow-0", "code-edit", slow), plain]))
            async with served(fleet, *TWO) as router, wire(router.port) as client:
                client.post(CHAT, ask(stream=True))
                await client.head()
                fleet.write_text(fleets[0])
                router.signal(signal.SIGHUP)
                await router.reloaded("applied")
                load = Load(router.port)
                async with load.running(8):
                    for number in range(2, 8):
                        fleet.write_text(fleets[number % 3])
                        router.signal(signal.SIGHUP)
                        await router.reloaded("applied", number)
                        await asyncio.sleep(0.2)
                await slow.control(release=1)
                whole = await client.reader.readuntil(b"\r\n0\r\n\r\n")
                assert whole.count(b"data: {") == 8
                asked = load.ends.total()
                assert load.ends == {"right": asked}
                status = await router.status()
                assert status["requests"]["status"] == {"200": asked + 1}
                assert set(load.workers) == {"plain-0", "plain-1", "edit-0"}
                assert set((await in_flight(router)).values()) == {0}

    run(scenario, LIMIT_S)


def test_what_one_process_finds_out_all_know(tmp_path: Path) -> None:
    fleet = tmp_path / "fleet.yaml"

    async def scenario() -> None:
        async with engine() as one, engine() as two:
            fleet.write_text(fleet_text([("plain-0", "plain", one), ("edit-0", "code-edit", two)]))
            async with served(fleet, *TWO) as router:
                assert (await call(router.port, CHAT, ask())).worker == "edit-0"
                await two.kill()
                replies = [await call(router.port, CHAT, ask()) for _ in range(20)]
                assert {reply.worker for reply in replies} == {"plain-0"}
                status = await router.status()
                assert {u["name"]: u["state"] for u in status["upstreams"]} == {
                    "plain-0": "ready",
                    "edit-0": "unreachable",
                }

    run(scenario, LIMIT_S)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_no_child_outlives_its_parent(tmp_path: Path, number: signal.Signals) -> None:
    fleet = tmp_path / "fleet.yaml"

    async def scenario() -> None:
        async with engine("--hold") as one:
            fleet.write_text(fleet_text([("plain-0", "plain", one)], router={"grace_s": 0.5}))
            async with served(fleet, *TWO) as router, wire(router.port) as client:
                client.post(CHAT, ask(stream=True))
                await client.head()
                started = children(router)
                assert len(started) == 2
                router.signal(number)
                await asyncio.wait_for(router.process.wait(), 5)
                await until(lambda: not any(map(is_living, started)))

    run(scenario, LIMIT_S)


def test_a_running_stream_ends_whole_when_all_stop(tmp_path: Path) -> None:
    fleet = tmp_path / "fleet.yaml"

    async def scenario() -> None:
        async with engine("--hold") as one:
            fleet.write_text(fleet_text([("plain-0", "plain", one)]))
            async with served(fleet, *TWO) as router, wire(router.port) as client:
                client.post(CHAT, ask(stream=True))
                await client.head()
                router.signal(signal.SIGTERM)
                while await answered(router, "/health") != "lost":
                    pass
                await one.control(release=1)
                whole = await client.reader.readuntil(b"\r\n0\r\n\r\n")
                assert whole.count(b"data: {") == 8
                client.writer.close()
                assert await asyncio.wait_for(router.process.wait(), 10) == 0

    run(scenario, LIMIT_S)


def test_a_port_that_another_router_has_is_not_shared(tmp_path: Path) -> None:
    fleet = tmp_path / "fleet.yaml"

    async def scenario() -> None:
        async with engine() as one:
            fleet.write_text(fleet_text([("plain-0", "plain", one)]))
            async with served(fleet, *TWO) as router:
                listen = f"127.0.0.1:{router.port}"
                other = await asyncio.create_subprocess_exec(
                    *(sys.executable, "-m", "orchestrator.cli", "serve", str(fleet)),
                    *("--listen", listen, *TWO),
                    env=os.environ | {"PYTHONPATH": str(Path(__file__).parents[2])},
                    stderr=asyncio.subprocess.PIPE,
                    stdout=asyncio.subprocess.DEVNULL,
                )
                _, talk = await other.communicate()
                assert other.returncode == 1
                assert f"cannot listen on {listen}" in talk.decode()

    run(scenario, LIMIT_S)

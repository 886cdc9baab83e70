"""Replay: a day's requests through a router in a process of its own, before engines that stream."""

import asyncio
import json
import os
import re
import sys
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx

from bench.router.process import Process, free_port, wait_until_it_answers
from bench.trace.day import Arrival

ROOT = Path(__file__).parents[2]
PACE_MS = 30.0  # of a token
# A fleet of two speculating pools: one left by its route, one by its schedule.
POOLS = {"edits": ("vllm", "code-edit", 2), "drafts": ("llama_cpp", "draft", 3)}
PLAIN = ("vllm", "plain", 3)
LEAVE_AT, BACK_AT = 6, 3  # requests in the pool of edits
BATCH = 24  # in the pool of drafts
_KEPT_S = 5.0  # httpx's keepalive_expiry; the router's own is longer
_LIMITED = 29  # every so many requests set a field that vLLM refuses while it speculates
_DRAFT = f"""
profile: draft
speculation:
  method: draft_model
  gamma: 4
  schedule: [{{batch: 1-{BATCH}, gamma: 4}}, {{batch: {BATCH + 1}+, gamma: 0}}]
"""
_REQUEST = (
    b"POST /v1/chat/completions HTTP/1.1\r\nhost: t\r\nx-request-id: %b\r\n"
    b"content-type: application/json\r\ncontent-length: %d\r\n\r\n%b"
)
_STATUS = re.compile(rb"HTTP/1.1 (\d+)")
_WORKER = re.compile(rb"x-draftgate-worker: (\S+)")
_END = b"\r\n0\r\n\r\n"


@dataclass
class Seen:
    """What clients saw. `workers` is who answered, by request id; `late_s` how late each began."""

    ends: Counter[str] = field(default_factory=Counter)
    workers: dict[str, str] = field(default_factory=dict)
    events: int = 0
    late_s: list[float] = field(default_factory=list)


@dataclass(frozen=True)
class Run:
    """What a replay left: what clients saw, engines counted, and the router wrote."""

    fleet: Path
    seen: Seen
    engines: Mapping[str, Mapping[str, int]]
    records: Path
    access: Sequence[Mapping[str, Any]]
    cpu_s: float  # of the router


def write_fleet(folder: Path, ports: Sequence[int], back_at: int) -> Path:
    """A fleet file, and the profiles that it names."""
    until = {"in_flight": LEAVE_AT, "back_at": back_at}
    profiles = folder / "profiles"
    profiles.mkdir()
    for name in ("plain", "code-edit"):
        (profiles / f"{name}.yaml").write_text((ROOT / "profiles" / f"{name}.yaml").read_text())
    (profiles / "draft.yaml").write_text(_DRAFT)
    left = iter(ports)
    workers = [
        {"name": f"{profile}-{number}", "engine": engine, "model": "small", "profile": profile}
        | {"url": f"http://127.0.0.1:{next(left)}"}
        for engine, profile, count in (*POOLS.values(), PLAIN)
        for number in range(count)
    ]
    fleet = {
        "fleet": "day",
        "models": {"small": {"target": "org/small", "drafts": {"draft_model": "org/smaller"}}},
        "engines": {"vllm": {"version": "0.32.0"}, "llama_cpp": {"version": "11549"}},
        "workers": workers,
        "types": [{"type": "code", "when": {"last_user": "^fix"}}, {"type": "conv"}],
        "routes": {
            "code": [{"profile": "code-edit", "until": until}, "plain"],
            "conv": ["draft", "plain"],
        },
        "gate": {"required": False},
        "router": {"listen": f"127.0.0.1:{free_port()}", "admin": f"127.0.0.1:{free_port()}"},
    }
    file = folder / "fleet.yaml"
    file.write_text(json.dumps(fleet, indent=1))
    return file


def replay(folder: Path, arrivals: Sequence[Arrival], back_at: int) -> Run:
    """Runs it all, in a folder that is empty."""
    ports = [free_port() for _ in range(sum(pool[2] for pool in (*POOLS.values(), PLAIN)))]
    fleet = write_fleet(folder, ports, back_at)
    listen, admin = (json.loads(fleet.read_text())["router"][key] for key in ("listen", "admin"))
    records, access = folder / "records.jsonl", folder / "access.jsonl"
    with _running(folder, "engine", str(PACE_MS), *map(str, ports)) as engine:
        for port in ports:
            wait_until_it_answers(engine, port)
        serve = ("serve", str(fleet), "--access-log", str(access))
        with _running(folder, "recorder", str(records), *serve) as router:
            wait_until_it_answers(router, _port(admin))
            asyncio.run(_until_all_are_ready(admin, len(ports)))
            seen = asyncio.run(_ask_all(_port(listen), arrivals))
            cpu_s = router.cpu_s()
        told = httpx.get(f"http://127.0.0.1:{ports[0]}/counts").json()
    names = [worker["name"] for worker in json.loads(fleet.read_text())["workers"]]
    engines = {name: told[str(port)] for name, port in zip(names, ports, strict=True)}
    lines = [json.loads(line) for line in access.read_text().splitlines()]
    return Run(fleet, seen, engines, records, lines, cpu_s)


@contextmanager
def _running(folder: Path, module: str, *arguments: str) -> Iterator[Process]:
    command = [sys.executable, "-m", f"bench.trace.{module}", *arguments]
    env = {"PYTHONPATH": str(ROOT), "XDG_STATE_HOME": str(folder / "state")}
    process = Process(command, folder / f"{module}.log", os.environ | env)
    try:
        yield process
    finally:
        process.stop()


def _port(address: str) -> int:
    return int(address.rpartition(":")[2])


async def _until_all_are_ready(admin: str, count: int) -> None:
    async with httpx.AsyncClient() as client, asyncio.timeout(30):
        while True:
            told = (await client.get(f"http://{admin}/status")).json()["upstreams"]
            if [upstream["state"] for upstream in told] == ["ready"] * count:
                return
            await asyncio.sleep(0.1)


# Clients.


@dataclass
class _Connection:
    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter
    idle_since: float


class _Clients:
    """Kept connections, the one used last first; those idle for long are dropped, as httpx does."""

    def __init__(self, port: int) -> None:
        self.seen = Seen()
        self._port = port
        self._idle: list[_Connection] = []

    async def ask(self, number: int, arrival: Arrival) -> None:
        """One request; what became of it is in `seen`."""
        idle_s = 0.0
        try:
            connection = self._kept() or await self._connect()
            idle_s = time.monotonic() - connection.idle_since
            self.seen.ends[await self._exchange(connection, number, arrival)] += 1
        except (OSError, asyncio.IncompleteReadError) as error:
            self.seen.ends[f"lost: {type(error).__name__}, idle for {idle_s:.0f} s before"] += 1
        else:
            if not connection.writer.is_closing():
                connection.idle_since = time.monotonic()
                self._idle.append(connection)

    def _kept(self) -> _Connection | None:
        if not self._idle:
            return None
        if time.monotonic() - self._idle[-1].idle_since < _KEPT_S:
            return self._idle.pop()
        self.close()  # the others are older
        return None

    async def _connect(self) -> _Connection:
        streams = await asyncio.open_connection("127.0.0.1", self._port, limit=2**22)
        return _Connection(*streams, time.monotonic())

    async def _exchange(self, connection: _Connection, number: int, arrival: Arrival) -> str:
        reader, writer = connection.reader, connection.writer
        writer.write(_request(number, arrival))
        head = await reader.readuntil(b"\r\n\r\n")
        status = _STATUS.match(head)
        if status is None or status[1] != b"200":
            writer.close()
            return f"refused: {status[1].decode() if status else head!r}"
        worker = _WORKER.search(head)
        self.seen.workers[f"day-{number}"] = worker[1].decode() if worker else "-"
        body = await reader.readuntil(_END)
        events = body.count(b'"chatcmpl-%d"' % number)
        self.seen.events += events
        is_right = events == arrival.events and body.count(b"data: ") == events + 1
        return "whole" if is_right and b"data: [DONE]" in body else "changed"

    def close(self) -> None:
        while self._idle:
            self._idle.pop().writer.close()


def _request(number: int, arrival: Arrival) -> bytes:
    text = "fix this" if arrival.kind == "code" else "tell me"
    body: dict[str, Any] = {
        "model": "small",
        "stream": True,
        "max_tokens": arrival.events,
        "seed": number,
        "messages": [{"role": "user", "content": text}],
    }
    if number % _LIMITED == 0:
        body["min_p"] = 0.1
    data = json.dumps(body).encode()
    return _REQUEST % (b"day-%d" % number, len(data), data)


async def _ask_all(port: int, arrivals: Sequence[Arrival]) -> Seen:
    clients = _Clients(port)
    start = time.monotonic()
    async with asyncio.TaskGroup() as group:
        for number, arrival in enumerate(arrivals):
            wait_s = start + arrival.at_s - time.monotonic()
            if wait_s > 0:
                await asyncio.sleep(wait_s)
            clients.seen.late_s.append(max(0.0, -wait_s))
            group.create_task(clients.ask(number, arrival))
    clients.close()
    return clients.seen

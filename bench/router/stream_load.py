"""Reads many streams at once through a proxy, and prints what it saw as one JSON object.

    python -m bench.router.stream_load PORT STREAMS EVENTS

Every stream has a seed of its own; each is read to its end and compared, byte for byte, with what
the engine sent for that seed. Connections are kept, as SDKs keep them.
"""

import asyncio
import json
import sys
import time
from dataclasses import dataclass, field
from hashlib import sha256

import uvloop

from bench.router.events import digest

_BODY = (
    b'{"model":"t","stream":true,"temperature":0,"max_tokens":%d,"seed":%d,'
    b'"messages":[{"role":"user","content":"hello"}]}'
)
_REQUEST = (
    b"POST /v1/chat/completions HTTP/1.1\r\nhost: t\r\nauthorization: Bearer sk-bench\r\n"
    b"content-type: application/json\r\ncontent-length: %d\r\n\r\n%s"
)


@dataclass
class Seen:
    """What all streams came to; times in seconds."""

    events: int = 0
    wrong: int = 0
    cut: int = 0
    first_byte_s: list[float] = field(default_factory=list)


async def one(port: int, seed: int, events: int, seen: Seen) -> None:
    """One stream on a connection of its own."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    body = _BODY % (events, seed)
    start = time.perf_counter()
    writer.write(_REQUEST % (len(body), body))
    found = sha256()
    try:
        await reader.readuntil(b"\r\n\r\n")
        size = await reader.readline()
        seen.first_byte_s.append(time.perf_counter() - start)
        while length := int(size, 16):
            data = await reader.readexactly(length + 2)
            found.update(data[:-2])
            seen.events += data.count(b"data: ")
            size = await reader.readline()
        await reader.readexactly(2)
    except (asyncio.IncompleteReadError, ValueError, ConnectionError):
        seen.cut += 1
    else:
        seen.wrong += found.hexdigest() != digest(seed, events)
    finally:
        writer.close()


async def main() -> None:
    port, streams, events = (int(word) for word in sys.argv[1:4])
    seen = Seen()
    start = time.perf_counter()
    async with asyncio.TaskGroup() as group:
        for seed in range(streams):
            group.create_task(one(port, seed, events, seen))
    first = sorted(seen.first_byte_s) or [0.0]
    told = {
        "streams": streams,
        "events": seen.events,
        "wrong": seen.wrong,
        "cut": seen.cut,
        "seconds": time.perf_counter() - start,
        "first_byte_p50_ms": first[len(first) // 2] * 1000,
        "first_byte_p99_ms": first[int(len(first) * 0.99)] * 1000,
    }
    sys.stdout.write(json.dumps(told) + "\n")


if __name__ == "__main__":
    uvloop.run(main())

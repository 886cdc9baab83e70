"""Engines that stream at the pace of tokens and count what they do, several in one process.

    python -m bench.trace.engine PACE_MS PORT...

GET /counts on the first port tells of each: requests served and cut, and the most at once.
"""

import asyncio
import json
import sys
from collections.abc import Mapping

import uvloop

from bench.router.sse_engine import Engine


class CountingEngine(Engine):
    """Counts its requests; `others` are all of the process, by port."""

    def __init__(self, pace_s: float, others: Mapping[int, "CountingEngine"]) -> None:
        super().__init__(pace_s)
        self.running = self.most = self.served = self.cut = 0
        self._others = others

    def about(self, head: bytes) -> bytes:
        if not head.startswith(b"GET /counts"):
            return super().about(head)
        return json.dumps({port: engine.counts() for port, engine in self._others.items()}).encode()

    def counts(self) -> dict[str, int]:
        return {"served": self.served, "cut": self.cut, "most": self.most, "running": self.running}

    async def stream(self, writer: asyncio.StreamWriter, body: bytes) -> None:
        self.running += 1
        self.most = max(self.most, self.running)
        is_whole = False
        try:
            await super().stream(writer, body)
            is_whole = True
        finally:
            self.running -= 1
            self.served += is_whole
            self.cut += not is_whole


async def main() -> None:
    pace_ms, *ports = sys.argv[1:]
    engines: dict[int, CountingEngine] = {}
    async with asyncio.TaskGroup() as group:
        for port in map(int, ports):
            engine = engines[port] = CountingEngine(float(pace_ms) / 1000, engines)
            server = await asyncio.start_server(engine.serve, "127.0.0.1", port, backlog=2048)
            group.create_task(server.serve_forever())


if __name__ == "__main__":
    uvloop.run(main())

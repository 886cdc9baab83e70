"""An engine that streams: `max_tokens` events a request, one every PACE_MS.

    python -m bench.router.sse_engine PORT PACE_MS

It is as cheap as an engine can be, so that the proxy in front of it is what is measured.
"""

import asyncio
import re
import sys

import uvloop

from bench.router.events import DONE, chunk, event

_HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
_MODELS = b'{"object":"list","data":[{"id":"t","object":"model","created":1,"owned_by":"bench"}]}'
_OTHER = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n%s"
_LENGTH = re.compile(rb"content-length: *(\d+)", re.IGNORECASE)
_NUMBER = rb'"%b": *(\d+)'


def number(body: bytes, name: bytes, default: int) -> int:
    """A number of a JSON body."""
    found = re.search(_NUMBER % name, body)
    return int(found[1]) if found else default


class Engine:
    """`pace_s` is the time between two events of a stream, in seconds."""

    def __init__(self, pace_s: float) -> None:
        self._pace_s = pace_s

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answers the requests of one connection."""
        try:
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                length = _LENGTH.search(head)
                body = await reader.readexactly(int(length[1]) if length else 0)
                if head.startswith(b"POST"):
                    await self.stream(writer, body)
                else:
                    told = self.about(head)
                    writer.write(_OTHER % (len(told), told))
        except (asyncio.IncompleteReadError, ConnectionError):
            writer.close()

    def about(self, head: bytes) -> bytes:
        """The answer to a request that is no generation."""
        return _MODELS

    async def stream(self, writer: asyncio.StreamWriter, body: bytes) -> None:
        """Answers a generation."""
        seed, count = number(body, b"seed", 0), number(body, b"max_tokens", 200)
        writer.write(_HEAD)
        for index in range(count):
            writer.write(chunk(event(seed, index)))
            await writer.drain()
            await asyncio.sleep(self._pace_s)
        writer.write(chunk(DONE) + b"0\r\n\r\n")


async def main() -> None:
    engine = Engine(float(sys.argv[2]) / 1000)
    server = await asyncio.start_server(engine.serve, "127.0.0.1", int(sys.argv[1]), backlog=2048)
    await server.serve_forever()


if __name__ == "__main__":
    uvloop.run(main())

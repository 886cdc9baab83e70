"""A proxy before a real engine that makes it misbehave as some engines do: does the gate notice?

    python -m tests.fault_proxy --upstream URL --port P --fault NAME[:ARGUMENT][@AT_ONCE]

  none              every byte passes as it came
  drop repeat swap  the sixth token of an answer is lost, sent twice, or swapped with the next
  token:P           a token is changed with probability P (seeded)
  empty             an answer has status 200 and nothing in it
  no_sampling       a request with a temperature above 0 is answered with status 500
  no_penalties      what a request says of penalties is thrown away
  leftover[:N]      another engine answers (--other URL) once N requests have come; health, models
                    and counters are still those of the right one
  stop_drafting:N   the same, where the other is plain: nothing more is drafted

`@2` behind a name: only answers that were not alone, at least two being in flight, are touched.
`--every N`: of these each N-th. Ids and text of an answer are changed alike, its log-probabilities
are not. Everything else, health, counters and models, passes untouched.
"""

import argparse
import asyncio
import json
import random
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, Final

import httpx
import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route

from tests.answer_fault import KINDS, SEED, Edit, Kind, Part, parts

GENERATION: Final = ("/v1/completions", "/v1/chat/completions", "/completion", "/completions")
PENALTIES: Final = (
    "frequency_penalty",
    "presence_penalty",
    "repetition_penalty",
    "repeat_penalty",
)
ROUTED: Final = ("leftover", "stop_drafting")
# Said by each of the two connections for itself (RFC 9110, 7.6.1).
_HOP: Final = frozenset({"connection", "keep-alive", "transfer-encoding", "host"})


@dataclass(frozen=True)
class Fault:
    """`number` is the argument; `at_once` is how many requests must be in flight."""

    name: str
    number: float = 0.0
    at_once: int = 1
    every: int = 1

    @property
    def kind(self) -> Kind | None:
        """Of the change to an answer; None: answers are not changed."""
        return next((kind for kind in KINDS if kind == self.name), None)


def parse(text: str, every: int = 1) -> Fault:
    """Raises ValueError for an unknown fault."""
    rest, _, at_once = text.partition("@")
    name, _, number = rest.partition(":")
    if name not in ("none", "no_penalties", "no_sampling", *KINDS, *ROUTED):
        raise ValueError(f"unknown fault {name!r}")
    return Fault(name, float(number or 0), int(at_once or 1), every)


@dataclass
class Flight:
    """One request for an answer, under way. `peak` is the most that were under way beside it."""

    number: int
    peak: int = 1
    is_hit: bool | None = None  # None: not decided yet
    edits: dict[int, Edit] = field(default_factory=dict)


class Proxy:
    """Passes requests on; `wrong` is the engine that answers in place of the right one."""

    def __init__(self, fault: Fault, right: httpx.AsyncClient, wrong: httpx.AsyncClient) -> None:
        self.fault = fault
        self.right = right
        self.wrong = wrong
        self.chance = random.Random(SEED)
        self.flights: list[Flight] = []
        self.begun = 0
        self.could_hit = 0

    async def answer(self, request: Request) -> Response:
        """One request of a client."""
        if request.url.path not in GENERATION:
            return await self._pass(request, self.right, await request.body())
        body = await request.body()
        if self.fault.name == "no_penalties":
            body = without_penalties(body)
        if self.fault.name == "no_sampling" and json.loads(body).get("temperature"):
            return Response('{"error": "no sampling here"}', 500)
        flight = self._begin()
        is_late = self.fault.name in ROUTED and flight.number >= self.fault.number
        client = self.wrong if is_late else self.right
        try:
            return await self._pass(request, client, body, flight)
        except BaseException:
            self.flights.remove(flight)
            raise

    def _begin(self) -> Flight:
        flight = Flight(self.begun)
        self.begun += 1
        self.flights.append(flight)
        for other in self.flights:
            other.peak = max(other.peak, len(self.flights))
        return flight

    async def _pass(
        self, request: Request, client: httpx.AsyncClient, body: bytes, flight: Flight | None = None
    ) -> Response:
        is_edited = flight is not None and self.fault.kind is not None
        headers = [(k, v) for k, v in request.headers.raw if k.decode() not in _HOP]
        if is_edited or self.fault.name == "no_penalties":
            headers = [
                (k, v) for k, v in headers if k not in (b"content-length", b"accept-encoding")
            ]
        url = httpx.URL(path=request.url.path, query=request.url.query.encode())
        sent = client.build_request(request.method, url, headers=headers, content=body)
        reply = await client.send(sent, stream=True)
        answer = StreamingResponse(self._body(reply, flight, is_edited), reply.status_code)
        lost = {*_HOP, "content-length"} if is_edited else _HOP
        answer.raw_headers = [
            (k.lower(), v) for k, v in reply.headers.raw if k.decode().lower() not in lost
        ]
        return answer

    async def _body(
        self, reply: httpx.Response, flight: Flight | None, is_edited: bool
    ) -> AsyncIterator[bytes]:
        """What the client gets; the flight ends with it, also when the client leaves."""
        try:
            if flight is None or not is_edited or reply.status_code != 200:
                async for piece in reply.aiter_raw():
                    yield piece
            elif reply.headers.get("content-type", "").startswith("text/event-stream"):
                async for line in reply.aiter_lines():
                    yield (await self._event(line, flight) + "\n").encode()
            else:
                answer = json.loads(await reply.aread())
                await self._edit(answer, flight)
                yield json.dumps(answer).encode()
        finally:
            if flight is not None:
                self.flights.remove(flight)
            await reply.aclose()

    async def _event(self, line: str, flight: Flight) -> str:
        """A line of an event stream; only those that hold JSON may change."""
        if not line.startswith("data: {"):
            return line
        answer = json.loads(line.removeprefix("data: "))
        return f"data: {json.dumps(answer)}" if await self._edit(answer, flight) else line

    async def _edit(self, answer: dict[str, Any], flight: Flight) -> bool:
        """Changes the answer, or this piece of it, in place; whether it did."""
        has_changed = False
        for part in parts(answer):
            if self._hits(flight):
                has_changed |= await self._edit_part(part, self._edit_of(flight, part.index))
        return has_changed

    def _hits(self, flight: Flight) -> bool:
        """Whether the fault touches this answer: decided once, when it may."""
        if flight.is_hit is None and flight.peak >= self.fault.at_once:
            self.could_hit += 1
            flight.is_hit = self.could_hit % self.fault.every == 0
        return bool(flight.is_hit)

    def _edit_of(self, flight: Flight, index: int) -> Edit:
        assert self.fault.kind is not None
        made = Edit(self.fault.kind, self.fault.number, self.chance)
        return flight.edits.setdefault(index, made)

    async def _edit_part(self, part: Part, edit: Edit) -> bool:
        before = part.ids
        after = edit.feed(before, part.is_last)
        if after == before:
            return False
        # What the text of the ids has and the answer has not: an end-of-text token, as a rule.
        hidden = (await self._text_of(before)).removeprefix(part.text)
        part.write(after, (await self._text_of(after)).removesuffix(hidden))
        return True

    async def _text_of(self, ids: Sequence[int]) -> str:
        if not ids:
            return ""
        reply = await self.right.post("/detokenize", json={"tokens": list(ids)})
        told = reply.raise_for_status().json()
        return str(told.get("prompt", told.get("content")))


def without_penalties(body: bytes) -> bytes:
    """The request without what it says of penalties."""
    request = json.loads(body)
    return json.dumps({k: v for k, v in request.items() if k not in PENALTIES}).encode()


def client_of(url: str) -> httpx.AsyncClient:
    """Waits for answers as long as they take, and opens a connection for each request: an engine
    closes kept ones when it likes, and a request that meets the closing would be the proxy's 500.
    """
    limits = httpx.Limits(max_connections=None, max_keepalive_connections=0)
    return httpx.AsyncClient(base_url=url, timeout=None, limits=limits)


def make_app(proxy: Proxy) -> Starlette:
    """The proxy as an application: one route for everything."""

    @asynccontextmanager
    async def life(_: Starlette) -> AsyncIterator[None]:
        async with proxy.right, proxy.wrong:
            yield

    methods = ["GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS"]
    return Starlette(routes=[Route("/{path:path}", proxy.answer, methods=methods)], lifespan=life)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--upstream", required=True)
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--fault", required=True)
    parser.add_argument("--every", type=int, default=1)
    parser.add_argument("--other")
    given = parser.parse_args()
    fault = parse(given.fault, given.every)
    if fault.name in ROUTED and not given.other:
        parser.error(f"{fault.name} needs --other")
    app = make_app(
        Proxy(fault, client_of(given.upstream), client_of(given.other or given.upstream))
    )
    settings = uvicorn.Config(
        app, port=given.port, log_level="warning", server_header=False, date_header=False
    )
    asyncio.run(uvicorn.Server(settings).serve())


if __name__ == "__main__":
    main()

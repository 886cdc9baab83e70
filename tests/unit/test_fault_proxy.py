"""The proxy between two fakes of httpx: what it passes, what it changes, and when."""

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest

from tests.fault_proxy import Proxy, make_app, parse

IDS = list(range(65, 75))
TEXT = "ABCDEFGHIJ"
ASK = {"prompt": "x", "frequency_penalty": 1.0}


class Engine:
    """Answers with ten letters, whose code points are their token ids."""

    def __init__(self, name: str = "right", waits_for: int = 1) -> None:
        self.name = name
        self.waits_for = waits_for
        self.seen: list[dict[str, Any]] = []
        self.all_here = asyncio.Event()

    async def handle(self, request: httpx.Request) -> httpx.Response:
        path = request.url.path
        if path == "/detokenize":
            ids = json.loads(request.content)["tokens"]
            return response(200, {"prompt": "".join(map(chr, ids))})
        if path != "/v1/completions":
            return response(404, {"from": self.name}, self.name)
        body = json.loads(request.content)
        self.seen.append(body)
        if len(self.seen) >= self.waits_for:
            self.all_here.set()
        await self.all_here.wait()
        if body.get("stream"):
            headers = {"content-type": "text/event-stream"}
            return httpx.Response(200, headers=headers, content=stream())
        return response(200, answer(IDS, TEXT) | {"from": self.name})


def response(status: int, data: dict[str, Any], name: str = "") -> httpx.Response:
    """As from the network: the body has yet to come."""
    body = json.dumps(data).encode()
    headers = {"content-type": "application/json", "content-length": str(len(body))}

    async def come() -> AsyncIterator[bytes]:
        yield body

    return httpx.Response(status, headers=headers | {"x-engine": name}, content=come())


def answer(ids: list[int], text: str, finish: str | None = "length") -> dict[str, Any]:
    return {"choices": [{"index": 0, "text": text, "token_ids": ids, "finish_reason": finish}]}


async def stream() -> AsyncIterator[bytes]:
    for token in IDS:
        finish = "length" if token == IDS[-1] else None
        yield f"data: {json.dumps(answer([token], chr(token), finish))}\n\n".encode()
    yield b"data: [DONE]\n\n"


def client(engine: Engine) -> httpx.AsyncClient:
    return httpx.AsyncClient(transport=httpx.MockTransport(engine.handle), base_url="http://engine")


async def ask(
    fault: str, engine: Engine, count: int = 1, every: int = 1, other: Engine | None = None
) -> list[httpx.Response]:
    """So many requests at once through the proxy."""
    proxy = Proxy(parse(fault, every), client(engine), client(other or engine))
    transport = httpx.ASGITransport(make_app(proxy))
    async with httpx.AsyncClient(transport=transport, base_url="http://proxy") as asking:
        calls = [asking.post("/v1/completions", json=ASK | {"n": i}) for i in range(count)]
        return await asyncio.gather(*calls)


def told(response: httpx.Response) -> tuple[list[int], str]:
    choice = response.json()["choices"][0]
    return choice["token_ids"], choice["text"]


def test_none_passes_everything() -> None:
    async def scenario() -> None:
        engine = Engine()
        direct = await client(engine).post("/v1/completions", json=ASK)
        (passed,) = await ask("none", engine)
        assert passed.content == direct.content
        assert passed.headers == direct.headers
        assert engine.seen[1] == ASK | {"n": 0}

    asyncio.run(scenario())


def test_other_routes_pass_under_every_fault() -> None:
    async def scenario() -> None:
        proxy = Proxy(parse("empty"), client(Engine("right")), client(Engine("wrong")))
        transport = httpx.ASGITransport(make_app(proxy))
        async with httpx.AsyncClient(transport=transport, base_url="http://proxy") as asking:
            reply = await asking.get("/metrics?x=1")
        assert (reply.status_code, reply.json()) == (404, {"from": "right"})
        assert reply.headers["x-engine"] == "right"

    asyncio.run(scenario())


@pytest.mark.parametrize(
    ("fault", "expected"),
    [("drop", "ABCDEGHIJ"), ("repeat", "ABCDEFFGHIJ"), ("swap", "ABCDEGFHIJ"), ("empty", "")],
)
def test_ids_and_text_change_alike(fault: str, expected: str) -> None:
    async def scenario() -> None:
        (reply,) = await ask(fault, Engine())
        assert told(reply) == ([ord(letter) for letter in expected], expected)

    asyncio.run(scenario())


def test_a_stream_changes_as_the_whole_answer_does() -> None:
    async def scenario() -> None:
        proxy = Proxy(parse("swap"), client(Engine()), client(Engine()))
        transport = httpx.ASGITransport(make_app(proxy))
        async with httpx.AsyncClient(transport=transport, base_url="http://proxy") as asking:
            reply = await asking.post("/v1/completions", json=ASK | {"stream": True})
        events = [line for line in reply.text.splitlines() if line]
        assert events[-1] == "data: [DONE]"
        choices = [json.loads(line[6:])["choices"][0] for line in events[:-1]]
        assert "".join(choice["text"] for choice in choices) == "ABCDEGFHIJ"
        assert [len(choice["token_ids"]) for choice in choices].count(1) == 8

    asyncio.run(scenario())


def test_under_load_only() -> None:
    async def scenario() -> None:
        (alone,) = await ask("drop@2", Engine())
        assert told(alone) == (IDS, TEXT)
        both = await ask("drop@2", Engine(waits_for=2), count=2)
        assert [told(reply)[1] for reply in both] == ["ABCDEGHIJ"] * 2

    asyncio.run(scenario())


def test_each_second_answer() -> None:
    async def scenario() -> None:
        replies = await ask("empty", Engine(waits_for=4), count=4, every=2)
        assert sorted(told(reply)[1] for reply in replies) == ["", "", TEXT, TEXT]

    asyncio.run(scenario())


def test_another_engine_answers_after_some() -> None:
    async def scenario() -> None:
        right, wrong = Engine("right"), Engine("wrong")
        replies = await ask("leftover:2", right, count=4, other=wrong)
        assert sorted(reply.json()["from"] for reply in replies) == ["right"] * 2 + ["wrong"] * 2
        (reply,) = await ask("leftover", right, other=wrong)
        assert reply.json()["from"] == "wrong"

    asyncio.run(scenario())


def test_penalties_are_thrown_away() -> None:
    async def scenario() -> None:
        engine = Engine()
        await ask("no_penalties", engine)
        assert engine.seen == [{"prompt": "x", "n": 0}]

    asyncio.run(scenario())


@pytest.mark.parametrize("text", ["", "dropp", "drop:x", "drop@x", "none@"])
def test_unknown_faults(text: str) -> None:
    if text == "none@":
        assert parse(text).at_once == 1
        return
    with pytest.raises(ValueError, match=r"unknown fault|could not convert|invalid literal"):
        parse(text)

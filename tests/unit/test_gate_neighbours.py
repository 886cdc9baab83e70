"""Sampled neighbours: so many in flight while the block runs, and a failure that is told."""

import asyncio
import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import httpx
import pytest

from adapters.contract import Adapter
from adapters.exchange import Call, Conversation, Draws, Generation, conversation
from orchestrator.gate import arm as module
from orchestrator.gate.arm import Collection
from orchestrator.gate.endpoint import Endpoint
from orchestrator.gate.evidence import Arm, Question
from orchestrator.gate.journal import Journal
from orchestrator.gate.progress import Progress
from tests.unit.gate_arms import generation, question

ALONE = [question("greedy/p1"), question("greedy/p2")]
MIXED = [
    Question(f"mixed@3/{p}", p, "t", "mixed", {"prompt": p, "max_tokens": 4}, 3, beside=1)
    for p in ("p1", "p2")
]
LAST = question("greedy/p3")


class Api:
    """The part of an adapter's api that is used."""

    @staticmethod
    @conversation
    def complete(model: str) -> Conversation[str]:
        return (yield Call("/complete", {})).require_ok()

    @staticmethod
    @conversation
    def generate(model: str, request: Any, how: Any) -> Conversation[Generation]:
        (yield Call("/generate", {"prompt": request["prompt"]})).require_ok()
        return generation((1, 2), (7,))

    @staticmethod
    @conversation
    def sample(
        model: str, ids: tuple[int, ...], draws: Draws
    ) -> Conversation[tuple[tuple[int, ...], ...]]:
        body = {"ids": list(ids), "seed": draws.seed, "temperature": draws.temperature}
        (yield Call("/sample", body)).require_ok()
        return ((1,),)


class Engine:
    """Keeps what it was asked while it was asked for a greedy answer.

    As a real one does behind a proxy, it goes on with an answer whose client has left.
    """

    def __init__(self, status: int = 200):
        self.status = status
        self.sampled: list[dict[str, Any]] = []
        self.beside: dict[str, int] = {}  # sampled requests in flight, by greedy prompt
        self.in_flight = 0

    async def answer(self, request: httpx.Request) -> httpx.Response:
        path = request.url.path
        if path == "/sample":
            self.sampled.append(json.loads(request.content))
            await asyncio.shield(asyncio.ensure_future(self._decode()))
            return httpx.Response(self.status, stream=httpx.ByteStream(b"no"))
        if path == "/generate":
            prompt = json.loads(request.content)["prompt"]
            seen = self.in_flight
            await asyncio.sleep(0.02)
            self.beside[prompt] = max(self.beside.get(prompt, 0), seen, self.in_flight)
        return httpx.Response(200, stream=httpx.ByteStream(b"f"))

    async def _decode(self) -> None:
        self.in_flight += 1
        await asyncio.sleep(0.013)
        self.in_flight -= 1


def collect(engine: Engine, file: Path, monkeypatch: pytest.MonkeyPatch) -> Arm:
    def client(url: str) -> httpx.AsyncClient:
        return httpx.AsyncClient(base_url=url, transport=httpx.MockTransport(engine.answer))

    monkeypatch.setattr(module, "engine_client", client)
    monkeypatch.setattr(module, "_COUNT_PAUSE_S", 0)
    adapter = SimpleNamespace(api=Api, METRICS={}, METRICS_PATH="/metrics")
    endpoint = Endpoint("s-0", "http://s", cast("Adapter", adapter), "m", is_known=True)
    progress = Progress(lambda line: None, 3).of("S1")
    return asyncio.run(
        Collection("S1", endpoint, Journal(file), progress).collect([*ALONE, *MIXED, LAST])
    )


def test_they_go_on_from_the_same_prompts_with_half_of_the_answers(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    engine = Engine()
    arm = collect(engine, tmp_path / "S1.jsonl", monkeypatch)
    assert all(arm.answers.values())
    assert engine.beside == {"p1": 1, "p2": 1, "p3": 0}, "none is left when the next is asked"
    assert len(engine.sampled) > 1
    assert {tuple(body["ids"]) for body in engine.sampled} == {(7, 1)}
    assert {body["temperature"] for body in engine.sampled} == {0.8}
    assert len({body["seed"] for body in engine.sampled}) == len(engine.sampled)


def test_without_them_nothing_was_answered(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    file = tmp_path / "S1.jsonl"
    arm = collect(Engine(status=500), file, monkeypatch)
    assert [arm.answers[q.id] for q in MIXED] == [None, None]
    assert all(arm.errors[q.id].startswith("sampled neighbours: ") for q in MIXED)
    assert all(arm.answers[q.id] for q in ALONE)
    assert set(Journal(file).answers) == {q.id for q in (*ALONE, LAST)}, "a later run asks again"
    assert all(collect(Engine(), file, monkeypatch).answers.values())


def test_an_engine_that_tells_no_ids_has_no_neighbours(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(module, "LONGEST_PREFIX", 1)
    engine = Engine()
    arm = collect(engine, tmp_path / "S1.jsonl", monkeypatch)
    assert engine.sampled == []
    assert "does not tell the ids" in arm.errors[MIXED[0].id]


def test_one_that_breaks_in_an_unforeseen_way_is_a_failure_too(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Else the suite would have run without the company that it is about."""

    def broken(model: str, ids: tuple[int, ...], draws: Draws) -> Any:
        raise KeyError("choices")

    monkeypatch.setattr(Api, "sample", staticmethod(broken))
    arm = collect(Engine(), tmp_path / "S1.jsonl", monkeypatch)
    assert [arm.answers[q.id] for q in MIXED] == [None, None]
    assert "KeyError" in arm.errors[MIXED[0].id]

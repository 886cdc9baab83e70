"""An arm whose engine does not answer says at which question."""

import asyncio
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import httpx
import pytest

from adapters.contract import Adapter
from adapters.exchange import Call, Conversation, Generation, conversation
from orchestrator.errors import EngineGoneError
from orchestrator.gate import arm as module
from orchestrator.gate.arm import Collection
from orchestrator.gate.endpoint import Endpoint
from orchestrator.gate.journal import Journal
from orchestrator.gate.progress import Progress
from tests.unit.gate_arms import QUESTIONS, generation


class Api:
    """The part of an adapter's api that arm.py uses."""

    @staticmethod
    @conversation
    def complete(model: str) -> Conversation[str]:
        return (yield Call("/complete", {"model": model})).require_ok()

    @staticmethod
    @conversation
    def generate(model: str, request: Any, how: Any) -> Conversation[Generation]:
        (yield Call("/generate", {"prompt": request["prompt"]})).require_ok()
        return generation((1,))


def answer(request: httpx.Request) -> httpx.Response:
    if b"p2" in request.content:
        raise httpx.ReadTimeout("", request=request)
    return httpx.Response(200, stream=httpx.ByteStream(b"f"))


def test_a_question_that_gets_no_answer_in_time_is_named(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def client(url: str) -> httpx.AsyncClient:
        return httpx.AsyncClient(base_url=url, transport=httpx.MockTransport(answer))

    monkeypatch.setattr(module, "engine_client", client)
    monkeypatch.setattr(module, "_COUNT_PAUSE_S", 0)
    adapter = SimpleNamespace(api=Api, METRICS={}, METRICS_PATH="/metrics")
    endpoint = Endpoint("plain-0", "http://plain", cast("Adapter", adapter), "m")
    progress = Progress(lambda line: None, 3).of("A1")

    async def collect() -> None:
        journal = Journal(tmp_path / "A1.jsonl")
        await Collection("A1", endpoint, journal, progress).collect(list(QUESTIONS.values()))

    words = "http://plain cannot be reached: ReadTimeout, while it was asked greedy/p2"
    with pytest.raises(EngineGoneError, match=f"^{words}$"):
        asyncio.run(collect())

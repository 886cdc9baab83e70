"""The client that speaks to engines: what it sends, without a network."""

import pytest

from orchestrator.keys import ENGINE_KEY_VARIABLE
from orchestrator.wire import engine_client


def test_an_engine_that_asks_for_a_key_gets_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(ENGINE_KEY_VARIABLE, "k")
    assert engine_client("http://127.0.0.1:1").headers["authorization"] == "Bearer k"


def test_without_a_key_nothing_is_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(ENGINE_KEY_VARIABLE, raising=False)
    assert "authorization" not in engine_client("http://127.0.0.1:1").headers

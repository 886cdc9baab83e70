"""What a worker's connections say of themselves."""

import asyncio

import pytest

from orchestrator.answer import AnswerHeads
from orchestrator.tls import engine_trust
from orchestrator.turn import Turn
from orchestrator.upstream import Connections


@pytest.mark.parametrize(
    ("host", "port", "is_secure", "header"),
    [
        ("10.0.0.7", 8000, False, b"10.0.0.7:8000"),
        ("::1", 8000, False, b"[::1]:8000"),
        ("engine.example", 443, True, b"engine.example"),
        ("engine.example", 8443, True, b"engine.example:8443"),
        ("engine.example", 443, False, b"engine.example:443"),
    ],
)
def test_the_host_header_leaves_out_the_usual_port(
    host: str, port: int, is_secure: bool, header: bytes
) -> None:
    loop = asyncio.new_event_loop()
    trust = engine_trust() if is_secure else None
    found = Connections(host, port, Turn(loop), AnswerHeads(), trust)
    assert found.host_header == header
    loop.close()

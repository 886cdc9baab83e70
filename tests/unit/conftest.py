"""Unit tests start no process and open no connection."""

import asyncio
import socket
import subprocess
from typing import Any, NoReturn

import pytest


@pytest.fixture(autouse=True)
def no_processes_no_network(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*args: Any, **kwargs: Any) -> NoReturn:
        raise AssertionError(f"a unit test tried to start or reach something: {args}")

    monkeypatch.setattr(subprocess, "Popen", refuse)
    monkeypatch.setattr(asyncio, "create_subprocess_exec", refuse)
    monkeypatch.setattr(socket.socket, "connect", refuse)

"""Unit tests start no process and open no connection."""

import asyncio
import socket
import subprocess
from collections.abc import Iterator
from typing import Any, NoReturn

import pytest
from hypothesis import HealthCheck, settings

# Machines that run these tests are shared: how long an example takes says nothing.
settings.register_profile("shared", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("shared")


@pytest.fixture(autouse=True, scope="session")
def no_processes_no_network() -> Iterator[None]:
    def refuse(*args: Any, **kwargs: Any) -> NoReturn:
        raise AssertionError(f"a unit test tried to start or reach something: {args}")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(subprocess, "Popen", refuse)
        patch.setattr(asyncio, "create_subprocess_exec", refuse)
        patch.setattr(socket.socket, "connect", refuse)
        yield

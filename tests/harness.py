"""A fleet of a test's own: its files, its ports, its commands, and proof that nothing is left."""

import json
import os
import socket
import stat
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psutil

ROOT = Path(__file__).resolve().parent.parent
COMMAND = [sys.executable, "-m", "orchestrator.cli"]


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def until(condition: Callable[[], Any], what: str, timeout_s: float = 30) -> Any:
    """Look until the condition is true; processes of others can only be looked at."""
    end = time.monotonic() + timeout_s
    while time.monotonic() < end:
        value = condition()
        if value:
            return value
        time.sleep(0.05)
    raise AssertionError(f"not within {timeout_s} s: {what}")


class TestFleet:
    """One fleet file and the draftgate commands on it, with a state folder of its own."""

    __test__ = False

    def __init__(self, folder: Path, yaml: str, env: Mapping[str, str] | None = None):
        self.folder = folder
        self.file = folder / "fleet.yaml"
        self.file.write_text(yaml)
        self.env = {**os.environ, "XDG_STATE_HOME": str(folder / "state"), **(env or {})}

    def run(self, *arguments: str, timeout: float = 120) -> subprocess.CompletedProcess[str]:
        """One command to its end."""
        return subprocess.run(
            [*COMMAND, *arguments],
            capture_output=True,
            text=True,
            env=self.env,
            cwd=self.folder,
            timeout=timeout,
            check=False,
        )

    def start(self, *arguments: str) -> subprocess.Popen[str]:
        """One command that runs on; its output goes to `output.txt`."""
        with (self.folder / "output.txt").open("w") as output:
            return subprocess.Popen(
                [*COMMAND, *arguments],
                stdout=output,
                stderr=subprocess.STDOUT,
                text=True,
                env=self.env,
                cwd=self.folder,
            )

    def output(self) -> str:
        return (self.folder / "output.txt").read_text()

    def up(self, timeout: float = 120) -> None:
        done = self.run("up", "-d", str(self.file), timeout=timeout)
        assert done.returncode == 0, done.stdout + done.stderr

    def status(self) -> dict[str, Any]:
        done = self.run("status", "--json", str(self.file))
        assert done.returncode == 0, done.stderr
        data: dict[str, Any] = json.loads(done.stdout)
        return data

    def worker(self, name: str) -> dict[str, Any]:
        found: dict[str, Any] = self.status()["workers"][name]
        return found

    def supervisor_pid(self) -> int:
        lock = next((self.folder / "state").rglob("supervisor.lock"))
        return int(json.loads(lock.read_text())["pid"])

    def processes(self) -> list[psutil.Process]:
        """Every living process that this fleet's draftgate started or is."""
        return [p for p in psutil.process_iter() if self._is_ours(p)]

    def _is_ours(self, process: psutil.Process) -> bool:
        try:
            if process.status() == psutil.STATUS_ZOMBIE:
                return False
            return process.environ().get("XDG_STATE_HOME") == self.env["XDG_STATE_HOME"]
        except (psutil.Error, OSError):
            return False


@contextmanager
def fleet_of(fleet: TestFleet) -> Iterator[TestFleet]:
    """The fleet, which must leave no process behind once `down` was called."""
    try:
        yield fleet
    finally:
        done = fleet.run("down", "--now", str(fleet.file))
        left = fleet.processes()
        for process in left:
            process.kill()
        assert done.returncode == 0, done.stderr
        assert not left, f"left behind: {left}"


def fake_engine_command(folder: Path) -> Path:
    """A `command:` that runs the fake engine as if it were a llama-server."""
    script = folder / "fake-server"
    program = ROOT / "tests" / "fake_llama_server.py"
    script.write_text(f'#!/bin/sh\nexec "{sys.executable}" "{program}" "$@"\n')
    script.chmod(script.stat().st_mode | stat.S_IXUSR)
    return script

"""Process: something started for a run, and the processor time and memory that it took."""

import os
import socket
import subprocess
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

import psutil

_TICKS = os.sysconf("SC_CLK_TCK")


class Process:
    """A child and its children; ended by `stop`."""

    def __init__(self, command: Sequence[str], log: Path, env: Mapping[str, str]) -> None:
        self._log = log.open("ab")
        self._child = subprocess.Popen(
            command, stdout=self._log, stderr=self._log, env={**os.environ, **env}
        )

    @property
    def is_running(self) -> bool:
        return self._child.poll() is None

    def tree(self) -> list[psutil.Process]:
        """The process and all that it started."""
        whole = psutil.Process(self._child.pid)
        return [whole, *whole.children(recursive=True)]

    def cpu_s(self) -> float:
        """User and system time of the tree, in seconds."""
        return sum(sum(p.cpu_times()[:2]) for p in self.tree())

    def rss_mb(self) -> float:
        """Resident memory of the tree, in MB."""
        return sum(p.memory_info().rss for p in self.tree()) / 1e6

    def stop(self) -> None:
        """Ends the tree."""
        tree = self.tree() if self.is_running else []
        self._child.terminate()
        try:
            self._child.wait(5)
        except subprocess.TimeoutExpired:
            self._child.kill()
        for process in tree[1:]:
            if process.is_running():
                process.kill()
        self._log.close()


def free_port() -> int:
    """A port that nobody listens on now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
    return port


def wait_until_it_answers(process: Process, port: int, limit_s: float = 60) -> None:
    """Raises RuntimeError when the process ends, or takes no connection in time."""
    end = time.monotonic() + limit_s
    while time.monotonic() < end:
        if not process.is_running:
            raise RuntimeError("it ended at once")
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
        except OSError:
            time.sleep(0.1)
        else:
            return
    raise RuntimeError(f"it takes no connections on port {port}")

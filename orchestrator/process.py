"""Processes of ours: started in groups of their own, known again after a crash, ended whole."""

import asyncio
import errno
import math
import os
import signal
import socket
import time
from collections.abc import Callable, Iterable
from pathlib import Path

import psutil

from adapters.launch import Launch
from orchestrator.mark import created
from orchestrator.state import Record

KEY_VARIABLE = "DRAFTGATE_FLEET"
TOKEN_VARIABLE = "DRAFTGATE_WORKER"
_CREATED_TOLERANCE_S = 0.02


async def spawn(launch: Launch, record: Record, key: str, cwd: Path) -> asyncio.subprocess.Process:
    """Start a worker in its own session, its output appended to the record's log.

    Raises OSError when the program cannot be started.
    """
    env = {**os.environ, **launch.env, KEY_VARIABLE: key, TOKEN_VARIABLE: record.token}
    env["PYTHONSAFEPATH"] = "1"  # a folder named like the engine beside the fleet must not be run
    log = os.open(record.log, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    try:
        return await asyncio.create_subprocess_exec(
            *launch.argv,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=log,
            stderr=asyncio.subprocess.STDOUT,
            env=env,
            cwd=cwd,
            start_new_session=True,
        )
    finally:
        os.close(log)


def is_alive(record: Record) -> bool:
    """Whether the recorded process itself lives: same pid and same start."""
    if record.pid is None or record.created is None:
        return False
    start = created(record.pid)
    return start is not None and abs(start - record.created) < _CREATED_TOLERANCE_S


def members(record: Record) -> list[psutil.Process]:
    """Living processes of a recorded worker: by its token, and by its process group.

    The token is in their environment; a program that overwrites its title may overwrite that, so
    the group counts too. The group's number is not trusted once its leader's pid has been reused.
    """
    group = record.pid
    if group is not None and not is_alive(record) and psutil.pid_exists(group):
        group = group if created(group) is None else None
    return [p for p in _living() if _token(p) == record.token or (group and _group(p) == group)]


def strays(key: str, known: Iterable[str]) -> list[psutil.Process]:
    """Living processes of this fleet whose token is not among the known ones."""
    tokens = set(known)
    return [p for p in _living() if _variable(p, KEY_VARIABLE) == key and _token(p) not in tokens]


def _living() -> list[psutil.Process]:
    own = os.getpid()
    return [p for p in psutil.process_iter(["status"]) if p.pid != own and not _is_dead(p)]


def _is_dead(process: psutil.Process) -> bool:
    return process.info["status"] in (psutil.STATUS_ZOMBIE, psutil.STATUS_DEAD)


def _token(process: psutil.Process) -> str | None:
    return _variable(process, TOKEN_VARIABLE)


def _variable(process: psutil.Process, name: str) -> str | None:
    try:
        return process.environ().get(name)
    except (psutil.Error, OSError):
        return None


def _group(process: psutil.Process) -> int | None:
    try:
        return os.getpgid(process.pid)
    except OSError:
        return None


async def end(record: Record, grace_s: float) -> bool:
    """SIGTERM to every process of the worker, SIGKILL after the grace; whether any was killed."""
    _signal(members(record), signal.SIGTERM)
    if await _gone(record, grace_s):
        return False
    _signal(members(record), signal.SIGKILL)
    await _gone(record, 5.0)
    return True


async def end_strays(key: str, known: Iterable[str], grace_s: float) -> list[int]:
    """End processes of this fleet that no record explains; returns their pids."""
    known = tuple(known)
    found = strays(key, known)
    _signal(found, signal.SIGTERM)
    await _until(lambda: not strays(key, known), grace_s)
    _signal(strays(key, known), signal.SIGKILL)
    return [process.pid for process in found]


async def _gone(record: Record, timeout_s: float) -> bool:
    return await _until(lambda: not members(record), timeout_s)


async def _until(is_true: Callable[[], bool], timeout_s: float, pause_s: float = 0.05) -> bool:
    """Processes outside our own family cannot be waited for, only looked at again."""
    until = time.monotonic() + timeout_s
    while not is_true():
        if time.monotonic() > until:
            return False
        await asyncio.sleep(pause_s)
    return True


def _signal(processes: Iterable[psutil.Process], number: int) -> None:
    for process in processes:
        try:
            process.send_signal(number)
        except psutil.Error:
            continue  # it went by itself


async def wait_for_end(record: Record) -> None:
    """Until the recorded process is gone; for one that is not our child."""
    await _until(lambda: not is_alive(record), math.inf, pause_s=0.5)


def free_port() -> int:
    """A port of loopback that nobody listens on at this moment."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def port_holder(host: str, port: int) -> str | None:
    """Who listens on a port, in words; None when it is free."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError as error:
            if error.errno == errno.EADDRINUSE:
                return _describe(port)
            return f"an address that cannot be used ({error.strerror})"
    return None


async def port_holder_after(host: str, port: int, timeout_s: float) -> str | None:
    """`port_holder`, given some time to let go."""
    await _until(lambda: port_holder(host, port) is None, timeout_s)
    return port_holder(host, port)


def _describe(port: int) -> str:
    for pid in listeners(port):
        try:
            command = " ".join(psutil.Process(pid).cmdline())[:80]
        except psutil.Error:
            continue
        return f"process {pid} ({command})"
    return "another process"


def listeners(port: int) -> list[int]:
    """Pids that listen on a port, as far as this user may see."""
    try:
        sockets = psutil.net_connections("tcp")
    except psutil.AccessDenied:
        return []
    listening = [s for s in sockets if s.status == psutil.CONN_LISTEN]
    return [s.pid for s in listening if s.pid and s.laddr and s.laddr[1] == port]


def stranger_on_port(record: Record) -> str | None:
    """Who else answers on a worker's port, in words; None when it is the worker alone.

    Two servers can share a port (SO_REUSEPORT), so that it is not enough that ours is there.
    """
    pids = set(listeners(record.port))
    if not pids:
        return None  # this system does not tell; the engine's own fingerprint must do
    ours = {process.pid for process in members(record)}
    others = pids - ours
    if others:
        return _describe(record.port)
    return None

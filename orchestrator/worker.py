"""One worker's life: start, readiness, watching, restart with back-off, drain and end.

One asyncio task owns a worker's state; everybody else reads snapshots.
"""

import asyncio
import hashlib
import logging
import time
import uuid
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import httpx

from orchestrator import process
from orchestrator.deployment import Member
from orchestrator.errors import EngineError, OrchestratorError
from orchestrator.mark import created
from orchestrator.readiness import Evidence, base_url, examine, is_healthy
from orchestrator.state import Record, StateFolder, WorkerState
from orchestrator.wire import engine_client, read_counters

LOG = logging.getLogger("draftgate.supervisor")

LOG_TAIL_LINES = 20
WATCH_PAUSE_S = 2.0
UNHEALTHY_LIMIT = 3  # health answers missed in a row before a living engine counts as dead
FIRST_BACKOFF_S = 1.0
LONGEST_BACKOFF_S = 60.0
SETTLED_S = 120.0  # ready for this long: the next failure starts from the first back-off again
NOTICE_S = 0.6  # routers read states every 0.25 s; nothing new arrives after this
DRAIN_S = 30.0
TERM_GRACE_S = 10.0
METRICS_TIMEOUT_S = 5.0
PORT_RELEASE_S = 3.0  # a process that just ended may hold its port while its threads go


@dataclass(frozen=True)
class Pace:
    """Times, in seconds, that tests shorten."""

    first_backoff: float = FIRST_BACKOFF_S
    watch_pause: float = WATCH_PAUSE_S
    notice: float = NOTICE_S
    drain: float = DRAIN_S
    term_grace: float = TERM_GRACE_S


class Worker:
    """A worker process under supervision.

    `run()` is its one task: it returns after `stop()` was called, or when the first start failed
    (state "failed"). `state` is a snapshot; `changed` is called after each change.
    """

    def __init__(
        self, member: Member, folder: StateFolder, changed: Callable[[], None], pace: Pace
    ):
        self.member = member
        self.state = WorkerState(member.name, "stopped", port=member.launch.port)
        self.settled = asyncio.Event()  # ready for the first time, or failed
        self._folder = folder
        self._changed = changed
        self._pace = pace
        self._stop = asyncio.Event()
        self._record: Record | None = None
        self._child: asyncio.subprocess.Process | None = None
        self._is_adopted = False
        self._last_end = ""

    def adopt(self, record: Record) -> None:
        """Take over a living process that an earlier supervisor started."""
        self._record = record
        self._is_adopted = True

    def stop(self) -> None:
        """Ask for the end; `run()` returns when the process is gone."""
        self._stop.set()

    async def run(self) -> None:
        try:
            await self._supervise()
        finally:
            self.settled.set()
            if self._record is not None:
                await self._end(drain=self.state.state == "ready")

    async def _supervise(self) -> None:
        backoff = self._pace.first_backoff
        while not self._stop.is_set():
            cause = await self._one_life()
            if self._stop.is_set() or cause is None:
                return
            if not self.settled.is_set() and not self._is_adopted:
                self._set("failed", cause)
                return
            self._is_adopted = False
            if time.time() - self.state.since > SETTLED_S:
                backoff = self._pace.first_backoff
            LOG.warning("%s: %s; starting it again in %g s", self.member.name, cause, backoff)
            detail = f"{cause}; next start in {backoff:g} s"
            self._last_end = cause
            self._set("starting", detail, restarts=self.state.restarts + 1)
            await self._pause(backoff)
            backoff = min(2 * backoff, LONGEST_BACKOFF_S)

    async def _one_life(self) -> str | None:
        """From start to death; returns why it ended, None after a stop."""
        try:
            if self._record is None:
                await self._start()
            evidence = await self._until_ready()
            if evidence is None:
                return None
            self._set("ready", _ready_text(evidence), evidence=evidence)
            self.settled.set()
            cause = await self._watch()
        except (OrchestratorError, OSError) as error:
            cause = str(error)
        except Exception as error:  # the edge of one worker: its surprises must not end the fleet
            LOG.exception("%s: a bug", self.member.name)
            cause = f"{type(error).__name__}: {error} (a bug)"
        if cause is not None:
            await self._end(drain=False)
        return cause

    async def _start(self) -> None:
        name = self.member.name
        launch = self.member.launch.placed(str(self._folder.files(name)))
        holder = await process.port_holder_after(launch.host, launch.port, PORT_RELEASE_S)
        if holder:
            raise EngineError(f"port {launch.port} is taken by {holder}")
        log = self._folder.log(name)
        _start_log(log, launch.shell())
        record = Record(name, uuid.uuid4().hex, full_digest(self.member), launch.port, log=str(log))
        self._folder.write_record(record)
        self._record = record  # before the process exists: a failure below must clean it up
        LOG.info("%s: %s", name, launch.shell())
        self._set("starting", "waiting for the engine")
        cwd = self.member.base
        self._folder.place_files(name, launch.files)
        try:
            self._child = await process.spawn(launch, record, self._folder.mark, cwd)
        except OSError as error:
            raise EngineError(f"{launch.argv[0]} cannot be started: {error.strerror}") from error
        pid = self._child.pid
        self._record = replace(record, pid=pid, created=created(pid))
        self._folder.write_record(self._record)
        self._set("starting", "waiting for the engine")

    async def _until_ready(self) -> Evidence | None:
        """Readiness, unless the process dies, the time runs out, or a stop comes first."""
        ready = asyncio.create_task(examine(self.member, self._record))
        death = asyncio.create_task(self._death())
        stop = asyncio.create_task(self._stop.wait())
        tasks: set[asyncio.Task[Any]] = {ready, death, stop}
        try:
            timeout = self.member.engine.start_timeout_s
            done, _ = await asyncio.wait(
                tasks, timeout=timeout, return_when=asyncio.FIRST_COMPLETED
            )
            if stop in done:
                return None
            if death in done:
                raise EngineError(f"{self._title} ended before it was ready: {death.result()}")
            if ready not in done:
                raise EngineError(f"{self._title} was not ready within {timeout:g} s")
            return ready.result()
        finally:
            await _cancel(tasks)

    async def _watch(self) -> str | None:
        """Until the process dies, stops answering, or a stop comes (None)."""
        death = asyncio.create_task(self._death())
        stop = asyncio.create_task(self._stop.wait())
        tasks: set[asyncio.Task[Any]] = {death, stop}
        missed, pause = 0, self._pace.watch_pause
        try:
            async with engine_client(base_url(self.member)) as client:
                while missed < UNHEALTHY_LIMIT:
                    done, _ = await asyncio.wait(
                        tasks, timeout=pause, return_when=asyncio.FIRST_COMPLETED
                    )
                    if stop in done:
                        return None
                    if death in done:
                        return f"{self._title} ended: {death.result()}"
                    healthy = await is_healthy(client, self.member.adapter.HEALTH)
                    missed = 0 if healthy else missed + 1
            return f"{self._title} lives but no longer answers as healthy"
        finally:
            await _cancel(tasks)

    async def _death(self) -> str:
        """How the process ended. An engine that dies may still exit with 0."""
        if self._child is not None:
            code = await self._child.wait()
            return f"killed by signal {-code}" if code < 0 else f"exit code {code}"
        if self._record is not None:
            await process.wait_for_end(self._record)
        return "exit code unknown (it was adopted)"

    async def _end(self, drain: bool) -> None:
        """End every process of this life and forget it."""
        record = self._record
        if record is None:
            return
        was_failed = self.state.state == "failed"
        if drain:
            self._set("stopping", "draining")
            await self._drain()
        killed = await process.end(record, self._pace.term_grace)
        if self._child is not None:
            await self._child.wait()
        self._record, self._child = None, None
        self._folder.remove_record(record.name)
        if self._stop.is_set() and not was_failed:
            self._set("stopped", "killed: it ignored SIGTERM" if killed else "")

    async def _drain(self) -> None:
        """Wait until the engine has nothing to do: it is out of the routers' sight by now."""
        await asyncio.sleep(self._pace.notice)
        until = time.monotonic() + self._pace.drain
        async with engine_client(base_url(self.member), answer_timeout_s=5) as client:
            while await _is_busy(client, self.member) and time.monotonic() < until:  # noqa: ASYNC110 — an engine tells no events
                await asyncio.sleep(0.1)

    async def _pause(self, seconds: float) -> None:
        try:
            await asyncio.wait_for(self._stop.wait(), seconds)
        except TimeoutError:
            return

    def _set(
        self,
        state: str,
        detail: str,
        evidence: Evidence | None = None,
        restarts: int | None = None,
    ) -> None:
        record = self._record
        self.state = WorkerState(
            name=self.member.name,
            state=state,
            detail=detail,
            since=time.time(),
            pid=record.pid if record else None,
            port=self.member.launch.port,
            restarts=self.state.restarts if restarts is None else restarts,
            version=evidence.version if evidence else None,
            fingerprint=evidence.fingerprint if evidence else None,
            drafted=evidence.drafted if evidence else None,
            launch=full_digest(self.member),
            last_end=self._last_end,
        )
        self._changed()

    @property
    def _title(self) -> str:
        return f"{self.member.adapter.TITLE} {self.member.spec.engine_version}"

    def failure(self) -> str:
        """Why the worker failed, with the end of its log."""
        log = self._folder.log(self.member.name)
        tail = log_tail(log)
        lines = "".join(f"\n    {line}" for line in tail)
        message = f"{self.member.name}: {self.state.detail}"
        return f"{message}\n  the last {len(tail)} lines of {log}:{lines}" if tail else message


def full_digest(member: Member) -> str:
    """Digest of the whole launch, program and address included."""
    return hashlib.sha256(member.launch.text().encode()).hexdigest()


def log_tail(path: Path, lines: int = LOG_TAIL_LINES) -> list[str]:
    """The last lines of a log, read from its end: logs may be large."""
    try:
        with path.open("rb") as file:
            size = file.seek(0, 2)
            file.seek(max(0, size - 256 * lines))
            text = file.read().decode(errors="replace")
    except OSError:
        return []
    return [line[:300] for line in text.splitlines()[-lines:]]


def _start_log(path: Path, command: str) -> None:
    """Begin a new log with the command; the one before is kept beside it."""
    if path.exists():
        path.replace(path.with_suffix(".previous.log"))
    path.touch(mode=0o600)
    path.write_text(f"$ {command}\n")


def _ready_text(evidence: Evidence) -> str:
    if not evidence.drafted:
        return "answers; plain"
    return f"answers; drafted {evidence.drafted} tokens in the proof"


async def _is_busy(client: httpx.AsyncClient, member: Member) -> bool:
    """Whether requests run or wait in the engine, by its own gauges."""
    try:
        async with asyncio.timeout(METRICS_TIMEOUT_S):
            values = await read_counters(client, member.adapter, ("running", "waiting"))
    except (TimeoutError, EngineError):
        return False
    return any(values.values())


async def _cancel(tasks: Iterable[asyncio.Task[Any]]) -> None:
    tasks = list(tasks)
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)

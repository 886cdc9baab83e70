"""observe and apply: brings a fleet's workers up, holds them, and ends them."""

import asyncio
import logging
import signal
from collections.abc import Callable, Sequence
from dataclasses import replace

from adapters.draft import draft_of
from orchestrator import process
from orchestrator.deployment import Deployment, Member
from orchestrator.errors import EngineError, OrchestratorError
from orchestrator.plan import Observed, Step, Wanted, make_plan
from orchestrator.state import Record, StateFolder, WorkerState
from orchestrator.weights import is_missing, prepare
from orchestrator.worker import Pace, Worker, full_digest

LOG = logging.getLogger("draftgate.supervisor")

STRAY_GRACE_S = 10.0
Say = Callable[[str], None]


def observe(deployment: Deployment, folder: StateFolder) -> Observed:
    """What really runs now. Looks at processes and ports; changes nothing."""
    records = folder.records()
    running = {r.name: r for r in records if process.is_alive(r)}
    dead = {r.name: r for r in records if r.name not in running}
    # What is left of a worker whose main process died (its engine core) must go before a start.
    strays = process.strays(folder.mark, [r.token for r in running.values()])
    stray_pids = tuple(p.pid for p in strays)
    ours = {r.port for r in running.values()}
    ours |= {m.launch.port for m in deployment.members if _is_held_by(m.launch.port, stray_pids)}
    launches = (m.launch for m in deployment.members if m.is_ours)
    holders = {
        launch.port: holder
        for launch in launches
        if launch.port not in ours and (holder := process.port_holder(launch.host, launch.port))
    }
    return Observed(running, dead, stray_pids, holders)


def _is_held_by(port: int, pids: tuple[int, ...]) -> bool:
    """Whether only these processes listen on a port."""
    holders = process.listeners(port) if pids else []
    return bool(holders) and set(holders) <= set(pids)


def plan(deployment: Deployment, observed: Observed, only: Sequence[str] = ()) -> list[Step]:
    """The steps that make what runs what the fleet says; with `only`, the others are let be."""
    if only:
        running = {name: r for name, r in observed.running.items() if name in only}
        observed = replace(observed, running=running)
    return make_plan([_wanted(m) for m in _launched(deployment, only)], observed)


def _launched(deployment: Deployment, only: Sequence[str]) -> list[Member]:
    return [m for m in deployment.members if m.is_ours and (not only or m.name in only)]


def _wanted(member: Member) -> Wanted:
    engine = f"{member.adapter.TITLE} {member.spec.engine_version}"
    return Wanted(member.name, full_digest(member), member.launch.port, engine)


class Supervisor:
    """Holds the workers of one fleet. Used under the folder's lock; `say` gets a line a change."""

    def __init__(
        self,
        deployment: Deployment,
        folder: StateFolder,
        say: Say,
        pace: Pace | None = None,
        only: Sequence[str] = (),
    ):
        self.deployment = deployment
        self.folder = folder
        self.phase = "starting"
        self._say = say
        self._said: dict[str, tuple[str, str]] = {}
        members = _launched(deployment, only)
        self.workers = {m.name: Worker(m, folder, self._changed, pace or Pace()) for m in members}
        self._only = only

    async def run(self, up: Callable[[], None] = lambda: None) -> None:
        """Bring everything up, call `up`, hold until `stop()`; end everything.

        Raises EngineError when a worker does not start (after ending the others), and
        OrchestratorError when the plan is refused (before touching anything).
        """
        await self._make_way()
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(worker.run()) for worker in self.workers.values()]
            try:
                await asyncio.gather(*(worker.settled.wait() for worker in self.workers.values()))
                failed = [w for w in self.workers.values() if w.state.state == "failed"]
                if not failed and self.phase == "starting":
                    self.phase = "up"
                    self._changed()
                    up()
                    await asyncio.wait(tasks)
            finally:
                self.stop()
        self.phase = "down"
        self._changed()
        if failed:
            raise EngineError("\n".join(worker.failure() for worker in failed))

    def stop(self) -> None:
        """Drain and end every worker; `run()` returns afterwards."""
        if self.phase != "stopping":
            self.phase = "stopping"
            for worker in self.workers.values():
                worker.stop()
            self._changed()

    def states(self) -> dict[str, WorkerState]:
        return {name: worker.state for name, worker in self.workers.items()}

    async def _make_way(self) -> None:
        """Observe, plan, and do the steps that stop or adopt."""
        observed = observe(self.deployment, self.folder)
        steps = plan(self.deployment, observed, self._only)
        refused = [str(step.cause) for step in steps if step.action == "refuse"]
        if refused:
            raise EngineError("; ".join(refused))
        members = [worker.member for worker in self.workers.values()]
        prepare_weights(self.deployment, members, self._say)
        for step in steps:
            self._tell(str(step))
        for step in steps:
            if step.action == "stop" and step.worker in observed.running:
                await process.end(observed.running[step.worker], STRAY_GRACE_S)
                self.folder.remove_record(step.worker)
            elif step.action == "adopt":
                self.workers[step.worker].adopt(observed.running[step.worker])
        stopped = {step.worker for step in steps if step.action == "stop"}
        kept = [r.token for name, r in observed.running.items() if name not in stopped]
        await process.end_strays(self.folder.mark, kept, STRAY_GRACE_S)
        for name in observed.dead:
            self.folder.remove_record(name)

    def _changed(self) -> None:
        """A worker's state changed: write the snapshot, say what a person would want to know."""
        states = self.states()
        try:
            self.folder.write_status(self.phase, states)
        except OSError as error:
            LOG.warning("the status cannot be written: %s", error)
        for name, state in states.items():
            said = (state.state, state.detail)
            if self._said.get(name) != said and state.state != "stopped":
                self._said[name] = said
                self._tell(f"{state.state:8} {name:15} {state.detail}")

    def _tell(self, line: str) -> None:
        """To whoever listens; that nobody does any more is no reason to end workers."""
        try:
            self._say(line)
        except OSError as error:
            self._say = lambda _: None
            LOG.warning("the output cannot be written any more: %s", error)


def prepare_weights(deployment: Deployment, members: Sequence[Member], say: Say) -> None:
    """Make packaged weights ready. Raises EngineError for what is not on this machine."""
    for member in members:
        if member.missing:
            raise EngineError(f"{member.name}: {member.missing}")
        fleet = deployment.require()
        prepare(fleet.models[member.entry.model], member.spec.command, say)
        model, draft = member.spec.model, draft_of(member.profile, member.spec.model)
        for path in filter(None, (model.target, draft)):
            if is_missing(path):
                raise EngineError(f"{member.name}: {path} is not there (model {model.name!r})")


async def run_until_signal(supervisor: Supervisor, up: Callable[[], None]) -> None:
    """Run until SIGINT, SIGTERM or SIGHUP; a second signal ends the drain at once."""
    loop = asyncio.get_running_loop()
    task = asyncio.ensure_future(supervisor.run(up))

    def on_signal() -> None:
        if supervisor.phase == "stopping":
            task.cancel()
        supervisor.stop()

    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        loop.add_signal_handler(number, on_signal)
    try:
        await task
    except asyncio.CancelledError:
        await sweep(supervisor.folder, 0.0)
        raise OrchestratorError("ended at once, without waiting for running requests") from None


async def sweep(folder: StateFolder, grace_s: float) -> list[int]:
    """End every process of the fleet, recorded or not, and forget it; returns the pids ended."""
    ended = []
    for record in folder.records():
        ended += [p.pid for p in process.members(record)]
        await process.end(record, grace_s)
        folder.remove_record(record.name)
    return ended + await process.end_strays(folder.mark, (), grace_s)


def true_states(deployment: Deployment, folder: StateFolder) -> dict[str, WorkerState]:
    """The last snapshot corrected by what really runs: never from memory alone.

    Of a fleet whose file has errors now, what is known of its workers without it.
    """
    states = folder.read_status().workers
    records = {record.name: record for record in folder.records()}
    is_supervised = folder.is_locked()
    if not deployment.is_usable:
        names = sorted({*states, *records})
        return {n: _seen_state(n, states.get(n), records.get(n), is_supervised) for n in names}
    return {
        m.name: _true_state(m, states.get(m.name), records.get(m.name), is_supervised)
        for m in deployment.members
    }


def _true_state(
    member: Member, state: WorkerState | None, record: Record | None, is_supervised: bool
) -> WorkerState:
    if not member.is_ours:
        return WorkerState(member.name, "external", member.entry.url or "")
    seen = _seen_state(member.name, state, record, is_supervised)
    if seen.state == "ready" and seen.launch != full_digest(member):
        changed = "runs another launch than the files say now: `draftgate down`, then `up`"
        return replace(seen, detail=f"{seen.detail}; {changed}")
    return seen if seen.port else replace(seen, port=member.launch.port)


def _seen_state(
    name: str, state: WorkerState | None, record: Record | None, is_supervised: bool
) -> WorkerState:
    if is_supervised and state is not None:
        return state
    if record is not None and process.is_alive(record):
        detail = "runs without a supervisor: `draftgate up` adopts it, `draftgate down` ends it"
        return WorkerState(name, "orphaned", detail, pid=record.pid, port=record.port)
    if state is not None and state.state == "failed":
        return state
    if state is not None and state.state in ("ready", "starting", "stopping"):
        detail = f"was {state.state} when its supervisor ended; its process is gone"
        return WorkerState(name, "stopped", detail, port=state.port)
    return WorkerState(name, "stopped")

"""Where the gate's arms run: on workers that are up, or on ones booted afresh for each arm."""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace

from pydantic import JsonValue

from orchestrator import process
from orchestrator.deployment import Deployment, Member
from orchestrator.errors import EngineError
from orchestrator.gate.endpoint import Endpoint, identify
from orchestrator.readiness import base_url
from orchestrator.state import StateFolder, WorkerState
from orchestrator.supervisor import STRAY_GRACE_S, prepare_weights, true_states
from orchestrator.worker import Pace, Worker, full_digest

Say = Callable[[str], None]

# Nobody else sends requests to the gate's workers: their end need not be announced.
_PACE = Pace(notice=0.0, drain=0.0)
_PHASE = "gate"


class Host:
    """The fleet's workers for one run of the gate; `hosting` makes one."""

    def __init__(self, deployment: Deployment, folder: StateFolder, say: Say, is_up: bool):
        self.is_up = is_up
        self._deployment = deployment
        self._folder = folder
        self._say = say
        self._workers: dict[str, Worker] = {}

    def prepare(self, members: Sequence[Member]) -> None:
        """Makes the files of weights that are not there yet, before anybody looks at them.

        Raises EngineError for what is not on this machine.
        """
        if not self.is_up:
            prepare_weights(self._deployment, [m for m in members if m.is_ours], self._say)

    @asynccontextmanager
    async def running(self, member: Member) -> AsyncIterator[Endpoint]:
        """A worker's endpoint: of the fleet that is up, else of a process of this block's own.

        Raises EngineError when the worker is not ready, or does not start.
        """
        if not member.is_ours:
            yield await _endpoint(member, boots=0)
        elif self.is_up:
            states = true_states(self._deployment, self._folder)
            _require_as_written(member, states[member.name])
            yield await _endpoint(member, boots=0)
        else:
            async with self._booted(member):
                yield await _endpoint(member, boots=1)

    @asynccontextmanager
    async def running_wide(
        self, member: Member, arguments: Mapping[str, JsonValue]
    ) -> AsyncIterator[Endpoint]:
        """The plain worker with more options, as a process of this block's own."""
        async with self._booted(_changed(member, arguments)) as wide:
            yield await _endpoint(wide, boots=1)

    @asynccontextmanager
    async def _booted(self, member: Member) -> AsyncIterator[Member]:
        worker = Worker(member, self._folder, self._note, _PACE)
        self._workers[member.name] = worker
        task = asyncio.create_task(worker.run())
        try:
            await worker.settled.wait()
            if worker.state.state != "ready":
                raise EngineError(worker.failure())
            yield member
            if worker.state.restarts or worker.state.state != "ready":
                raise EngineError(f"{member.name} ended while it was asked: {worker.failure()}")
        finally:
            worker.stop()
            await task

    def _note(self) -> None:
        """A worker's state changed: `draftgate status` reads it."""
        if not self.is_up:
            states = {name: worker.state for name, worker in self._workers.items()}
            self._folder.write_status(_PHASE, states)


@asynccontextmanager
async def hosting(deployment: Deployment, folder: StateFolder, say: Say) -> AsyncIterator[Host]:
    """The fleet for one run: as it is while it is up, else locked for the gate.

    Raises EngineError when another gate runs, or workers run that nobody supervises.
    """
    holder = folder.holder()
    if holder is not None and holder.purpose == "gate":
        raise EngineError(f"`draftgate gate` runs already, as process {holder.pid}")
    if holder is not None:
        yield Host(deployment, folder, say, is_up=True)
        return
    await _end_leftovers(folder)
    states = true_states(deployment, folder)
    orphans = [state.name for state in states.values() if state.state == "orphaned"]
    if orphans:
        message = f"{', '.join(orphans)}: running without a supervisor"
        raise EngineError(f"{message}; `draftgate up` adopts them, `draftgate down` ends them")
    with folder.lock("gate"):
        await process.end_strays(folder.mark, (), STRAY_GRACE_S)
        for record in folder.records():
            folder.remove_record(record.name)
        yield Host(deployment, folder, say, is_up=False)


async def _end_leftovers(folder: StateFolder) -> None:
    """End the engines of a gate that was killed: they were nobody else's."""
    if folder.read_status().phase != _PHASE:
        return
    for record in folder.records():
        await process.end(record, STRAY_GRACE_S)
        folder.remove_record(record.name)
    await process.end_strays(folder.mark, (), STRAY_GRACE_S)


def _require_as_written(member: Member, state: WorkerState) -> None:
    """The worker is ready, and what runs is what the files say: else the certificate would lie."""
    if state.state != "ready":
        hint = "`draftgate down` first, and the gate starts the workers that it needs"
        detail = state.detail or f"the fleet is up without it; {hint}"
        raise EngineError(f"{member.name} is {state.state}, not ready: {detail}")
    if state.launch != full_digest(member):
        message = f"{member.name} runs another launch than the files say now"
        raise EngineError(f"{message}: `draftgate down`, then `draftgate up`")


async def _endpoint(member: Member, boots: int) -> Endpoint:
    url, model = base_url(member), member.spec.model
    identity = await identify(url, member.adapter)
    name = model.name if model.name in identity.models else identity.models[0]
    context = identity.context or model.context
    return Endpoint(member.name, url, member.adapter, name, context, boots, member.is_ours)


def _changed(member: Member, arguments: Mapping[str, JsonValue]) -> Member:
    """The member under another name, with more options and a port of its own."""
    name = f"{member.name}-wide"
    spec = replace(
        member.spec, name=name, args={**member.spec.args, **arguments}, port=process.free_port()
    )
    entry = member.entry.model_copy(update={"name": name, "port": spec.port})
    launch = member.adapter.render(member.profile, spec)
    return replace(member, entry=entry, spec=spec, launch=launch)

"""Where the gate's arms run: on workers that are up, or on ones it boots afresh for each arm."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from adapters import ADAPTERS
from adapters.contract import Adapter
from orchestrator.deployment import Deployment, Member
from orchestrator.errors import EngineError, InputError
from orchestrator.gate.arm import Endpoint
from orchestrator.readiness import base_url
from orchestrator.state import StateFolder, WorkerState
from orchestrator.supervisor import Supervisor, true_states
from orchestrator.wire import engine_client, hold
from orchestrator.worker import full_digest

Say = Callable[[str], None]


@asynccontextmanager
async def running(
    deployment: Deployment, folder: StateFolder, member: Member, say: Say
) -> AsyncIterator[Endpoint]:
    """A worker's endpoint: of the fleet that is up, else of a process booted for this block.

    Raises EngineError when the worker is not ready, or does not start.
    """
    endpoint = Endpoint(member.name, base_url(member), member.adapter, member.spec.model.name)
    if not member.is_ours:
        yield endpoint
        return
    states = true_states(deployment, folder)
    holder = folder.holder()
    if holder is not None and holder.purpose == "gate":
        raise EngineError(f"`draftgate gate` runs already, as process {holder.pid}")
    if holder is not None:
        _require_as_written(member, states[member.name])
        yield endpoint
        return
    orphans = [state.name for state in states.values() if state.state == "orphaned"]
    if orphans:
        message = f"{', '.join(orphans)}: running without a supervisor"
        raise EngineError(f"{message}; `draftgate up` adopts them, `draftgate down` ends them")
    with folder.lock("gate"):
        async with _booted(Supervisor(deployment, folder, say, only=[member.name])):
            yield endpoint


def _require_as_written(member: Member, state: WorkerState) -> None:
    """The worker is ready, and what runs is what the files say: else the certificate would lie."""
    if state.state != "ready":
        hint = "`draftgate down` first, and the gate starts the workers that it needs"
        detail = state.detail or f"the fleet is up without it; {hint}"
        raise EngineError(f"{member.name} is {state.state}, not ready: {detail}")
    if state.launch != full_digest(member):
        message = f"{member.name} runs another launch than the files say now"
        raise EngineError(f"{message}: `draftgate down`, then `draftgate up`")


@asynccontextmanager
async def _booted(supervisor: Supervisor) -> AsyncIterator[None]:
    """Workers that live as long as the block. Raises EngineError when they do not start."""
    is_up = asyncio.Event()
    task = asyncio.create_task(supervisor.run(is_up.set))
    up = asyncio.create_task(is_up.wait())
    try:
        await asyncio.wait({task, up}, return_when=asyncio.FIRST_COMPLETED)
        if task.done():
            await task
        yield
    finally:
        up.cancel()
        supervisor.stop()
        await task


async def find_endpoint(url: str) -> Endpoint:
    """An engine that somebody else started: which one it is, and what its model is called.

    Raises InputError when no adapter knows what answers there.
    """
    tried = []
    for adapter in ADAPTERS.values():
        try:
            return Endpoint(url, url, adapter, await _served_model(url, adapter))
        except EngineError as error:
            tried.append(f"{adapter.TITLE}: {error}")
    raise InputError("no engine known here answers:\n  " + "\n  ".join(tried))


async def _served_model(url: str, adapter: Adapter) -> str:
    async with engine_client(url, answer_timeout_s=30) as client:
        identity = await hold(client, adapter.api.identify())
    if not identity.models:
        raise EngineError(f"{url} serves no model")
    return identity.models[0]

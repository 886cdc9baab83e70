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
from orchestrator.state import StateFolder
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
    if folder.is_locked():
        state = true_states(deployment, folder)[member.name]
        if state.state != "ready":
            raise EngineError(f"{member.name} is {state.state}, not ready: {state.detail}")
        if state.launch != full_digest(member):
            message = f"{member.name} runs another launch than the files say now"
            raise EngineError(f"{message}: `draftgate down`, then `draftgate up`")
        yield endpoint
        return
    with folder.lock():
        supervisor = Supervisor(deployment, folder, say, only=[member.name])
        is_up = asyncio.Event()
        task = asyncio.create_task(supervisor.run(is_up.set))
        up = asyncio.create_task(is_up.wait())
        try:
            await asyncio.wait({task, up}, return_when=asyncio.FIRST_COMPLETED)
            if task.done():
                await task
            yield endpoint
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

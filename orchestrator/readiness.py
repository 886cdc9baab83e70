"""When a worker is ready: healthy, itself, able to answer, and doing what its profile says."""

import asyncio
from dataclasses import dataclass
from pathlib import Path

import httpx

from adapters.dialect import release
from adapters.exchange import Identity, Proof
from orchestrator.deployment import Member
from orchestrator.errors import EngineError
from orchestrator.process import stranger_on_port
from orchestrator.state import Record
from orchestrator.wire import engine_client, hold

HEALTH_PAUSE_S = 0.25
HEALTH_TIMEOUT_S = 5.0


@dataclass(frozen=True)
class Evidence:
    """What a worker showed when it became ready."""

    version: str | None
    fingerprint: str
    drafted: int | None
    accepted: int | None


def base_url(member: Member) -> str:
    """Where the worker answers."""
    host = f"[{member.launch.host}]" if ":" in member.launch.host else member.launch.host
    return member.entry.url or f"http://{host}:{member.launch.port}"


async def is_healthy(client: httpx.AsyncClient, path: str) -> bool:
    """One health request; any failure to answer 200 in time is False. The body is not read."""
    try:
        async with asyncio.timeout(HEALTH_TIMEOUT_S), client.stream("GET", path) as answer:
            return answer.status_code == 200
    except (httpx.HTTPError, TimeoutError):
        return False


async def until_healthy(client: httpx.AsyncClient, member: Member) -> None:
    """Ask until the engine says 200; the caller bounds the time and watches the process."""
    while not await is_healthy(client, member.adapter.HEALTH):  # noqa: ASYNC110 — it only answers
        await asyncio.sleep(HEALTH_PAUSE_S)


async def examine(member: Member, record: Record | None) -> Evidence:
    """Wait for health, then ask for identity, a completion and a proof of drafting.

    Raises EngineError naming what is wrong. `record` is None for an engine that is not ours.
    """
    async with engine_client(base_url(member)) as client:
        await until_healthy(client, member)
        if record is not None:
            stranger = stranger_on_port(record)
            if stranger:
                message = f"port {record.port} is answered by {stranger}, not by this worker"
                raise EngineError(message)
        api, model = member.adapter.api, member.spec.model.name
        identity = await hold(client, api.identify())
        _require_identity(member, identity)
        fingerprint = await hold(client, api.complete(model))
        proof = await hold(client, api.prove(model, member.profile))
        _require_proof(member, proof)
    version = identity.version if _knows_itself(identity) else member.spec.engine_version
    return Evidence(version, fingerprint, proof.drafted, proof.accepted)


def _require_identity(member: Member, identity: Identity) -> None:
    """A server left over from something else must never answer for this worker."""
    names = {member.spec.model.name, member.launch.served_name}
    if names.isdisjoint(identity.models):
        served = ", ".join(identity.models) or "nothing"
        message = f"the engine on port {member.launch.port} serves {served}"
        raise EngineError(f"{message}, not {member.spec.model.name!r}: it is not this worker")
    target = member.spec.model.target
    is_local = Path(target).is_absolute()  # a hub id is told as the path it was downloaded to
    if member.is_ours and is_local and identity.weights not in (None, target):
        message = f"the engine on port {member.launch.port} serves weights from {identity.weights}"
        raise EngineError(f"{message}, not {target}: it is not this worker")
    version = member.spec.engine_version
    told, wanted = release(identity.version or "") or (), release(version) or ()
    # A fleet may give only the first parts of a version.
    if member.is_ours and _knows_itself(identity) and told[: len(wanted)] != wanted:
        message = f"the engine on port {member.launch.port} is version {identity.version}"
        raise EngineError(f"{message}, not {version}: it is not this worker")


def _knows_itself(identity: Identity) -> bool:
    """A packaged build may say 0 or 1 where its number should be."""
    return release(identity.version or "") not in (None, (0,), (1,))


def _require_proof(member: Member, proof: Proof) -> None:
    title, method = member.adapter.TITLE, member.profile.speculation.method
    if member.profile.is_speculating and not (proof.drafted or proof.accepted):
        raise EngineError(
            f"{title} is not speculating although the profile {member.profile.profile!r} says "
            f"method {method}: no token was drafted ({proof.detail})"
        )
    if not member.profile.is_speculating and proof.drafted:
        raise EngineError(f"{title} drafted {proof.drafted} tokens although the profile is plain")

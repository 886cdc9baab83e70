"""Release: what the gate's certificates say now, for the tools that roll a worker out.

Argo Rollouts asks with GET and reads JSON; Flagger posts a hook and reads the status. Certificates
are read anew for each answer, in a thread, so that a gate that has just ended counts at once.
"""

import asyncio
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from orchestrator.deployment import Deployment
from orchestrator.gate.admission import FAIL, INCONCLUSIVE, MISSING, PASS, Standing, standing
from orchestrator.gate.certificate import certificate_folder

ANSWER_S = 8.0  # Argo Rollouts and Flagger wait 10 s for an answer
LARGEST_BODY = 65536  # bytes of a hook
# Flagger's names of hooks. The last one works the other way round: 200 makes it roll back.
CONFIRMING = ("confirm-rollout", "confirm-traffic-increase", "confirm-promotion")
ROLLBACK = "rollback"
_WORST_FIRST = (FAIL, MISSING, INCONCLUSIVE, PASS)


@dataclass(frozen=True)
class Place:
    """A worker whose release is decided: where it stands in the fleet, and how to look it up.

    `is_admitted` is what the router decided when it read its files: to send requests there.
    """

    name: str
    profile: str
    model: str
    is_plain: bool
    is_routed: bool
    is_admitted: bool
    look: Callable[[], Standing]


class HookError(Exception):
    """A question that cannot be answered; `status` is the answer's."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


class Release:
    """Answers for one fleet. Looking is done once at a time, however many ask."""

    def __init__(self, places: tuple[Place, ...], is_required: bool = True) -> None:
        self._places = places
        self._is_required = is_required
        self._looking: asyncio.Task[dict[str, Standing]] | None = None

    async def tell(self, profile: str | None = None) -> dict[str, Any]:
        """The verdict of every worker, or of one profile's, and the worst of them.

        Without `profile`, workers that no route names are told and do not count. Raises HookError
        when there is no such profile, or looking takes too long.
        """
        self._require(profile)
        found = await self._look()
        workers = {
            place.name: {
                **_as_json(place, found[place.name]),
                "note": self._note(place, found[place.name]),
            }
            for place in self._places
            if profile in (None, place.profile)
        }
        counted = [w["verdict"] for w in workers.values() if w["is_routed"] or profile is not None]
        verdict = min(counted, key=_WORST_FIRST.index, default=PASS)
        return {"verdict": verdict, "required": self._is_required, "workers": workers}

    async def confirm(self, kind: str, body: bytes) -> tuple[int, dict[str, Any]]:
        """The status and the body that answer a hook of Flagger. Raises HookError as `tell` does,
        and when the body is no hook."""
        hook = read_hook(body)
        told = await self.tell(hook.get("profile"))
        reasons = {n: w["reason"] for n, w in told["workers"].items() if w["verdict"] != PASS}
        verdict = told["verdict"]
        is_yes = verdict == FAIL if kind == ROLLBACK else verdict == PASS
        return (200 if is_yes else 403), {"hook": kind, "verdict": verdict, "reasons": reasons}

    def _note(self, place: Place, found: Standing) -> str | None:
        """Where the router, which decided when it read its files, acts on an older verdict."""
        if not self._is_required or place.is_admitted == (found.verdict == PASS):
            return None
        acts = "sends requests to it" if place.is_admitted else "sends nothing to it"
        return f"this router {acts}, as it decided when it read its files: SIGHUP reads them again"

    def _require(self, profile: str | None) -> None:
        profiles = sorted({place.profile for place in self._places})
        if profile is not None and profile not in profiles:
            known = ", ".join(profiles) or "none"
            raise HookError(404, f"no worker has the profile {profile!r}; there are: {known}")

    async def _look(self) -> dict[str, Standing]:
        """A look that takes longer than its asker waits is finished, and serves the next one."""
        if self._looking is None or self._looking.done():
            self._looking = asyncio.create_task(asyncio.to_thread(self._look_at_all))
        try:
            return await asyncio.wait_for(asyncio.shield(self._looking), ANSWER_S)
        except TimeoutError as error:
            message = f"weights and certificates are still read after {ANSWER_S:g} s; ask again"
            raise HookError(503, message) from error

    def _look_at_all(self) -> dict[str, Standing]:
        return {place.name: place.look() for place in self._places}


def release_of(deployment: Deployment, refusals: Mapping[str, str | None]) -> Release:
    """The fleet's release, with its workers as the files had them when the router started.

    `refusals` is why the router sends nothing to a worker, by name; None or absent: it does.
    """
    fleet = deployment.require()
    folder, policy = certificate_folder(deployment), fleet.gate
    named = {hop.profile for route in fleet.routes for hop in fleet.hops(route)}
    places = [
        Place(
            name=member.name,
            profile=member.profile.profile,
            model=member.spec.model.name,
            is_plain=not member.profile.is_speculating,
            is_routed=not named or member.profile.profile in named,
            is_admitted=refusals.get(member.name) is None,
            look=partial(standing, folder, member, policy),
        )
        for member in deployment.members
    ]
    return Release(tuple(places), policy.required)


def read_hook(body: bytes) -> Mapping[str, str]:
    """The metadata of a hook of Flagger. Raises HookError (400) saying what is wrong with it."""
    try:
        hook = json.loads(body)
    except (ValueError, RecursionError) as error:
        raise HookError(400, f"the body is no JSON: {error}") from error
    if not isinstance(hook, dict):
        raise HookError(400, "the body is no JSON object: name, namespace, phase, metadata")
    for key in ("name", "namespace"):
        if not isinstance(hook.get(key), str) or not hook[key]:
            raise HookError(400, f"{key} is missing: Flagger sends the canary's {key} as text")
    metadata = {} if hook.get("metadata") is None else hook["metadata"]
    if not isinstance(metadata, dict) or not all(isinstance(v, str) for v in metadata.values()):
        raise HookError(400, "metadata is no mapping of texts")
    unknown = sorted(set(metadata) - {"profile"})
    if unknown:
        raise HookError(400, f"metadata.{unknown[0]} is not known here; metadata.profile is")
    return metadata


def _as_json(place: Place, found: Standing) -> dict[str, Any]:
    certificate = found.certificate
    return {
        "verdict": found.verdict,
        "reason": found.reason,
        "profile": place.profile,
        "model": place.model,
        "is_plain": place.is_plain,
        "is_routed": place.is_routed,
        "is_admitted": place.is_admitted,
        "certificate": certificate and certificate.path.name,
        "created": certificate and certificate.data.get("created"),
        "policy": certificate and certificate.data.get("policy"),
    }

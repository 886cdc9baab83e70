"""The demo's measurements: tokens per second plain and through the router, by request type."""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import httpx

from adapters.metric import acceptance_length, acceptance_rate, rise
from orchestrator.deployment import Deployment, Member
from orchestrator.errors import EngineError
from orchestrator.gate.prompt import Prompt
from orchestrator.readiness import base_url
from orchestrator.wire import engine_client, read_counters

_COUNTERS = ("drafts", "drafted", "accepted")


@dataclass(frozen=True)
class Row:
    """One request type. Rates are tokens per second of wall time, the prompt being cached."""

    type: str
    profile: str
    reason: str
    plain: float
    routed: float
    control: float | None
    alpha: float | None
    tau: float | None

    @property
    def speedup(self) -> float:
        return self.routed / self.plain


@dataclass(frozen=True)
class Answer:
    """What one request gave."""

    tokens: int
    seconds: float
    headers: Mapping[str, str]


def control_of(deployment: Deployment) -> Member | None:
    """A speculating worker that no route names: it is there to be compared with."""
    fleet = deployment.require()
    routed = {hop.profile for name in fleet.routes for hop in fleet.hops(name)}
    for member in deployment.members:
        if member.profile.is_speculating and member.profile.profile not in routed:
            return member
    return None


async def measure_type(deployment: Deployment, router_url: str, prompt: Prompt, rounds: int) -> Row:
    """Ask plain, the router and the control, if any, in turn; the fastest round counts.

    Turns and rounds, because a shared machine's speed drifts.
    """
    plain = next(m for m in deployment.members if not m.profile.is_speculating)
    control = control_of(deployment)
    before = {m.name: await _counters(m) for m in deployment.members}
    direct, routed, beside = [], [], []
    for _ in range(rounds):
        direct.append(await _ask_warm(base_url(plain), plain, prompt))
        routed.append(await _ask_warm(router_url, plain, prompt))
        if control and not _is_plain(deployment, routed[-1]):
            beside.append(await _ask_warm(base_url(control), plain, prompt))
    headers = routed[0].headers
    worker = deployment.member(headers["x-draftgate-worker"])
    after = await _counters(worker)
    rose = {key: rise(before[worker.name], after, key) for key in _COUNTERS}
    return Row(
        type=headers["x-draftgate-type"],
        profile=headers["x-draftgate-profile"],
        reason=headers["x-draftgate-reason"],
        plain=_best(direct),
        routed=_best(routed),
        control=_best(beside) if beside else None,
        alpha=acceptance_rate(rose["accepted"], rose["drafted"]),
        tau=acceptance_length(rose["accepted"], rose["drafts"]),
    )


def is_speculated(deployment: Deployment, request_type: str) -> bool:
    """Whether the type's route begins with a speculating profile."""
    hops = deployment.require().hops(request_type)
    profiles = {m.profile.profile: m.profile for m in deployment.members}
    return bool(hops) and hops[0].profile in profiles and profiles[hops[0].profile].is_speculating


def _is_plain(deployment: Deployment, answer: Answer) -> bool:
    return not deployment.member(answer.headers["x-draftgate-worker"]).profile.is_speculating


async def _ask_warm(url: str, plain: Member, prompt: Prompt) -> Answer:
    """The answer when the engine has just seen the prompt, so that decoding is what is timed."""
    model = plain.spec.model.name
    await _ask(url, model, replace(prompt, request={**prompt.request, "max_tokens": 1}))
    return await _ask(url, model, prompt)


async def _ask(url: str, model: str, prompt: Prompt) -> Answer:
    path = "/v1/chat/completions" if "messages" in prompt.request else "/v1/completions"
    body = {**prompt.request, "model": model, "temperature": 0}
    async with engine_client(url) as client:
        start = time.perf_counter()
        try:
            reply = await client.post(path, json=body)
        except httpx.HTTPError as error:
            raise EngineError(f"{url}{path}: {error or type(error).__name__}") from error
        seconds = time.perf_counter() - start
    if reply.status_code != 200:
        raise EngineError(f"{url}{path} answered {reply.status_code}: {reply.text[:300]}")
    return Answer(reply.json()["usage"]["completion_tokens"], seconds, reply.headers)


async def _counters(member: Member) -> dict[str, float | None]:
    async with engine_client(base_url(member)) as client:
        return await read_counters(client, member.adapter, _COUNTERS)


def _best(answers: Sequence[Answer]) -> float:
    return max(answer.tokens / answer.seconds for answer in answers)

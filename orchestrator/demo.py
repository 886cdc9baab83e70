"""The demo's measurements: tokens per second plain and through the router, by request type."""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import httpx

from adapters.metric import acceptance_length, acceptance_rate, read_metrics
from orchestrator.deployment import Deployment, Member
from orchestrator.errors import EngineError
from orchestrator.gate.prompt import Prompt
from orchestrator.readiness import base_url
from orchestrator.wire import engine_client

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


async def measure_type(deployment: Deployment, router_url: str, prompts: Sequence[Prompt]) -> Row:
    """Ask each prompt of one type plain, then through the router, then of the control if any."""
    plain = next(m for m in deployment.members if not m.profile.is_speculating)
    control = control_of(deployment)
    model = plain.spec.model.name
    direct = [await _ask_warm(base_url(plain), model, prompt) for prompt in prompts]
    before = {m.name: await _counters(m) for m in deployment.members}
    routed = [await _ask_warm(router_url, model, prompt) for prompt in prompts]
    headers = routed[0].headers
    worker = deployment.member(headers["x-draftgate-worker"])
    after = await _counters(worker)
    rise = {key: _rise(before[worker.name], after, key) for key in _COUNTERS}
    beside = None
    if control and worker.profile.is_speculating:
        beside = _rate([await _ask_warm(base_url(control), model, p) for p in prompts])
    return Row(
        type=headers["x-draftgate-type"],
        profile=headers["x-draftgate-profile"],
        reason=headers["x-draftgate-reason"],
        plain=_rate(direct),
        routed=_rate(routed),
        control=beside,
        alpha=acceptance_rate(rise["accepted"], rise["drafted"]),
        tau=acceptance_length(rise["accepted"], rise["drafts"]),
    )


async def _ask_warm(url: str, model: str, prompt: Prompt) -> Answer:
    """The answer when the engine has just seen the prompt, so that decoding is what is timed."""
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
    names = {key: member.adapter.METRICS[key] for key in _COUNTERS}
    async with engine_client(base_url(member)) as client:
        return read_metrics((await client.get("/metrics")).text, names)


def _rise(
    before: Mapping[str, float | None], after: Mapping[str, float | None], key: str
) -> float | None:
    last = after[key]
    return None if last is None else last - (before[key] or 0)


def _rate(answers: Sequence[Answer]) -> float:
    return sum(a.tokens for a in answers) / sum(a.seconds for a in answers)

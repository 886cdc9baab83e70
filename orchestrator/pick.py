"""Pick: the worker for a request, by its type's route, its fields and the load. Pure."""

from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, field

from orchestrator.fleet import Hop, Until
from orchestrator.refusal import Refusal

READY = "ready"


@dataclass(frozen=True)
class Upstream:
    """One worker as the router sees it.

    `limits` maps a request field to why this engine cannot serve it while speculating;
    `batch_limit` is the number of requests at once in the pool (profile and model) that the
    schedule allows; `refused` says why it may not be routed to, None: admitted.
    """

    name: str
    profile: str
    model: str
    engine: str
    host: str
    port: int
    is_plain: bool
    limits: Mapping[str, str]
    health: str
    batch_limit: int | None
    refused: str | None


@dataclass(frozen=True)
class Facts:
    """What picking needs to know of a request. `fields` are the limited fields that it sets."""

    type: str
    model: str | None
    fields: Set[str] = frozenset()


@dataclass(frozen=True)
class Snapshot:
    """The workers at this moment. `turn` goes round ties; `failed` was just tried in vain."""

    states: Mapping[str, str]
    in_flight: Mapping[str, int]
    turn: int = 0
    failed: str | None = None


@dataclass(frozen=True)
class Choice:
    """The worker, why, and the kind of reason: preferred, refuge, or why better hops were left."""

    upstream: Upstream
    reason: str
    kind: str


@dataclass(frozen=True)
class Obstacle:
    """Why a worker or a pool does not get a request."""

    kind: str
    text: str


@dataclass(frozen=True)
class Pools:
    """Workers by model and profile, grouped once."""

    models: tuple[str, ...]
    pools: Mapping[tuple[str, str], tuple[Upstream, ...]]
    plain: Mapping[str, tuple[Upstream, ...]] = field(default_factory=dict)

    @classmethod
    def of(cls, upstreams: Sequence[Upstream], models: Sequence[str]) -> "Pools":
        keys = dict.fromkeys((u.model, u.profile) for u in upstreams)
        pools = {key: tuple(u for u in upstreams if (u.model, u.profile) == key) for key in keys}
        plain = {m: tuple(u for u in upstreams if u.model == m and u.is_plain) for m in models}
        return cls(tuple(models), pools, plain)


def pick(pools: Pools, hops: Sequence[Hop], facts: Facts, now: Snapshot) -> Choice | Refusal:
    """The first hop with a worker that can take the request, then any plain worker."""
    model = _model(pools, facts)
    if isinstance(model, Refusal):
        return model
    left: list[Obstacle] = []
    for index, hop in enumerate(hops):
        label = f"route {facts.type}[{index}]"
        found = _from_pool(pools.pools.get((model, hop.profile), ()), hop.until, facts, now)
        if isinstance(found, Upstream):
            return _choice(found, label, left, pools, now)
        left.append(Obstacle(found.kind, f"{hop.profile}: {found.text}"))
    plain = pools.plain.get(model, ())
    refuge = _from_pool(plain, None, facts, now)
    if isinstance(refuge, Upstream):
        return _choice(refuge, "plain refuge", left, pools, now)
    tried = {hop.profile for hop in hops}
    if any(upstream.profile not in tried for upstream in plain) or not plain:
        left.append(Obstacle(refuge.kind, f"plain refuge: {refuge.text}"))
    reasons = "; ".join(obstacle.text for obstacle in left)
    message = f"no worker can take a {facts.type} request for {model} now: {reasons}"
    return Refusal(503, message, "no_worker")


def _model(pools: Pools, facts: Facts) -> str | Refusal:
    served = ", ".join(pools.models)
    if facts.model is None:
        if len(pools.models) == 1:
            return pools.models[0]
        return Refusal(400, f"the request names no model; served are: {served}", None, "model")
    if facts.model in pools.models:
        return facts.model
    message = f"the model {facts.model!r} does not exist; served are: {served}"
    return Refusal(404, message, "model_not_found", "model")


def _from_pool(
    pool: Sequence[Upstream], until: Until | None, facts: Facts, now: Snapshot
) -> Upstream | Obstacle:
    if not pool:
        return Obstacle("missing", "no worker of this profile serves the model")
    total = _in_flight(pool, now)
    if until is not None and total >= until.in_flight:
        return Obstacle("until", f"{total} in flight, until {until.in_flight}")
    obstacles = [_obstacle(upstream, facts, now, total) for upstream in pool]
    free = [u for u, obstacle in zip(pool, obstacles, strict=True) if obstacle is None]
    if free:
        return _least(free, now)
    found = [obstacle for obstacle in obstacles if obstacle is not None]
    return Obstacle(found[0].kind, ", ".join(dict.fromkeys(o.text for o in found)))


def _obstacle(upstream: Upstream, facts: Facts, now: Snapshot, total: int) -> Obstacle | None:
    state = now.states.get(upstream.name, "unknown")
    if upstream.refused is not None:
        return Obstacle("refused", f"{upstream.name} is not admitted: {upstream.refused}")
    if upstream.name == now.failed:
        return Obstacle("failed", f"{upstream.name} was just tried")
    if state != READY:
        return Obstacle("unready", f"{upstream.name} is {state}")
    if upstream.is_plain:
        return None
    if facts.fields and (limited := sorted(facts.fields & upstream.limits.keys())):
        return Obstacle("limits", "; ".join(f"{f}: {upstream.limits[f]}" for f in limited))
    if upstream.batch_limit is not None and total >= upstream.batch_limit:
        return Obstacle(
            "batch_limit", f"{total} in flight, the schedule allows {upstream.batch_limit}"
        )
    return None


def _in_flight(pool: Sequence[Upstream], now: Snapshot) -> int:
    return sum(now.in_flight.get(upstream.name, 0) for upstream in pool)


def _least(free: Sequence[Upstream], now: Snapshot) -> Upstream:
    loads = [now.in_flight.get(upstream.name, 0) for upstream in free]
    least = min(loads)
    ties = [u for u, load in zip(free, loads, strict=True) if load == least]
    return ties[now.turn % len(ties)]


def _choice(
    upstream: Upstream, label: str, left: Sequence[Obstacle], pools: Pools, now: Snapshot
) -> Choice:
    own = now.in_flight.get(upstream.name, 0)
    total = _in_flight(pools.pools[upstream.model, upstream.profile], now)
    after = f"; left {'; '.join(obstacle.text for obstacle in left)}" if left else ""
    preferred = "refuge" if label == "plain refuge" else "preferred"
    kind = left[0].kind if left else preferred
    return Choice(upstream, f"{label}: least in flight ({own} of {total}){after}", kind)

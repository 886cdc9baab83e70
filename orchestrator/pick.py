"""Pick: the worker for a request, by its type's route, its fields and the load. Pure.

It reads the pools as they stand and gives them nothing to do. What a pick costs does not depend on
the number of workers: ready ones are kept in order of load, and reasons name the first few.
"""

from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass
from itertools import product

from orchestrator.crossover import Band, Crossover
from orchestrator.fleet import Hop
from orchestrator.pool import READY, Cell, Pool, Pools, Upstream
from orchestrator.refusal import Refusal
from orchestrator.ring import load_bound

WORKERS_FULL = "workers_full"  # the code of a refusal that waiting may help
_NAMED = 3  # workers that a reason names


@dataclass(slots=True)
class Facts:
    """What picking needs to know of a request.

    `fields` are the limited fields that it sets. `client` is a stable hash of who asks, for a
    canary's share; `head` one of how its prompt begins, for affinity.
    """

    type: str
    model: str | None
    fields: Set[str] = frozenset()
    client: int = 0
    head: int | None = None


@dataclass(frozen=True, slots=True)
class Obstacle:
    """Why a worker or a pool does not get a request."""

    kind: str
    text: str


@dataclass(slots=True)
class Choice:
    """The worker, and why; `kind` is preferred, refuge, or why the first hop was left.

    `own` and `total` are the requests that the worker and its pool had before this one.
    """

    upstream: Upstream
    pool: Pool
    label: str
    own: int
    total: int
    kind: str
    how: str = "least in flight"
    left: Sequence[Obstacle] = ()

    @property
    def reason(self) -> str:
        text = f"{self.label}: {self.how} ({self.own} of {self.total})"
        if not self.left:
            return text
        return f"{text}; left {'; '.join(obstacle.text for obstacle in self.left)}"


class Step:
    """A hop of a route for one model, with its pools found. `share` is in 2**64ths."""

    __slots__ = (
        "affinity",
        "crossover",
        "kind",
        "label",
        "pools",
        "profile",
        "share",
        "shared",
    )

    def __init__(self, label: str, profile: str, pools: Sequence[Pool], hop: Hop | None) -> None:
        self.label = label
        self.profile = profile
        self.pools = tuple(pools)
        self.shared = tuple(pool for pool in pools if pool.is_shared)  # with other processes
        self.crossover = _crossover(hop, self.pools)
        self.share = None if hop is None or hop.share is None else int(hop.share * 2**64)
        self.affinity = hop is not None and hop.affinity
        self.kind = "refuge" if hop is None else "preferred"


class Routes:
    """The routes of all types, made ready for each model."""

    def __init__(self, routes: Mapping[str, tuple[Hop, ...]], pools: Pools) -> None:
        self.names = pools.names
        self.only = pools.models[0] if len(pools.models) == 1 else None
        self._pools = pools
        self._steps: dict[tuple[str, str], tuple[Step, ...]] = {}
        self._routes = routes
        hops = [hop for route in routes.values() for hop in route]
        self.needs_client = any(hop.share is not None for hop in hops)
        self.needs_head = any(hop.affinity for hop in hops)
        for hop, model in product(hops, pools.models):
            _crossover(hop, self._found(model, hop.profile))  # sees the load from now on

    def steps(self, kind: str, model: str) -> tuple[Step, ...]:
        """The hops of a type's route, then plain."""
        found = self._steps.get((kind, model))
        if found is None:
            found = self._steps[kind, model] = self._make(kind, model)
        return found

    def _make(self, kind: str, model: str) -> tuple[Step, ...]:
        hops = self._routes.get(kind, ())
        steps = [
            Step(f"route {kind}[{index}]", hop.profile, self._found(model, hop.profile), hop)
            for index, hop in enumerate(hops)
        ]
        return (*steps, Step(REFUGE, REFUGE, self._pools.plain(model), None))

    def _found(self, model: str, profile: str) -> tuple[Pool, ...]:
        pool = self._pools.find(model, profile)
        return () if pool is None else (pool,)


REFUGE = "plain refuge"


def pick(routes: Routes, facts: Facts, failed: str | None = None) -> Choice | Refusal:
    """The first hop with a worker that can take the request, then any plain worker.

    `failed` was just tried in vain.
    """
    model = routes.only if facts.model is None else routes.names.get(facts.model)
    if model is None:
        return _no_model(routes, facts)
    left: list[Obstacle] = []
    for step in routes.steps(facts.type, model):
        found = _from_step(step, facts, failed)
        if isinstance(found, Choice):
            if left:
                found.kind, found.left = left[0].kind, left
            return found
        left.append(found)
    return _nobody(facts, model, routes.steps(facts.type, model), left)


def _from_step(step: Step, facts: Facts, failed: str | None) -> Choice | Obstacle:
    for pool in step.shared:
        pool.look()
    if step.crossover is not None and step.crossover.is_left:
        return _too_many(step, step.crossover)
    if step.share is not None and facts.client >= step.share:
        return Obstacle("share", f"{step.profile}: not in its {step.share / 2**64:.4g} of clients")
    if step.affinity and facts.head is not None:
        found = _by_head(step, facts, facts.head, failed)
        if found is not None:
            return found
    least = _least_loaded(step.pools, facts, failed)
    if least is None:
        return _why_none(step, facts, failed)
    load, name, pool = least
    return Choice(pool.by_name[name], pool, step.label, load, pool.in_flight, step.kind)


def _least_loaded(
    pools: Iterable[Pool], facts: Facts, failed: str | None
) -> tuple[int, str, Pool] | None:
    """Load, name and pool of the least loaded worker that can take the request."""
    best: tuple[int, str, Pool] | None = None
    for pool in pools:
        for cell in pool.cells:
            if not _takes(cell, facts):
                continue
            name = pool.least(cell, failed)
            if name is None:
                continue
            load = pool.loads[name]
            if (best is None or load < best[0]) and (cell.most is None or load < cell.most):
                best = load, name, pool
    return best


def _takes(cell: Cell, facts: Facts) -> bool:
    if facts.fields and cell.limits and not facts.fields.isdisjoint(cell.limits):
        return False
    return cell.batch is None or not cell.batch.is_left


def _by_head(step: Step, facts: Facts, head: int, failed: str | None) -> Choice | None:
    """The worker that the prompt's head belongs to, or its next neighbour that has room."""
    for pool in step.pools:
        bound = load_bound(pool.in_flight, pool.ready)

        def takes(name: str, pool: Pool = pool, bound: int = bound) -> bool:
            load, cell = pool.loads[name], pool.cell(name)
            if name == failed or load >= bound or (cell.most is not None and load >= cell.most):
                return False
            return pool.states[name] == READY and _takes(cell, facts)

        name = pool.ring.find(head, takes)
        if name is not None:
            own, total = pool.loads[name], pool.in_flight
            upstream = pool.by_name[name]
            return Choice(upstream, pool, step.label, own, total, "preferred", "same prompt head")
    return None


def _too_many(step: Step, crossover: Crossover) -> Obstacle:
    total, band = sum(pool.in_flight for pool in step.pools), crossover.band
    text = f"{step.profile}: {total} in flight, until {band.leave_at}"
    if total < band.leave_at:
        text += f", back at {band.back_at}"
    return Obstacle("until", text)


def _why_none(step: Step, facts: Facts, failed: str | None) -> Obstacle:
    if not step.pools:
        what = "no worker of this profile serves the model"
        return Obstacle("missing", f"{step.profile}: {what}")
    found: list[Obstacle] = []
    more = 0
    for pool in step.pools:
        named, others = pool.upstreams[:_NAMED], pool.upstreams[_NAMED:]
        found += [_obstacle(pool, upstream, facts, failed) for upstream in named]
        more += len(others)
    text = ", ".join(dict.fromkeys(obstacle.text for obstacle in found))
    if more:
        text += f", and {more} more"
    return Obstacle(found[0].kind, f"{step.profile}: {text}")


def _obstacle(pool: Pool, upstream: Upstream, facts: Facts, failed: str | None) -> Obstacle:
    name = upstream.name
    if upstream.refused is not None:
        return Obstacle("refused", f"{name} is not admitted: {upstream.refused}")
    if name == failed:
        return Obstacle("failed", f"{name} was just tried")
    state = pool.states[name]
    if state != READY:
        return Obstacle("unready", f"{name} is {state}")
    found = _cell_obstacle(pool.cell(name), pool, facts)
    return found or Obstacle("full", f"{name} has all {upstream.in_flight_limit} that it may have")


def _cell_obstacle(cell: Cell, pool: Pool, facts: Facts) -> Obstacle | None:
    if limited := sorted(facts.fields & cell.limits.keys()):
        return Obstacle("limits", "; ".join(f"{f}: {cell.limits[f]}" for f in limited))
    if cell.batch is not None and cell.batch.is_left:
        limit = cell.batch.band.leave_at
        return Obstacle("batch_limit", f"{pool.in_flight} in flight, the schedule allows {limit}")
    if cell.most is not None and all(pool.loads[u.name] >= cell.most for u in cell.upstreams):
        return Obstacle("full", f"all of its workers have the {cell.most} that they may have")
    return None


def _no_model(routes: Routes, facts: Facts) -> Refusal:
    if facts.model is not None:
        return unknown_model(facts.model, routes.names)
    message = f"the request names no model; served are: {', '.join(routes.names)}"
    return Refusal(400, message, None, "model")


def unknown_model(name: str, served: Iterable[str]) -> Refusal:
    """The refusal of a name that none of the served models has."""
    message = f"the model {name!r} does not exist; served are: {', '.join(served)}"
    return Refusal(404, message, "model_not_found", "model")


def _nobody(facts: Facts, model: str, steps: Sequence[Step], left: Sequence[Obstacle]) -> Refusal:
    """What stood in the way, hop by hop; the refuge's own words only where they add something."""
    tried = {step.profile for step in steps[:-1]}
    refuge = steps[-1]
    told = list(left)
    if refuge.pools and all(pool.profile in tried for pool in refuge.pools):
        told.pop()
    reasons = "; ".join(obstacle.text for obstacle in told)
    message = f"no worker can take a request of type {facts.type} for {model} now: {reasons}"
    is_full = any(obstacle.kind == "full" for obstacle in left)
    return Refusal(503, message, WORKERS_FULL if is_full else "no_worker", retry_after_s=1)


def _crossover(hop: Hop | None, pools: Iterable[Pool]) -> Crossover | None:
    if hop is None or hop.until is None:
        return None
    band = Band.of(hop.until.in_flight, hop.until.back_at)
    return next((pool.crossover(band) for pool in pools), None)

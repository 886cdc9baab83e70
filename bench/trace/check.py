"""Check: whether each pick of a record is what it must be. Pure.

Twice: by the router's own pure functions, from the counts that the record holds; and by reckoning
that shares nothing with them but `is_left`, from the route's own words.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from bench.trace.record import Added, Picked, Record, Stood
from orchestrator.configuration import RouterConfig
from orchestrator.crossover import Band, is_left
from orchestrator.fleet import Hop
from orchestrator.pick import Choice, Facts, Routes, pick
from orchestrator.pool import READY, Pools, Upstream

_SHOWN = 5  # wrong picks that are told


@dataclass
class Line:
    """Where a pool is left, by a route or a schedule, and how it was crossed.

    `left` and `back` are the requests in flight at each crossing.
    """

    band: Band
    is_left: bool = False
    left: list[int] = field(default_factory=list)
    back: list[int] = field(default_factory=list)

    def see(self, in_flight: int) -> None:
        """Takes the pool's load of this moment."""
        now = is_left(self.is_left, in_flight, self.band)
        if now != self.is_left:
            (self.left if now else self.back).append(in_flight)
            self.is_left = now

    @property
    def flaps(self) -> int:
        """Crossings at a load at which there must be none."""
        early = sum(load < self.band.leave_at for load in self.left)
        return early + sum(load > self.band.back_at for load in self.back)


@dataclass
class Verdict:
    """What a record comes to. `wrong` are picks that should have been others, in words."""

    picks: int = 0
    refused: int = 0
    wrong: list[str] = field(default_factory=list)
    miscounted: int = 0  # picks before which the router's counts were not those of the record
    kinds: Counter[str] = field(default_factory=Counter)
    lines: dict[str, Line] = field(default_factory=dict)  # by profile
    loads: dict[str, list[int]] = field(default_factory=dict)  # by profile, at each change
    left_over: int = 0  # requests still counted at the end

    def shown(self) -> Sequence[str]:
        """The first wrong picks."""
        return self.wrong[:_SHOWN]


def check(config: RouterConfig, records: Iterable[Record]) -> Verdict:
    """Replays a record of one model's router."""
    verdict = Verdict()
    replay, reckoning = _Replay(config), _Reckoning(config, verdict)
    for record in records:
        match record:
            case Picked():
                verdict.picks += 1
                verdict.refused += record.worker is None
                verdict.miscounted += record.loads != reckoning.loads
                verdict.wrong += [*replay.wrong(record, verdict.kinds), *reckoning.wrong(record)]
            case Added(worker, change):
                replay.add(worker, change)
                reckoning.add(worker, change)
            case Stood(worker, state):
                replay.stand(worker, state)
                reckoning.ready[worker] = state == READY
    verdict.left_over = sum(map(abs, reckoning.loads.values()))
    return verdict


class _Replay:
    """The router's pools and routes, brought to each moment by what was recorded."""

    def __init__(self, config: RouterConfig) -> None:
        pools = Pools(config.upstreams, config.models, config.names)
        self._routes = Routes(config.routes, pools)
        self._pool_of = {u.name: pool for pool in pools for u in pool.upstreams}

    def add(self, worker: str, change: int) -> None:
        self._pool_of[worker].add(worker, change)

    def stand(self, worker: str, state: str) -> None:
        self._pool_of[worker].set_state(worker, state)

    def wrong(self, seen: Picked, kinds: Counter[str]) -> list[str]:
        """What is wrong about a pick; `kinds` counts those that are right."""
        facts = Facts(seen.type, seen.model, frozenset(seen.fields), seen.client, seen.head)
        found = pick(self._routes, facts, seen.failed)
        worker = found.upstream.name if isinstance(found, Choice) else None
        why = found.reason if isinstance(found, Choice) else found.message
        if (worker, why) != (seen.worker, seen.reason):
            return [f"{seen.id}: {seen.worker} ({seen.reason}), not {worker} ({why})"]
        kinds[found.kind if isinstance(found, Choice) else "refused"] += 1
        return []


class _Reckoning:
    """Loads by worker and the side of each line, added up by hand."""

    def __init__(self, config: RouterConfig, verdict: Verdict) -> None:
        self.loads = {u.name: 0 for u in config.upstreams}
        self.ready: dict[str, bool] = {}
        self._upstreams = {u.name: u for u in config.upstreams}
        self._routes = config.routes
        self._lines, self._seen = verdict.lines, verdict.loads
        self._lines.update(_lines(config.upstreams, config.routes))

    def add(self, worker: str, change: int) -> None:
        self.loads[worker] += change
        profile = self._upstreams[worker].profile
        total = self._in_flight(profile)
        self._seen.setdefault(profile, []).append(total)
        if profile in self._lines:
            self._lines[profile].see(total)

    def wrong(self, seen: Picked) -> list[str]:
        """What is wrong about a pick of a type that has a route."""
        profile = next(filter(lambda p: self._is_open(p, seen), self._profiles(seen)), None)
        if profile is None:
            return [] if seen.worker is None else [f"{seen.id}: {seen.worker}, where none may"]
        able = [u.name for u in self._of(profile) if self.ready.get(u.name)]
        least = min(self.loads[name] for name in able)
        if seen.worker not in able:
            return [f"{seen.id}: {seen.worker}, where {profile} is open"]
        if self.loads[seen.worker] != least:
            return [f"{seen.id}: {seen.worker} has {self.loads[seen.worker]}, another {least}"]
        return []

    def _profiles(self, seen: Picked) -> list[str]:
        return [hop.profile for hop in self._routes[seen.type]]

    def _is_open(self, profile: str, seen: Picked) -> bool:
        workers = self._of(profile)
        is_limited = not workers[0].is_plain and not set(seen.fields).isdisjoint(workers[0].limits)
        is_beyond = profile in self._lines and self._lines[profile].is_left
        return not is_limited and not is_beyond and any(self.ready.get(u.name) for u in workers)

    def _of(self, profile: str) -> list[Upstream]:
        return [u for u in self._upstreams.values() if u.profile == profile]

    def _in_flight(self, profile: str) -> int:
        return sum(self.loads[u.name] for u in self._of(profile))


def _lines(upstreams: Iterable[Upstream], routes: Mapping[str, tuple[Hop, ...]]) -> dict[str, Line]:
    """Of each profile the one line that it may have: its route's, or its schedule's."""
    found = {u.profile: Line(Band.of(u.batch_limit)) for u in upstreams if u.batch_limit}
    for hop in (hop for route in routes.values() for hop in route if hop.until):
        if hop.until is None or hop.profile in found:
            raise ValueError(f"{hop.profile} has two lines")
        found[hop.profile] = Line(Band.of(hop.until.in_flight, hop.until.back_at))
    return found

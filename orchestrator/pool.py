"""Pool: the workers of one profile and model, and how they stand at this moment."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from orchestrator.crossover import Band, Crossover
from orchestrator.ranks import Ranks
from orchestrator.ring import Ring
from orchestrator.usage import UsageReader

READY = "ready"
UNCHECKED = "unchecked"
_LOOKS = 8  # at workers that turn out to have more to do than was known
# A limit that no field of a request says: its tokens are drawn. A certificate may not show that.
SAMPLING = "temperature above 0"


@dataclass(frozen=True)
class Upstream:
    """One worker as the router sees it.

    `limits` maps a request field to why this engine cannot serve it while speculating;
    `batch_limit` is the number of requests at once in the pool (profile and model) that the
    schedule allows; `refused` says why it may not be routed to, None: admitted;
    `in_flight_limit` is the most requests at once that the router gives it, None: no limit.
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
    in_flight_limit: int | None = None
    answer_counts: Mapping[str, str] = field(default_factory=dict)  # Adapter.ANSWER_COUNTS
    is_secure: bool = False  # HTTPS


class Cell:
    """The workers of a pool that the same limits hold for; `ranks` has those that are ready."""

    __slots__ = ("batch", "limits", "most", "ranks", "upstreams")

    def __init__(self, upstreams: Sequence[Upstream]) -> None:
        first = upstreams[0]
        self.upstreams = tuple(upstreams)
        self.limits = {} if first.is_plain else dict(first.limits)
        self.batch: Crossover | None = None
        self.most = first.in_flight_limit
        self.ranks = Ranks()


class Share(Protocol):
    """What a pool's workers have in flight from all processes of a router."""

    def add(self, name: str, change: int) -> None:
        """A request of this process went to a worker or left it."""

    def in_flight(self) -> int:
        """Of all workers, now."""

    def load(self, name: str) -> int:
        """Of one worker, now."""

    def own(self, name: str) -> int:
        """Of one worker, from this process alone."""


class Heir:
    """Where a worker's requests count after reloads: one for all pools that it was in before.

    A pool of long ago, which a long answer holds, does not hold those between it and now.
    """

    __slots__ = ("pool",)

    def __init__(self, pool: "Pool") -> None:
        self.pool = pool


class Pool:
    """Changed by the router's one event loop only; `in_flight` is of all its workers together.

    Where several processes share it, `in_flight` and `loads` are of all of them, as of the last
    look.
    """

    def __init__(self, upstreams: Sequence[Upstream]) -> None:
        self.profile = upstreams[0].profile
        self.model = upstreams[0].model
        self.is_plain = upstreams[0].is_plain
        self.upstreams = tuple(upstreams)
        self.in_flight = 0
        self.states = dict.fromkeys((u.name for u in upstreams), UNCHECKED)
        self.loads = dict.fromkeys(self.states, 0)
        self.answered: set[str] = set()  # workers, since that was last asked
        self._bands: dict[Band, Crossover] = {}
        self._crossovers: list[Crossover] = []
        self._heirs: dict[str, Heir] = {}  # of workers that went over to another pool
        self._inherited: dict[str, Heir] = {}  # that lead here
        self._share: Share | None = None
        self.cells = tuple(self._cells())
        self.by_name = {u.name: u for u in upstreams}
        self.usage = {u.name: UsageReader(u.answer_counts) for u in upstreams}
        self._cell_of = {u.name: cell for cell in self.cells for u in cell.upstreams}
        self._ring: Ring | None = None

    def crossover(self, band: Band) -> Crossover:
        """The crossover of a band: cells and steps of routes with the same one share it."""
        if band not in self._bands:
            crossover = self._bands[band] = Crossover(band)
            crossover.see(self.in_flight)
            self._crossovers.append(crossover)
        return self._bands[band]

    @property
    def ring(self) -> Ring:
        """The admitted workers by consistent hashing, made when it is first asked for."""
        if self._ring is None:
            self._ring = Ring(tuple(self._cell_of))
        return self._ring

    def cell(self, name: str) -> Cell:
        """The cell of an admitted worker. Raises KeyError for others."""
        return self._cell_of[name]

    def add(self, name: str, change: int) -> None:
        """A request went to a worker (1) or left it (-1)."""
        self.in_flight += change
        if self._share is not None:
            self._share.add(name, change)
        self._place(name, self.loads[name] + change)
        for crossover in self._crossovers:
            crossover.see(self.in_flight)
        if self._heirs and name in self._heirs:
            self._heirs[name].pool.add(name, change)

    def inherit(self, name: str, before: "Pool") -> None:
        """Counts what a worker has in flight in a pool of before, and what ends there later on."""
        heir = before._inherited.get(name) or Heir(self)
        heir.pool = self
        before._heirs[name] = self._inherited[name] = heir
        load = before.loads[name] if before._share is None else before._share.own(name)
        if load:
            self.add(name, load)

    def keep_sides(self, before: "Pool") -> None:
        """Stays on the side of each crossover on which the pool was, as far as the load lets it."""
        for band, crossover in self._bands.items():
            if band in before._bands:
                crossover.is_left = before._bands[band].is_left
                crossover.see(self.in_flight)

    @property
    def crossovers(self) -> tuple[Crossover, ...]:
        return tuple(self._crossovers)

    @property
    def is_shared(self) -> bool:
        return self._share is not None

    def share(self, share: Share | None) -> None:
        """Counts with other processes from now on, what is in flight already included; or alone."""
        self._share = share
        if share is None:
            return
        for name, load in self.loads.items():
            if load:
                share.add(name, load)

    def look(self) -> None:
        """Takes what all processes have in flight now."""
        if self._share is not None:
            self.in_flight = self._share.in_flight()
            for crossover in self._crossovers:
                crossover.look()
                crossover.see(self.in_flight)

    def look_at(self, name: str) -> None:
        """Takes what all processes have on one worker now."""
        if self._share is not None:
            load = self._share.load(name)
            if load != self.loads[name]:
                self._place(name, load)

    def least(self, cell: Cell, besides: str | None) -> str | None:
        """The least loaded worker of a cell; exactly so where there is a limit to be kept."""
        name = cell.ranks.least(besides)
        if self._share is None or cell.most is None:
            return name
        for _ in range(_LOOKS):
            if name is None:
                return None
            before = self.loads[name]
            self.look_at(name)
            if self.loads[name] <= before:
                return name
            name = cell.ranks.least(besides)
        return name

    def _place(self, name: str, load: int) -> None:
        self.loads[name] = load
        cell = self._cell_of.get(name)
        if cell is not None:
            cell.ranks.move(name, load)

    def set_state(self, name: str, state: str) -> None:
        """Only workers that are ready are found by `pick`."""
        self.states[name] = state
        cell = self._cell_of.get(name)
        if cell is None:
            return
        if state != READY:
            cell.ranks.remove(name)
        elif name not in cell.ranks:
            cell.ranks.place(name, self.loads[name])

    @property
    def ready(self) -> int:
        """How many workers are ready and admitted."""
        return sum(len(cell.ranks) for cell in self.cells)

    def _cells(self) -> Iterator[Cell]:
        for group in _alike(u for u in self.upstreams if not u.refused):
            cell = Cell(group)
            limit = None if group[0].is_plain else group[0].batch_limit
            cell.batch = None if limit is None else self.crossover(Band.of(limit))
            yield cell


class Pools:
    """All workers, grouped once."""

    def __init__(
        self,
        upstreams: Iterable[Upstream],
        models: Iterable[str],
        names: Mapping[str, str] | None = None,
    ) -> None:
        groups: dict[tuple[str, str], list[Upstream]] = {}
        for upstream in upstreams:
            groups.setdefault((upstream.model, upstream.profile), []).append(upstream)
        self.models = tuple(models)
        # Every name that clients may send, and the model that it means.
        self.names = {**{model: model for model in self.models}, **(names or {})}
        self._pools = {key: Pool(group) for key, group in groups.items()}

    def __iter__(self) -> Iterator[Pool]:
        return iter(self._pools.values())

    def find(self, model: str, profile: str) -> Pool | None:
        return self._pools.get((model, profile))

    def plain(self, model: str) -> tuple[Pool, ...]:
        """The pools that do not speculate: the refuge of every type."""
        return tuple(p for p in self._pools.values() if p.model == model and p.is_plain)


def _alike(upstreams: Iterable[Upstream]) -> list[list[Upstream]]:
    groups: dict[object, list[Upstream]] = {}
    for u in upstreams:
        key = (tuple(sorted(u.limits.items())), u.batch_limit, u.in_flight_limit)
        groups.setdefault(key, []).append(u)
    return list(groups.values())

"""Pool: the workers of one profile and model, and how they stand at this moment."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from orchestrator.crossover import Band, Crossover
from orchestrator.ranks import Ranks
from orchestrator.ring import Ring
from orchestrator.usage import UsageReader

READY = "ready"
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
        limit = None if first.is_plain else first.batch_limit
        self.batch = None if limit is None else Crossover(Band.of(limit))
        self.most = first.in_flight_limit
        self.ranks = Ranks()


class Pool:
    """Changed by the router's one event loop only; `in_flight` is of all its workers together."""

    def __init__(self, upstreams: Sequence[Upstream]) -> None:
        self.profile = upstreams[0].profile
        self.model = upstreams[0].model
        self.is_plain = upstreams[0].is_plain
        self.upstreams = tuple(upstreams)
        self.in_flight = 0
        self.states = dict.fromkeys((u.name for u in upstreams), "unchecked")
        self.loads = dict.fromkeys(self.states, 0)
        self.cells = tuple(Cell(group) for group in _alike(u for u in upstreams if not u.refused))
        self.by_name = {u.name: u for u in upstreams}
        self.usage = {u.name: UsageReader(u.answer_counts) for u in upstreams}
        self._cell_of = {u.name: cell for cell in self.cells for u in cell.upstreams}
        self._crossovers = [cell.batch for cell in self.cells if cell.batch is not None]
        self._bands: dict[Band, Crossover] = {}
        self._ring: Ring | None = None

    def crossover(self, band: Band) -> Crossover:
        """The crossover of a route's step; steps with the same band share one."""
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
        load = self.loads[name] = self.loads[name] + change
        cell = self._cell_of.get(name)
        if cell is not None:
            cell.ranks.move(name, load)
        for crossover in self._crossovers:
            crossover.see(self.in_flight)

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

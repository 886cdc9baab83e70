"""Standing: how every worker stands at this moment: health, supervisor's state, load."""

from collections.abc import Iterable, Mapping

from orchestrator.pick import READY, Pools, Snapshot, Upstream

# A busy engine may answer late: one slow check is no proof of death, a refused connection is.
SLOW_CHECKS = 3


class Standing:
    """Changed by the router's one event loop only."""

    def __init__(self, upstreams: Iterable[Upstream]) -> None:
        self.upstreams = {upstream.name: upstream for upstream in upstreams}
        self.states = dict.fromkeys(self.upstreams, "unchecked")
        self.in_flight = dict.fromkeys(self.upstreams, 0)
        self._health = dict.fromkeys(self.upstreams, "unchecked")
        self._supervised: Mapping[str, str] = {}
        self._slow = dict.fromkeys(self.upstreams, 0)
        self._turn = 0

    def snapshot(self, failed: str | None = None) -> Snapshot:
        """What `pick` needs; every snapshot goes one further round ties."""
        self._turn += 1
        return Snapshot(self.states, self.in_flight, self._turn, failed)

    def mark_up(self, name: str) -> None:
        self._slow[name] = 0
        self._set_health(name, READY)

    def mark_down(self, name: str, why: str) -> None:
        """`why` completes the sentence "the worker is ...": unreachable, unhealthy."""
        self._set_health(name, why)

    def mark_slow(self, name: str) -> None:
        """A check that ran into its timeout."""
        self._slow[name] += 1
        if self._slow[name] >= SLOW_CHECKS or self._health[name] == "unchecked":
            self._set_health(name, "not answering its health check")

    def supervise(self, states: Mapping[str, str]) -> tuple[str, ...]:
        """Takes the supervisor's states; returns the workers that became ready in its eyes."""
        before, self._supervised = self._supervised, dict(states)
        for name in self.upstreams:
            self._combine(name)
        return tuple(
            name
            for name in self.upstreams
            if states.get(name) == READY and before.get(name) != READY
        )

    def is_usable(self, name: str) -> bool:
        return self.upstreams[name].refused is None and self.states[name] == READY

    def unserved(self, pools: Pools) -> tuple[str, ...]:
        """Models for which no worker is usable."""
        served = {u.model for u in self.upstreams.values() if self.is_usable(u.name)}
        return tuple(model for model in pools.models if model not in served)

    def _set_health(self, name: str, health: str) -> None:
        self._health[name] = health
        self._combine(name)

    def _combine(self, name: str) -> None:
        """A worker that the supervisor does not know is somebody else's: health alone counts."""
        supervised = self._supervised.get(name, READY)
        self.states[name] = self._health[name] if supervised == READY else supervised

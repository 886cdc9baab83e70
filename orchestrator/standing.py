"""Standing: how every worker stands at this moment: health, supervisor's state, load."""

from collections.abc import Callable, Iterable, Mapping

from orchestrator.pool import READY, UNCHECKED, Pool, Pools, Upstream

# A busy engine may answer late: one slow check is no proof of death, a refused connection is.
SLOW_CHECKS = 3


class Standing:
    """Changed by the router's one event loop only."""

    def __init__(self, pools: Pools) -> None:
        self.pools = pools
        self.on_change: Callable[[str, str], None] | None = None  # name and new state of a worker
        self.upstreams: dict[str, Upstream] = {u.name: u for pool in pools for u in pool.upstreams}
        self._pool_of: dict[str, Pool] = {u.name: pool for pool in pools for u in pool.upstreams}
        self._health = dict.fromkeys(self.upstreams, UNCHECKED)
        self._supervised: Mapping[str, str] = {}
        self._slow = dict.fromkeys(self.upstreams, 0)

    @property
    def states(self) -> dict[str, str]:
        """The state of every worker; only "ready" ones are picked."""
        return {name: self._pool_of[name].states[name] for name in self.upstreams}

    @property
    def in_flight(self) -> dict[str, int]:
        """Requests on every worker now."""
        return {name: self._pool_of[name].loads[name] for name in self.upstreams}

    def state(self, name: str) -> str:
        return self._pool_of[name].states[name]

    def patience(self, name: str) -> int:
        """How many times a check's usual time an answer may take. A first check has that of all
        that may be slow: nothing is known yet that speaks for the worker."""
        return SLOW_CHECKS if self._health[name] == UNCHECKED else 1

    def has_answered(self, name: str) -> bool:
        """Whether a ready worker has answered a request, since that was last asked."""
        pool = self._pool_of[name]
        if name not in pool.answered:
            return False
        pool.answered.discard(name)
        return pool.states[name] == READY

    def mark_up(self, name: str) -> None:
        self._slow[name] = 0
        self._set_health(name, READY)

    def mark_down(self, name: str, why: str) -> None:
        """`why` completes the sentence "the worker is ...": unreachable, unhealthy."""
        self._set_health(name, why)

    def mark_slow(self, name: str) -> None:
        """A check that ran into its timeout."""
        self._slow[name] += 1
        if self._slow[name] >= SLOW_CHECKS or self._health[name] == UNCHECKED:
            self._set_health(name, "not answering its health check")

    def supervise(self, states: Mapping[str, str]) -> tuple[str, ...]:
        """Takes the supervisor's states; returns the workers that became ready in its eyes."""
        if states == self._supervised:
            return ()
        before, self._supervised = self._supervised, dict(states)
        for name in self.upstreams:
            self._combine(name)
        return tuple(
            name
            for name in self.upstreams
            if states.get(name) == READY and before.get(name) != READY
        )

    def take_over(self, before: "Standing", stay: Iterable[str]) -> None:
        """Takes what was known of the workers that stay: health, state, load, crossovers' sides."""
        self._supervised = before._supervised
        for name in stay:
            self._health[name] = before._health[name]
            self._slow[name] = before._slow[name]
            self._pool_of[name].inherit(name, before._pool_of[name])
        for pool in self.pools:
            old = before.pools.find(pool.model, pool.profile)
            if old is not None:
                pool.keep_sides(old)
        for name in self.upstreams:
            self._combine(name)

    def publish(self, states: Mapping[str, str]) -> None:
        """Takes states as another process found them."""
        for name, state in states.items():
            self._health[name] = state
            self._pool_of[name].set_state(name, state)

    def is_usable(self, name: str) -> bool:
        return self.upstreams[name].refused is None and self.state(name) == READY

    def unserved(self) -> tuple[str, ...]:
        """Models for which no worker is usable."""
        served = {pool.model for pool in self.pools if pool.ready}
        return tuple(model for model in self.pools.models if model not in served)

    def _set_health(self, name: str, health: str) -> None:
        self._health[name] = health
        self._combine(name)

    def _combine(self, name: str) -> None:
        """A worker that the supervisor does not know is somebody else's: health alone counts."""
        supervised = self._supervised.get(name, READY)
        state = self._health[name] if supervised == READY else supervised
        pool = self._pool_of[name]
        has_changed = pool.states[name] != state
        pool.set_state(name, state)
        if has_changed and self.on_change is not None:
            self.on_change(name, state)

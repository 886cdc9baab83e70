"""Generation: one reading of the files made ready for requests, and how the next one follows it."""

from dataclasses import dataclass

from orchestrator.answer import AnswerHeads
from orchestrator.caller import Callers
from orchestrator.classify import Classifier
from orchestrator.configuration import RouterConfig
from orchestrator.dispatch import Dispatch
from orchestrator.equipment import Equipment
from orchestrator.pool import Pools, Upstream
from orchestrator.standing import Standing
from orchestrator.tally import Tally
from orchestrator.upstream import Connections


@dataclass(frozen=True)
class Generation:
    """What requests meet. `network` holds the connections to each worker, by its name."""

    config: RouterConfig
    dispatch: Dispatch
    network: dict[str, Connections]
    equipment: Equipment
    heads: AnswerHeads

    @property
    def standing(self) -> Standing:
        return self.dispatch.standing

    @property
    def tally(self) -> Tally:
        return self.dispatch.tally

    @classmethod
    def first(cls, config: RouterConfig, equipment: Equipment) -> "Generation":
        """The one that a router starts with."""
        heads = AnswerHeads(config.cors is not None)
        network = {u.name: _connections(u, equipment, heads) for u in config.upstreams}
        return cls(config, _dispatch(config, equipment, Tally()), network, equipment, heads)

    def next(self, config: RouterConfig) -> "Generation":
        """The one after this, beside it: workers that stay keep their connections.

        Nothing of this generation changes until `take_over`.
        """
        equipment, heads = self.equipment, self.heads
        if (config.cors is None) != (self.config.cors is None):
            heads = AnswerHeads(config.cors is not None)
        network = {
            u.name: self.network[u.name] if self._has(u) else _connections(u, equipment, heads)
            for u in config.upstreams
        }
        dispatch = _dispatch(config, equipment, self.tally)
        return Generation(config, dispatch, network, equipment, heads)

    def newcomers(self, before: "Generation") -> tuple[str, ...]:
        """Workers that were not there before, or elsewhere."""
        return tuple(
            name for name, to in self.network.items() if before.network.get(name) is not to
        )

    def take_over(self, before: "Generation") -> None:
        """Knows from now on what the one before knew of the workers that stay.

        Requests that run there still count here until they end; workers that left lose their
        connections as soon as these are idle.
        """
        stay = self.network.keys() - set(self.newcomers(before))
        self.standing.take_over(before.standing, stay)
        if self.dispatch.callers is not None and before.dispatch.callers is not None:
            self.dispatch.callers.take_over(before.dispatch.callers)
        self.equipment.renew(self.config)
        for name, connections in before.network.items():
            if name in stay:
                connections.heads = self.heads
            else:
                connections.close()

    def _has(self, upstream: Upstream) -> bool:
        found = self.standing.upstreams.get(upstream.name)
        return found is not None and _address(found) == _address(upstream)


def _address(upstream: Upstream) -> tuple[str, int, bool]:
    return upstream.host, upstream.port, upstream.is_secure


def _connections(upstream: Upstream, equipment: Equipment, heads: AnswerHeads) -> Connections:
    trust = equipment.trust if upstream.is_secure else None
    return Connections(upstream.host, upstream.port, equipment.turn, heads, trust)


def _dispatch(config: RouterConfig, equipment: Equipment, tally: Tally) -> Dispatch:
    made = Dispatch(
        Classifier(config.rules),
        config.routes,
        Standing(Pools(config.upstreams, config.models, config.names)),
        config.type_header,
        config.paths,
        tally,
        access=equipment.access(config),
        cors=config.cors,
        tracer=equipment.tracer,
        callers=None if config.keys is None else Callers(config.keys),
    )
    made.wants_peers |= config.queue is not None  # turns go by addresses where there are no keys
    return made

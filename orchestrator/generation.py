"""Generation: one reading of the files made ready for requests, and how the next one follows it."""

import asyncio
from dataclasses import dataclass

from orchestrator.answer import AnswerHeads
from orchestrator.classify import Classifier
from orchestrator.configuration import RouterConfig
from orchestrator.dispatch import Dispatch
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
    loop: asyncio.AbstractEventLoop
    heads: AnswerHeads

    @property
    def standing(self) -> Standing:
        return self.dispatch.standing

    @property
    def tally(self) -> Tally:
        return self.dispatch.tally

    @classmethod
    def first(cls, config: RouterConfig, loop: asyncio.AbstractEventLoop) -> "Generation":
        """The one that a router starts with."""
        heads = AnswerHeads()
        network = {u.name: Connections(u.host, u.port, loop, heads) for u in config.upstreams}
        return cls(config, _dispatch(config, Tally()), network, loop, heads)

    def next(self, config: RouterConfig) -> "Generation":
        """The one after this, beside it: workers that stay keep their connections.

        Nothing of this generation changes until `take_over`.
        """
        network = {
            u.name: self.network[u.name]
            if self._has(u)
            else Connections(u.host, u.port, self.loop, self.heads)
            for u in config.upstreams
        }
        return Generation(config, _dispatch(config, self.tally), network, self.loop, self.heads)

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
        for name, connections in before.network.items():
            if name not in stay:
                connections.close()

    def _has(self, upstream: Upstream) -> bool:
        found = self.standing.upstreams.get(upstream.name)
        return found is not None and (found.host, found.port) == (upstream.host, upstream.port)


def _dispatch(config: RouterConfig, tally: Tally) -> Dispatch:
    standing = Standing(Pools(config.upstreams, config.models))
    return Dispatch(
        Classifier(config.rules), config.routes, standing, config.type_header, tally=tally
    )

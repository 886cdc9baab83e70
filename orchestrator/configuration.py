"""Configuration: what a router is built from, as its files said when they were read."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from orchestrator.fleet import Hop
from orchestrator.pool import Upstream
from orchestrator.release import Release
from orchestrator.service import Timeouts
from orchestrator.type_rule import TypeRule


@dataclass(frozen=True)
class RouterConfig:
    """What the router is built from. `body_limit` is in bytes; port 0 takes a free port.

    `worker_states` gives the supervisor's states by worker name; a worker in another state than
    "ready" gets nothing new. Workers that it does not name are judged by their health alone.
    `release` answers the admin port's release hooks.
    """

    upstreams: tuple[Upstream, ...]
    rules: tuple[TypeRule, ...]
    routes: Mapping[str, tuple[Hop, ...]]
    models: tuple[str, ...]
    listen: tuple[str, int]
    admin: tuple[str, int] | None
    type_header: bool
    body_limit: int
    worker_states: Callable[[], Mapping[str, str]] | None
    timeouts: Timeouts = field(default_factory=Timeouts)
    release: Release | None = None


def needs_restart(running: RouterConfig, wanted: RouterConfig) -> tuple[str, ...]:
    """What a reload cannot change, in sentences."""
    pairs = (
        ("router.listen", running.listen, wanted.listen),
        ("router.admin", running.admin, wanted.admin),
    )
    return tuple(
        f"{key}: {_shown(new)} needs a restart; this router still listens on {_shown(old)}"
        for key, old, new in pairs
        if old != new
    )


def _shown(address: tuple[str, int] | None) -> str:
    return "nothing" if address is None else f"{address[0]}:{address[1]}"

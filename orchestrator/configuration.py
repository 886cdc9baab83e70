"""Configuration: what a router is built from, as its files said when they were read."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from orchestrator.cors import Cors
from orchestrator.fleet import Hop
from orchestrator.keys import KeyEntry
from orchestrator.pool import Upstream
from orchestrator.release import Release
from orchestrator.router_entry import QueueEntry
from orchestrator.service import Timeouts
from orchestrator.tls import Tls
from orchestrator.trace import Traces
from orchestrator.type_rule import TypeRule


@dataclass(frozen=True)
class RouterConfig:
    """What the router is built from. `body_limit` is in bytes; port 0 takes a free port.

    `worker_states` gives the supervisor's states by worker name; a worker in another state than
    "ready" gets nothing new. Workers that it does not name are judged by their health alone.
    `release` answers the admin port's release hooks. `names` are other names of models.
    `access_log` is a path, "-" (standard error) or None.
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
    names: Mapping[str, str] = field(default_factory=dict)
    access_log: str | None = None
    log_prompts: bool = False
    cors: Cors | None = None
    tls: Tls | None = None
    admin_tls: bool = False
    traces: Traces | None = None
    paths: tuple[str, ...] = ()  # of engines, beside those that every router passes on
    keys: tuple[KeyEntry, ...] | None = None  # None: clients need no key
    queue: QueueEntry | None = None


def needs_restart(running: RouterConfig, wanted: RouterConfig) -> tuple[str, ...]:
    """What a reload cannot change, in sentences."""
    pairs = (
        ("router.listen", running.listen, wanted.listen),
        ("router.admin", running.admin, wanted.admin),
    )
    moved = [
        f"{key}: {_shown(new)} needs a restart; this router still listens on {_shown(old)}"
        for key, old, new in pairs
        if old != new
    ]
    switched = (
        ("router.tls: HTTPS on or off", running.tls is None, wanted.tls is None),
        ("router.tls.admin", running.admin_tls, wanted.admin_tls),
        ("router.traces", running.traces, wanted.traces),
    )
    return (*moved, *(f"{key}: needs a restart" for key, old, new in switched if old != new))


def _shown(address: tuple[str, int] | None) -> str:
    return "nothing" if address is None else f"{address[0]}:{address[1]}"

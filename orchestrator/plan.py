"""The plan of observe → plan → apply. Pure; its text is what --dry-run prints."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from orchestrator.state import Record

Action: TypeAlias = Literal["start", "adopt", "stop", "refuse"]


@dataclass(frozen=True)
class Wanted:
    """A worker as the fleet wants it: `launch` is the digest of its whole launch."""

    name: str
    launch: str
    port: int
    engine: str  # title and version


@dataclass(frozen=True)
class Observed:
    """What is there: living workers by record, processes of this fleet without one, and who holds
    the workers' ports, in words; ports held by the fleet's own processes are not among them."""

    running: Mapping[str, Record]
    dead: Mapping[str, Record]
    stray_pids: tuple[int, ...] = ()
    port_holders: Mapping[int, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Step:
    """One action with its cause."""

    action: Action
    worker: str
    what: str
    cause: str

    def __str__(self) -> str:
        return f"{self.action:6} {self.worker:15} {self.what}: {self.cause}"


def make_plan(wanted: Iterable[Wanted], observed: Observed) -> list[Step]:
    """Stops first, so that the ports and memory they free can be used by the starts."""
    wanted = list(wanted)
    names = {worker.name for worker in wanted}
    stops = [
        _stop(record, "it is not among the workers wanted")
        for name, record in observed.running.items()
        if name not in names
    ]
    stops += [
        Step("stop", "-", f"process {pid}", "it belongs to this fleet, but no record explains it")
        for pid in observed.stray_pids
    ]
    launches = {worker.name: worker.launch for worker in wanted}
    freed = {r.port for n, r in observed.running.items() if launches.get(n) != r.launch}
    rest: list[Step] = []
    for worker in wanted:
        record = observed.running.get(worker.name)
        if record is not None and record.launch == worker.launch:
            cause = "it runs since before and its launch is unchanged"
            rest.append(Step("adopt", worker.name, f"process {record.pid}", cause))
            continue
        if record is not None:
            stops.append(_stop(record, "its launch changed"))
        rest.append(_start(worker, observed, freed))
    return stops + rest


def _stop(record: Record, cause: str) -> Step:
    return Step("stop", record.name, f"process {record.pid}", cause)


def _start(worker: Wanted, observed: Observed, freed: set[int]) -> Step:
    holder = observed.port_holders.get(worker.port) if worker.port not in freed else None
    what = f"{worker.engine} on port {worker.port}"
    if holder:
        cause = f"port {worker.port} is taken by {holder}"
        return Step("refuse", worker.name, what, cause)
    cause = "its process is gone" if worker.name in observed.dead else "it is not running"
    return Step("start", worker.name, what, cause)

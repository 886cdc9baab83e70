"""Counts: all that a process of the router has counted."""

from dataclasses import dataclass, field

from orchestrator.tally import Tally


@dataclass
class Counts:
    """None: there is no access log, or there are no traces."""

    tally: Tally = field(default_factory=Tally)
    lost_lines: int | None = None
    spans: dict[str, int] | None = None

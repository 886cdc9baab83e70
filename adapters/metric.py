"""Our metric names, and reading an engine's Prometheus text into numbers or None."""

import re
from collections.abc import Mapping

# What each name counts, in the words of docs/metrics.md. A counter that an engine lacks is None,
# never 0: a rate needs both of its counters.
NAMES = (
    "drafts",  # verify steps that had a guess to verify
    "drafted",  # tokens guessed
    "accepted",  # guessed tokens that the target agreed with
    "accepted_per_position",  # the same, by position in the guess
    "generated",  # tokens produced
    "running",  # requests being decoded now
    "waiting",  # requests queued now
)

_SAMPLE = re.compile(
    r"^(?P<name>[a-zA-Z_:][a-zA-Z0-9_:]*)"
    r'(?:\{(?P<labels>(?:[^"}]|"(?:[^"\\]|\\.)*")*)\})?'
    r"\s+(?P<value>\S+)",
    re.MULTILINE,
)
_POSITION = re.compile(r'position="(\d+)"')


def read_metrics(text: str, names: Mapping[str, str]) -> dict[str, float | None]:
    """Each of our names as the sum over the engine's series (data-parallel ranks), or None."""
    wanted = {theirs: ours for ours, theirs in names.items()}
    values: dict[str, float | None] = dict.fromkeys(names)
    for match in _SAMPLE.finditer(text):
        ours = wanted.get(match["name"])
        if ours is not None:
            values[ours] = (values[ours] or 0.0) + float(match["value"])
    return values


def read_positions(text: str, name: str) -> tuple[float, ...] | None:
    """A counter labelled `position`, as a tuple by position; None when it is absent."""
    totals: dict[int, float] = {}
    for match in _SAMPLE.finditer(text):
        position = _POSITION.search(match["labels"] or "") if match["name"] == name else None
        if position:
            index = int(position[1])
            totals[index] = totals.get(index, 0.0) + float(match["value"])
    if not totals:
        return None
    return tuple(totals.get(index, 0.0) for index in range(max(totals) + 1))


def rise(
    start: Mapping[str, float | None], end: Mapping[str, float | None], name: str
) -> float | None:
    """How far a counter rose; one that appeared in between started from 0."""
    last = end[name]
    return None if last is None else last - (start[name] or 0)


def acceptance_rate(accepted: float | None, drafted: float | None) -> float | None:
    """alpha: accepted / drafted; None without both counters or without drafts."""
    return None if accepted is None or not drafted else accepted / drafted


def acceptance_length(accepted: float | None, drafts: float | None) -> float | None:
    """tau: tokens per verify step, 1 + accepted / drafts (the bonus token is the 1)."""
    return None if accepted is None or not drafts else 1 + accepted / drafts

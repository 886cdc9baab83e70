"""Day: 24 hours of requests, made of a trace that has one. README.md says how."""

import lzma
import math
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

TRACE = Path(__file__).parent / "azure_2023.csv.xz"
HOURS = tuple(range(24))


@dataclass(frozen=True)
class Call:
    """A request of the trace, `at_s` seconds after its first."""

    at_s: float
    kind: str  # code, conv
    generated: int  # tokens


@dataclass(frozen=True)
class Arrival:
    """A request of the replay: when, in which hour of the day, and the events of its answer."""

    at_s: float
    hour: int
    kind: str
    events: int


@dataclass(frozen=True)
class Day:
    """`speed` is how much faster requests come than in the trace, and how much shorter they are."""

    arrivals: tuple[Arrival, ...]
    speed: float


def read_trace(path: Path = TRACE) -> Iterator[Call]:
    """The trace, in order of time."""
    at_ms = 0
    lines = lzma.decompress(path.read_bytes()).decode().splitlines()
    for line in lines[1:]:
        after_ms, kind, _, generated = line.split(",")
        at_ms += int(after_ms)
        yield Call(at_ms / 1000, kind, int(generated))


def share(hour: int) -> float:
    """Of the trace's requests that come in an hour of the day."""
    return 0.6 + 0.4 * math.cos(2 * math.pi * (hour - 15) / 24)


def make_day(
    trace: Sequence[Call],
    seconds: float,
    per_second: float,
    seed: int,
    hours: Sequence[int] = HOURS,
) -> Day:
    """These hours in so many seconds, with so many requests a second on average."""
    kept = seconds * per_second / (len(trace) * sum(map(share, hours)))
    span_s, hour_s = trace[-1].at_s, seconds / len(hours)
    speed = kept * span_s / hour_s
    dice = random.Random(seed)
    arrivals = [
        Arrival(
            (index + call.at_s / span_s) * hour_s,
            hour,
            call.kind,
            max(1, round(call.generated / speed)),
        )
        for index, hour in enumerate(hours)
        for call in trace
        if dice.random() < kept * share(hour)
    ]
    return Day(tuple(arrivals), speed)

"""A day of real arrivals, compressed into minutes, through the router; every pick is checked.

    python -m bench.trace_replay [--seconds 360] [--per-second 60] [--hours 0-23] [--seed 1]

bench/trace/README.md says what the day is made of. Ends with 1 where anything is not as it must be.
"""

import argparse
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from bench.trace.check import Verdict, check
from bench.trace.day import HOURS, Day, make_day, read_trace
from bench.trace.record import read_records
from bench.trace.replay import BACK_AT, Run, replay
from orchestrator.app import FleetSource


@dataclass(frozen=True)
class Finding:
    """A replay, and what the check says of it."""

    day: Day
    run: Run
    verdict: Verdict

    def faults(self) -> Iterator[tuple[str, int]]:
        """What must not be, and how often it was."""
        seen, verdict, engines = self.run.seen, self.verdict, self.run.engines.values()
        asked = len(self.day.arrivals)
        yield "wrong picks", len(verdict.wrong)
        yield "picks with counts that are not the record's", verdict.miscounted
        yield (
            "crossings at a load at which there is none",
            sum(line.flaps for line in verdict.lines.values()),
        )
        yield "refused", verdict.refused
        yield "lost or changed answers", asked - seen.ends["whole"]
        yield "requests cut at an engine", sum(engine["cut"] for engine in engines)
        yield "requests without a pick, or picked twice", abs(verdict.picks - asked)
        yield "still counted at the end", verdict.left_over
        yield "engines' own counts that are not the picks'", self._miscounted_at_engines()
        yield "lines of the access log that say otherwise", self._odd_lines()

    def _miscounted_at_engines(self) -> int:
        picked = Counter(self.run.seen.workers.values())
        served = {name: engine["served"] for name, engine in self.run.engines.items()}
        return len([name for name, count in served.items() if count != picked[name]])

    def _odd_lines(self) -> int:
        """Those that are missing included."""
        workers = self.run.seen.workers
        right = [
            line
            for line in self.run.access
            if (line["status"], line["end"]) == (200, "whole")
            and line["worker"] == workers.get(line["request_id"])
        ]
        return max(len(self.day.arrivals), len(self.run.access)) - len(right)


def find(folder: Path, day: Day, back_at: int = BACK_AT) -> Finding:
    """Replays a day in an empty folder and checks what happened.

    Edits come back to their speculating pool at `back_at` requests in flight.
    """
    run = replay(folder, day.arrivals, back_at)
    config = FleetSource(run.fleet, str(run.fleet)).read().require()
    return Finding(day, run, check(config, read_records(run.records)))


def report(found: Finding) -> Iterator[str]:
    """The result, line by line."""
    day, run, verdict = found.day, found.run, found.verdict
    hours = Counter(arrival.hour for arrival in day.arrivals)
    late = sorted(run.seen.late_s)
    yield (
        f"{len(day.arrivals)} requests, {min(hours.values())} to {max(hours.values())} an hour of"
        f" the day; {run.seen.events} events; {day.speed:.1f} times as fast as the trace"
    )
    yield (
        f"begun late by {late[len(late) // 2] * 1000:.1f} ms in the middle, {late[-1] * 1000:.0f}"
        f" ms at most; router {run.cpu_s:.1f} s of processor time"
    )
    yield "answers: " + ", ".join(f"{end} {count}" for end, count in run.seen.ends.items())
    yield "picks: " + ", ".join(f"{kind} {count}" for kind, count in verdict.kinds.most_common())
    titles = ("pool", "in flight", "at one engine", "left at, back at", "left", "came back")
    yield f"| {' | '.join(titles)} |"
    yield "|---" * len(titles) + "|"
    for profile, loads in verdict.loads.items():
        most = max(e["most"] for name, e in run.engines.items() if name.startswith(profile))
        line = verdict.lines.get(profile)
        crossed = ("", "", "")
        if line is not None:
            bounds = f"{line.band.leave_at}, {line.band.back_at}"
            crossed = bounds, f"{len(line.left)} times", f"{len(line.back)} times"
        yield f"| {profile} | {min(loads)} to {max(loads)} | {most} | {' | '.join(crossed)} |"
    yield from (f"{what}: {count}" for what, count in found.faults())
    yield from verdict.shown()


def _hours(text: str) -> Sequence[int]:
    first, _, last = text.partition("-")
    found = range(int(first), int(last or first) + 1)
    if not found or not set(found) <= set(HOURS):
        raise argparse.ArgumentTypeError("as in 9-17, within 0-23")
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=360)
    parser.add_argument("--per-second", type=float, default=60, help="requests, on average")
    parser.add_argument("--hours", type=_hours, default=HOURS, help="of the day, as in 9-17")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument(
        "--back-at", type=int, default=BACK_AT, help="requests of the pool of edits"
    )
    asked = parser.parse_args()
    trace = tuple(read_trace())
    day = make_day(trace, asked.seconds, asked.per_second, asked.seed, asked.hours)
    with tempfile.TemporaryDirectory() as folder:
        found = find(Path(folder), day, asked.back_at)
    sys.stdout.write("\n".join(report(found)) + "\n")
    return any(count for _, count in found.faults())


if __name__ == "__main__":
    sys.exit(main())

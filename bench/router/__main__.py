"""The router beside its peers, in one run.

    python -m bench.router [--peers LIST] [--rounds N] [--seconds N] [--json]

Needs the Debian packages nginx and wrk, and for peers the PyPI packages vllm-router and smg on the
PATH. A peer that is not there is named. Processor time per request is the figure to compare: it
holds on a machine that others use. Rounds are interleaved and the median is shown with the range.
"""

import argparse
import json
import re
import subprocess
import sys
import tempfile
from collections import defaultdict
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from bench.router.process import Process, free_port, wait_until_it_answers
from bench.router.proxies import PEERS, ROOT, Launch, draftgate, engine

_SCRIPT = Path(__file__).with_name("request.lua")
_DONE = re.compile(r"(\d+) requests in")
_BAD = re.compile(r"Non-2xx.*|Socket errors.*")


@dataclass(frozen=True)
class Load:
    """What is sent: `size` in bytes; `streams` 0 means wrk's requests on `connections`."""

    name: str
    connections: int = 32
    size: int = 1024
    varied: bool = False
    streams: int = 0
    events: int = 200


LOADS = (
    Load("1 KB, 32 connections"),
    Load("1 KB, every request another", varied=True),
    Load("1 KB, 1 connection", connections=1),
    Load("1 KB, 1,024 connections", connections=1024),
    Load("16 KB, 32 connections", size=16 * 1024),
    Load("128 KB, 32 connections", size=128 * 1024),
    Load("256 KB, 32 connections", size=256 * 1024),
    Load("64 streams of 200 events", streams=64),
)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--peers", default=",".join(PEERS))
    parser.add_argument("--loads", default="", help="Only loads whose name contains this.")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=int, default=4)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--flat", action="store_true", help="Cost by workers and rules instead.")
    asked = parser.parse_args()
    with ExitStack() as stack:
        bench = Bench(stack, asked.rounds, asked.seconds)
        if asked.flat:
            table = flatness(bench)
        else:
            loads = [load for load in LOADS if asked.loads in load.name]
            table = [row for load in loads for row in bench.compare(load, asked.peers.split(","))]
    say(json.dumps(table, indent=2) if asked.json else as_markdown(table))
    return 0


Row = dict[str, str | float]


class Bench:
    """Engines and proxies, started when they are first needed and ended with the stack."""

    def __init__(self, stack: ExitStack, rounds: int, seconds: int) -> None:
        self.folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="bench-")))
        self._stack = stack
        self._rounds = rounds
        self._seconds = seconds
        self._engine = self._start(engine(self.folder), "engine")[1]
        self._sse = self._start(self._streaming_engine(), "sse")[1]
        self._running: dict[tuple[str, bool], tuple[Process, int]] = {}

    def compare(self, load: Load, peers: list[str]) -> Iterator[Row]:
        """A row for each peer; `cost_us` is processor time per request or event."""
        here = [peer for peer in peers if self._is_there(peer, load)]
        for peer in peers:
            if peer not in here:
                yield {"load": load.name, "peer": peer, "missing": 1.0}
        yield from self.measure(load, {peer: self._proxy(peer, load) for peer in here})

    def measure(self, load: Load, proxies: dict[str, tuple[Process, int]]) -> Iterator[Row]:
        """Interleaved rounds over proxies that run."""
        seen: dict[str, list[Row]] = defaultdict(list)
        for _ in range(self._rounds):
            for name, (process, port) in proxies.items():
                seen[name].append(self._once(load, process, port))
        for name, rows in seen.items():
            costs = sorted(float(row["cost_us"]) for row in rows)
            middle = min(rows, key=lambda row: abs(float(row["cost_us"]) - median(costs)))
            yield {
                "load": load.name,
                "peer": name,
                **middle,
                "cost_us": median(costs),
                "least_us": costs[0],
                "most_us": costs[-1],
            }

    def start_draftgate(self, workers: int, rules: int) -> tuple[Process, int]:
        launch = draftgate(self._engine, self.folder, workers, rules)
        return self._start(launch, f"draftgate-{workers}-{rules}")

    def _once(self, load: Load, process: Process, port: int) -> Row:
        before = process.cpu_s()
        if load.streams:
            found = self._streams(load, port)
            count = found["events"]
        else:
            found = self._requests(load, port)
            count = found["requests"]
        spent = process.cpu_s() - before
        return {"cost_us": spent / max(count, 1) * 1e6, "rss_mb": process.rss_mb(), **found}

    def _requests(self, load: Load, port: int) -> dict[str, float]:
        url = f"http://127.0.0.1:{port}/v1/chat/completions"
        sizes = ("-t1", f"-c{load.connections}", f"-d{self._seconds}", "--latency")
        mode = "varied" if load.varied else "same"
        command = ("wrk", *sizes, "-s", str(_SCRIPT), url, "--", str(load.size), mode)
        text = subprocess.run(command, capture_output=True, text=True, check=True).stdout
        done = _DONE.search(text)
        if _BAD.search(text) or done is None:
            raise SystemExit(f"port {port}: {text}")
        rate = re.search(r"Requests/sec: +([\d.]+)", text)
        return {"requests": float(done[1]), "per_s": float(rate[1]) if rate else 0.0}

    def _streams(self, load: Load, port: int) -> dict[str, float]:
        words = (str(port), str(load.streams), str(load.events))
        command = (sys.executable, "-m", "bench.router.stream_load", *words)
        done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=ROOT)
        found: dict[str, float] = json.loads(done.stdout)
        if found["wrong"] or found["cut"]:
            raise SystemExit(f"port {port}: streams lost or changed: {done.stdout}")
        return {**found, "per_s": found["events"] / found["seconds"]}

    def _is_there(self, peer: str, load: Load) -> bool:
        try:
            self._proxy(peer, load)
        except (FileNotFoundError, RuntimeError) as error:
            sys.stderr.write(f"{peer}: {error}\n")
            return False
        return True

    def _proxy(self, peer: str, load: Load) -> tuple[Process, int]:
        key = peer, bool(load.streams)
        if key not in self._running:
            folder = self.folder / ("streams" if load.streams else "requests")
            folder.mkdir(exist_ok=True)
            launch = PEERS[peer](self._sse if load.streams else self._engine, folder)
            self._running[key] = self._start(launch, f"{peer}-{folder.name}")
        return self._running[key]

    def _start(self, launch: Launch, name: str) -> tuple[Process, int]:
        process = Process(launch.command, self.folder / f"{name}.log", launch.env)
        self._stack.callback(process.stop)
        wait_until_it_answers(process, launch.port)
        return process, launch.port

    def _streaming_engine(self) -> Launch:
        port = free_port()
        return Launch((sys.executable, "-m", "bench.router.sse_engine", str(port), "10"), port)


def flatness(bench: Bench) -> list[Row]:
    """Cost by the number of workers in the fleet, and by the number of rules."""
    load = Load("1 KB, 32 connections")
    proxies = {
        f"{workers} workers, {rules} rules": bench.start_draftgate(workers, rules)
        for workers, rules in ((10, 5), (100, 5), (1000, 5), (10_000, 5), (10, 50), (10, 500))
    }
    return list(bench.measure(load, proxies))


def as_markdown(table: list[Row]) -> str:
    """A table with ratios to nginx and vllm-router, where they ran."""
    lines = [
        "| Load | Router | CPU µs each (range) | of nginx | of vllm-router | per s | p99 ms | MB |",
        "|---|---|---|---|---|---|---|---|",
    ]
    costs = {(row["load"], row["peer"]): row.get("cost_us") for row in table}
    for row in table:
        if row.get("missing"):
            lines.append(f"| {row['load']} | {row['peer']} | not installed | | | | | |")
            continue
        cost = float(row["cost_us"])
        spread = f"{cost:.1f} ({float(row['least_us']):.1f}–{float(row['most_us']):.1f})"
        first = f"{float(row['first_byte_p99_ms']):.1f}" if "first_byte_p99_ms" in row else ""
        cells = (
            row["load"], row["peer"], spread, ratio(cost, costs.get((row["load"], "nginx"))),
            ratio(cost, costs.get((row["load"], "vllm-router"))),
            f"{float(row['per_s']):,.0f}", first, f"{float(row['rss_mb']):.0f}",
        )  # fmt: skip
        lines.append("| " + " | ".join(str(cell) for cell in cells) + " |")
    return "\n".join(lines)


def ratio(cost: float, base: str | float | None) -> str:
    return f"{cost / float(base):.2f}" if base else ""


def say(text: str) -> None:
    sys.stdout.write(f"{text}\n")


if __name__ == "__main__":
    sys.exit(main())

"""What the gate takes beside the answers that it compares.

    python bench/gate_cost.py FLEET [any option of `draftgate gate`]

Runs the gate once and holds its wall time against the time that its arms took to answer: the sum
of A1, A2 and both arms of every candidate, each measured while the other lane was at work. What is
left is starting engines, proving that they draft, draws at temperature above 0, asking plain about
what differs, and the gate itself. With both lanes busy all the time the ratio would be 0.5.
"""

import argparse
import json
import resource
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

LIMIT = 1.15


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("fleet", type=Path)
    asked, options = parser.parse_known_args()
    command = [sys.executable, "-m", "orchestrator.cli", "gate", str(asked.fleet), "--json"]
    start = time.monotonic()
    done = subprocess.run([*command, *options], stdout=subprocess.PIPE, text=True, check=False)
    wall = time.monotonic() - start
    if not done.stdout:
        return 1
    trials: list[dict[str, Any]] = json.loads(done.stdout)
    answering = report(trials)
    own = resource.getrusage(resource.RUSAGE_CHILDREN)
    say(f"\nthe arms answered for {answering:.0f} s; the gate took {wall:.0f} s")
    say(f"ratio {wall / answering:.2f} (limit {LIMIT})")
    say(f"CPU of the gate and of the engines that it started: {own.ru_utime + own.ru_stime:.0f} s")
    return 0 if wall <= LIMIT * answering else 1


def report(trials: list[dict[str, Any]]) -> float:
    """A line for each arm; returns their seconds together. Plain's arms are the same for all."""
    total = 0.0
    for number, trial in enumerate(trials):
        for arm in trial["arms"][2 if number else 0 :]:
            rate = arm["tokens"] / arm["seconds"] if arm["seconds"] else 0.0
            say(
                f"{arm['name']:3} {arm['worker']:16} {arm['seconds']:7.1f} s"
                f" {arm['tokens']:7} tokens {rate:7.1f} tokens/s"
            )
            total += arm["seconds"]
        say(f"    {trial['candidate']}: {trial['verdict']}")
    return total


def say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())

"""Does the gate stay quiet on engines that are right? Runs it again and again on a fleet.

    python bench/gate_healthy.py FLEET [--runs 3] [--controls 20] [--suites LIST]

Every speculating worker of the fleet is tried `--runs` times, and its first plain worker is held
against itself `--controls` times. A verdict that is not `pass` is printed with its reasons; the
table is what docs/verified.md shows. Nothing is retried and nothing is left out.
"""

import argparse
import json
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

from orchestrator.deployment import read_deployment


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("fleet", type=Path)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--controls", type=int, default=20)
    parser.add_argument("--suites")
    asked = parser.parse_args()
    more = ["--suites", asked.suites] if asked.suites else []
    members = read_deployment(asked.fleet).members
    candidates = [m.name for m in members if m.profile.is_speculating] if asked.runs else []
    named = [word for name in candidates for word in ("--candidate", name)]
    seen: dict[str, Counter[str]] = {}
    for _ in range(asked.runs if candidates else 0):
        run(asked.fleet, [*named, *more], seen)
    for _ in range(asked.controls):
        run(asked.fleet, ["--control", *more], seen)
    for name, verdicts in seen.items():
        say(f"{name:20} {verdicts['pass']:3} of {verdicts.total():3} passed")
    return 0 if all(set(verdicts) == {"pass"} for verdicts in seen.values()) else 1


def run(fleet: Path, arguments: list[str], seen: dict[str, Counter[str]]) -> None:
    """One run of the gate, counted under each candidate's name."""
    command = [sys.executable, "-m", "orchestrator.cli", "gate", str(fleet), "--json", *arguments]
    start = time.monotonic()
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    seconds = time.monotonic() - start
    if not done.stdout:
        raise SystemExit(done.stderr)
    trials: list[dict[str, Any]] = json.loads(done.stdout)
    for trial in trials:
        is_control = "--control" in arguments
        name = f"{trial['candidate']} (control)" if is_control else trial["candidate"]
        seen.setdefault(name, Counter())[trial["verdict"]] += 1
        tokens = trial["rates"].get("all", {}).get("tokens", 0)
        say(f"{name}: {trial['verdict']}, {tokens} tokens, {seconds:.0f} s for the run")
        if trial["verdict"] != "pass":
            say("\n".join(f"  {reason}" for reason in trial["reasons"]))


def say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())

"""Fuzzing the router's reading of HTTP: no crash, no request that another stack reads differently.

    python -m bench.fuzz_http [--seconds 60] [--seed N]

Streams of one to three requests with mistakes in them (tests/http_stacks.py) go through the reader
in one piece and in several, and through h11. The seed is printed; a failure prints its bytes.
"""

import argparse
import random
import sys
import time
from collections import Counter

from tests.http_stacks import cut, difference, ours, stream

_LOOKS = 500  # streams between two looks at the clock


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--seed", type=int, default=int(time.time()))
    asked = parser.parse_args()
    say(f"seed {asked.seed}")
    dice, ends, slowest = random.Random(asked.seed), Counter[str](), 0.0
    end, streams, found = time.monotonic() + asked.seconds, 0, 0
    while time.monotonic() < end:
        for _ in range(_LOOKS):
            data = stream(dice)
            start = time.process_time()
            whole = ours([data])
            slowest = max(slowest, time.process_time() - start)
            wrong = difference(data)
            if wrong is None and ours(cut(data, dice)).requests != whole.requests:
                wrong = "other requests in pieces than as a whole"
            if wrong is not None:
                found += 1
                say(f"{data!r}: {wrong}")
            ends[_end(whole.error)] += 1
        streams += _LOOKS
    say(f"{streams:,} streams, {found} differences, slowest {slowest * 1000:.1f} ms")
    for what, count in ends.most_common():
        say(f"{count:9,}  {what}")
    return 1 if found else 0


def _end(error: str | None) -> str:
    return "read to its end" if error is None else f"refused, {error.partition(' ')[0]}"


def say(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())

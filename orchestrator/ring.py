"""Ring: consistent hashing with bounded loads, so that equal prompt heads meet the same cache.

Karger et al. 1997 (the ring), Mirrokni, Thorup and Zadimoghaddam 2016 (the bound on loads).
"""

from array import array
from bisect import bisect_right
from collections.abc import Callable, Sequence
from hashlib import blake2b

POINTS = 32  # for each worker: shares differ by about 1/sqrt(32) of their size


def stable_hash(data: bytes) -> int:
    """64 bits that are the same in every process and on every machine."""
    return int.from_bytes(blake2b(data, digest_size=8).digest(), "big")


class Ring:
    """Names on a circle of 2**64 points."""

    def __init__(self, names: Sequence[str]) -> None:
        points = sorted(
            (stable_hash(f"{name}#{point}".encode()), index)
            for index, name in enumerate(names)
            for point in range(POINTS)
        )
        self._names = tuple(names)
        self._points = array("Q", (point for point, _ in points))
        self._owners = array("L", (index for _, index in points))

    def find(self, key: int, takes: Callable[[str], bool]) -> str | None:
        """The first name clockwise from `key` that takes it; None when none does."""
        start, size = bisect_right(self._points, key), len(self._points)
        refused: set[int] = set()
        for step in range(size):
            owner = self._owners[(start + step) % size]
            if owner in refused:
                continue
            if takes(self._names[owner]):
                return self._names[owner]
            refused.add(owner)
            if len(refused) == len(self._names):
                break
        return None


def load_bound(in_flight: int, ready: int) -> int:
    """Most requests that a worker may have when one more comes: 1.25 of a fair share."""
    return -(-5 * (in_flight + 1) // (4 * max(ready, 1)))

"""Share: what pools of several processes have in flight together, by the ledger.

A pool's own number and those near a limit are summed when they are needed. The loads of single
workers, which only order them, follow a timer.
"""

import time
from collections.abc import Callable, Iterable
from itertools import count

from orchestrator.caller import Callers
from orchestrator.crossover import Crossover
from orchestrator.ledger import Page
from orchestrator.pool import Pool

REFRESH_S = 0.02
_BLOCK = 64  # columns that are compared at once
_BYTES = 8


class PoolShare:
    """One pool's columns: itself, then its workers."""

    __slots__ = ("_column", "_columns", "_own", "_page", "_rows")

    def __init__(self, page: Page, names: Iterable[str]) -> None:
        names = tuple(names)
        self._page = page
        self._rows, self._own = page.rows, page.own_row
        self._column = page.take(1 + len(names))
        self._columns = dict(zip(names, count(self._column + 1)))

    def add(self, name: str, change: int) -> None:
        own = self._own
        if own is not None:
            own[self._column] += change
            own[self._columns[name]] += change

    def in_flight(self) -> int:
        """Of all processes. On the way of every request, so that it calls nothing."""
        total, column = 0, self._column
        for row in self._rows:
            total += row[column]
        return total

    def load(self, name: str) -> int:
        """Of one worker, from all processes."""
        return self._page.total(self._columns[name])

    def own(self, name: str) -> int:
        """Of one worker, from this process."""
        return self._page.own(self._columns[name])


class SideShare:
    """On which side of a crossover the pool is: who saw it cross last is right.

    A number is the time of that in ns, doubled, plus 1 where the pool was left.
    """

    __slots__ = ("_column", "_own", "_page", "_rows")

    def __init__(self, page: Page, is_left: bool) -> None:
        self._page = page
        self._rows, self._own = page.rows, page.own_row
        self._column = page.take(1)
        page.write(self._column, 2 + is_left)  # older than any crossing

    def read(self, is_left: bool) -> bool:
        """As it is now; `is_left` where nobody has said."""
        latest, column, own = 0, self._column, self._own
        for row in self._rows:
            if row[column] > latest:
                latest = row[column]
        if not latest:
            return is_left
        if own is not None and own[column] != latest:
            own[column] = latest  # it outlives the process that saw it
        return latest & 1 == 1

    def write(self, is_left: bool) -> None:
        self._page.write(self._column, time.monotonic_ns() * 2 + is_left)


class Sharing:
    """All pools of a generation on one page."""

    def __init__(self, pools: Iterable[Pool], page: Page, callers: Callers | None = None) -> None:
        self._page = page
        self._looks: list[Callable[[], None]] = []  # what to do when a column changed
        for pool in pools:
            self._attach(pool)
        if callers is not None:  # who are asked when they are needed
            self._looks += [_nothing] * callers.share(page)
        self._seen = [bytes(self._raw(row)) for row in page.others]
        for look in self._looks:
            look()

    def refresh(self) -> None:
        """Takes what other processes changed since the last time."""
        changed: set[int] = set()
        for index, row in enumerate(self._page.others):
            now, before = bytes(self._raw(row)), self._seen[index]
            if now != before:
                self._seen[index] = now
                changed.update(_differences(before, now))
        for column in sorted(changed):
            self._looks[column]()

    def _raw(self, row: memoryview) -> memoryview:
        return row[: self._page.used]

    def _attach(self, pool: Pool) -> None:
        share = PoolShare(self._page, pool.loads)
        looks = [pool.look, *(_of(pool, name) for name in pool.loads)]
        pool.share(share)
        for crossover in pool.crossovers:
            looks.append(pool.look)
            _attach_side(self._page, crossover)
        self._looks += looks


def _attach_side(page: Page, crossover: Crossover) -> None:
    crossover.side = SideShare(page, crossover.is_left)


def _nothing() -> None:
    pass


def _of(pool: Pool, name: str) -> Callable[[], None]:
    return lambda: pool.look_at(name)


def _differences(before: bytes, now: bytes) -> Iterable[int]:
    """Columns in which two rows differ."""
    size = _BLOCK * _BYTES
    for start in range(0, len(now), size):
        old, new = before[start : start + size], now[start : start + size]
        if old == new:
            continue
        first = start // _BYTES
        pairs = zip(memoryview(old).cast("q"), memoryview(new).cast("q"), strict=True)
        yield from (first + index for index, (one, other) in enumerate(pairs) if one != other)

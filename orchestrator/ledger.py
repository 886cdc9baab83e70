"""Ledger: numbers that several processes share, in memory that all of them map.

Each process has a row of its own that nobody else writes, so that no number needs a lock; what all
have together is the sum over the rows. A generation of the router's configuration has a page to
itself; two pages are enough, because one is in use and the other becomes the next.
"""

import mmap
import os
from collections.abc import Sequence

from orchestrator.errors import InputError

COLUMNS = 65536  # of a page; what is not used takes no memory
PAGES = 2
_BYTES = 8


class Page:
    """One page, written in the row `own`; without one it is only read."""

    __slots__ = ("_used", "others", "own_row", "rows")

    def __init__(self, rows: Sequence[memoryview], own: int | None) -> None:
        self.rows = tuple(rows)
        self.own_row = None if own is None else rows[own]
        self._used = 0
        self.others = tuple(row for row in rows if row is not self.own_row)

    def take(self, count: int) -> int:
        """The first of so many columns that nobody had; all processes take in the same order."""
        first = self._used
        if first + count > COLUMNS:
            raise ValueError(f"a page has {COLUMNS} columns")
        self._used += count
        return first

    @property
    def used(self) -> int:
        """Columns taken."""
        return self._used

    def add(self, column: int, change: int) -> None:
        """Changes our own number; nothing without a row."""
        if self.own_row is not None:
            self.own_row[column] += change

    def write(self, column: int, value: int) -> None:
        """Replaces our own number; nothing without a row."""
        if self.own_row is not None:
            self.own_row[column] = value

    def own(self, column: int) -> int:
        """Our own number; 0 without a row."""
        return 0 if self.own_row is None else int(self.own_row[column])

    def total(self, column: int) -> int:
        """Of all processes, at this moment."""
        total = 0
        for row in self.rows:
            total += row[column]
        return total


class Ledger:
    """Two pages of `rows` rows, as file descriptor `fd`, which child processes inherit."""

    def __init__(self, fd: int, rows: int) -> None:
        self.fd = fd
        self.rows = rows
        self._pages: dict[int, Page] = {}
        self._memory = memoryview(mmap.mmap(fd, PAGES * rows * COLUMNS * _BYTES)).cast("q")

    @classmethod
    def create(cls, rows: int) -> "Ledger":
        """A new one, all zero. Raises InputError where the system has no such memory."""
        if not hasattr(os, "memfd_create"):
            raise InputError("several processes on one port need Linux; use --workers 1")
        fd = os.memfd_create("draftgate", os.MFD_CLOEXEC)
        os.ftruncate(fd, PAGES * rows * COLUMNS * _BYTES)
        return cls(fd, rows)

    def page(self, number: int, own: int | None = None) -> Page:
        """The page of a generation by its number."""
        rows = [self._row(number % PAGES, row) for row in range(self.rows)]
        page = self._pages[number % PAGES] = Page(rows, own)
        return page

    def clear_page(self, number: int) -> None:
        """For a new generation, when nobody uses the page any more."""
        for row in range(self.rows):
            self._zero(number % PAGES, row)

    def clear_row(self, row: int) -> None:
        """For a process that is dead."""
        for page in range(PAGES):
            self._zero(page, row)

    def _row(self, page: int, row: int) -> memoryview:
        start = (page * self.rows + row) * COLUMNS
        return self._memory[start : start + COLUMNS]

    def _zero(self, page: int, row: int) -> None:
        """Only what is in use: memory that was never touched takes none."""
        used = self._pages[page].used if page in self._pages else 0
        self._row(page, row)[:used] = memoryview(bytes(used * _BYTES)).cast("q")

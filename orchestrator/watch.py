"""Watch: whether files have changed, told by their stat, and whether they stand still again."""

import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TypeAlias

# When it was written, size and inode. None: it is not there, or was written while it was read.
Mark: TypeAlias = tuple[int, int, int] | None
Marks: TypeAlias = Mapping[str, Mark]


def look(paths: Iterable[Path]) -> dict[str, Mark]:
    """The marks of files; a folder is marked with the files in it."""
    found: dict[str, Mark] = {}
    for path in paths:
        name = str(path)
        found[name] = _mark(name)
        try:
            entries = os.listdir(name)  # noqa: PTH208  names are enough
        except OSError:
            continue
        found |= {inner: _mark(inner) for entry in entries if (inner := f"{name}/{entry}")}
    return found


def as_read(before: Marks, after: Marks, started_ns: int) -> dict[str, Mark]:
    """The marks of files as a reader had them, who began at `started_ns`.

    A file that was marked before the reading counts as it was then. Another one counts as it is
    now, unless it was written since: it may be that what was read is older.
    """
    return {
        name: before[name] if name in before else _older(mark, started_ns)
        for name, mark in after.items()
    }


def _older(mark: Mark, started_ns: int) -> Mark:
    return None if mark is not None and mark[0] >= started_ns else mark


class Settled:
    """Tells when to read anew. Editors write in several steps: half a file is not worth reading."""

    def __init__(self, marks: Marks) -> None:
        self._read = dict(marks)
        self._before: Marks = marks

    def was_read(self, marks: Marks) -> None:
        """Takes the marks of what was just read."""
        self._read = dict(marks)

    def see(self, marks: Marks) -> bool:
        """Whether the files differ from what was read last and are as they were a look ago."""
        is_still = marks == self._before
        self._before = marks
        return is_still and marks != self._read


def _mark(path: str) -> Mark:
    try:
        found = os.stat(path)  # noqa: PTH116  a str is what listing gives
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size, found.st_ino
